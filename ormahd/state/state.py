"""`state.sqlite3`: uses not yet folded in, answers to requests that have an id, whispers, sessions and jobs.

It holds telemetry of recent days, and no memories. A damaged file is set aside and replaced by an empty one.
"""

from __future__ import annotations

import contextlib
import importlib.resources
import logging
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from pathlib import Path

from ormahd.errors import NotReady, OrmahError
from ormahd.model.change import Clock
from ormahd.note.forgetting import Forgotten
from ormahd.process import own_files, sql
from ormahd.process.sql import DatabaseFault, fault_of

log = logging.getLogger("ormah")

VERSION = 3
"""Number of the format of `schema.sql`. A file with another number is set aside."""


KEPT_ANSWERS = 10_000
"""Number of answers that are kept for clients that repeat a request; a client retries within seconds."""


def sortable(time: datetime) -> str:
    """Return the time in UTC with six decimals, so that the texts sort in the order of the times."""
    return time.astimezone(UTC).isoformat(timespec="microseconds")


class State:
    """The state database of one vault: threads share one connection, guarded by a lock. Transactions are short."""

    def __init__(self, directory: Path, *, clock: Clock) -> None:
        """Open the database, or create it. Raises Unavailable if it cannot be used, and NoRoom if the disk is full."""
        self.clock = clock
        self._lock = threading.Lock()
        self.path = directory / "state.sqlite3"
        self.notices: list[str] = []
        """Sentences for the person: which files were set aside, and why."""
        self._asked: date | None = None
        self._db = self._open()

    def _open(self) -> sqlite3.Connection:
        """Return a connection to the file. If it is damaged or of another version, it is first set aside, and an empty
        one is created."""
        db, why = sql.open_or_begin_anew(self.path, lambda: _connect(self.path))
        if why is not None:
            self._note_new_file(why)
        return db

    def _note_new_file(self, why: str) -> None:
        """Add a notice that the file was replaced by an empty one. `why`: the reason."""
        self.notices.append(f"{self.path} was begun anew: {why}")
        log.warning("%s", self.notices[-1])

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Context manager: yield the database for one transaction. It is committed at the end of the block, or rolled
        back if the block raises.

        Raises NotReady if the file was damaged, and NoRoom if its disk is full. A damaged file is set aside, and the next
        call uses a new one.
        """
        with self._lock:
            try:
                with self._db as db:
                    yield db
            except sqlite3.DatabaseError as error:
                fault = fault_of(error)
                if fault is DatabaseFault.NO_ROOM:
                    raise sql.no_room(self.path, error) from error
                if fault is not DatabaseFault.DAMAGED:
                    raise
                self._db.close()
                self._note_new_file(f"SQLite cannot read it ({error}){sql.set_aside(self.path)}")
                self._db = self._open()
                raise NotReady(self.notices[-1], hint="ask again") from error

    @contextlib.contextmanager
    def telemetry(self) -> Iterator[sqlite3.Connection]:
        """Context manager: yield the database as `transaction` does. If something cannot be recorded, this is only
        logged, because no answer depends on it."""
        try:
            with self.transaction() as db:
                yield db
        except (OrmahError, OSError, sqlite3.Error) as error:
            log.warning("not recorded: %s", error)

    def touch(self, node_ids: Sequence[str], *, how: str, session_id: str | None, at: datetime | None = None) -> None:
        """Record that these nodes were used, at the time `at` (None: now). `how`: recall, whisper, get or feedback. A
        job adds these uses to the vault's strength later."""
        now = (at or self.clock()).isoformat()
        with self.telemetry() as db:
            rows = [(node_id, now, how, session_id) for node_id in node_ids]
            sql.put(db, "INSERT INTO access (node_id, time, how, session_id)", rows)

    def glance(self, node_ids: Sequence[str], *, how: str, session_id: str | None, at: datetime) -> None:
        """Record that a recall found these nodes, or that they were whispered. `how`: recall or whisper. Only one such
        use of a node is recorded per day and session."""
        with self.telemetry() as db:
            same = "how = ? AND session_id IS ? AND substr(time, 1, 10) = ?"
            select = f"SELECT node_id FROM access WHERE node_id IN ({sql.marks(node_ids)}) AND {same}"  # noqa: S608 - marks
            found = db.execute(select, (*node_ids, how, session_id, at.date().isoformat()))
            known = {node_id for (node_id,) in found}
            rows = [(node_id, at.isoformat(), how, session_id) for node_id in node_ids if node_id not in known]
            sql.put(db, "INSERT INTO access (node_id, time, how, session_id)", rows)

    def asked(self, at: datetime) -> None:
        """Record that there was a request on the day of `at`."""
        day = at.astimezone(UTC).date()
        if day != self._asked:  # write once a day
            with self.telemetry() as db:
                db.execute("INSERT OR IGNORE INTO active_day (day) VALUES (?)", (day.isoformat(),))
            self._asked = day

    def active_days(self) -> set[date]:
        """Return the days on which there was a request on this machine."""
        with self.transaction() as db:
            return {date.fromisoformat(day) for (day,) in db.execute("SELECT day FROM active_day")}

    def accesses(self) -> list[tuple[int, str, str, str]]:
        """Return the uses that the vault does not have yet, oldest first, as (number of the use, node id, ISO time,
        how). `how` is recall, whisper, get or feedback."""
        with self.transaction() as db:
            return list(db.execute("SELECT id, node_id, time, how FROM access ORDER BY id"))

    def begin_folding(self, upto: int, run: str) -> None:
        """Record, before the commit, that a run adds to the vault the uses up to and including number `upto`."""
        with self.transaction() as db:
            db.execute("UPDATE access SET run = ? WHERE id <= ?", (run, upto))

    def unfinished_foldings(self) -> list[str]:
        """Return the runs that began to add uses to the vault and never ended, because the daemon was killed."""
        with self.transaction() as db:
            return [row[0] for row in db.execute("SELECT DISTINCT run FROM access WHERE run IS NOT NULL")]

    def end_folding(self, run: str, *, held: bool = True) -> None:
        """Record the end of a run that adds uses to the vault. `held`: whether the vault now has these uses. If so,
        they are deleted from the state; otherwise the next run adds them."""
        done = "DELETE FROM access WHERE run = ?" if held else "UPDATE access SET run = NULL WHERE run = ?"
        with self.transaction() as db:
            db.execute(done, (run,))

    def answer(self, request_id: str) -> tuple[str, str, bytes | None] | None:
        """Return what is stored of a request, as (method, digest of its parameters, reply); None if the request is new.
        The reply is None if the request failed, or if the daemon was killed before it replied."""
        with self.transaction() as db:
            row = db.execute("SELECT method, params, reply FROM answer WHERE request_id = ?", (request_id,)).fetchone()
        return None if row is None else (row[0], row[1], row[2])

    def answered(self, request_id: str, method: str, params: str, reply: bytes | None) -> None:
        """Store the reply to a request; None as the reply when the request begins."""
        with self.telemetry() as db:
            db.execute(
                "INSERT OR REPLACE INTO answer (request_id, method, params, time, reply) VALUES (?, ?, ?, ?, ?)",
                (request_id, method, params, self.clock().isoformat(), reply),
            )
            db.execute(
                "DELETE FROM answer WHERE time < (SELECT time FROM answer ORDER BY time DESC LIMIT 1 OFFSET ?)",
                (KEPT_ANSWERS,),
            )

    def scour(self, wanted: Forgotten, *, change: bool) -> int:
        """Delete every row that holds what is `wanted`, in any table, and return the number of rows. With `change`
        False, only count them.

        The file is then rewritten, so that no freed page holds the deleted data.
        """
        count = 0
        with self.transaction() as db:
            names = [row[0] for row in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
            for table in names:
                # (name, whether it is part of the primary key) of each column
                columns = [(row[1], row[5]) for row in db.execute(f'PRAGMA table_info("{table}")')]
                keys = [name for name, key in columns if key]
                for row in db.execute(f'SELECT * FROM "{table}"').fetchall():  # noqa: S608 - names of our own schema
                    texts = (
                        value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value for value in row
                    )
                    if any(wanted.holds(text) for text in texts if isinstance(text, bytes)):
                        count += 1
                        if not change:
                            continue
                        named = {name: value for (name, _), value in zip(columns, row, strict=True) if name in keys}
                        where = " AND ".join(f'"{name}" = ?' for name in named)
                        db.execute(f'DELETE FROM "{table}" WHERE {where}', tuple(named.values()))  # noqa: S608
        if change:
            self.wipe()
            own_files.remove(own_files.aside(self.path))
        return count

    def wipe(self) -> None:
        """Rewrite the file, so that no freed page still has deleted data."""
        with self._lock:
            self._db.execute("VACUUM")
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._db.close()


def _connect(path: Path) -> sqlite3.Connection:
    """Return a connection to the file, which is created if it does not exist. Raises sqlite3.DatabaseError if it is
    damaged or of another version."""
    os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600))
    db = sqlite3.connect(path, check_same_thread=False, timeout=10)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA foreign_keys = ON")
        (found,) = db.execute("PRAGMA user_version").fetchone()
        if not found:
            schema = (importlib.resources.files("ormahd.state") / "schema.sql").read_text("utf-8")
            db.executescript(f"BEGIN IMMEDIATE;{schema}PRAGMA user_version = {VERSION};COMMIT;")
        elif found != VERSION:
            raise sqlite3.DatabaseError(f"malformed: it has format {found}, this version reads {VERSION}")
        (line,) = db.execute("PRAGMA quick_check(1)").fetchone()
        if line != "ok":
            raise sqlite3.DatabaseError(f"malformed: {line}")
    except BaseException:
        db.close()
        raise
    return db
