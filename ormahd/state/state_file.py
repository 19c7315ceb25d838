"""The connection to `state.sqlite3`: of the file while it can be used, of a copy in memory while it cannot.

Nothing in it is a memory, so no memory is ever out of reach for it: a damaged file is set aside and begun anew, and while the disk
is full, or cannot be written, what happens is kept in memory until it can.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

from ormahd.process import own_files, sqlite_files
from ormahd.process.sqlite_files import Fault, fault_of, identity
from ormahd.state.tables import VERSION, bring_up

log = logging.getLogger("ormah")


class StateFile:
    """To be used with the lock of `State` held."""

    def __init__(self, path: Path, told: Callable[[str], None]) -> None:
        """`told` is given a sentence for a person whenever the file had to be set aside, or could not be used."""
        self.path = path
        self._told = told
        self._identity: tuple[int, int] | None = None
        self.trouble: str | None = None
        """Why everything is kept in memory only; None: it is in the file."""
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
                if isinstance(error, sqlite3.DatabaseError) and fault_of(error) is not Fault.DAMAGED:
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
        """A copy of `kept`, else of the file as far as it can be read, else an empty one."""
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
        """The file, through a connection that needs no further file beside it: a full disk has no room for that."""
        if own_files.kind(self.path) != "a file":
            raise FileNotFoundError(self.path)
        db = sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=rw", uri=True, timeout=1)
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        return db

    def mend(self, error: sqlite3.DatabaseError) -> bool:
        """After an error: True when it was the file's, and there is another one in its place. What was begun is to be done again."""
        fault = fault_of(error)
        if fault is Fault.OTHER or self.trouble is not None:
            return False
        with contextlib.suppress(sqlite3.Error):
            self.db.rollback()
        if fault is Fault.NO_ROOM:
            self.db = self._in_memory(str(error), self.db)
            return True
        self._close()
        if own_files.kind(self.path) is None or self._set_aside(str(error)):
            self.db = self._open()
        else:
            self.db = self._in_memory(str(error))
        return True

    def look(self) -> None:
        """See that the file is where it was, and go back to it where it could not be written before: what is known now becomes it."""
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
