"""The index's SQLite file: one writer connection and a bounded pool of readers, each on a snapshot of its own.

Write-ahead logging lets readers continue while a batch is written. With `synchronous=NORMAL` a power cut may lose the
last commits; the next scan of the vault brings them back, because `Index.known_files` then lacks those files.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.resources
import os
import queue
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from ormahd.errors import NotReady, Unavailable
from ormahd.process import own_files, sql
from ormahd.process.sql import DatabaseFault, fault_of
from ormahd.text.words import FTS_TOKENIZE

SCHEMA_VERSION = 1
"""Number of the table layout. A file with another number is set aside, and the index is filled again from the vault."""
READERS = 8
"""Maximum number of reader connections. A further reader waits until one is free."""
READER_KB = 1000
"""Page cache of a reader, in KB. A larger one does not make searches faster, and while a question about an earlier
state of the vault is answered (`as_of`), there are two sets of readers."""
WRITER_KB = 8000
"""Page cache of the writer, in KB: large enough that a batch of thousands of rows is written once."""
PASSING_KB = 250
"""Page cache of each connection to a temporary copy of the index (see `snapshots`), in KB."""
STATEMENTS, PASSING_STATEMENTS = 100, 16
"""Number of prepared statements that a connection caches: `STATEMENTS` for the index, `PASSING_STATEMENTS` for a
temporary copy of it. Each statement takes about 13 KB."""
LOG_PAGES = 2000
"""Size of the write-ahead log, in pages of 4 KB, at which SQLite checkpoints it into the file."""
_READ_WAIT_S = 30.0
_READS_NOTES = ("",)
_READS_TEXT = ("bearing", "forms", "language", "quoting", "words")
_MAKES_ROWS = ("history", "links", "rows", "words", "write")
OF_FILES = ("file", "text", "node", "tag", "name", "edge", "words_term", "words")
"""Tables that are filled from the vault's files."""
OF_HISTORY = ("op", "op_file", "undoes")
"""Tables that are filled from git's history."""
SCRATCH = "scratch"
"""Name of the folder, below the index's directory, for databases that answer one question."""
CHECKED = 64_000_000
"""Largest size in bytes of a file that `check` reads: a fraction of a second."""
ANEW = "it is made anew from the vault by itself, and nothing is lost: ask again in a moment"


class _Connections:
    """The connection for writing and those for reading, to one database file. `over` is True once `Database` uses other
    connections instead; a reader that is still in use is then closed when it is returned."""

    def __init__(self, writer: sqlite3.Connection) -> None:
        self.writer = writer
        self.idle: queue.LifoQueue[sqlite3.Connection] = queue.LifoQueue()
        self.readers = 0
        self.over = False


