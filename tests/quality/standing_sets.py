"""Pairs of memories with a label, from every set that may be tuned on: for fitting `text.standing` (`python -m tests.quality.standing`)."""

from __future__ import annotations

import importlib
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from ormahd.model.node import NodeType
from tests.quality import tasks
from tests.quality.sets import rows

HERE = Path(__file__).parent
OWN = HERE / "facts_own.tsv"
DEV = HERE / "facts" / "dev.tsv"


@dataclass(frozen=True)
class Memory:
    space: str | None
    type: NodeType
    title: str | None
    content: str


@dataclass(frozen=True)
class Pair:
    source: str
    label: str
    kind: str
    language: str
    older: Memory
    newer: Memory
    vault: str = ""

    @property
    def group(self) -> str:
        """What is fitted or measured as a whole: a vault, a conversation, the pairs of one memory."""
        return self.vault or self.older.content


def own() -> list[Pair]:
    """Written by this model's author, by kind."""
    found = []
    for label, kind, language, a, title, content, b, other_title, other in rows(OWN):
        found.append(
            Pair("own", label, kind, language, _memory(None, a, title, content), _memory(None, b, other_title, other))
        )
    return found


def dev() -> list[Pair]:
    """The half of the changed facts that may be tuned on, less pairs of two spaces, which nobody compares."""
    found = []
    for row in rows(DEV):
        if row[4] != row[9] and "." not in (row[4], row[9]):
            continue
        found.append(Pair("dev", row[1], row[2], row[3], _memory(row[4], *row[6:9]), _memory(row[9], *row[11:14])))
    return found


def minimal() -> list[Pair]:
    """Pairs that differ in one place (`conflicts.tsv`)."""
    found = []
    for label, kind, title, content, other_title, other in rows(HERE / "conflicts.tsv"):
        found.append(
            Pair("minimal", "replaced" if label == "conflict" else "both", kind, "en", _memory(None, kind, title, content),
                 _memory(None, kind, other_title, other))
        )  # fmt: skip
    return found


def crowds() -> list[Pair]:
    """All pairs of memories of one vault (`kind` is random): each of `tasks` dev, of two people, of the month.

    Both hold unless the vault says otherwise. Pairs of two spaces are left out: nobody compares them.
    """
    groups: list[tuple[str, str, list[Memory], set[tuple[Memory, Memory]]]] = []
    for vault in tasks.vaults("dev"):
        by_age = sorted(vault.memories, key=lambda one: one.created)
        known = {one.key: _memory(one.space or ".", one.type, one.title, one.content) for one in by_age}
        groups.append(("tasks", vault.name, list(known.values()), {(known[a], known[b]) for a, b in vault.replaced}))
    for half in ("dev", "held"):
        lines = [row for row in rows(HERE / "corpus" / f"{half}-memories.tsv") if not row[2].endswith("outdated")]
        some = [
            _memory(space, kind.partition("/")[0], title, content) for _, _, kind, space, _, title, content in lines
        ]
        groups.append(("corpus", half, some, set()))
    lines = sorted(rows(HERE / "month" / "memories.tsv"), key=lambda row: int(row[1]))
    month = {row[0]: _memory(row[4], row[3].partition("/")[0], row[6], row[7]) for row in lines}
    groups.append(
        ("month", "month", list(month.values()), {(month[row[2]], month[row[0]]) for row in lines if row[2] in month})
    )
    found: list[Pair] = []
    for source, vault_name, some, replaced in groups:
        found += [
            Pair(source, "replaced" if two in replaced else "both", "random", "en", *two, vault_name)
            for two in combinations(some, 2)
            if two[0].space == two[1].space or None in (two[0].space, two[1].space) or two in replaced
        ]
    return found


def talk(shared: Path, least: float, every: int) -> list[Pair]:
    """Turns of one conversation of the shared benchmarks that are near one another: each `every`th one with the three nearest
    later ones. Both hold. `space` is the conversation."""
    sys.path.insert(0, str(shared))
    locomo, proactive = importlib.import_module("locomo"), importlib.import_module("proactive")
    turns = [
        *locomo.load(str(shared / "data/locomo-dev"), "dev").notes,
        *proactive.load(shared / "data/proactive-dev")[0],
    ]
    found: list[Pair] = []
    for space in dict.fromkeys(turn.space for turn in turns):
        here = sorted((turn for turn in turns if turn.space == space), key=lambda turn: (turn.created, turn.id))
        said = [_memory(turn.space, "fact", "", turn.content) for turn in here]
        vectors = embed(said)
        cosines = vectors @ vectors.T
        for at in range(0, len(said), every):
            later = [to for to in range(len(said)) if here[to].created > here[at].created and cosines[at, to] >= least]
            later.sort(key=lambda to: (-cosines[at, to], to))
            found += [Pair("talk", "both", "random", "en", said[at], said[to], space) for to in later[:3]]
    return found


@cache
def model() -> Any:
    from ormahd.embedding.model import load
    from ormahd.settings import EmbeddingSettings

    return load(EmbeddingSettings(), Path(tempfile.mkdtemp()))


_vectors: dict[Memory, Any] = {}


def embed(memories: Sequence[Memory]) -> Any:
    """Unit vectors, one a row, as the index has them."""
    new = [one for one in dict.fromkeys(memories) if one not in _vectors]
    for start in range(0, len(new), 64):
        some = new[start : start + 64]
        made = model().embed_documents([one.content for one in some], [one.title for one in some])
        _vectors.update(zip(some, (one.vector for one in made), strict=True))
    return np.stack([_vectors[one] for one in memories])


def _memory(space: str | None, kind: str, title: str, content: str) -> Memory:
    return Memory(None if space == "." else space, NodeType(kind), title or None, content)
