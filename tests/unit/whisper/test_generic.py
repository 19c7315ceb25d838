"""Technical prompts: which prompts are one, and which memories share nothing specific with them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from ormahd.index.rows import NodeRow
from ormahd.model.node import NodeType, Tier
from ormahd.text.words import stems, words
from ormahd.whisper import generic
from ormahd.whisper.types import Analysis, Candidate, Intent
from tests.tables import rows

NOW = datetime(2026, 11, 21, tzinfo=UTC)
NOTES = {
    "kafka": "Raw telegrams go from gate to decode over the Kafka topic telegrams.raw, 24 partitions, keyed by meter.",
    "stack": "quillpad is a Tauri 2 shell around a Svelte 5 front end; Electron was out because of its memory footprint.",
    "tides": "The harbour's API gives naive local times; we attach Europe/Berlin in tides/parse.py and drop the gap.",
    "mail": "Run manage.py preview_mail confirm; it opens the rendered mail in the browser, before you send it.",
    "other": "The boats are washed on Tuesdays, guests wait at the pier.",
}


def heard(prompt: str, *intents: Intent) -> Analysis:
    return Analysis(prompt, frozenset(intents) or frozenset({Intent.GENERAL}), None, prompt, False)


def candidate(name: str, **numbers: float) -> Candidate:
    row = NodeRow(
        name, NodeType.FACT, Tier.WORKING, "shop", None, NOTES[name], (), (), "person", 1.0, NOW, NOW, None, None,
        f"{name}.md", name,
    )  # fmt: skip
    return Candidate(row, 0.7, "search", 0.7, numbers=dict(numbers))


SAID = {name: stems(words(text)) for name, text in NOTES.items()}


def frequencies(terms: Sequence[str]) -> tuple[dict[str, int], int]:
    return {term: sum(not stems((term,)).isdisjoint(said) for said in SAID.values()) for term in terms}, len(NOTES)


def let_go(prompt: str, name: str, space: str | None = "shop", **numbers: float) -> str | None:
    one = candidate(name, **numbers)
    generic.drop_generic([one], generic.technical_request(heard(prompt), space), SAID, frequencies)
    return one.dropped


@pytest.mark.parametrize(("prompt", "name"), rows(__file__, "a_memory_that_shares_only_a_library_is_let_go"))
def test_a_memory_that_shares_only_a_library_is_let_go(prompt: str, name: str) -> None:
    reason = let_go(prompt, name)
    assert reason is not None
    assert reason.startswith(generic.BELOW)


@pytest.mark.parametrize(("prompt", "name"), rows(__file__, "a_memory_that_shares_the_projects_own_words_stays"))
def test_a_memory_that_shares_the_projects_own_words_stays(prompt: str, name: str) -> None:
    assert let_go(prompt, name) is None


@pytest.mark.parametrize("prompt", rows(__file__, "a_prompt_of_another_kind_is_left_alone"))
def test_a_prompt_of_another_kind_is_left_alone(prompt: str) -> None:
    assert generic.technical_request(heard(prompt), "shop") is None


def test_a_project_with_a_technical_name_is_not_named_by_it() -> None:
    assert generic.technical_request(heard("write a kafka consumer in go"), "go") is not None


def test_prompts_about_a_time_or_the_user_are_left_alone() -> None:
    for intent in (Intent.TEMPORAL, Intent.IDENTITY):
        assert generic.technical_request(heard("which python code did I write", intent), "shop") is None


def test_what_feedback_wants_is_never_generic() -> None:
    prompt = "write a kafka consumer in go that prints every message"
    assert let_go(prompt, "kafka", verdict=1.0) is None
    assert let_go(prompt, "kafka", affinity=0.05) is None
    assert let_go(prompt, "kafka", affinity=-0.05) is not None


def test_the_reason_names_the_words_and_the_number() -> None:
    one = candidate("kafka")
    generic.drop_generic([one], generic.technical_request(heard("what is a kafka topic"), "shop"), SAID, frequencies)
    assert one.dropped is not None
    assert "kafka, topic" in one.dropped
    assert f"{one.numbers['specific']:.3f}" in one.dropped
    assert generic.has_dropped([one], gate=0.5)
    assert not generic.has_dropped([one], gate=0.8)


def test_a_word_of_every_note_says_nothing() -> None:
    asked = generic.technical_request(heard("refactor the gate in python"), "shop")
    assert asked is not None
    rare, common = candidate("kafka"), candidate("kafka")
    generic.drop_generic([rare], asked, SAID, frequencies)
    generic.drop_generic([common], asked, SAID, lambda terms: (dict.fromkeys(terms, 5), 5))
    assert rare.numbers["specific"] > common.numbers["specific"]


def test_explanations_are_no_tasks() -> None:
    assert generic.asks_to_explain("Explain how generators work")
    assert generic.asks_to_explain("erkläre mir Zeiger")
    assert not generic.asks_to_explain("write a function that explains itself")