class Database:
    """Opens, reads, writes, checks and replaces the database `index.sqlite3` in `directory`. Thread-safe. A database
    file that is damaged or has another schema version is first set aside (renamed), and an empty one is created."""

    def __init__(self, directory: Path, *, durable: bool = True) -> None:
        """Open or create the database. `durable`: False for a temporary copy, whose writes are not synced to the
        disk.

        Raises Unavailable if no file can be used, and NoRoom if the disk is full.
        """
        self.directory = directory
        self._synchronous = "NORMAL" if durable else "OFF"
        self._reader_kb, self._statements = (READER_KB, STATEMENTS) if durable else (PASSING_KB, PASSING_STATEMENTS)
        self.path = directory / "index.sqlite3"
        self.dropped: str | None = None
        """Why the contents of the old index were dropped, for the log; None if they were not."""
        self.found_damaged: Callable[[str], None] = lambda _: None
        """Called with the reason when the file can no longer be used. The callback must have another thread call
        `begin_anew`, because the calling thread may hold any lock."""
        self._lock = threading.RLock()
        self._growing = threading.Lock()
        self._closed = False
        self._now = self._open_or_create()

    def _open_or_create(self) -> _Connections:
        """Set a damaged database file aside (rename it), and create the file if there is none. Return connections to
        it."""
        connection, why = sql.open_or_begin_anew(self.path, self._open)
        if why is not None:
            self.dropped = why
        return _Connections(connection)

    def begin_anew(self, why: str) -> None:
        """Set the database file aside (rename it) and create an empty one. `why`: the reason, for `dropped`. Reads
        that are in progress may fail. Raises Unavailable and NoRoom as the constructor does."""
        with self._lock, self._growing:
            if self._closed:
                return
            old = self._now
            with contextlib.suppress(sqlite3.Error):
                old.writer.close()
            with contextlib.suppress(OSError):  # `_open_or_create` says what is wrong with the folder
                self.dropped = why + sql.set_aside(self.path)
            self._now = self._open_or_create()
            old.over = True
            with contextlib.suppress(queue.Empty):
                while True:
                    old.idle.get_nowait().close()

    def check(self) -> str | None:
        """Return the first fault that SQLite's `quick_check` finds; None if there is none, or if the file is larger
        than `CHECKED`."""
        if self.bytes() > CHECKED:
            return None
        with self._translated_errors(), contextlib.closing(self._connect()) as connection:
            (line,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        return None if line == "ok" else str(line)

    def _open(self) -> sqlite3.Connection:
        """Return a connection for writing to the database file. A missing file is created; tables that another version
        of the program filled are emptied.

        Raises sqlite3.DatabaseError if the file is damaged or has another schema version.
        """
        # Only called while no connection is open: POSIX drops all locks that a process has on a file when it closes any
        # descriptor of it. Another program that opens and closes the database would then take itself for the last one,
        # and delete the log.
        if not self.path.exists():
            sql.drop_log(self.path)  # SQLite would apply it to the new database
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        connection = self._connect()
        try:
            found = connection.execute("PRAGMA user_version").fetchone()[0]
            if found not in {0, SCHEMA_VERSION}:
                raise sqlite3.DatabaseError(f"malformed: it has version {found}, this program writes {SCHEMA_VERSION}")
            if found == 0:
                connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA cache_size = -{WRITER_KB}")
            connection.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")
            if found == 0:
                _fill(connection)
            elif connection.execute("SELECT value FROM meta WHERE key = 'reading'").fetchone() != (reading(),):
                self.dropped = "the program reads notes differently now"
                _fill(connection, only=(*OF_FILES, *OF_HISTORY))
            connection.execute("SELECT count(*) FROM file").fetchone()
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect(self) -> sqlite3.Connection:
        """Return a new connection to the existing database file."""
        # `mode=rw`: a connection must not create the file again, empty, after it was deleted.
        connection = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?mode=rw",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=30.0,
            cached_statements=self._statements,
        )
        connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        connection.execute("PRAGMA temp_store = MEMORY")
        return connection

    @contextlib.contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """Context manager: yield the connection for writing, inside a transaction that is committed when the block
        ends and rolled back when the block raises."""
        with self._lock, self._translated_errors():
            self._require_open()
            writer = self._now.writer
            writer.execute("BEGIN IMMEDIATE")
            try:
                yield writer
                writer.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):  # SQLite may have rolled back on its own
                    writer.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """Context manager: yield a connection for reading, in a read transaction: all statements of the block see the
        same state of the database. Such blocks must not be nested."""
        with self.ask() as connection:
            try:
                connection.execute("BEGIN")
                yield connection
            finally:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")

    @contextlib.contextmanager
    def ask(self) -> Iterator[sqlite3.Connection]:
        """Context manager: yield a connection for reading, without a transaction. It is for a single statement whose
        rows are all fetched at once, because two statements might see different states of the database."""
        with self._translated_errors():
            now, connection = self._borrow()
            try:
                yield connection
            finally:
                if now.over:
                    connection.close()
                else:
                    now.idle.put(connection)

    def _borrow(self) -> tuple[_Connections, sqlite3.Connection]:
        """Return (the connections to which it belongs, a connection for reading). It is a free one, or a new one while
        there are fewer than `READERS`; else the caller waits for a free one.

        Raises Unavailable if none becomes free within `_READ_WAIT_S`.
        """
        self._require_open()
        now = self._now
        with contextlib.suppress(queue.Empty):
            return now, now.idle.get_nowait()
        with self._growing:
            now = self._now
            if now.readers < READERS:
                connection = self._connect()
                connection.execute("PRAGMA query_only = 1")
                connection.execute(f"PRAGMA cache_size = -{self._reader_kb}")
                now.readers += 1
                return now, connection
        try:
            return now, now.idle.get(timeout=_READ_WAIT_S)
        except queue.Empty:
            raise Unavailable(f"the index had no free reader for {_READ_WAIT_S:.0f} s", hint="try again") from None

    def _require_open(self) -> None:
        """Raise Unavailable if the database is closed."""
        if self._closed:
            raise Unavailable("the index is closed", hint="the daemon is stopping; try again when it runs")

    @contextlib.contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Context manager: turn SQLite's errors in the block into Ormah's. For a damaged file, call `found_damaged`
        and raise NotReady; for a full disk, raise NoRoom. Other errors are not changed."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            fault = fault_of(error)
            if fault is DatabaseFault.DAMAGED:
                self.found_damaged(f"SQLite cannot read it ({error})")
                raise NotReady(f"the index in {self.directory} is damaged ({error})", hint=ANEW) from error
            if fault is DatabaseFault.NO_ROOM:
                raise sql.no_room(self.path, error) from error
            raise

    def checkpoint(self) -> None:
        """Free unused pages, and copy the write-ahead log into the database file. Called when there is nothing else
        to do."""
        with self._lock, self._translated_errors():
            self._require_open()
            self._now.writer.execute("PRAGMA incremental_vacuum(2000)").fetchall()
            self._now.writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def free_memory(self) -> None:
        """Free the page caches of the connection for writing (up to `WRITER_KB`) and of each connection for reading
        that is not in use (up to `READER_KB`)."""
        with self._lock, self._translated_errors():
            self._require_open()
            now = self._now
            now.writer.execute("PRAGMA shrink_memory")
            idle = []
            with contextlib.suppress(queue.Empty):
                while True:
                    idle.append(now.idle.get_nowait())
            try:
                for connection in idle:
                    connection.execute("PRAGMA shrink_memory")
            finally:
                for connection in reversed(idle):
                    now.idle.put(connection)

    def copy(self, directory: Path) -> None:
        """Write a copy of the database as it is now into `directory`. Other threads can read and write the database
        meanwhile."""
        target = sqlite3.connect(directory / self.path.name, isolation_level=None)
        with contextlib.closing(target), self.read() as connection:
            target.execute("PRAGMA synchronous = OFF")
            connection.backup(target)

    @contextlib.contextmanager
    def beside(self) -> Iterator[sqlite3.Connection]:
        """Context manager: yield a connection, in a transaction, to empty tables `OF_FILES` in a new file that is deleted
        at the end. All tables of this database are readable in it as `indexed.TABLE`, as they are from the first time that
        one of them is read; those that are not in `OF_FILES` by their names alone, too."""
        with self._translated_errors(), scratch(self.directory) as directory:
            connection = sqlite3.connect(directory / "rebuilt.sqlite3", isolation_level=None)
            with contextlib.closing(connection):
                connection.execute("PRAGMA journal_mode = OFF")
                connection.execute("PRAGMA synchronous = OFF")
                connection.execute(f"PRAGMA cache_size = -{WRITER_KB}")
                _create(connection, OF_FILES)
                connection.execute("ATTACH ? AS indexed", (str(self.path),))
                connection.execute("BEGIN")
                yield connection

    def scour(self) -> None:
        """Rewrite the database file so that no page of it holds deleted data, empty the write-ahead log, and delete
        files that were set aside. Other threads can read meanwhile.

        Raises Unavailable if their reads prevent emptying the log for 30 seconds.
        """
        with self._lock, self._translated_errors():
            self._require_open()
            own_files.remove(own_files.aside(self.path))
            self._now.writer.execute("PRAGMA temp_store = FILE")  # VACUUM copies the whole file: not in memory
            self._now.writer.execute("VACUUM")
            self._now.writer.execute("PRAGMA temp_store = MEMORY")
            end = time.monotonic() + _READ_WAIT_S
            while self._now.writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                if time.monotonic() > end:
                    raise Unavailable("somebody reads the index for too long", hint="repeat when it is done")
                time.sleep(0.02)

    def bytes(self) -> int:
        """Return the size of the database file and its write-ahead log on the disk, in bytes."""
        total = 0
        for file in sql.files(self.path):
            with contextlib.suppress(OSError):
                total += file.lstat().st_size
        return total

    def close(self) -> None:
        """Close all connections, once readers have finished (at most 5 seconds each), and empty the write-ahead log."""
        with self._lock, self._growing:
            if self._closed:
                return
            self._closed = True
            for _ in range(self._now.readers):  # wait up to 5 s for each reader that is in use
                with contextlib.suppress(queue.Empty):
                    self._now.idle.get(timeout=5.0).close()
            with contextlib.suppress(sqlite3.Error):
                self._now.writer.execute("PRAGMA optimize")
                self._now.writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            self._now.writer.close()


