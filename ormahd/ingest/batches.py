"""Divides the unread turns of a session into batches for a model, and turns the model's answers into candidates for
memories.

The judge and a coding agent in two-phase maintenance get the same batches.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

import msgspec
from msgspec import Struct

from ormahd.api import ExtractionTurn
from ormahd.ingest.readers.turns import SessionTurn
from ormahd.ingest.readers.values import local_time
from ormahd.model.node import NodeType
from ormahd.process import priority
from ormahd.sessions.archive import Archived, SessionTail
from ormahd.state.extraction import KEYS_KEPT, Way
from ormahd.text.quoting import shortened

BATCH: Final = 12_000
"""Maximum characters of one batch as JSON: few enough for a small local model and for the client of an agent."""
LONGEST: Final = 2_000
"""Maximum characters of one turn of the person that are shown: its beginning and its end. A longer turn has a pasted
file or log."""
BEFORE: Final = 2
"""Number of read turns that are shown before the unread ones, so that the model understands an answer."""
ANSWERED: Final = 400
"""The same for what the person answers, which only helps to understand the person: turns of the agent, and read ones."""
CONTEXT: Final = 100
"""Number of turns before the unread ones that the rules read again, because something that began there, such as a role
play, may still be going on."""
GAP: Final = "\n[…]\n"
TITLE: Final = 200
WHO: Final = {"user": "person", "assistant": "agent"}


class UnreadTurns(Struct, frozen=True):
    """A session with its turns, some of which are unread. `turns`: all turns, in order; `start`: the index of the first
    turn that `reader` has not read."""

    tail: SessionTail
    turns: tuple[Archived, ...]
    start: int
    reader: Way

    @property
    def with_context(self) -> Iterable[SessionTurn]:
        """The unread turns with up to `CONTEXT` read turns before them. Because of these read turns, the memories
        found do not depend on where the last read happened to end. Times are the person's."""
        tail = self.tail
        return priority.giving(
            SessionTurn(
                cast("Any", message.role), message.text, local_time(message.time), tail.id, message.key, tail.cwd
            )
            for message in self.turns[max(0, self.start - CONTEXT) :]
        )

    @property
    def fresh(self) -> set[str]:
        """The keys of the unread turns."""
        return {message.key for message in self.turns[self.start :]}

    def position_after(self, end: int) -> tuple[str, ...]:
        """Return the position to store once the turns before index `end` are read: the keys of the last of these
        turns, the last one first."""
        return tuple(message.key for message in reversed(self.turns[:end][-KEYS_KEPT:]))


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
    """Consecutive turns of one session that a model is asked about together. `keys`: the keys of turn 1, 2 and so on; a
    deleted turn still has its key. `fresh`: the keys of the unread turns. `end`: how many turns of the session, from
    its beginning, are read after this batch."""

    turns: tuple[ExtractionTurn, ...]
    keys: tuple[str, ...]
    fresh: frozenset[str]
    end: int


class Remembered(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A memory as a model proposes it. `turns`: numbers, in the batch, of the turns that say it; the first of them
    dates the memory. `corrects`: words of the earlier fact that this memory makes wrong; "" if there is none."""

    turns: list[int]
    type: NodeType
    title: str
    content: str
    about_self: bool
    tags: list[str]
    confidence: float
    corrects: str


def batches(session: UnreadTurns, limit: int = BATCH) -> Iterator[TurnBatch]:
    """Yield batches with all unread turns of a session, in order. A batch begins with some read turns, and has at most
    `limit` characters, unless a single unread turn has more."""
    start = session.start
    turns = {message.key: message for message in session.turns}
    while start < len(session.turns):
        before = [message.key for message in session.turns[max(0, start - BEFORE) : start]]
        size, end = sum(_json_size(_presented(turns[key], 0, read=True)) for key in before), start
        while end < len(session.turns):
            size += _json_size(_presented(session.turns[end], 0, read=False))
            if size > limit and end > start:
                break
            end += 1
        fresh = [message.key for message in session.turns[start:end]]
        keys = (*before, *fresh)
        yield TurnBatch(numbered(keys, turns, set(fresh)), keys, frozenset(fresh), end)
        start = end


def numbered(keys: Sequence[str], turns: Mapping[str, Archived], fresh: Collection[str]) -> tuple[ExtractionTurn, ...]:
    """Return the turns with these keys in the form in which a model sees them. A turn's number is the position of its
    key in `keys`, from 1. `turns`: key -> turn; a key that it lacks is skipped, but counted. `fresh`: the keys of the
    unread turns."""
    return tuple(_presented(turns[key], at, read=key not in fresh) for at, key in enumerate(keys, 1) if key in turns)


def candidates(batch: TurnBatch, memories: Sequence[Remembered]) -> list[MemoryCandidate]:
    """Convert the memories that a model proposed from a batch to candidates: numbers of turns become keys of turns.
    Numbers that the batch does not have are dropped. `Checks` later refuses a candidate that has no turn."""
    return [
        MemoryCandidate(
            type=memory.type,
            title=shortened(memory.title, TITLE),
            content=memory.content,
            confidence=memory.confidence,
            turns=tuple(dict.fromkeys(batch.keys[at - 1] for at in memory.turns if 0 < at <= len(batch.keys))),
            about_self=memory.about_self,
            tags=tuple(memory.tags),
            corrects=memory.corrects,
        )
        for memory in memories
    ]


def _presented(message: Archived, number: int, *, read: bool) -> ExtractionTurn:
    """Return a turn in the form in which a model sees it: shortened in its middle, with the person's local time.
    `number`: its number in the batch; `read`: whether it was read before."""
    limit = ANSWERED if read or message.role != "user" else LONGEST
    text = (
        message.text
        if len(message.text) <= limit
        else message.text[: limit * 2 // 3] + GAP + message.text[-limit // 3 :]
    )
    return ExtractionTurn(number, WHO.get(message.role, message.role), local_time(message.time), text, read)


def _json_size(message: ExtractionTurn) -> int:
    """Return the number of characters that a turn adds to a batch as JSON, roughly."""
    return len(msgspec.json.encode(message).decode()) + 10
