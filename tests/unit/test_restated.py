"""A merged memory says once what both said, and never the same twice."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from ormahd.index.rows import NodeRow
from ormahd.jobs.duplicates.change import repeated, restates, said_twice, united, why_unfit
from ormahd.model.node import NodeType, Tier
from tests.tables import rows


def near(value: float) -> Callable[[str, str], float]:
    return lambda _one, _other: value


ALIKE = near(0.9)


@pytest.mark.parametrize(("known", "one"), rows(__file__, "a_sentence_in_other_words_is_said_once"))
def test_a_sentence_in_other_words_is_said_once(known: str, one: str) -> None:
    assert restates(known, one, ALIKE)
    assert united(note(known), note(one), ALIKE) == known


@pytest.mark.parametrize(("known", "one"), rows(__file__, "what_says_something_else_stays"))
def test_what_says_something_else_stays(known: str, one: str) -> None:
    assert not restates(known, one, near(0.92))
    assert united(note(known), note(one), near(0.92)) == f"{known}\n\n{one}"


def test_the_fuller_sentence_takes_the_place_of_the_shorter() -> None:
    keep = note("Deploys are done with kamal. Ask Ada first.")
    gone = note("Deploys to Hetzner are done with kamal.")

    def cosine(one: str, other: str) -> float:
        return 0.9 if "kamal" in one and "kamal" in other else 0.1

    assert united(keep, gone, cosine) == "Deploys to Hetzner are done with kamal. Ask Ada first."


def test_far_sentences_are_both_kept() -> None:
    assert (
        united(note("Tea is green."), note("The office has a roof."), near(0.1))
        == "Tea is green.\n\nThe office has a roof."
    )


def test_code_is_never_cut_into_sentences() -> None:
    code = note("Run it:\n```\nmake all\n```")
    assert united(note("How to run it."), code, ALIKE) == f"How to run it.\n\n{code.content}"


def test_a_judges_text_that_says_the_same_twice_is_not_taken() -> None:
    keep, gone = note("The build needs Node 22."), note("Node 22 is what is needed for the build.")
    both = f"{keep.content} {gone.content}"
    assert said_twice(both, ALIKE) == gone.content
    assert why_unfit(None, both, keep, gone, ALIKE) == f"it says the same twice: “{gone.content}”"
    assert why_unfit(None, "The build needs Node 22.", keep, gone, ALIKE) is None


def test_what_a_memory_said_twice_itself_is_no_fault_of_the_judge() -> None:
    keep = note("Node 22 is needed. The build needs Node 22.")
    assert repeated(keep.content, keep, note("Node 22."), ALIKE) is None


def note(content: str) -> NodeRow:
    now = datetime(2026, 11, 21, tzinfo=UTC)
    return NodeRow(
        id="97acbe8e-6d0a-4c1e-9a55-0a52b0f4f9d1", type=NodeType.FACT, tier=Tier.WORKING, space=None, title=None, content=content,
        tags=(), aliases=(), source="person", confidence=1.0, created=now, updated=now, valid_until=None,
        outdated_reason=None, path="a.md", digest="",
    )  # fmt: skip
