"""Divides the unread turns of a session into batches for a model, and turns the model's answers into candidates for
memories.

The judge and a coding agent in two-phase maintenance get the same batches.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from ormahd.api import ExtractionTurn
from ormahd.ingest.readers.values import local_time
from ormahd.model.node import NodeType
from ormahd.sessions.archive import Archived
from ormahd.text.quoting import shortened

if TYPE_CHECKING:
    from ormahd.ingest.learn import UnreadTurns

BATCH: Final = 12_000
"""Maximum characters of one batch as JSON: few enough for a small local model and for the client of an agent."""
LONGEST: Final = 2_000
"""Maximum characters of one turn of the person that are shown: its beginning and its end. A longer turn has a pasted
file or log."""
BEFORE: Final = 2
"""Number of read turns that are shown before the unread ones, so that the model understands an answer."""
ANSWERED: Final = 400
"""The same for what the person answers, which only helps to understand the person: turns of the agent, and read ones."""
GAP: Final = "\n[…]\n"
TITLE: Final = 200
WHO: Final = {"user": "person", "assistant": "agent"}


class MemoryCandidate(Struct, frozen=True):
    """A memory that extraction proposes from a session, before it is checked."""

    type: NodeType
    title: str
    content: str
    """Text that can be understood without the session: dates are absolute, and "I" is replaced by "the user"."""
    confidence: float
    """From 0 to 1; 0.6 if rules found the memory."""
    turns: tuple[str, ...]
    """Keys of the turns that say it. The first is the turn in which it was said."""
    about_self: bool = False
    tags: tuple[str, ...] = ()
    corrects: str = ""
    """Words of the earlier statement that this memory makes wrong; "" if it corrects nothing."""
    because: str = ""
    """Why what it tells of was tried and rejected; "" if it was not."""


class TurnBatch(Struct, frozen=True):
    """Consecutive turns of one session that a model is shown together. `keys`: the key of turn number 1, 2 and so on,
    also of a turn that was deleted. `fresh`: the keys of the unread turns. `end`: how many turns of the session,
    counted from its beginning, are read after this batch."""

    turns: tuple[ExtractionTurn, ...]
    keys: tuple[str, ...]
    fresh: frozenset[str]
    end: int


class Remembered(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A memory as a model proposes it. `turns`: the numbers, in the batch, of the turns that say it; the memory is
    dated by the first of these. `corrects`: words of the earlier fact that this memory makes wrong; "" if there is
    none."""

    turns: list[int]
    type: NodeType
    title: str
    content: str
    about_self: bool
    tags: list[str]
    confidence: float
    corrects: str


def batches(some: UnreadTurns, most: int = BATCH) -> Iterator[TurnBatch]:
    """Yield batches with all unread turns of a session, in order. A batch begins with some read turns, and has at
    most `most` characters, unless a single unread turn has more."""
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


def show(keys: Sequence[str], turns: Mapping[str, Archived], fresh: Collection[str]) -> tuple[ExtractionTurn, ...]:
    """Return the turns with these keys in the form in which a model is shown them. A turn's number is the position of
    its key in `keys`, from 1. A key that `turns` (key -> turn) does not have is skipped, but counted. `fresh`: the
    keys of the unread turns."""
    return tuple(_shown(turns[key], at, read=key not in fresh) for at, key in enumerate(keys, 1) if key in turns)


def candidates(batch: TurnBatch, found: Sequence[Remembered]) -> list[MemoryCandidate]:
    """Convert the memories that a model proposed from a batch to candidates: numbers of turns become keys of turns.
    Numbers that the batch does not have are dropped; a candidate that has no turn left is later refused by
    `Checks`."""
    return [
        MemoryCandidate(
            one.type, shortened(one.title, TITLE), one.content, one.confidence,
            tuple(dict.fromkeys(batch.keys[turn - 1] for turn in one.turns if 0 < turn <= len(batch.keys))),
            one.about_self, tuple(one.tags), one.corrects,
        )
        for one in found
    ]  # fmt: skip


def _shown(one: Archived, number: int, *, read: bool) -> ExtractionTurn:
    most = ANSWERED if read or one.role != "user" else LONGEST
    text = one.text if len(one.text) <= most else one.text[: most * 2 // 3] + GAP + one.text[-most // 3 :]
    return ExtractionTurn(number, WHO.get(one.role, one.role), local_time(one.time), text, read)


def _size(turn: ExtractionTurn) -> int:
    return len(msgspec.json.encode(turn).decode()) + 10
