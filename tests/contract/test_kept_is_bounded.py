"""What is kept for the next question stays within its bound, however many come, and however long the texts are.

Each kept thing is filled for ten rounds, beyond its bound, and then for ten rounds more, three times: without a bound each of these would
add what the first ten did.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ormahd.embedding.embedder import DocumentVectors, Piece
from ormahd.index import index as index_module
from ormahd.index.rows import NodeRow
from ormahd.model.node import NodeType, Tier
from ormahd.process.priority import Turns
from ormahd.text import words as words_module
from ormahd.vault import excluded, versions
from ormahd.watch import reading
from ormahd.watch.scan import FileStat
from ormahd.whisper import gather

ROUNDS, TIMES = 10, 3
EACH = 20
"""New things in one round."""
SHARE = 0.25
"""Of what the first rounds left behind: what further ones may add. Not each time: a table of the interpreter's may be made anew meanwhile."""
NOISE = 5_000
"""Bytes that come and go with whatever runs."""
NOW = datetime(2026, 11, 21, 20, tzinfo=UTC)

Round = Callable[[int], None]
"""Fills it with what no round before brought."""
Thing = Callable[[pytest.MonkeyPatch, Path], Round]
"""Makes one whose bound is small."""


def names(number: int) -> list[str]:
    return [f"{number * EACH + one:08x}-0000-4000-8000-000000000000" for one in range(EACH)]


def row(node_id: str, content: str) -> NodeRow:
    return NodeRow(
        node_id, NodeType.FACT, Tier.WORKING, None, f"Title {node_id[:8]}", content, (), (), "person", (), 1.0, NOW, NOW, None,
        None, "fact.md", node_id,
    )  # fmt: skip


def words_of_memories(patch: pytest.MonkeyPatch, _: Path) -> Round:
    patch.setattr(gather, "KEPT", 2_000)
    patch.setattr(words_module, "KEPT", 500)

    def fill(number: int) -> None:
        long = " ".join(f"word{one}" for one in range(150))
        gather.stemmed([row(one, long) for one in names(number)])

    return fill


def stems_of_words(patch: pytest.MonkeyPatch, _: Path) -> Round:
    patch.setattr(words_module, "KEPT", 30)
    kept = words_module._Stemmer()
    return lambda number: _asked(kept(f"x{one[:8]}" for one in names(number)))


def words_of_texts(_patch: pytest.MonkeyPatch, _path: Path) -> Round:
    """Its bound is not to be set; so many texts are asked for in each round that it is full."""

    def fill(number: int) -> None:
        for one in range(500):
            words_module.words(f"{number} {one}")

    return fill


def vectors_of_writes(patch: pytest.MonkeyPatch, _: Path) -> Round:
    """Of writes that never came about, and whose texts were long."""
    patch.setattr(index_module, "MOST_PENDING", 10_000)
    patch.setattr(index_module, "PENDING_BYTES", 100_000)
    kept = index_module.PendingEmbeddings()

    def fill(number: int) -> None:
        for one in names(number):
            piece = Piece(np.zeros(384, np.float32), np.zeros(200, np.uint32), np.zeros((200, 8), np.int8))
            kept.keep("model", {one.encode(): DocumentVectors((piece,) * 4)})

    return fill


def ids_of_blobs(patch: pytest.MonkeyPatch, _: Path) -> Round:
    patch.setattr(versions, "IDS", 20)
    none: Any = None  # no commit is asked for here, and so no git
    kept = versions.Versions(none, "", lambda _path, oid: f"---\nid: {oid}\n---\ntext\n".encode())

    def fill(number: int) -> None:
        for one in names(number):
            assert kept.node_of(one, "a.md") == one

    return fill


def ignored_paths(patch: pytest.MonkeyPatch, path: Path) -> Round:
    patch.setattr(excluded, "REMEMBERED", 30)
    kept = excluded.Excluded(path, lambda _: set())
    return lambda number: _asked(kept.by_git([f"notes/{one}.md" for one in names(number)]))


def files_that_went_while_they_were_young(patch: pytest.MonkeyPatch, _: Path) -> Round:
    clock = SimpleNamespace(now=0.0)
    patch.setattr(reading, "time", SimpleNamespace(monotonic=lambda: clock.now, time_ns=lambda: round(clock.now * 1e9)))
    rest = reading.RestCheck(5.0)

    def fill(number: int) -> None:
        clock.now += 60.0
        for one in names(number):
            assert rest.missing(FileStat(f"{one}.md", 1, 1, 1, round(clock.now * 1e9))) > 0
        rest.forget_gone(())

    return fill


def locks_by_key(_patch: pytest.MonkeyPatch, _path: Path) -> Round:
    kept = Turns()

    def fill(number: int) -> None:
        for one in names(number):
            with kept.take(one):
                pass

    return fill


def _asked(_: object) -> None:
    """The answer is of no interest here."""


THINGS: Sequence[Thing] = (
    words_of_memories, stems_of_words, words_of_texts, vectors_of_writes,
    ids_of_blobs, ignored_paths, files_that_went_while_they_were_young, locks_by_key,
)  # fmt: skip


@pytest.mark.parametrize("thing", THINGS, ids=lambda thing: thing.__name__)
def test_further_rounds_leave_nothing_behind(thing: Thing, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fill = thing(monkeypatch, tmp_path)
    gc.collect()
    tracemalloc.start()
    try:
        held = [0]
        for turn in range(1 + TIMES):
            for number in range(turn * ROUNDS, (turn + 1) * ROUNDS):
                fill(number)
            gc.collect()
            held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    first, *further = np.diff(held).tolist()
    assert min(further) <= SHARE * first + NOISE, held
