"""The SQLite file: one writer, a bounded pool of readers, each reader on a snapshot of its own.

Write-ahead logging lets readers go on while a batch is written. `synchronous=NORMAL`: a power cut may take the last
commits with it, and the next scan of the vault brings them back (`Index.known` no longer knows those files).
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.resources
import os
import queue
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from ormahd.core.sql import Snapshot
from ormahd.core.words import FTS_TOKENIZE
from ormahd.errors import Unavailable

SCHEMA_VERSION = 1
"""Another number in a file means another layout: the directory is dropped and filled again from the vault."""
READERS = 8
"""Connections that read at the same time. SQLite scales with cores; a ninth reader waits for a moment."""
READER_KB = 1000
"""What a reader remembers of the file, half of SQLite's default: with eight times that recall took as long at 10,000 notes (6.1 to 6.9 ms).
All that the connections remember grows with the file until it is full, and an index has two sets of them while `as_of` is asked."""
WRITER_KB = 8000
"""What the writer remembers, so that a batch of thousands of rows is written once."""
PASSING_KB = 250
"""What each connection remembers of a copy that is made for a while: there is one beside the index nearly always where `as_of` is asked."""
STATEMENTS, PASSING_STATEMENTS = 100, 16
"""Prepared statements that a connection keeps, 13 KB each; the same of a copy."""
LOG_PAGES = 2000
"""Pages of 4 KB in the log from which on it is folded into the file, and both are flushed. A batch of eleven memories writes 70 or more, many
of them the same as the batch before."""
_READ_WAIT_S = 30.0
_READS_NOTES = ("note", "frontmatter", "markdown", "naming", "words")
_MAKES_ROWS = ("text", "links", "write")
_DERIVED = ("file", "text", "node", "tag", "name", "edge", "words_instance", "words")
"""Tables that are read from the notes; embeddings are not among them."""


class Database:
    """Connections to `index.sqlite3` in `directory`; a file that is damaged or of another version is dropped first."""

    def __init__(self, directory: Path, *, durable: bool = True) -> None:
        """`durable` False: nobody minds when a power cut takes the file (a copy that is made for a while)."""
        self.directory = directory
        self._synchronous = "NORMAL" if durable else "OFF"
        self._reader_kb, self._statements = (READER_KB, STATEMENTS) if durable else (PASSING_KB, PASSING_STATEMENTS)
        self.path = directory / "index.sqlite3"
        self.dropped: str | None = None
        """Why the old index was dropped when this one was opened, for the log."""
        self._mark = directory / "damaged"
        self._lock = threading.RLock()
        self._idle: queue.LifoQueue[sqlite3.Connection] = queue.LifoQueue()
        self._readers: list[sqlite3.Connection] = []
        self._growing = threading.Lock()
        self._closed = False
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._mark.exists():
            self._drop("it was found damaged")
        try:
            self._writer = self._open()
        except sqlite3.DatabaseError as error:
            self._drop(f"SQLite cannot read it ({error})")
            self._writer = self._open()

    def _open(self) -> sqlite3.Connection:
        # Only where no connection is open yet: POSIX drops all locks that a process has on a file when it closes any
        # descriptor of it, and whoever else then opens and closes the database (a shell, a backup) takes itself for the
        # last one and deletes the log under our feet.
        if not self.path.exists():
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        connection = self._connect()
        try:
            found = connection.execute("PRAGMA user_version").fetchone()[0]
            if found not in {0, SCHEMA_VERSION}:
                connection.close()
                self._drop(f"it has version {found}, this program writes {SCHEMA_VERSION}")
                return self._open()
            if found == 0:
                connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA cache_size = -{WRITER_KB}")
            connection.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")
            if found == 0:
                _create(connection)
            elif _meta(connection, "reading") != reading():
                self.dropped = "the program reads notes differently now"
                _create(connection, only=_DERIVED)
            connection.execute("SELECT count(*) FROM file").fetchone()
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, isolation_level=None, check_same_thread=False, timeout=30.0, cached_statements=self._statements
        )
        connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        connection.execute("PRAGMA temp_store = MEMORY")
        return connection

    def _drop(self, why: str) -> None:
        self.dropped = why
        for child in self.directory.iterdir():
            if child.is_dir() and not child.is_symlink():
                shutil.rmtree(child)
            else:
                child.unlink()

    @contextlib.contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """The writer inside a transaction: committed when the block ends, rolled back when it raises."""
        with self._lock, self._named():
            self._check()
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
                self._writer.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):  # SQLite may have rolled back on its own
                    self._writer.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A reader on one snapshot, for the length of the block. Blocks must not be nested."""
        with self.ask() as connection:
            try:
                connection.execute("BEGIN")
                yield connection
            finally:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")

    @contextlib.contextmanager
    def ask(self) -> Iterator[sqlite3.Connection]:
        """A reader for one statement whose rows are all fetched at once, which is a snapshot in itself."""
        with self._named():
            connection = self._borrow()
            try:
                yield connection
            finally:
                self._idle.put(connection)

    @contextlib.contextmanager
    def read_if_needed(self) -> Iterator[Snapshot]:
        """`read` from the moment on when what is yielded is first called, if ever."""
        with contextlib.ExitStack() as stack:
            yield functools.cache(lambda: stack.enter_context(self.read()))

    def _borrow(self) -> sqlite3.Connection:
        self._check()
        with contextlib.suppress(queue.Empty):
            return self._idle.get_nowait()
        with self._growing:
            if len(self._readers) < READERS:
                connection = self._connect()
                connection.execute("PRAGMA query_only = 1")
                connection.execute(f"PRAGMA cache_size = -{self._reader_kb}")
                self._readers.append(connection)
                return connection
        try:
            return self._idle.get(timeout=_READ_WAIT_S)
        except queue.Empty:
            raise Unavailable(f"the index had no free reader for {_READ_WAIT_S:.0f} s", hint="try again") from None

    def _check(self) -> None:
        if self._closed:
            raise Unavailable("the index is closed", hint="the daemon is stopping; try again when it runs")

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """A damaged file is marked, so that the next start drops it, and the error says what happened."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            if "malformed" not in str(error) and "not a database" not in str(error):
                raise
            self._mark.touch(mode=0o600)
            raise Unavailable(
                f"the index in {self.directory} is damaged ({error})",
                hint="restart the daemon: the index is dropped and filled again from the vault",
            ) from error

    def checkpoint(self) -> None:
        """Give back what was freed and fold the log into the file; called when there is nothing else to do."""
        with self._lock:
            self._check()
            self._writer.execute("PRAGMA incremental_vacuum(2000)").fetchall()
            self._writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def give_back(self) -> None:
        """Return what the connections that nobody uses remember of the file: up to `WRITER_KB` of the writer, `READER_KB` of each reader."""
        with self._lock:
            self._check()
            self._writer.execute("PRAGMA shrink_memory")
        idle = []
        with contextlib.suppress(queue.Empty):
            while True:
                idle.append(self._idle.get_nowait())
        try:
            for connection in idle:
                connection.execute("PRAGMA shrink_memory")
        finally:
            for connection in reversed(idle):
                self._idle.put(connection)

    def copy(self, directory: Path) -> None:
        """Write the file as it is at this moment into another directory; reading and writing here go on."""
        path = directory / self.path.name
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as target, self.read() as connection:
            target.execute("PRAGMA synchronous = OFF")
            connection.backup(target)

    def scour(self) -> None:
        """Write the file anew, so that no page of it holds what was deleted, and empty the log. Readers go on."""
        with self._lock, self._named():
            self._check()
            self._writer.execute("PRAGMA temp_store = FILE")  # all of it at once would not be small in memory
            self._writer.execute("VACUUM")
            self._writer.execute("PRAGMA temp_store = MEMORY")
            end = time.monotonic() + _READ_WAIT_S
            while self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                if time.monotonic() > end:
                    raise Unavailable("somebody reads the index for too long", hint="repeat when it is done")
                time.sleep(0.02)

    def bytes(self) -> int:
        """Bytes on disk, the log included."""
        return sum(file.stat().st_size for file in self.directory.glob("index.sqlite3*"))

    def close(self) -> None:
        with self._lock, self._growing:
            if self._closed:
                return
            self._closed = True
            for _ in self._readers:  # a reader that is still at work gets time to end
                with contextlib.suppress(queue.Empty):
                    self._idle.get(timeout=5.0).close()
            with contextlib.suppress(sqlite3.Error):
                self._writer.execute("PRAGMA optimize")
                self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            self._writer.close()


def reading() -> str:
    """What stands for "how this program reads notes": when it changes, everything read from notes is read again."""
    sha = hashlib.sha256(_schema().encode())
    for package, names in (("ormahd.core", _READS_NOTES), ("ormahd.index", _MAKES_ROWS)):
        for source in sorted(importlib.resources.files(package).iterdir(), key=lambda file: file.name):
            if source.name.endswith(".py") and source.name.startswith(names):
                sha.update(source.read_bytes())
    return sha.hexdigest()


def _schema() -> str:
    text = (importlib.resources.files("ormahd.index") / "schema.sql").read_text("utf-8")
    return text.replace("{tokenize}", FTS_TOKENIZE.replace('"', '""'))


def _create(connection: sqlite3.Connection, only: tuple[str, ...] = ()) -> None:
    """Make all tables; with `only`, drop those first and leave the others as they are."""
    connection.execute("BEGIN IMMEDIATE")
    for table in only:
        connection.execute(f"DROP TABLE IF EXISTS {table}")
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
    connection.execute("DELETE FROM meta WHERE key = 'head'")
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('reading', ?)", (reading(),))
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    connection.execute("COMMIT")


def _meta(connection: sqlite3.Connection, key: str) -> str | None:
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return None if row is None else str(row[0])
