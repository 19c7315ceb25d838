"""How two memories stand to each other, by their words and their nearness (core/standing). Figures: tests/quality/standing.py."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ormahd.actions.views import headline
from ormahd.git.commit_message import compose
from ormahd.model.change import Kind
from ormahd.model.node import NodeType
from ormahd.text.facts import Sort, terms
from ormahd.text.standing import Compared, Relation, compare
from ormahd.text.statement import read_statement
from tests.tables import rows

NEAR = 0.8


def held(
    older: str, newer: str, cosine: float = NEAR, *, one: NodeType = NodeType.FACT, other: NodeType = NodeType.FACT
) -> Compared:
    return compare(read_statement(None, older, one), read_statement(None, newer, other), cosine)


@pytest.mark.parametrize(("older", "newer", "ends"), rows(__file__, "what_replaces_the_older_one"))
def test_what_replaces_the_older_one(older: str, newer: str, ends: list[str] | None) -> None:
    found = held(older, newer)
    assert found.verdict is Relation.REPLACED, found
    if ends is not None:
        assert [found.old, found.new] == ends


@pytest.mark.parametrize(("older", "newer"), rows(__file__, "what_holds_beside_it"))
def test_what_holds_beside_it(older: str, newer: str) -> None:
    assert held(older, newer).verdict is not Relation.REPLACED


@pytest.mark.parametrize(("older", "newer"), rows(__file__, "turns_of_a_conversation_replace_nothing"))
@pytest.mark.parametrize("cosine", [0.5, 0.7, 0.85])
def test_turns_of_a_conversation_replace_nothing(older: str, newer: str, cosine: float) -> None:
    """People who talk about one thing again state other things about it, however near the turns are."""
    assert held(older, newer, cosine).verdict is not Relation.REPLACED


def test_what_is_far_and_shares_no_word_replaces_nothing() -> None:
    assert held("The API listens on port 8080.", "Rosa was moved to Lyon.", 0.1).verdict is Relation.BOTH


@given(st.text(max_size=300), st.text(max_size=300), st.floats(-1, 1))
def test_any_two_texts_have_chances(one: str, other: str, cosine: float) -> None:
    found = held(one, other, cosine)
    assert 0.0 <= found.replaced + found.same <= 1.0 + 1e-9
    assert found == held(one, other, cosine)


@pytest.mark.parametrize(("said", "key", "sort"), rows(__file__, "a_value_has_one_form"))
def test_a_value_has_one_form(said: str, key: str, sort: Sort) -> None:
    assert (key, sort) in [(one.key, one.sort) for one in terms(f"It says {said}, now.")]


def test_names_are_cut_between_words() -> None:
    """Titles, subjects and snippets are all cut in one way."""
    text = "The retention period of the backups of the payment service was lengthened considerably last winter"
    assert headline(None, text) == "The retention period of the backups of the payment service was …"
    subject = compose(text + " " + text, "", op="op", kind=Kind.REMEMBER, source="person").splitlines()[0]
    assert subject.removesuffix(" …").split()[-1] in text.split()