def reading() -> str:
    """Return a hash of the schema and of the source code that reads notes. An index stores this hash; if it is
    another when the index is opened, all tables made from notes are emptied and filled again."""
    sha = hashlib.sha256(_schema().encode())
    sources = (
        ("ormahd.model", "node"),
        ("ormahd.note", _READS_NOTES),
        ("ormahd.text", _READS_TEXT),
        ("ormahd.index", _MAKES_ROWS),
    )
    for package, names in sources:
        for source in sorted(importlib.resources.files(package).iterdir(), key=lambda file: file.name):
            if source.name.endswith(".py") and source.name.startswith(names):
                sha.update(source.read_bytes())
    return sha.hexdigest()


def _schema() -> str:
    """Return the SQL statements that create the tables."""
    text = (importlib.resources.files("ormahd.index") / "schema.sql").read_text("utf-8")
    return text.replace("{tokenize}", FTS_TOKENIZE.replace('"', '""'))


def _fill(connection: sqlite3.Connection, only: Collection[str] = ()) -> None:
    """Create all tables; with `only` (names of tables), delete these tables and create them again."""
    connection.execute("BEGIN IMMEDIATE")
    for table in only:
        connection.execute(f"DROP TABLE IF EXISTS {table}")
    _create(connection, only)
    connection.execute("DELETE FROM meta WHERE key IN ('head', 'history')")
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('reading', ?)", (reading(),))
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    connection.execute("COMMIT")


def _create(connection: sqlite3.Connection, only: Collection[str] = ()) -> None:
    """Create all tables, with their indexes; with `only` (names of tables) only these."""
    statement = ""
    for line in _schema().splitlines():
        statement += line + "\n"
        if not sqlite3.complete_statement(statement):
            continue
        words = statement[statement.index("CREATE") :].split()
        table = words[words.index("ON") + 1] if "INDEX" in words[1:3] else words[words.index("TABLE") + 1]
        if not only or table in only:
            connection.execute(statement)
        statement = ""


@contextlib.contextmanager
def scratch(directory: Path) -> Iterator[Path]:
    """Context manager: yield a new folder below `directory`, which is deleted at the end."""
    (directory / SCRATCH).mkdir(mode=0o700, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory / SCRATCH, ignore_cleanup_errors=True) as folder:
        yield Path(folder)
