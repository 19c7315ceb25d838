"""The record of extraction, which reads archived sessions for memories.

It holds how far each session was read. The database may be lost: each note names the turn it comes from, so no memory is
made twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, Literal

from msgspec import Struct

from ormahd.note.values import NoteLink
from ormahd.state.state import State

Way = Literal["rules", "model"]
"""Who reads: the rules, or a model (the judge or an agent)."""
KEYS_KEPT: Final = 50
"""How many of the last read turns are stored, by their keys. The position is found again by any of them, because a
rewind may take back the very last ones."""
_SELECT: Final = "SELECT session, until, time, tries, error FROM extraction WHERE way = ?"


class PlannedMemory(Struct, frozen=True):
    """A memory that passed the checks and is about to be committed. Its id is already chosen."""

    node_id: str
    type: str
    space: str | None
    title: str
    content: str
    tags: tuple[str, ...]
    confidence: float
    created: datetime
    source: str
    said_in: str
    turn: int
    """The position of the turn in its session, from 1, to show to people."""
    corrects: str = ""
    links: tuple[NoteLink, ...] = ()
    """Edges to the memories that it replaces by being said again."""
    because: str = ""
    """Why what it tells of was tried and rejected; "" if it was not."""
    evidence: tuple[str, ...] = ()
    """Files that it names and that the agent edited then, each as `path@blob`."""


class SessionProgress(Struct, frozen=True):
    """How far a reader has read a session. `time`: when it last read; `tries`: number of failures in a row; `error`:
    the last one, or None."""

    session: str
    until: tuple[str, ...]
    """Keys of the last turns that were read, the last one first."""
    time: datetime
    tries: int
    error: str | None


class Extractions:
    """Stores how far each session was read, and which memories were made of it, for one vault on this machine.
    Thread-safe.

    In all methods, `session` is the path of a session's file, and `reader` who reads: the rules or a model.
    """

    def __init__(self, state: State) -> None:
        self._state = state

    def all(self, reader: Way) -> dict[str, SessionProgress]:
        """Return {session: its progress} for all sessions that this reader has read."""
        with self._state.transaction() as db:
            rows = db.execute(_SELECT, (reader,)).fetchall()
        return {row[0]: _progress(row) for row in rows}

    def of(self, session: str, reader: Way) -> SessionProgress | None:
        """Return how far this reader has read a session; None if it has not read it."""
        with self._state.transaction() as db:
            row = db.execute(f"{_SELECT} AND session = ?", (reader, session)).fetchone()
        return None if row is None else _progress(row)

    def done(self, session: str, reader: Way, until: Sequence[str], made: Mapping[str, str]) -> None:
        """Store the new position of a session, and which memories were made of it (node id -> key of the turn)."""
        with self._state.transaction() as db:
            db.executemany("INSERT OR REPLACE INTO extracted VALUES (?, ?)", made.items())
        self._store(session, reader, until[:KEYS_KEPT], 0, None)

    def failed(self, session: str, reader: Way, reason: str, *, again: bool = False) -> None:
        """Record that reading a session failed; its stored position is kept. `again`: whether the session was not at
        fault, so that the next try is not put off."""
        before = self.of(session, reader)
        tries = (before.tries if before else 0) + (not again)
        self._store(session, reader, before.until if before else (), tries, reason)

    def _store(self, session: str, reader: Way, until: Sequence[str], tries: int, error: str | None) -> None:
        """Store the progress of a session. `until`: keys of the last turns that were read."""
        values = (session, reader, json.dumps(list(until)), self._state.clock().isoformat(), tries, error)
        with self._state.transaction() as db:
            db.execute("INSERT OR REPLACE INTO extraction VALUES (?, ?, ?, ?, ?, ?)", values)

    def made(self) -> dict[str, str]:
        """Return {node id: key of the turn that it was made of} for all memories that were made from sessions."""
        with self._state.transaction() as db:
            return dict(db.execute("SELECT node_id, turn FROM extracted"))

    def drop(self, node_ids: Iterable[str]) -> None:
        """Delete these memories from the record of memories made from sessions. Called once the memories have
        tombstones."""
        with self._state.transaction() as db:
            db.executemany("DELETE FROM extracted WHERE node_id = ?", [(node_id,) for node_id in node_ids])


def _progress(row: Sequence[str | int | None]) -> SessionProgress:
    """Return the progress that a row of `_SELECT` holds."""
    session, until, time, tries, error = row
    keys, read_at = tuple(json.loads(str(until))), datetime.fromisoformat(str(time))
    reason = None if error is None else str(error)
    return SessionProgress(session=str(session), until=keys, time=read_at, tries=int(tries or 0), error=reason)
