"""What an error of SQLite says about its file: damaged, without room to write, or neither."""

from __future__ import annotations

import sqlite3
from enum import StrEnum
from typing import Final


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
