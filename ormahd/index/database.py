"""The index's SQLite file: one writer connection and a bounded pool of readers, each on a snapshot of its own.

Write-ahead logging lets readers continue while a batch is written. With `synchronous=NORMAL` a power cut may lose the
last commits; the next scan of the vault brings them back, because `Index.known` then lacks those files.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.resources
import os
import queue
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ormahd.errors import BegunAnew, NoRoom, Unavailable
from ormahd.index.write import NODES
from ormahd.process import own_files, sql
from ormahd.process.sql import DatabaseFault, fault_of, identity
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
MOST_IN_MEMORY = 500_000_000
"""Maximum size, in bytes, of an index that is moved into memory when its disk is full. A larger index can still be read
from the disk, but lags behind the vault."""
_READ_WAIT_S = 30.0
_READS_NOTES = ("",)
_READS_TEXT = ("forms", "language", "quoting", "words")
_MAKES_ROWS = ("rows", "write")
_DERIVED = ("file", "text", "node", "tag", "name", "edge", "words_instance", "words_term", "words")
"""Tables that are filled from the notes. The tables of embeddings are not among them."""
_ADDED = ("position",)
"""Tables that were added to the schema later. They are created in an index file that lacks them; their rows are kept
when the tables of `_DERIVED` are filled again."""

ANEW = "it is made anew from the vault by itself, and nothing is lost: ask again in a moment"

_IN_NODES = ", ".join(f"'{kind}'" for kind in sorted(NODES))
_FITTING = {
    "files without their text": "SELECT count(*) FROM file f WHERE NOT EXISTS (SELECT 1 FROM text t WHERE t.number = f.number)",
    "files without their words": "SELECT count(*) FROM file f WHERE NOT EXISTS (SELECT 1 FROM words_docsize w WHERE w.id = f.number)",
    "memories without a row": f"SELECT count(*) FROM file f WHERE node_id IS NOT NULL AND kind IN ({_IN_NODES}) "
    "AND NOT EXISTS (SELECT 1 FROM node n WHERE n.number = f.number)",
    "texts of no file": "SELECT count(*) FROM text t WHERE NOT EXISTS (SELECT 1 FROM file f WHERE t.number = f.number)",
    "rows of no file": "SELECT count(*) FROM node n WHERE NOT EXISTS (SELECT 1 FROM file f WHERE n.number = f.number)",
    "memories that no file is held to be": "SELECT count(DISTINCT id) FROM node n WHERE held = 0 AND NOT EXISTS "
    "(SELECT 1 FROM node o WHERE o.id = n.id AND o.held = 1)",
    "embeddings without vectors": "SELECT count(*) FROM embedded e WHERE NOT EXISTS "
    "(SELECT 1 FROM vector v JOIN token t USING (key) WHERE v.key = e.document << 16)",
    "embeddings cut short": "SELECT count(*) FROM vector v JOIN token t USING (key) WHERE length(vector) < 16 "
    "OR length(ids) % 4 OR length(vectors) < length(ids) OR (length(ids) AND 4 * length(vectors) % length(ids))",
}
"""Consistency checks between the tables: description of a fault -> query that counts the rows with that fault. They
find missing rows, which SQLite's own check does not notice."""


class _Connections:
    """The connection for writing and those for reading, to one database file or to one database in RAM. `over` is
    True once `Database` uses other connections instead; a reader that is still in use is then closed when it is
    returned."""

    def __init__(self, writer: sqlite3.Connection, identity: tuple[int, int] | None) -> None:
        self.writer = writer
        self.identity = identity
        """Device and inode of the file; None for a database in memory."""
        self.version = writer.execute("PRAGMA data_version").fetchone()[0]
        """SQLite's `data_version`, which changes when another program writes to the file."""
        self.idle: queue.LifoQueue[sqlite3.Connection] = queue.LifoQueue()
        self.readers: list[sqlite3.Connection] = []
        self.over = False


