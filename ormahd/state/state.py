"""`state.sqlite3`: uses not yet folded in, answers to requests that have an id, whispers, sessions and jobs.

It holds telemetry of recent days, and no memories. A damaged file is set aside and replaced by an empty one. While the
disk is full or read-only, a copy in memory is used. A file of an older version is migrated when it is opened.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime
from pathlib import Path

from ormahd.errors import BegunAnew
from ormahd.process import own_files, sql
from ormahd.process import sql as sqlite_files
from ormahd.process.sql import DatabaseFault, fault_of, identity

_FIRST = """
CREATE TABLE access (
    id INTEGER PRIMARY KEY,
    node_id TEXT NOT NULL,
    time TEXT NOT NULL,
    how TEXT NOT NULL,          -- recall, whisper, get, feedback
    session_id TEXT
);
CREATE INDEX access_node ON access (node_id);
CREATE TABLE answer (
    request_id TEXT PRIMARY KEY,
    method TEXT NOT NULL,
    params TEXT NOT NULL,       -- digest of the parameters: the same id for another wish is an error
    time TEXT NOT NULL,
    reply BLOB NOT NULL
) WITHOUT ROWID;
"""

_WHISPER = """
CREATE TABLE whisper_event (    -- one row a prompt, silent ones too
    event TEXT PRIMARY KEY,
    time TEXT NOT NULL,
    session_id TEXT,
    agent TEXT NOT NULL,
    space TEXT,
    outcome TEXT NOT NULL,      -- injected, or the silence's reason
    milliseconds REAL NOT NULL,
    prompt TEXT NOT NULL,       -- redacted
    vector BLOB,                -- float32, unit
    model TEXT
) WITHOUT ROWID;
CREATE INDEX whisper_event_time ON whisper_event (time);
CREATE TABLE whisper_log (      -- its candidates, injected or held back
    id INTEGER PRIMARY KEY,
    event TEXT NOT NULL REFERENCES whisper_event (event) ON DELETE CASCADE,
    node_id TEXT NOT NULL,
    relevance REAL NOT NULL,    -- before feedback's boost
    boosted REAL NOT NULL,
    was_injected INTEGER NOT NULL,
    shown TEXT                  -- full, title, preference, exploring; null: held back
);
CREATE INDEX whisper_log_node ON whisper_log (node_id, id);
CREATE INDEX whisper_log_event ON whisper_log (event);
CREATE TABLE review_log (
    id INTEGER PRIMARY KEY,
    node_id TEXT NOT NULL,
    event TEXT NOT NULL,        -- the earlier whisper in which it was held back
    surfaced_in TEXT NOT NULL,  -- the whisper that asked
    time TEXT NOT NULL,
    answered TEXT               -- when, or null
);
CREATE INDEX review_log_node ON review_log (node_id);
CREATE TABLE session (
    session_id TEXT PRIMARY KEY,
    prompts INTEGER NOT NULL,
    last TEXT NOT NULL,
    holds TEXT NOT NULL         -- JSON: {node id: how its context holds it}
) WITHOUT ROWID;
CREATE TABLE session_prompt (
    id INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL REFERENCES session (session_id) ON DELETE CASCADE,
    time TEXT NOT NULL,
    prompt TEXT NOT NULL,       -- redacted
    vector BLOB,
    model TEXT,
    answered INTEGER NOT NULL
);
CREATE INDEX session_prompt_session ON session_prompt (session_id, id);
"""

_JUDGED = """
ALTER TABLE whisper_log ADD COLUMN used INTEGER NOT NULL DEFAULT 0;  -- a judgement said it was of use: counted once
-- what the review loop asks, without reading prompts and vectors: a week of 3,000 prompts takes 9 ms instead of 30
DROP INDEX whisper_log_event;
CREATE INDEX whisper_log_event ON whisper_log (event, node_id, shown, relevance);
DROP INDEX whisper_event_time;
CREATE INDEX whisper_event_time ON whisper_event (time, space);
"""

_JOBS = """
CREATE TABLE job_run (
    run TEXT NOT NULL,
    job TEXT NOT NULL,
    begun TEXT NOT NULL,
    ended TEXT,                 -- null: under way, or the daemon ended meanwhile
    error TEXT,
    proposals INTEGER NOT NULL DEFAULT 0,
    applied INTEGER NOT NULL DEFAULT 0,
    skipped INTEGER NOT NULL DEFAULT 0,
    commits TEXT NOT NULL DEFAULT '[]',
    milliseconds REAL,
    PRIMARY KEY (run, job)
) WITHOUT ROWID;
CREATE INDEX job_run_job ON job_run (job, begun);
CREATE TABLE job_pause (
    job TEXT PRIMARY KEY,
    since TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE verdict (
    question TEXT NOT NULL,
    texts TEXT NOT NULL,        -- sha256 of each text, sorted
    verdict TEXT NOT NULL,      -- JSON
    time TEXT NOT NULL,
    PRIMARY KEY (question, texts)
) WITHOUT ROWID;
CREATE TABLE looked (
    job TEXT NOT NULL,
    node_id TEXT NOT NULL,
    text TEXT NOT NULL,         -- sha256 of the text that was looked at
    PRIMARY KEY (job, node_id)
) WITHOUT ROWID;
CREATE TABLE proposal (
    id TEXT PRIMARY KEY,
    type TEXT NOT NULL,         -- merge, conflict, decay
    status TEXT NOT NULL,       -- pending, approved, rejected, stale
    key TEXT NOT NULL UNIQUE,   -- type, nodes and texts: the same thing is never proposed twice
    source_nodes TEXT NOT NULL, -- JSON list of ids
    proposed_action TEXT NOT NULL,
    reason TEXT NOT NULL,
    preview TEXT NOT NULL,
    evidence TEXT NOT NULL,     -- JSON
    payload TEXT NOT NULL,      -- JSON, for the job that applies it
    based_on TEXT NOT NULL,     -- JSON {id: sha256 of the note}
    run TEXT NOT NULL,
    created TEXT NOT NULL,
    resolved TEXT,
    op TEXT                     -- of the commit that came of it
) WITHOUT ROWID;
CREATE INDEX proposal_status ON proposal (status, created);
CREATE TABLE receipt (          -- two-phase maintenance: what was handed out
    id TEXT PRIMARY KEY,
    time TEXT NOT NULL,
    expires TEXT NOT NULL,
    issued TEXT NOT NULL,       -- JSON: which ids, in which batch, with the sha256 of their texts
    settled TEXT                -- when the results came
) WITHOUT ROWID;
"""

_FOLDING = """
ALTER TABLE access ADD COLUMN run TEXT;  -- the run whose commit is to hold it: after a crash that commit says whether it does
"""

_ACTIVE = """
CREATE TABLE active_day (       -- on which something was asked; a job folds them into the vault
    day TEXT PRIMARY KEY        -- ISO date, UTC
) WITHOUT ROWID;
INSERT INTO active_day SELECT substr(time, 1, 10) FROM whisper_event UNION SELECT substr(time, 1, 10) FROM access;
"""

_PLACES = """
CREATE TABLE session_place (    -- where each session began
    session_id TEXT PRIMARY KEY,
    folder TEXT NOT NULL,
    time TEXT NOT NULL
) WITHOUT ROWID;
"""

_JUDGE = """
CREATE TABLE judge_day (        -- what the judge cost
    day TEXT PRIMARY KEY,       -- ISO date, UTC
    calls INTEGER NOT NULL,
    tokens INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE judge_trouble (    -- what is wrong with it
    kind TEXT PRIMARY KEY,      -- down, rude, slow, budget
    since TEXT NOT NULL,
    last TEXT NOT NULL,
    reason TEXT NOT NULL,
    times INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE judge_open (       -- questions that it left open when it was last asked
    key TEXT PRIMARY KEY,       -- sha256 of the question
    task TEXT NOT NULL,
    since TEXT NOT NULL,
    last TEXT NOT NULL,
    reason TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE judge_mark (
    name TEXT PRIMARY KEY,      -- who: what it is; answered: when it last gave a usable answer
    value TEXT NOT NULL
) WITHOUT ROWID;
"""

_SOURCES = """
CREATE TABLE source_day (       -- what came from a kind of source on a day
    source TEXT NOT NULL,       -- hook, watcher, backfill, ingest, folder
    day TEXT NOT NULL,          -- ISO date, UTC
    what TEXT NOT NULL,         -- sessions, turns, memories, failed, refused: REASON
    number INTEGER NOT NULL,
    PRIMARY KEY (source, day, what)
) WITHOUT ROWID;
CREATE TABLE source_mark (      -- what holds for a source now
    source TEXT NOT NULL,
    name TEXT NOT NULL,         -- last; trouble: PATH; for a backfill its progress
    value TEXT NOT NULL,
    time TEXT NOT NULL,
    PRIMARY KEY (source, name)
) WITHOUT ROWID;
CREATE TABLE unknown_kind (     -- kinds of lines of transcripts that no reader knows
    format TEXT NOT NULL,
    kind TEXT NOT NULL,
    number INTEGER NOT NULL,
    last TEXT NOT NULL,
    PRIMARY KEY (format, kind)
) WITHOUT ROWID;
"""

_EXTRACTION = """
CREATE TABLE extraction (       -- how far each session was read for memories
    session TEXT NOT NULL,      -- its file in the archive
    way TEXT NOT NULL,          -- rules, model
    until TEXT NOT NULL,        -- JSON: keys of the last turns that were read, the last one first
    time TEXT NOT NULL,
    tries INTEGER NOT NULL,     -- failures in a row
    error TEXT,                 -- why the last try failed
    plan TEXT,                  -- JSON: memories that were decided on, until their commit is known
    PRIMARY KEY (session, way)
) WITHOUT ROWID;
CREATE TABLE extraction_count ( -- memories made, and candidates refused, by month and source
    month TEXT NOT NULL,
    source TEXT NOT NULL,       -- harness
    what TEXT NOT NULL,         -- made, or why refused
    number INTEGER NOT NULL,
    PRIMARY KEY (month, source, what)
) WITHOUT ROWID;
CREATE TABLE extracted (        -- memories that were made: of one that is gone without an op of ours a tombstone is written
    node_id TEXT PRIMARY KEY,
    turn TEXT NOT NULL          -- the key of the turn that said it
) WITHOUT ROWID;
"""

_WAYS_IN = """
CREATE TABLE session_source (   -- by which source an archived session last grew, which its memories are counted for
    session TEXT PRIMARY KEY,   -- its file in the archive
    source TEXT NOT NULL        -- hook, watcher, backfill, ingest
) WITHOUT ROWID;
"""

_STEPS = (_FIRST, _WHISPER, _JUDGED, _JOBS, _FOLDING, _ACTIVE, _PLACES, _JUDGE, _SOURCES, _EXTRACTION, _WAYS_IN)
VERSION = len(_STEPS)


def bring_up(db: sqlite3.Connection) -> int:
    """Migrate the database to `VERSION` in one transaction; a newer database is left unchanged. Return the version
    that it had before."""
    (found,) = db.execute("PRAGMA user_version").fetchone()
    if found < VERSION:
        steps = "".join(_STEPS[found:])
        db.executescript(f"BEGIN IMMEDIATE;{steps}PRAGMA user_version = {VERSION};COMMIT;")
    return int(found)


log = logging.getLogger("ormah")


class StateFile:
    """Opens, repairs and replaces the database file, and holds its connection. The caller holds the lock of
    `State`."""

    def __init__(self, path: Path, told: Callable[[str], None]) -> None:
        """`told` is called with a sentence for the person whenever the file could not be used or was set aside."""
        self.path = path
        self._told = told
        self._identity: tuple[int, int] | None = None
        self.trouble: str | None = None
        """Why the state is kept in memory only; None if it is in the file."""
        self.db = self._open()

    def _open(self) -> sqlite3.Connection:
        for _ in range(2):
            try:
                for sentence in sqlite_files.clear(self.path):
                    self._told(sentence)
                db = _connect(self.path)
                self._identity, self.trouble = identity(self.path), None
                return db
            except (sqlite3.DatabaseError, _OtherVersion) as error:
                if isinstance(error, sqlite3.DatabaseError) and fault_of(error) is not DatabaseFault.DAMAGED:
                    return self._in_memory(str(error))
                if not self._set_aside(str(error)):
                    break
            except OSError as error:
                return self._in_memory(error.strerror or str(error))
        return self._in_memory("it can neither be used nor be set aside")

    def _set_aside(self, why: str) -> bool:
        try:
            aside = own_files.set_aside(self.path)
            sqlite_files.drop_log(self.path)
        except OSError as error:
            self._told(f"{self.path} could not be used ({why}), nor set aside: {error.strerror}")
            return False
        self._told(f"{self.path} could not be used ({why}); it was set aside as {aside.name} and begun anew")
        return True

    def _in_memory(self, why: str, kept: sqlite3.Connection | None = None) -> sqlite3.Connection:
        """Return a database in RAM: a copy of `kept` if given, else of the file, or empty if the file cannot be
        read."""
        if self.trouble is None:
            log.warning("%s cannot be written (%s); what happens is kept in memory until it can", self.path, why)
        self.trouble = why
        db = sqlite3.connect(":memory:", check_same_thread=False)
        try:
            with contextlib.closing(kept or self._alone()) as source:
                source.backup(db)
            bring_up(db)
        except (OSError, sqlite3.Error):
            db.close()
            db = sqlite3.connect(":memory:", check_same_thread=False)
            bring_up(db)
        db.execute("PRAGMA foreign_keys = ON")
        return db

    def _alone(self) -> sqlite3.Connection:
        """Open the file in exclusive locking mode, which needs no shared-memory file beside it: a full disk has no room
        for one."""
        if own_files.kind(self.path) != "a file":
            raise FileNotFoundError(self.path)
        db = sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=rw", uri=True, timeout=1)
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        return db

    def mend(self, error: sqlite3.DatabaseError) -> bool:
        """If this error of SQLite comes from the database file (damaged, or no room), replace the file by a new one
        or by a copy in RAM, and return True: the caller must then repeat its transaction. Otherwise, or if the
        database is in RAM already, return False."""
        fault = fault_of(error)
        if fault is DatabaseFault.OTHER or self.trouble is not None:
            return False
        with contextlib.suppress(sqlite3.Error):
            self.db.rollback()
        if fault is DatabaseFault.NO_ROOM:
            self.db = self._in_memory(str(error), self.db)
            return True
        self._close()
        if own_files.kind(self.path) is None or self._set_aside(str(error)):
            self.db = self._open()
        else:
            self.db = self._in_memory(str(error))
        return True

    def look(self) -> None:
        """Check that the database file is in its place. Write it again if it was removed or replaced, or if it could
        not be written before."""
        if self.trouble is None and identity(self.path) == self._identity:
            return
        new = self.path.with_name(self.path.name + ".new")
        try:
            for sentence in (own_files.make_way_for_folder(self.path.parent), own_files.make_way(self.path)):
                if sentence is not None:
                    self._told(sentence)
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            for file in sqlite_files.files(new):
                own_files.remove(file)
            os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
            with contextlib.closing(sqlite3.connect(new)) as target:
                self.db.backup(target)
            if self.trouble is None and own_files.kind(self.path) is not None:
                self._told(
                    f"{self.path} was replaced while it was in use; it was set aside as {own_files.set_aside(self.path).name}"
                )
            sqlite_files.drop_log(self.path)
            new.replace(self.path)
            db = _connect(self.path)
        except (OSError, sqlite3.Error) as error:
            with contextlib.suppress(OSError):
                own_files.remove(new)
            log.debug("%s cannot be written yet: %s", self.path, error)
            return
        if self.trouble is not None:
            log.info("%s is written again: %s is over", self.path, self.trouble)
        else:
            log.warning("%s had gone; what was known is written there anew", self.path)
        self._close()
        self.db, self._identity, self.trouble = db, identity(self.path), None

    def close(self) -> None:
        self._close()

    def _close(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            self.db.close()


class _OtherVersion(Exception):
    pass


def _connect(path: Path) -> sqlite3.Connection:
    fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    os.close(fd)
    db = sqlite3.connect(path, check_same_thread=False, timeout=10)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA foreign_keys = ON")
        found = bring_up(db)
        if found > VERSION:
            raise _OtherVersion(f"it has format {found}, this version reads {VERSION}")
        for (line,) in db.execute("PRAGMA quick_check(1)").fetchall():
            if line != "ok":
                raise sqlite3.DatabaseError(f"malformed: {line}")
    except BaseException:
        db.close()
        raise
    return db


KEPT_ANSWERS = 10_000
"""Number of answers that are kept for clients that repeat a request; a client retries within seconds."""


class State:
    """The state database of one vault: threads share one connection, guarded by a lock. Transactions are short."""

    def __init__(self, directory: Path, *, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self.path = directory / "state.sqlite3"
        self.notices: list[str] = []
        """Sentences for the person: which files were set aside, and why nothing can be written."""
        self._asked: date | None = None
        self._file = StateFile(self.path, self.notices.append)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Context manager: yield the database for one transaction. It is committed at the end of the block, or rolled
        back if the block raises.

        Raises BegunAnew if the file was damaged or can no longer be written. The next call then uses the replacement.
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
        """Why the state is kept in RAM only; None if it is in the file."""
        return self._file.trouble

    @property
    def trouble_said(self) -> str | None:
        """Return `trouble` as a sentence for the person; None if there is none."""
        why = self.trouble
        return why and f"{self.path} cannot be written ({why}); what happens is kept in memory until it can"

    def look(self) -> None:
        """Check that the database file is in its place. Write it again if it was removed or could not be written."""
        with self._lock:
            self._file.look()

    @property
    def clock(self) -> Callable[[], datetime]:
        return self._clock

    def touch(self, node_ids: Sequence[str], *, how: str, session_id: str | None, at: datetime | None = None) -> None:
        """Record that these nodes were used. `how`: recall, whisper, get or feedback; `at`: default now. A job later
        folds these uses in."""
        now = (at or self._clock()).isoformat()
        with self.transaction() as db:
            rows = [(node_id, now, how, session_id) for node_id in node_ids]
            sql.put(db, "INSERT INTO access (node_id, time, how, session_id)", rows)

    def glance(self, node_ids: Sequence[str], *, how: str, session_id: str | None, at: datetime) -> None:
        """Record that these nodes were used weakly. At most one such use of a node counts per day and session."""
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
        """Record that there was a request on the day of `at`."""
        day = at.astimezone(UTC).date()
        if day != self._asked:  # write once a day
            with self.transaction() as db:
                db.execute("INSERT OR IGNORE INTO active_day (day) VALUES (?)", (day.isoformat(),))
            self._asked = day

    def active_days(self) -> set[date]:
        """Return the days on which there was a request on this machine."""
        with self.transaction() as db:
            return {date.fromisoformat(day) for (day,) in db.execute("SELECT day FROM active_day")}

    def accesses(self) -> list[tuple[int, str, str, str]]:
        """Return the uses not yet folded in, oldest first, as (number of the use, node id, ISO time, how). `how` is
        recall, whisper, get or feedback."""
        with self.transaction() as db:
            return list(db.execute("SELECT id, node_id, time, how FROM access ORDER BY id"))

    def folding(self, upto: int, run: str) -> None:
        """Record that this run is about to fold in the uses up to and including number `upto`, before the commit."""
        with self.transaction() as db:
            db.execute("UPDATE access SET run = ? WHERE id <= ?", (run, upto))

    def half_folded(self) -> list[str]:
        """Return the runs that began to fold uses in and never ended, because the daemon was killed."""
        with self.transaction() as db:
            return [row[0] for row in db.execute("SELECT DISTINCT run FROM access WHERE run IS NOT NULL")]

    def folded(self, run: str, *, held: bool = True) -> None:
        """Record the end of a run that folds uses in. `held`: whether the vault now has these uses. If so, they are
        deleted from the state, else the next run folds them in."""
        done = "DELETE FROM access WHERE run = ?" if held else "UPDATE access SET run = NULL WHERE run = ?"
        with self.transaction() as db:
            db.execute(done, (run,))

    def answer(self, request_id: str) -> tuple[str, str, bytes] | None:
        """Return the stored answer to a request: (method, digest of its parameters, reply); None if there is none."""
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
        """Delete every row of any table that has a value for which `holds` is true. Rewrite the file, so that no
        freed page still has such a value.

        Return the number of rows deleted.
        """
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
        self.wipe()
        for aside in own_files.asides(self.path.parent):
            own_files.remove(aside)
        return gone

    def wipe(self) -> None:
        """Rewrite the file, so that no freed page still has deleted data."""
        with self._lock:
            self._file.db.execute("VACUUM")
            self._file.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        with self._lock:
            self._file.close()


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")
