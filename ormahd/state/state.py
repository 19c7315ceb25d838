"""`state.sqlite3`: access events that are not yet folded into the vault, answers to requests with an id, and what was
whispered (`whispers`, `reviews`, `sessions` beside this).

One small database in the state directory (DESIGN section 3). Everything in it is of the last days, and nothing in it is a
memory: what becomes of a damaged file, or on a full disk, says `state_file`.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime
from pathlib import Path

from ormahd.errors import BegunAnew
from ormahd.process import own_files, sql
from ormahd.state.state_file import StateFile

KEPT_ANSWERS = 10_000
"""Answers that are remembered for a client that asks again; a client retries within seconds."""


class State:
    """One connection guarded by one lock: the work is microseconds, and order matters more than parallel reading."""

    def __init__(self, directory: Path, *, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self.path = directory / "state.sqlite3"
        self.notices: list[str] = []
        """Sentences for a person: what had to be set aside, and why nothing can be written."""
        self._asked: date | None = None
        self._file = StateFile(self.path, self.notices.append)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """The database, for one of the journal's own modules; committed at the end, or nothing of it.

        Raises BegunAnew: the file was damaged, or cannot be written any more; what takes its place is there when it is asked again.
        """
        with self._lock:
            try:
                with self._file.db as db:
                    yield db
            except sqlite3.DatabaseError as error:
                if not self._file.mend(error):
                    raise
                raise BegunAnew(f"{self.path} could not be used ({error})", hint="ask again") from error

    @property
    def trouble(self) -> str | None:
        """Why what happens is kept in memory only, where it is."""
        return self._file.trouble

    @property
    def trouble_said(self) -> str | None:
        """The same as a sentence."""
        why = self.trouble
        return why and f"{self.path} cannot be written ({why}); what happens is kept in memory until it can"

    def look(self) -> None:
        """Notice that the file was taken away, and go back to it where it could not be written before."""
        with self._lock:
            self._file.look()

    @property
    def clock(self) -> Callable[[], datetime]:
        return self._clock

    def touch(self, node_ids: Sequence[str], *, how: str, session_id: str | None, at: datetime | None = None) -> None:
        """Record that these nodes were used (`at`: now); a job folds the events into the vault's strength."""
        now = (at or self._clock()).isoformat()
        with self.transaction() as db:
            rows = [(node_id, now, how, session_id) for node_id in node_ids]
            sql.put(db, "INSERT INTO access (node_id, time, how, session_id)", rows)

    def glance(self, node_ids: Sequence[str], *, how: str, session_id: str | None, at: datetime) -> None:
        """Record a weak use of these nodes: once a day and session, however often they were shown."""
        with self.transaction() as db:
            known = {
                row[0]
                for row in db.execute(
                    f"SELECT node_id FROM access WHERE node_id IN ({sql.marks(node_ids)}) AND how = ? AND session_id IS ? "  # noqa: S608 - marks
                    "AND substr(time, 1, 10) = ?",
                    (*node_ids, how, session_id, at.date().isoformat()),
                )
            }
            rows = [(node_id, at.isoformat(), how, session_id) for node_id in node_ids if node_id not in known]
            sql.put(db, "INSERT INTO access (node_id, time, how, session_id)", rows)

    def asked(self, at: datetime) -> None:
        """Record that something was asked on this day."""
        day = at.astimezone(UTC).date()
        if day != self._asked:  # most questions of a day are not its first
            with self.transaction() as db:
                db.execute("INSERT OR IGNORE INTO active_day (day) VALUES (?)", (day.isoformat(),))
            self._asked = day

    def active_days(self) -> set[date]:
        """The days on which something was asked, as this machine knows them."""
        with self.transaction() as db:
            return {date.fromisoformat(day) for (day,) in db.execute("SELECT day FROM active_day")}

    def accesses(self) -> list[tuple[int, str, str, str]]:
        """Events not yet folded in, oldest first: (event, node id, ISO time, how: recall, whisper, get or feedback)."""
        with self.transaction() as db:
            return list(db.execute("SELECT id, node_id, time, how FROM access ORDER BY id"))

    def folding(self, upto: int, run: str) -> None:
        """The commit of this run is about to hold the events up to and including this one."""
        with self.transaction() as db:
            db.execute("UPDATE access SET run = ? WHERE id <= ?", (run, upto))

    def half_folded(self) -> list[str]:
        """Runs that began to fold events in, and of which nobody said how it ended: the daemon was killed there."""
        with self.transaction() as db:
            return [row[0] for row in db.execute("SELECT DISTINCT run FROM access WHERE run IS NOT NULL")]

    def folded(self, run: str, *, held: bool = True) -> None:
        """That run ended. `held`: the vault holds its events now, and they are forgotten; else they wait for the next one."""
        done = "DELETE FROM access WHERE run = ?" if held else "UPDATE access SET run = NULL WHERE run = ?"
        with self.transaction() as db:
            db.execute(done, (run,))

    def answer(self, request_id: str) -> tuple[str, str, bytes] | None:
        """The first answer to a request: (method, digest of its parameters, reply)."""
        with self.transaction() as db:
            row = db.execute("SELECT method, params, reply FROM answer WHERE request_id = ?", (request_id,)).fetchone()
        return None if row is None else (row[0], row[1], bytes(row[2]))

    def answered(self, request_id: str, method: str, params: str, reply: bytes) -> None:
        with self.transaction() as db:
            db.execute(
                "INSERT OR IGNORE INTO answer (request_id, method, params, time, reply) VALUES (?, ?, ?, ?, ?)",
                (request_id, method, params, self._clock().isoformat(), reply),
            )
            db.execute(
                "DELETE FROM answer WHERE time < (SELECT time FROM answer ORDER BY time DESC LIMIT 1 OFFSET ?)",
                (KEPT_ANSWERS,),
            )

    def scour(self, holds: Callable[[bytes], bool]) -> int:
        """Delete every row, of whatever table, in which a value `holds` what must not be there, and write the file anew,
        so that no freed page has it either. Returns how many rows."""
        gone = 0
        with self.transaction() as db:
            names = [row[0] for row in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
            for table in names:
                columns = [(row[1], row[5]) for row in db.execute(f'PRAGMA table_info("{table}")')]
                keys = [name for name, key in columns if key]
                for row in db.execute(f'SELECT * FROM "{table}"').fetchall():  # noqa: S608 - names of our own schema
                    if any(holds(_bytes(value)) for value in row if isinstance(value, str | bytes)):
                        named = {name: value for (name, _), value in zip(columns, row, strict=True) if name in keys}
                        where = " AND ".join(f'"{name}" = ?' for name in named)
                        found = db.execute(f'DELETE FROM "{table}" WHERE {where}', tuple(named.values()))  # noqa: S608
                        gone += found.rowcount
        with self._lock:
            self._file.db.execute("VACUUM")
            self._file.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        for aside in own_files.asides(self.path.parent):
            own_files.remove(aside)
        return gone

    def close(self) -> None:
        with self._lock:
            self._file.close()


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")
