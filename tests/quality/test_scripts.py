"""Notes and questions in 13 languages, asked with the real model: shared words are found, small talk stays silent
(README, "Scripts")."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from ormahd.embedding.embedder import Embedder
from ormahd.embedding.reading import READABLE
from ormahd.settings import WhisperSettings
from ormahd.whisper.by_words import clause_weights, relevance_by_words
from tests.quality.sets import Text, rows
from tests.quality.test_floors import Stand

ROWS = rows(Path(__file__).with_name("scripts.tsv"))
ASKED = [(language, note, question) for language, note, question in ROWS if note != "-"]
SMALL_TALK = [(language, said) for language, note, said in ROWS if note == "-"]
UNREAD = frozenset(["ru", "el", "ar", "he", "hi", "zh", "ja", "ko", "th"])
GATE = WhisperSettings().injection_gate


@pytest.fixture(scope="module")
def stand(tmp_path_factory: pytest.TempPathFactory, model: Embedder) -> Iterator[Stand]:
    texts = [Text(str(number), None, note) for number, (_, note, _) in enumerate(ASKED)]
    made = Stand(tmp_path_factory.mktemp("scripts"), model, texts)
    yield made
    made.index.close()


def test_shared_words_are_found_in_every_language(stand: Stand) -> None:
    met: Counter[str] = Counter()
    every: Counter[tuple[str, str]] = Counter()
    right: Counter[tuple[str, str]] = Counter()
    wrong = []
    for number, (language, _, question) in enumerate(ASKED):
        half = "dev" if met[language] % 2 == 0 else "held"
        met[language] += 1
        every[language, half] += 1
        if stand.ids[str(number)] in stand.ranked(question)[:3]:
            right[language, half] += 1
        else:
            wrong.append((language, half, question))
    assert len(met) >= 12
    assert min(met.values()) >= 20
    for half in ("dev", "held"):
        share = sum(n for (_, one), n in right.items() if one == half) / sum(
            n for (_, one), n in every.items() if one == half
        )
        assert share >= 0.95, (half, share, wrong)
    assert all(right[key] / number >= 0.8 for key, number in every.items()), wrong


def test_the_model_knows_which_languages_it_reads(model: Embedder) -> None:
    for language, _, question in ASKED:
        if language in UNREAD:
            assert model.embed_query(question).read < READABLE, question
        elif language != "tr":
            assert model.embed_query(question).read >= READABLE, question


def test_the_gate_by_words_speaks_for_questions_and_not_for_small_talk(stand: Stand) -> None:
    def relevance(text: str) -> dict[str, float]:
        weighed = clause_weights(stand.index, text, stand.model.embed_query)
        notes = stand.index.notes(stand.ranked(text))
        return {node_id: relevance_by_words(row, weighed) for node_id, row in notes.items()} if weighed else {}

    spoken = [said for _, said in SMALL_TALK if max(relevance(said).values(), default=0.0) >= GATE]
    assert len(spoken) <= 0.03 * len(SMALL_TALK), spoken
    asked = [(number, question) for number, (language, _, question) in enumerate(ASKED) if language in UNREAD]
    right = sum(relevance(question).get(stand.ids[str(number)], 0.0) >= GATE for number, question in asked)
    assert right >= 0.9 * len(asked)
