"""Reads and writes the files of the archive: JSON lines, first one that describes the session, then one per turn or deed.

A later line with `session` replaces the description, a later line with the same key the turn. A line that has only a key
and `gone` changes what became of the turn. A deed is a command that the agent ran, or an edit of files.

What was purged stands in a file beside the archive (`PurgedTurns`), so that it is not archived again even if the archive
was deleted. It is on this machine only, because only here the transcripts can be read again. The file holds keyed hashes and
the key. A program that can read it can test guesses, but can read the transcripts as well. The vault holds none of this,
because git may carry it to other machines.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, field

from ormahd.process import disk

ENDING: Final = ".jsonl"
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class SessionHead(Struct, frozen=True, omit_defaults=True):
    """The description of a session, as stored in a line of the session's file."""

    session: str
    harness: str
    cwd: str | None = None
    title: str | None = None
    source: str | None = None
    """The path of the transcript or export from which it was read."""


PURGED: Final = "purged"
"""The text was deleted, and is never taken in again."""
WITHDRAWN: Final = "withdrawn"
"""The person took the turn back by a rewind: it is kept, and not found by a search."""
RESTORED: Final = "restored"
"""The turn was not withdrawn after all."""


class Line(Struct, frozen=True, omit_defaults=True):
    """One turn, as stored in a line of a session's file. `mark`: `PURGED`, `WITHDRAWN` or `RESTORED`, "" for none.
    `to`: for an answer, the key of its prompt."""

    key: str
    role: str = ""
    text: str = ""
    time: str | None = None
    mark: str = field(default="", name="gone")
    to: str = ""


class Deed(Struct, frozen=True, omit_defaults=True):
    """What an agent did, as stored in a line of a session's file.

    `deed`: its key. `did`: the command, "" for an edit. `files`: the files that were edited. `by`: the tool that edited
    them. `status`: the exit status, -1 for a failure without one. `error`: the first line of the error. `to`: the key
    of its prompt, "" if that is the last prompt above. `mark`: `PURGED`, or "".
    """

    deed: str
    did: str = ""
    files: tuple[str, ...] = ()
    by: str = ""
    status: int = 0
    error: str = ""
    seconds: float | None = None
    time: str | None = None
    to: str = ""
    mark: str = field(default="", name="gone")

    @property
    def key(self) -> str:
        """The key of the deed."""
        return self.deed


Row = SessionHead | Line | Deed
_line = msgspec.json.Decoder(Line | None).decode
_deed = msgspec.json.Decoder(Deed).decode
_head = msgspec.json.Decoder(SessionHead).decode
_encode = msgspec.json.Encoder().encode


def word_of(session: str) -> str:
    """Return a session's id in the form that the field `from` of a note has: without white space, and cut if it is too
    long."""
    return "_".join(session.split())[:1_000] or "-"


def path_of(head: SessionHead) -> str:
    """Return the path of a session's file, relative to the archive's folder."""
    name = head.session
    if not _PLAIN.fullmatch(name) or name.endswith(".part"):
        name = hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=12).hexdigest()
    return f"{head.harness}/{name}{ENDING}"


def encoded(rows: Sequence[Row]) -> bytes:
    """Return the rows as lines of a file."""
    return b"".join(_encode(row) + b"\n" for row in rows)


def read(file: Path, start: int = 0) -> Iterator[tuple[int, Row]]:
    """Yield (offset at which the line ends, row) for each complete line of a session's file from offset `start` on.
    Invalid lines are skipped."""
    with open(file, "rb") as opened:
        opened.seek(start)
        at = start
        for line in opened:
            if not line.endswith(b"\n"):
                return
            at += len(line)
            try:
                decode = _head if line.startswith(b'{"session"') else _deed if line.startswith(b'{"deed"') else _line
                found: Row | None = decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
            if found is not None:
                yield at, found


def append(file: Path, rows: Sequence[Row], *, new: bool = False) -> int:
    """Append rows to a session's file durably, and return its new size. If a crash left an incomplete line at the end,
    that line is cut off first.

    Raises FileNotFoundError if there is no file, unless it is `new`.
    """
    fd = os.open(file, os.O_RDWR | (os.O_CREAT if new else 0) | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        end = _end_of_last_line(fd)
        os.ftruncate(fd, end)
        os.lseek(fd, end, os.SEEK_SET)
    except BaseException:
        os.close(fd)
        raise
    data = encoded(rows)
    disk.write_and_sync(fd, data)
    return end + len(data)


def _end_of_last_line(fd: int) -> int:
    """Return the offset at which the last complete line of a file ends; 0 if there is none."""
    end = os.fstat(fd).st_size
    while end:
        begin = max(end - 65_536, 0)
        place = os.pread(fd, end - begin, begin).rfind(b"\n")
        if place >= 0:
            return begin + place + 1
        end = begin
    return 0


def rewrite(file: Path, rows: Sequence[Row]) -> int:
    """Replace the content of a file by `rows`, durably. Return the new size of the file."""
    data = encoded(rows)
    disk.write_durably(file, data, mode=0o600)
    return len(data)


_HASH: Final = re.compile(r"[0-9a-f]{32}")
_DIGITS: Final = 32


class PurgedTurns:
    """Stores which turns and titles were purged from the archive of one vault, as hashes of their keys. The caller
    must hold the archive's lock. Methods raise OSError."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._read = False
        self._salt = ""
        self._hashes: set[str] = set()

    def among(self, keys: Iterable[str]) -> set[str]:
        """Return those of `keys` that were purged."""
        self._load()
        return {key for key in keys if self._hash(key) in self._hashes} if self._hashes else set()

    def add(self, keys: Iterable[str]) -> None:
        """Store durably that the turns and titles with these keys were purged."""
        self._load()
        self._salt = self._salt or secrets.token_hex(_DIGITS // 2)
        fresh = {self._hash(key) for key in keys} - self._hashes
        if fresh:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            rows = [self._salt, *sorted(self._hashes | fresh)]
            disk.write_durably(self._file, "".join(f"{row}\n" for row in rows).encode(), mode=0o600)
            self._hashes |= fresh

    def _load(self) -> None:
        """Read the file, unless it was read before. A file whose first line is no salt counts as empty."""
        if self._read:
            return
        try:
            salt, *hashes = self._file.read_text("ascii", "replace").split() or [""]
        except FileNotFoundError:
            salt, hashes = "", []
        whole = _HASH.fullmatch(salt) is not None
        self._salt = salt if whole else ""
        self._hashes = {digits for digits in hashes if _HASH.fullmatch(digits)} if whole else set()
        self._read = True

    def _hash(self, key: str) -> str:
        """Return the keyed hash of a turn's or title's key."""
        return hmac.new(self._salt.encode(), key.encode("utf-8", "replace"), hashlib.sha256).hexdigest()[:_DIGITS]
