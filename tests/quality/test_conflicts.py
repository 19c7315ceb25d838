"""Floors of what finds facts that changed without a judge (README, "Changed facts")."""

from __future__ import annotations

from itertools import combinations

import pytest

from ormahd.model.node import NodeType
from ormahd.text.standing import Relation, compare
from ormahd.text.statement import read_statement
from tests.quality.sets import rows
from tests.quality.standing_sets import HERE, Memory, embed
from tests.quality.whisper import memories

MOST = {"dev": 1, "held": 1}
"""Of all pairs of two people's memories, none of which replaced another, those that may be taken for replaced."""


@pytest.mark.parametrize("half", [pytest.param("dev", marks=pytest.mark.soak), "held"])
def test_two_peoples_memories_hold_none(half: str) -> None:
    """Every pair that could ever be asked about, however far apart: 45,928 in both halves."""
    some = [one for one in memories(half) if not one.outdated]
    vectors = embed([Memory(one.space, NodeType(one.type), one.title, one.content) for one in some])
    texts = [read_statement(one.title, one.content, NodeType(one.type)) for one in some]
    cosines = vectors @ vectors.T
    found = []
    for a, b in combinations(range(len(some)), 2):
        older, newer = (a, b) if some[a].created <= some[b].created else (b, a)
        one, other = some[older], some[newer]
        if (one.space == other.space or None in (one.space, other.space)) and cosines[a, b] >= 0.2:
            told = compare(texts[older], texts[newer], float(cosines[a, b]))
            if told.verdict is Relation.REPLACED:
                found.append((one.key, other.key, round(told.replaced, 2)))
    assert len(found) <= MOST[half], found


def test_later_memories_that_share_a_word_or_a_number_replace_nothing() -> None:
    for one, title, content, other, other_title, later in rows(HERE / "bystanders.tsv"):
        older, newer = (
            Memory(None, NodeType(one), title or None, content),
            Memory(None, NodeType(other), other_title or None, later),
        )
        vectors = embed([older, newer])
        texts = [read_statement(memory.title, memory.content, memory.type) for memory in (older, newer)]
        cosine = float(vectors[0] @ vectors[1])
        assert compare(*texts, cosine).verdict is Relation.BOTH, (content, later, cosine)
