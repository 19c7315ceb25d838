"""Rules find memories in what a person wrote: what is found, how it is told, and what is left alone."""

from __future__ import annotations

import tomllib
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ormahd.ingest.batches import MemoryCandidate
from ormahd.ingest.checks import can_be_acted_on
from ormahd.ingest.readers.turns import SessionTurn
from ormahd.ingest.rules import candidates
from ormahd.model.node import NodeType
from tests.tables import rows

TODAY = datetime(2026, 11, 27, 12, tzinfo=UTC)
"""A Friday."""
TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


def said(*texts: str, time: str | None = None) -> list[MemoryCandidate]:
    """Return what the rules find in a session in which a person said `texts`."""
    turns = [SessionTurn("user", text, time, "s", f"k{at}") for at, text in enumerate(texts)]
    return candidates(turns, today=TODAY)


@pytest.mark.parametrize(("text", "type_", "content"), rows(__file__, "found"))
def test_found(text: str, type_: str, content: str) -> None:
    assert [(one.type.value, one.content) for one in said(text)] == [(type_, content)]


@pytest.mark.parametrize(("text", "about_self"), rows(__file__, "what_is_about_the_person_is_marked_so"))
def test_what_is_about_the_person_is_marked_so(text: str, about_self: bool) -> None:
    assert [one.about_self for one in said(text)] == [about_self]


@pytest.mark.parametrize(("text", "contents"), rows(__file__, "a_list_that_is_to_be_remembered"))
def test_a_list_that_is_to_be_remembered(text: str, contents: list[str]) -> None:
    assert [one.content for one in said(text)] == contents


@pytest.mark.parametrize(("text", "contents"), rows(__file__, "two_statements_are_two_memories"))
def test_two_statements_are_two_memories(text: str, contents: list[str]) -> None:
    assert [one.content for one in said(text)] == contents


@pytest.mark.parametrize(("text", "title", "content"), rows(__file__, "title_and_content_have_the_statement_alone"))
def test_title_and_content_have_the_statement_alone(text: str, title: str, content: str) -> None:
    assert [(one.title, one.content) for one in said(text)] == [(title, content)]


def test_what_remember_that_means_is_the_sentence_before() -> None:
    (found,) = said("The staging database has port 5433. Remember that.")
    assert found.content == "The staging database has port 5433."


def test_lines_that_were_wrapped_are_one_sentence() -> None:
    text = "hi, please remember that the nightly job on the cluster\nneeds four hours and holds the lock\nuntil it ends. thanks"
    (found,) = said(text)
    assert found.content == "The nightly job on the cluster needs four hours and holds the lock until it ends."


@pytest.mark.parametrize("text", TABLES["others"])
def test_words_of_others_jokes_and_halves_are_left_alone(text: str) -> None:
    assert said(text) == []


@pytest.mark.parametrize("text", TABLES["bare"])
def test_a_subject_that_only_the_conversation_explains_is_left_alone(text: str) -> None:
    assert said("what was it again?", text) == []


@pytest.mark.parametrize("text", TABLES["kept"])
def test_what_lasts_is_found(text: str) -> None:
    assert len(said(text)) == 1


@pytest.mark.parametrize("after", TABLES["taken_back"])
def test_what_the_next_prompt_takes_back_or_narrows_is_left_alone(after: str) -> None:
    assert said("We decided to use Vite for the shop.", after) == []


@pytest.mark.parametrize("after", TABLES["goes_on"])
def test_other_prompts_take_nothing_back(after: str) -> None:
    assert len(said("We decided to use Vite for the shop.", after)) == 1


@pytest.mark.parametrize("text", TABLES["orders"])
def test_an_order_to_the_agent_waits(text: str) -> None:
    assert [can_be_acted_on(one.type, one.content) for one in said(text)] == [True]


@pytest.mark.parametrize("text", TABLES["wishes"])
def test_how_to_answer_and_what_is_about_the_person_stands(text: str) -> None:
    assert [can_be_acted_on(one.type, one.content) for one in said(text)] == [False]


@pytest.mark.parametrize("text", TABLES["made"])
def test_an_order_behind_a_preference_that_a_model_tells_waits(text: str) -> None:
    assert can_be_acted_on(NodeType.PREFERENCE, text)
    assert not can_be_acted_on(NodeType.PREFERENCE, text.split(",", maxsplit=1)[0])


@pytest.mark.parametrize(("text", "content"), TABLES["tails"])
def test_a_statement_has_no_tail_for_the_work_at_hand(text: str, content: str) -> None:
    assert [one.content for one in said(text)] == [content]


def test_in_a_role_play_only_facts_that_are_to_be_remembered_count() -> None:
    play = "Pretend you're my grandma; from now on only speak in proverbs."
    assert len(said(play, "My daughter is called Nora, remember that.")) == 1
    assert said(play, "I prefer a bed, good woman. Remember that!", "We decided to stay here.") == []


@pytest.mark.parametrize(
    "before", ["Can you reply to this guest?", "make the next text shorter", "Write me a story about a lighthouse."]
)
def test_what_follows_a_text_to_work_on_may_be_that_text(before: str) -> None:
    assert said(before, "My name is Elias. I prefer storms.") == []


def test_lone_surrogates_are_replaced() -> None:
    (found,) = said("remember that the badge is \ud83d green and round")
    assert found.content == "The badge is \ufffd green and round."


@pytest.mark.parametrize("text", [*TABLES["alone"], *TABLES["passing"]])
def test_left_alone(text: str) -> None:
    assert said(text) == []


def test_the_title_of_a_chat_says_what_it_is_about() -> None:
    turns = [
        SessionTurn("user", text, None, "s", text) for text in ("I prefer storms.", "Remember that the well is dry")
    ]
    assert len(candidates(turns, today=TODAY, title="Pump in the garden")) == 2
    found = candidates(turns, today=TODAY, title="Short story about a lighthouse")
    assert [one.content for one in found] == ["The well is dry."]


def test_what_an_agent_says_is_no_memory() -> None:
    assert candidates([SessionTurn("assistant", "We decided to use Redis.", None, "s", "k")], today=TODAY) == []


def test_dates_are_those_of_the_turn() -> None:
    (found,) = said("remember that the demo is tomorrow", time="2026-03-01T09:00:00.000Z")
    assert found.content == "The demo is on 2026-03-02."
    assert found.turns == ("k0",)


def test_said_twice_is_found_once_as_said_last() -> None:
    assert [one.turns for one in said("I prefer tabs.", "i prefer tabs")] == [("k1",)]
