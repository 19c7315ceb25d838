"""Divides the unread turns of a session into batches for a model, and turns the model's answers into candidates for
memories.

The judge and a coding agent in two-phase maintenance get the same batches.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from ormahd.ingest.candidate import MemoryCandidate
from ormahd.model.node import NodeType
from ormahd.text.quoting import shortened

if TYPE_CHECKING:
    from ormahd.ingest.learn import UnreadTurns
    from ormahd.sessions.archive import Archived

BATCH: Final = 12_000
"""Maximum characters of one batch as JSON: few enough for a small local model and for the client of an agent."""
LONGEST: Final = 5_000
"""Maximum characters of one turn that are shown: its beginning and its end. A longer turn has a pasted file or log."""
BEFORE: Final = 2
"""Number of read turns that are shown before the unread ones, so that the model understands an answer."""
BEFORE_CHARACTERS: Final = 600
GAP: Final = "\n[…]\n"
TITLE: Final = 200
GIVEN: Final = 0.7
"""The confidence of a memory if the model states none."""
WHO: Final = {"user": "person", "assistant": "agent"}


class ShownTurn(Struct, frozen=True):
    """A turn as shown to a model. `turn`: its number in the batch. `read`: whether it was read before; it is then
    shown only so that the model understands the other turns."""

    turn: int
    who: str
    time: str | None
    text: str
    read: bool


class TurnBatch(Struct, frozen=True):
    """Some turns of one session. `keys`: the keys of the shown turns, in order. `fresh`: the keys of those that are
    unread. `end`: the number of turns of the session that are read once this batch is."""

    turns: tuple[ShownTurn, ...]
    keys: tuple[str, ...]
    fresh: frozenset[str]
    end: int


class Remembered(Struct, frozen=True):
    """A memory as a model proposes it. `turns`: the numbers of the turns that say it; the first is that in which it
    was said. `corrects`: words of an earlier fact that this one makes wrong."""

    turns: Sequence[int]
    type: NodeType
    title: str
    content: str
    about_self: bool = False
    tags: Sequence[str] = ()
    confidence: float = GIVEN
    corrects: str = ""


def batches(some: UnreadTurns, most: int = BATCH) -> Iterator[TurnBatch]:
    """Yield the unread turns of a session in batches of at most `most` characters."""
    start = some.start
    turns = {one.key: one for one in some.turns}
    while start < len(some.turns):
        before = [one.key for one in some.turns[max(0, start - BEFORE) : start]]
        size, end = sum(_size(_shown(turns[key], 0, read=True)) for key in before), start
        while end < len(some.turns):
            size += _size(_shown(some.turns[end], 0, read=False))
            if size > most and end > start:
                break
            end += 1
        fresh = [one.key for one in some.turns[start:end]]
        keys = (*before, *fresh)
        yield TurnBatch(show(keys, turns, set(fresh)), keys, frozenset(fresh), end)
        start = end


def show(keys: Sequence[str], turns: Mapping[str, Archived], fresh: Collection[str]) -> tuple[ShownTurn, ...]:
    """Return the turns with these keys in the form for a model, numbered by their position in `keys`. Keys that
    `turns` no longer has are left out; the numbers of the others stay. `fresh`: the keys of unread turns."""
    return tuple(_shown(turns[key], at, read=key not in fresh) for at, key in enumerate(keys, 1) if key in turns)


def candidates(batch: TurnBatch, found: Sequence[Remembered]) -> list[MemoryCandidate]:
    """Return the memories that a model proposes as candidates, with keys of turns in place of numbers. Numbers of
    turns that are not in the batch are dropped; the checks refuse a candidate that has no turn left."""
    return [
        MemoryCandidate(
            one.type, shortened(one.title, TITLE), one.content, one.confidence,
            tuple(dict.fromkeys(batch.keys[turn - 1] for turn in one.turns if 0 < turn <= len(batch.keys))),
            one.about_self, tuple(one.tags), one.corrects,
        )
        for one in found
    ]  # fmt: skip


def _shown(one: Archived, number: int, *, read: bool) -> ShownTurn:
    most = BEFORE_CHARACTERS if read else LONGEST
    text = one.text if len(one.text) <= most else one.text[: most * 2 // 3] + GAP + one.text[-most // 3 :]
    return ShownTurn(number, WHO.get(one.role, one.role), one.time, text, read)


def _size(turn: ShownTurn) -> int:
    return len(msgspec.json.encode(turn).decode()) + 10