class Database:
    """Opens, reads, writes, checks and replaces the database `index.sqlite3` in `directory`. Thread-safe. A database
    file that is damaged or has another schema version is first set aside (renamed), and an empty one is created; if
    no file can be used, the database is kept in RAM."""

    _memory: str | None = None
    """The URI of the database when it is kept in memory, or None."""

    def __init__(self, directory: Path, *, durable: bool = True) -> None:
        """Open or create the database. `durable`: False for a temporary copy, whose writes are not synced to the
        disk."""
        self.directory = directory
        self._synchronous = "NORMAL" if durable else "OFF"
        self._reader_kb, self._statements = (READER_KB, STATEMENTS) if durable else (PASSING_KB, PASSING_STATEMENTS)
        self.path = directory / "index.sqlite3"
        self.dropped: str | None = None
        """Why the contents of the old index were dropped, for the log; None if they were not."""
        self.trouble: str | None = None
        """Why the index is kept in memory instead of in its file; None if it is not."""
        self.found_damaged: Callable[[str], None] = _unheard
        """Called with the reason when the file can no longer be used. The callback must have another thread call
        `begin_anew`, because the calling thread may hold any lock."""
        self.found_full: Callable[[str], None] = _unheard
        """Called with the error text when the disk is full. The callback must have another thread call
        `into_memory`."""
        self._lock = threading.RLock()
        self._growing = threading.Lock()
        self._closed = False
        self._left = directory / "index.left"
        was, found = self._as_left(), self.stamp()
        self.doubtful = found is not None and was != found
        """Whether the file differs from the one that the last clean stop left: after a crash, or when another program
        wrote to it."""
        with contextlib.suppress(OSError):
            own_files.remove(self._left)
        self._now = self._first()

    def stamp(self) -> str | None:
        """Return the inode, size and mtime of the database file as one string, which changes when the file is
        written; None if the file does not exist."""
        try:
            found = self.path.lstat()
        except OSError:
            return None
        return f"{found.st_ino} {found.st_size} {found.st_mtime_ns}"

    def _as_left(self) -> str | None:
        try:
            return own_files.read(self._left).decode("ascii", "replace")
        except OSError:
            return None

    def _first(self) -> _Connections:
        """Return connections to the database file, which is created if it does not exist. A damaged file is set aside
        (renamed) first. If no file can be used, return connections to an empty database in RAM."""
        for _ in range(2):
            try:
                self._clear()
                return _Connections(self._open(), identity(self.path))
            except sqlite3.DatabaseError as error:
                if fault_of(error) is not DatabaseFault.DAMAGED:
                    return self._in_memory(str(error))
                try:
                    self._set_aside(f"SQLite cannot read it ({error})")
                except OSError as stays:
                    return self._in_memory(f"{error}; it could not be set aside: {stays.strerror}")
            except OSError as error:
                return self._in_memory(error.strerror or str(error))
        return self._in_memory("it could not be opened")

    def _clear(self) -> None:
        """Set aside (rename) anything that is at the path of the database, its log or its folder but cannot be used
        as such, for example a symlink, and note that in `dropped`."""
        if found := sql.clear(self.path):
            self.dropped = "; ".join(found)

    def _in_memory(self, why: str) -> _Connections:
        """Return connections to an empty database in RAM, which is lost when the process ends. `why`: the reason why
        no file can be used."""
        self.trouble = self.dropped = f"the index cannot be kept in {self.directory}: {why}"
        self._memory = self._name()
        return _Connections(self._open(), None)

    @staticmethod
    def _name() -> str:
        return f"file:/ormah-{os.getpid()}-{secrets.token_hex(8)}?vfs=memdb"

    def _set_aside(self, why: str) -> None:
        """Rename the database file, after deleting files that were renamed earlier. `why`: the reason, for `dropped`.
        Raises OSError."""
        for old in own_files.asides(self.directory):
            with contextlib.suppress(OSError):
                own_files.remove(old)
        if own_files.kind(self.path) is not None:
            why = f"{why}; it was set aside as {own_files.set_aside(self.path).name}"
        sql.drop_log(self.path)
        self.dropped = why

    def begin_anew(self, why: str) -> None:
        """Set the database file aside (rename it) and create an empty one. `why`: the reason, for `dropped`. Reads
        that are in progress may fail."""
        with self._lock, self._growing:
            if self._closed:
                return
            old = self._now
            with contextlib.suppress(sqlite3.Error):
                old.writer.close()
            self._memory = self.trouble = None
            try:
                self._set_aside(why)
            except OSError as error:
                self._now = self._in_memory(f"{why}; it could not be set aside: {error.strerror}")
            else:
                self._now = self._first()
            _end(old)

    def into_memory(self, why: str) -> bool:
        """Move the whole database from its file into RAM, because the disk is full. `why`: the error text, for
        `trouble`. Return False if the database is in RAM already, or larger than `MOST_IN_MEMORY`."""
        with self._lock, self._growing:
            if self._closed or self._memory is not None or self.bytes() > MOST_IN_MEMORY:
                return False
            old, name = self._now, self._name()
            with contextlib.closing(self._connect(name)) as target:
                target.execute("PRAGMA user_version").fetchone()  # it lasts as long as a connection is open
                old.writer.execute("VACUUM INTO ?", (name,))  # `backup` would keep WAL mode, which memory lacks
                self._memory, self.trouble = name, f"the index cannot be kept in {self.directory}: {why}"
                self._now = _Connections(self._connect(), None)
            old.writer.close()
            _end(old)
            return True

    def back_to_file(self) -> bool:
        """Write the database from RAM back into its file, and use the file from then on. Return False if the file
        cannot be used yet, or is in use already."""
        with self._lock, self._growing:
            if self._closed or self._memory is None:
                return False
            memory, self._memory = self._memory, None
            try:
                self._clear()
                now = self._copied()
            except (OSError, sqlite3.Error):
                self._memory = memory
                return False
            old, self._now, self.trouble = self._now, now, None
            old.writer.close()
            _end(old)
            return True

    def _copied(self) -> _Connections:
        """Open the database file and replace its contents, in one transaction, by those of the current database,
        which is in RAM. Return the connections to the file."""
        writer = self._open()
        try:
            self._now.writer.backup(writer)
        except sqlite3.Error:
            writer.close()
            raise
        return _Connections(writer, identity(self.path))

    def suspicion(self) -> str | None:
        """Return the reason for which `check` should be run, or None. The reasons: the database file was moved or
        replaced, or another program wrote to it.

        Reads only the inode and SQLite's `data_version`, so it is fast. Each write of another program is returned
        only once.
        """
        with self._lock:
            self._check()
            if self._memory is not None:
                return None
            if identity(self.path) != self._now.identity:
                return f"{self.path} was taken away or replaced"
            version = self._now.writer.execute("PRAGMA data_version").fetchone()[0]
            before, self._now.version = self._now.version, version
            return None if version == before else f"another program wrote into {self.path}"

    def check(self) -> str | None:
        """Check the database over a new connection, so that its pages are read again. Return the first fault that
        SQLite's `quick_check` or the consistency checks (`_FITTING`) find; None if there is none."""
        with self._named():
            self._check()
            with contextlib.closing(self._connect()) as connection:
                connection.execute("PRAGMA query_only = 1")
                for (line,) in connection.execute("PRAGMA quick_check(1)"):
                    if line != "ok":
                        return str(line)
                return rows_that_are_missing(connection)

    @property
    def in_memory(self) -> bool:
        return self._memory is not None

    def _open(self) -> sqlite3.Connection:
        # Only called while no connection is open: POSIX drops all locks that a process has on a file when it closes any
        # descriptor of it. Another program that opens and closes the database would then take itself for the last one,
        # and delete the log.
        if self._memory is None and not self.path.exists():
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        connection = self._connect()
        try:
            found = connection.execute("PRAGMA user_version").fetchone()[0]
            if found not in {0, SCHEMA_VERSION}:
                connection.close()
                self._set_aside(f"it has version {found}, this program writes {SCHEMA_VERSION}")
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
                there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
                _create(connection, only=(*_DERIVED, *(one for one in _ADDED if one not in there)))
            connection.execute("SELECT count(*) FROM file").fetchone()
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect(self, name: str | None = None) -> sqlite3.Connection:
        # `mode=rw`: a connection must not create the file again, empty, after it was deleted.
        name = name or self._memory or f"{self.path.absolute().as_uri()}?mode=rw"
        connection = sqlite3.connect(
            name,
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
        with self._lock, self._named():
            self._check()
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
        with self._named():
            now, connection = self._borrow()
            try:
                yield connection
            finally:
                if now.over:
                    connection.close()
                else:
                    now.idle.put(connection)

    def _borrow(self) -> tuple[_Connections, sqlite3.Connection]:
        self._check()
        now = self._now
        with contextlib.suppress(queue.Empty):
            return now, now.idle.get_nowait()
        with self._growing:
            now = self._now
            if len(now.readers) < READERS:
                connection = self._connect()
                connection.execute("PRAGMA query_only = 1")
                connection.execute(f"PRAGMA cache_size = -{self._reader_kb}")
                now.readers.append(connection)
                return now, connection
        try:
            return now, now.idle.get(timeout=_READ_WAIT_S)
        except queue.Empty:
            raise Unavailable(f"the index had no free reader for {_READ_WAIT_S:.0f} s", hint="try again") from None

    def _check(self) -> None:
        if self._closed:
            raise Unavailable("the index is closed", hint="the daemon is stopping; try again when it runs")

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """Context manager: turn SQLite's errors in the block into Ormah's. For a damaged file, call `found_damaged`
        and raise BegunAnew; for a full disk, call `found_full` and raise NoRoom. Other errors are not changed."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            fault = fault_of(error)
            if fault is DatabaseFault.DAMAGED:
                self.found_damaged(f"SQLite cannot read it ({error})")
                raise BegunAnew(f"the index in {self.directory} is damaged ({error})", hint=ANEW) from error
            if fault is DatabaseFault.NO_ROOM:
                self.found_full(str(error))
                said = f"the index cannot be written ({error}): {own_files.room(self.directory)}"
                hint = "make room; the index follows the vault by itself then"
                raise NoRoom(said, hint=hint, data={"reason": "no_room", "index": True}) from error
            raise

    def checkpoint(self) -> None:
        """Free unused pages, and copy the write-ahead log into the database file. Called when there is nothing else
        to do."""
        with self._lock, self._named():
            self._check()
            self._now.writer.execute("PRAGMA incremental_vacuum(2000)").fetchall()
            self._now.writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def give_back(self) -> None:
        """Free the page caches of the connection for writing (up to `WRITER_KB`) and of each connection for reading
        that is not in use (up to `READER_KB`)."""
        with self._lock, self._named():
            self._check()
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
        path = directory / self.path.name
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as target, self.read() as connection:
            target.execute("PRAGMA synchronous = OFF")
            connection.backup(target)

    def scour(self) -> None:
        """Rewrite the database file so that no page of it holds deleted data, empty the write-ahead log, and delete
        files that were set aside. Other threads can read meanwhile.

        Raises Unavailable if their reads prevent emptying the log for 30 seconds.
        """
        with self._lock, self._named():
            self._check()
            for aside in own_files.asides(self.directory):
                own_files.remove(aside)
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
        with self._lock, self._growing:
            if self._closed:
                return
            self._closed = True
            for _ in self._now.readers:  # wait up to 5 s for each reader that is in use
                with contextlib.suppress(queue.Empty):
                    self._now.idle.get(timeout=5.0).close()
            with contextlib.suppress(sqlite3.Error):
                self._now.writer.execute("PRAGMA optimize")
                self._now.writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            self._now.writer.close()
            if self._memory is None and (stamp := self.stamp()) is not None:
                with contextlib.suppress(OSError):
                    own_files.remove(self._left)
                    self._left.write_text(stamp)


def _unheard(_: str) -> None:
    """Do nothing: the default of the callbacks `Database.found_damaged` and `Database.found_full`."""


def _end(connections: _Connections) -> None:
    """Close those connections for reading that are not in use, and set `over`, so that each of the others is closed
    when it is returned."""
    connections.over = True
    with contextlib.suppress(queue.Empty):
        while True:
            connections.idle.get_nowait().close()


def rows_that_are_missing(connection: sqlite3.Connection) -> str | None:
    """Run the consistency checks (`_FITTING`). For the first one that finds a fault, return the number of faulty rows
    and the fault's description, such as "3 texts of no file"; None if none does."""
    for what, select in _FITTING.items():
        if found := connection.execute(select).fetchone()[0]:
            return f"{found} {what}"
    return None


def reading() -> str:
    """Return a hash of the schema and of the source code that reads notes. An index stores this hash; if it is
    another when the index is opened, all tables made from notes (`_DERIVED`) are emptied and filled again."""
    sha = hashlib.sha256(_schema().encode())
    for package, names in (("ormahd.note", _READS_NOTES), ("ormahd.text", _READS_TEXT), ("ormahd.index", _MAKES_ROWS)):
        for source in sorted(importlib.resources.files(package).iterdir(), key=lambda file: file.name):
            if source.name.endswith(".py") and source.name.startswith(names):
                sha.update(source.read_bytes())
    return sha.hexdigest()


def _schema() -> str:
    text = (importlib.resources.files("ormahd.index") / "schema.sql").read_text("utf-8")
    return text.replace("{tokenize}", FTS_TOKENIZE.replace('"', '""'))


def _create(connection: sqlite3.Connection, only: tuple[str, ...] = ()) -> None:
    """Create all tables. With `only` (names of tables), drop these tables and create only them."""
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
