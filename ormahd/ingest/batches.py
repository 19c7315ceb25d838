"""Shows the unread turns of a session to a model, a few thousand characters at a time, and turns its answer into candidates.

The judge and the coding agent get the same batches.
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
"""Characters of JSON of one batch: a small local model reads them, and an agent's client does not cut them."""
LONGEST: Final = 5_000
"""Characters of one turn that are shown: its beginning and its end. More is a pasted file or log."""
BEFORE: Final = 2
"""Number of turns before the unread ones that are shown, so that an answer is understood."""
BEFORE_CHARACTERS: Final = 600
GAP: Final = "\n[…]\n"
TITLE: Final = 200
GIVEN: Final = 0.7
"""Confidence of a memory to which a model gives none."""
WHO: Final = {"user": "person", "assistant": "agent"}


class ShownTurn(Struct, frozen=True):
    """A turn as a model sees it. `read`: it was read before, and is only shown so that the others are understood."""

    turn: int
    who: str
    time: str | None
    text: str
    read: bool


class TurnBatch(Struct, frozen=True):
    """Some turns of one session. `keys`: those of the shown turns, in order. `end`: how many turns of the session are then read."""

    turns: tuple[ShownTurn, ...]
    keys: tuple[str, ...]
    fresh: frozenset[str]
    end: int


class Remembered(Struct, frozen=True):
    """A memory as a model proposes it. `turns`: numbers of the turns that say it, the first is where it was said."""

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
    """Return the turns with these keys as a model sees them, numbered by their place in `keys`; those that are gone are left out."""
    return tuple(_shown(turns[key], at, read=key not in fresh) for at, key in enumerate(keys, 1) if key in turns)


def candidates(batch: TurnBatch, found: Sequence[Remembered]) -> list[MemoryCandidate]:
    """Return what a model proposes of a batch. A turn that it was not shown is left out; without any the check refuses it."""
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
