"""Which types a question names."""

from __future__ import annotations

import pytest

from ormahd.model.node import NodeType
from ormahd.search.gather import NAMING, WORDS, kinds
from ormahd.text.words import words


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("what did we decide last week?", {NodeType.DECISION}),
        ("Which decisions were made about the database", {NodeType.DECISION}),
        ("why was SQLite chosen?", {NodeType.DECISION}),
        ("is there a runbook for restores?", {NodeType.PROCEDURE}),
        ("what are my preferences for Python?", {NodeType.PREFERENCE}),
        ("who maintains the importer?", {NodeType.PERSON}),
        ("Wer hat das entschieden?", {NodeType.PERSON, NodeType.DECISION}),
        ("¿qué decisión tomamos?", {NodeType.DECISION}),
        ("was haben wir letzte Woche beschlossen", {NodeType.DECISION}),
        ("the person who broke it", set()),
        ("where is the timeout configured?", set()),
        ("", set()),
        ("x" * 1_000_000, set()),
    ],
)
def test_kinds(text: str, named: set[NodeType]) -> None:
    assert kinds(text) == named


def test_the_words_are_as_texts_are_cut() -> None:
    assert all(list(words(word)) == [word] for word in NAMING)
    assert sum(map(len, WORDS.values())) == len(NAMING), "no word names two kinds"
