"""How far each archived session was read for memories, what came of it, and what was decided but is not known to be committed.

The database may be lost: the notes say which turns they come from, so that nothing is made twice.
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
"""Number of keys by which the last turn read is found again, because the last ones may have been taken back by a rewind."""


class PlannedMemory(Struct, frozen=True):
    """A memory that was checked and is about to be stored, under an id that is chosen already."""

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
    """The number of the turn in its session, for people."""
    corrects: str = ""


class ExtractionPlan(Struct, frozen=True):
    """What becomes of one read: the memories, and with their commit the new position."""

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
    """Of one source: memories made and candidates refused by reason, since `month`; turns' sessions that wait; errors."""

    made: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    waiting: int = 0
    errors: list[str] = field(default_factory=list)


_plan = msgspec.json.Decoder(ExtractionPlan).decode


class Extractions:
    """The record of one vault on this machine. Thread-safe."""

    def __init__(self, state: State) -> None:
        self._state = state

    def all(self, way: Way) -> dict[str, SessionProgress]:
        """Return `{session: how far it was read}`."""
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
        """Store what is about to be committed."""
        before = self.of(session, way)
        self._put(session, way, before.until if before else (), 0, None, msgspec.json.encode(plan).decode())

    def done(self, session: str, way: Way, source: str, plan: ExtractionPlan) -> None:
        """Move on: the plan is committed."""
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
        """Note how far a session was read, without a result."""
        self._put(session, way, until[:KEYS_KEPT], 0, None, None)

    def failed(self, session: str, way: Way, reason: str, *, again: bool = False) -> None:
        """Note that a try failed. What was read before stays read. `again`: it was not the session's fault; it is not left alone."""
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
        """Return `{node id: key of the turn that said it}` of all memories that were made."""
        with self._state.transaction() as db:
            return dict(db.execute("SELECT node_id, turn FROM extracted"))

    def drop(self, node_ids: Iterable[str]) -> None:
        """Delete the record of memories that have their tombstones."""
        with self._state.transaction() as db:
            db.executemany("DELETE FROM extracted WHERE node_id = ?", [(one,) for one in node_ids])

    def counts(self, since: str = "") -> dict[str, SourceCounts]:
        """Return what came of each source, from a month (`YYYY-MM`) on."""
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
