"""The record of extraction, which reads archived sessions for memories.

It holds how far each session was read, how many memories that made, and plans that may not be committed yet. The
database may be lost: each note names the turn it comes from, so no memory is made twice.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, Literal

import msgspec
from msgspec import Struct, field

from ormahd.state.state import State

Way = Literal["rules", "model"]
"""Who reads: the rules, or a model (the judge or an agent)."""
MADE: Final = "made"
KEYS_KEPT: Final = 50
"""How many of the last read turns are stored, by their keys. The position is found again by any of them, because a
rewind may take back the very last ones."""


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


class ExtractionPlan(Struct, frozen=True):
    """The result of one read of a session. `memories`: those to commit; `until`: the position up to which the session
    is read once they are committed; `refused`: reason -> number of candidates refused for it."""

    memories: tuple[PlannedMemory, ...]
    refused: Mapping[str, int]
    until: tuple[str, ...]


class SessionProgress(Struct, frozen=True):
    session: str
    until: tuple[str, ...]
    """Keys of the last turns that were read, the last one first."""
    time: datetime
    tries: int
    error: str | None
    plan: ExtractionPlan | None


class SourceCounts(Struct):
    """Counts of one source of sessions: memories made, candidates refused (reason -> number), unread sessions; and
    its errors."""

    made: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    waiting: int = 0
    errors: list[str] = field(default_factory=list)


_plan = msgspec.json.Decoder(ExtractionPlan).decode


class Extractions:
    """Stores how far each session was read, and which memories were made of it, for one vault on this machine.
    Thread-safe. A `session` is named by its file's path; `way`: read by rules or by a model."""

    def __init__(self, state: State) -> None:
        self._state = state

    def all(self, way: Way) -> dict[str, SessionProgress]:
        """Return session -> its progress, for all sessions that were read in this way."""
        with self._state.transaction() as db:
            rows = db.execute(
                "SELECT session, until, time, tries, error, plan FROM extraction WHERE way = ?", (way,)
            ).fetchall()
        return {row[0]: _progress(row) for row in rows}

    def of(self, session: str, way: Way) -> SessionProgress | None:
        with self._state.transaction() as db:
            row = db.execute(
                "SELECT session, until, time, tries, error, plan FROM extraction WHERE session = ? AND way = ?",
                (session, way),
            ).fetchone()
        return None if row is None else _progress(row)

    def decide(self, session: str, way: Way, plan: ExtractionPlan) -> None:
        """Store a plan before its memories are committed, so that it can be completed after a crash."""
        before = self.of(session, way)
        self._put(session, way, before.until if before else (), 0, None, msgspec.json.encode(plan).decode())

    def done(self, session: str, way: Way, source: str, plan: ExtractionPlan) -> None:
        """Record that a plan is committed: store the new position, and count what came of the read."""
        counts = Counter(plan.refused)
        if plan.memories:
            counts[MADE] += len(plan.memories)
        now = self._state.clock()
        with self._state.transaction() as db:
            db.execute(
                "INSERT OR REPLACE INTO extraction VALUES (?, ?, ?, ?, 0, NULL, NULL)",
                (session, way, json.dumps(plan.until[:KEYS_KEPT]), now.isoformat()),
            )
            for what, number in counts.items():
                db.execute(
                    "INSERT INTO extraction_count VALUES (?, ?, ?, ?) ON CONFLICT (month, source, what) "
                    "DO UPDATE SET number = number + excluded.number",
                    (f"{now:%Y-%m}", source, what, number),
                )
            made = [(one.node_id, one.said_in.rpartition("#")[2]) for one in plan.memories]
            db.executemany("INSERT OR REPLACE INTO extracted VALUES (?, ?)", made)

    def move(self, session: str, way: Way, until: tuple[str, ...]) -> None:
        """Store the position up to which a session was read, without any memories or counts."""
        self._put(session, way, until[:KEYS_KEPT], 0, None, None)

    def failed(self, session: str, way: Way, reason: str, *, again: bool = False) -> None:
        """Record that reading a session failed; its stored position stays. `again`: the session was not at fault, so
        the next try is not put off."""
        before = self.of(session, way)
        plan = None if before is None or before.plan is None else msgspec.json.encode(before.plan).decode()
        self._put(
            session, way, before.until if before else (), (before.tries if before else 0) + (not again), reason, plan
        )

    def _put(
        self, session: str, way: Way, until: Sequence[str], tries: int, error: str | None, plan: str | None
    ) -> None:
        values = (session, way, json.dumps(list(until)), self._state.clock().isoformat(), tries, error, plan)
        with self._state.transaction() as db:
            db.execute("INSERT OR REPLACE INTO extraction VALUES (?, ?, ?, ?, ?, ?, ?)", values)

    def made(self) -> dict[str, str]:
        """Return node id -> key of the turn that said it, for all memories that were made from sessions."""
        with self._state.transaction() as db:
            return dict(db.execute("SELECT node_id, turn FROM extracted"))

    def drop(self, node_ids: Iterable[str]) -> None:
        """Delete these memories from the record of memories made from sessions. Called once the memories have
        tombstones."""
        with self._state.transaction() as db:
            db.executemany("DELETE FROM extracted WHERE node_id = ?", [(one,) for one in node_ids])

    def counts(self, since: str = "") -> dict[str, SourceCounts]:
        """Return source -> memories made and candidates refused, from the month `since` (`YYYY-MM`) on."""
        found: dict[str, SourceCounts] = {}
        with self._state.transaction() as db:
            rows = db.execute(
                "SELECT source, what, sum(number) FROM extraction_count WHERE month >= ? GROUP BY source, what",
                (since,),
            ).fetchall()
        for source, what, number in rows:
            counts = found.setdefault(source, SourceCounts())
            if what == MADE:
                counts.made = number
            else:
                counts.refused[what] = number
        return found


def _progress(row: Sequence[str | int | None]) -> SessionProgress:
    session, until, time, tries, error, plan = row
    return SessionProgress(
        str(session), tuple(json.loads(str(until))), datetime.fromisoformat(str(time)), int(tries or 0),
        None if error is None else str(error), None if plan is None else _plan(str(plan)),
    )  # fmt: skip
