"""Questions for several things: where they are cut, and how what was found for each is joined."""

from __future__ import annotations

import pytest

from ormahd.search.gather import parts
from ormahd.search.search import Hit, Ranked, join


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("which port do gateways use and who is our contact?", ("which port do gateways use?", "who is our contact?")),
        (
            "What runs our jobs? What prevents double bookings?",
            ("What runs our jobs?", "What prevents double bookings?"),
        ),
        ("where are logs kept, and where are metrics", ("where are logs kept?", "where are metrics?")),
        ("wie zahlen die Gäste und wann endet die Saison?", ("wie zahlen die Gäste?", "wann endet die Saison?")),
        ("où sont les logs et qui gère le serveur ?", ("où sont les logs?", "qui gère le serveur?")),
        ("who bakes, when is the book due and what is its title?", ()),  # "its" leans on what stands before
    ],
)
def test_a_question_for_two_things_is_cut(text: str, found: tuple[str, ...]) -> None:
    assert parts(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "",
        "which port do gateways use?",
        "how do search and ranking work?",  # "and" joins two words
        "where is the certificate and when does it expire?",  # the second leans on the first
        "what is it and what does it do?",
        "fix the importer and what it broke",
        "what did we decide and why",  # no subject
        "who is A? who is B? who is C? who is D?",
        "what does the log say and where is it kept? " + "x" * 400,
        "İstanbul nerede and where are the logs?",  # folding changes the length, and the first is no known question
    ],
)
def test_other_texts_stay_whole(text: str) -> None:
    assert parts(text) == ()


def _ranked(**scores: float) -> Ranked:
    return Ranked([Hit(name, score, "search", {}) for name, score in scores.items()], trace={"question": True})


def test_the_best_of_each_part_comes_first_and_every_memory_once() -> None:
    whole = _ranked(a=0.6, c=0.5, b=0.2)
    found = join(whole, [_ranked(a=0.9, c=0.7), _ranked(b=0.4, d=0.3)], ("one?", "two?"), 3)
    assert [(hit.node_id, hit.score) for hit in found.results] == [("a", 0.9), ("b", 0.4), ("c", 0.7)]
    assert found.trace == {"question": True, "parts": ["one?", "two?"]}


def test_a_part_that_finds_nothing_and_one_that_is_degraded() -> None:
    found = join(_ranked(a=0.6), [Ranked([], ["vectors"]), _ranked(b=0.5)], ("one?", "two?"), 10)
    assert [hit.node_id for hit in found.results] == ["b", "a"]
    assert found.degraded == ["vectors"]
