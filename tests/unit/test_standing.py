"""How two memories stand to each other, by their words and their nearness (core/standing). Figures: tests/quality/standing.py."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ormahd.actions.views import headline
from ormahd.git.commit_message import compose
from ormahd.model.change import Kind
from ormahd.model.node import NodeType
from ormahd.text.facts import Sort, pieces
from ormahd.text.standing import Compared, Relation, compare
from ormahd.text.statement import read

NEAR = 0.8


def held(
    older: str, newer: str, cosine: float = NEAR, *, one: NodeType = NodeType.FACT, other: NodeType = NodeType.FACT
) -> Compared:
    return compare(read(None, older, one), read(None, newer, other), cosine)


@pytest.mark.parametrize(
    ("older", "newer", "ends"),
    [
        ("The API listens on port 8080.", "The API listens on port 9090.", ("8080", "9090")),
        ("Our linter is ESLint.", "We replaced ESLint with Biome.", None),
        ("Uploads may have up to 10 MB.", "We raised the limit of uploads to 25 MB.", ("10 MB", "25 MB")),
        ("The standup is at 9:30.", "The standup was moved to 10:00.", ("9:30", "10:00")),
        ("El límite de gastos es de 200 euros.", "El límite de gastos sube a 350 euros.", ("200 euros", "350 euros")),
        ("服务器使用8080端口。", "服务器现在改用9090端口。", ("8080", "9090")),
    ],
)
def test_what_replaces_the_older_one(older: str, newer: str, ends: tuple[str, str] | None) -> None:
    found = held(older, newer)
    assert found.verdict is Relation.REPLACED, found
    if ends is not None:
        assert (found.old, found.new) == ends


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("Staging runs Node 20.", "Production runs Node 18."),
        ("Camera 3 is mounted 2 mm off.", "Camera 4 is mounted 5 mm off."),
        ("Anna prefers dark mode.", "Ben prefers light mode."),
        ("The app supports German.", "The app also supports Polish."),
        ("Invoices are due after 14 days.", "Invoices are sent on the first of the month."),
        ("Im Test läuft Version 3.2.", "In der Produktion läuft Version 3.1."),
        (
            "Python packages of the shop are installed with uv here.",
            "In the shop, Python packages are installed with uv.",
        ),
        (
            "The blue kettle in the kitchen stands beside the stove.",
            "The kettle in the kitchen stands beside the stove.",
        ),
        ("We leave at nine because of the festival.", "We leave at nine because of the festival."),
    ],
)
def test_what_holds_beside_it(older: str, newer: str) -> None:
    assert held(older, newer).verdict is not Relation.REPLACED


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        (
            "Emil: How was your weekend? We went to the beach with my sister.",
            "Emil: This weekend we stayed home. My sister moved a lot of furniture, what about you?",
        ),
        (
            "Rosa: I tried the new trail by the river, it was lovely. Have you been there?",
            "Rosa: Last week we took the kids up to the ridge. They were so happy, and now they want to go again!",
        ),
        (
            "My team is great, we laugh a lot. How's yours?",
            "Thanks! Things have changed a lot for me lately, but I'm staying positive. You too, right?",
        ),
    ],
)
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


@pytest.mark.parametrize(
    ("said", "key", "sort"),
    [
        ("half an hour", "#1800s", Sort.NUMBER),
        ("30 Minuten", "#1800s", Sort.NUMBER),
        ("zwei Wochen", "#1.2096e+06s", Sort.NUMBER),
        ("1,000 euros", "#1000EUR", Sort.NUMBER),
        ("v1.5.7", "v1.5.7", Sort.VERSION),
        ("half past nine", "@9:30", Sort.TIME),
        ("下午两点", "@14:00", Sort.TIME),
        ("à 14h30", "@14:30", Sort.TIME),
        ("the 3rd of May", "=5 3", Sort.DATE),
        ("5月3日", "=5 3", Sort.DATE),
        ("am Montag", "day1", Sort.WEEKDAY),
        ("10.0.0.4", "10.0.0.4", Sort.ADDRESS),
        ("eu-west-1", "eu-west-1", Sort.ADDRESS),
        ("25 GB", "#2.5e+10B", Sort.NUMBER),
    ],
)
def test_a_value_has_one_form(said: str, key: str, sort: Sort) -> None:
    assert (key, sort) in [(one.key, one.sort) for one in pieces(f"It says {said}, now.")]


def test_names_are_cut_between_words() -> None:
    """Titles, subjects and snippets are all cut in one way."""
    text = "The retention period of the backups of the payment service was lengthened considerably last winter"
    assert headline(None, text) == "The retention period of the backups of the payment service was …"
    subject = compose(text + " " + text, "", op="op", kind=Kind.REMEMBER, source="person").splitlines()[0]
    assert subject.removesuffix(" …").split()[-1] in text.split()
