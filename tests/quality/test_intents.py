"""The kinds of prompts, with the real model, on a set of labelled ones (`intents.tsv`)."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from ormahd.embedding.embedder import Embedder
from ormahd.whisper.analyse import Archetypes, analyse, is_small_talk
from ormahd.whisper.types import Asked, Before, Intent
from tests.quality.sets import rows

PROMPTS = Path(__file__).with_name("intents.tsv")
NOW = datetime(2026, 11, 21, 20, tzinfo=UTC)
SMALL_TALK = (
    "sorry, wrong window",
    "nope, try again",
    "good morning to all of you!",
    "hmm ok",
    "thanks a lot, that was it",
)
FLOORS = {"dev": 0.80, "held": 0.65}
"""Share of the prompts that are of a kind and are known for it. Measured: 0.82 and 0.69."""


def labelled() -> list[tuple[str, Intent, str]]:
    return [(group, Intent(kind), prompt) for group, kind, prompt in rows(PROMPTS, 3)]


def test_kinds(model: Embedder) -> None:
    archetypes = Archetypes(model.embed_query)
    known: Counter[str] = Counter()
    every: Counter[str] = Counter()
    wrong = []
    for group, kind, prompt in labelled():
        heard = analyse(
            Asked(prompt, None), Before(), embed=model.embed_query, archetypes=archetypes, now=NOW,
        )  # fmt: skip
        if kind is Intent.GENERAL:
            wrong += [(prompt, sorted(heard.intents))] if heard.intents != {Intent.GENERAL} else []
            continue
        every[group] += 1
        known[group] += kind in heard.intents
        if Intent.CONVERSATIONAL in heard.intents and kind is not Intent.CONVERSATIONAL:
            wrong.append((prompt, sorted(heard.intents)))
    assert sum(every.values()) + sum(1 for row in labelled() if row[1] is Intent.GENERAL) >= 150
    assert not wrong, "a topic that is taken for a greeting is silent, for a time it is hidden"
    for group, floor in FLOORS.items():
        assert known[group] / every[group] >= floor, group


def test_small_talk_is_known_from_afar(model: Embedder) -> None:
    """Such prompts are searched for, and nobody is asked what would have helped with them."""
    archetypes = Archetypes(model.embed_query)
    polite = [prompt for prompt in SMALL_TALK if is_small_talk(model.embed_query(prompt).vector, archetypes)]
    assert polite == list(SMALL_TALK)
    topics = [prompt for _, kind, prompt in labelled() if kind is Intent.GENERAL]
    assert [prompt for prompt in topics if is_small_talk(model.embed_query(prompt).vector, archetypes)] == []
