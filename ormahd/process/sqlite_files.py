"""Handle the files of databases that can be rebuilt (index, state): SQLite's log files, obstacles at their paths,
and errors."""

from __future__ import annotations

import sqlite3
from enum import StrEnum
from pathlib import Path
from typing import Final

from ormahd.process import own_files

_LOG: Final = ("-wal", "-shm")
"""Suffixes of the files that SQLite keeps beside a database."""


class Fault(StrEnum):
    DAMAGED = "damaged"
    """The file is corrupt: it is set aside, and a new one is created."""
    NO_ROOM = "no room"
    """The disk is full, read-only or failing: existing data is intact, but nothing more can be written."""
    OTHER = "other"


_DAMAGED: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_CANTOPEN}
_NO_ROOM: Final = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR}
_SHORT: Final = {sqlite3.SQLITE_IOERR_SHORT_READ, sqlite3.SQLITE_READONLY_DBMOVED}
"""The file was truncated, or replaced by another one."""
_SAID: Final = ("no such table", "could not decode", "malformed", "not a database")


def fault_of(error: sqlite3.Error) -> Fault:
    """Return what `error` says about the database file."""
    code = getattr(error, "sqlite_errorcode", 0)
    said = str(error).lower()
    if code in _SHORT or code & 0xFF in _DAMAGED or any(words in said for words in _SAID):
        return Fault.DAMAGED
    if code & 0xFF in _NO_ROOM:
        return Fault.NO_ROOM
    return Fault.OTHER


def files(path: Path) -> list[Path]:
    """Return the paths of the database and of SQLite's files beside it, whether they exist or not."""
    return [path.with_name(path.name + end) for end in ("", *_LOG)]


def drop_log(path: Path) -> None:
    """Delete SQLite's files beside the database. Raises OSError."""
    for file in files(path)[1:]:
        own_files.remove(file)


def clear(path: Path) -> list[str]:
    """Create the database's folder, and set aside whatever is at the paths of its files and is not a file.

    A log without its database is deleted, because SQLite would apply it to a new database. Returns a sentence about
    each thing set aside. Raises OSError.
    """
    said = [own_files.make_way_for_folder(path.parent)]
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    said += [own_files.make_way(file) for file in files(path)]
    if own_files.kind(path) is None:
        drop_log(path)
    return [sentence for sentence in said if sentence is not None]


def identity(path: Path) -> tuple[int, int] | None:
    """Return the device and inode of the file, to detect its replacement; None if it does not exist."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
