"""Databases of ours that can be made again (index, state): what SQLite keeps beside them, what stands in their place, and what an
error says about the file: damaged, without room to write, or neither."""

from __future__ import annotations

import sqlite3
from enum import StrEnum
from pathlib import Path
from typing import Final

from ormahd.process import own_files

_LOG: Final = ("-wal", "-shm")
"""What SQLite keeps beside a database, by the ends of the names."""


class Fault(StrEnum):
    DAMAGED = "damaged"
    """The file is not what was written: it is set aside, and another one takes its place."""
    NO_ROOM = "no room"
    """The disk is full, read-only or failing: what was written stands, more cannot be written."""
    OTHER = "other"


_DAMAGED: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_CANTOPEN}
_NO_ROOM: Final = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR}
_SHORT: Final = {sqlite3.SQLITE_IOERR_SHORT_READ, sqlite3.SQLITE_READONLY_DBMOVED}
"""The file was cut short, or another one stands in its place."""
_SAID: Final = ("no such table", "could not decode", "malformed", "not a database")


def fault_of(error: sqlite3.Error) -> Fault:
    """What `error` says about the file that it was met in."""
    code = getattr(error, "sqlite_errorcode", 0)
    said = str(error).lower()
    if code in _SHORT or code & 0xFF in _DAMAGED or any(words in said for words in _SAID):
        return Fault.DAMAGED
    if code & 0xFF in _NO_ROOM:
        return Fault.NO_ROOM
    return Fault.OTHER


def files(path: Path) -> list[Path]:
    """The database at `path`, and what SQLite keeps beside it, whether it is there or not."""
    return [path.with_name(path.name + end) for end in ("", *_LOG)]


def drop_log(path: Path) -> None:
    """Remove what SQLite keeps beside the database. Raises OSError."""
    for file in files(path)[1:]:
        own_files.remove(file)


def clear(path: Path) -> list[str]:
    """Make the folder of the database, and set aside what stands where its files are, and is none. A log without its database is dropped:
    it would be taken for a new one's. Returns a sentence about each thing that was set aside. Raises OSError."""
    said = [own_files.make_way_for_folder(path.parent)]
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    said += [own_files.make_way(file) for file in files(path)]
    if own_files.kind(path) is None:
        drop_log(path)
    return [sentence for sentence in said if sentence is not None]


def identity(path: Path) -> tuple[int, int] | None:
    """Device and inode of the file, which another one in its place has not; None where nothing is."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
