"""Finds the files that may hold sessions, and opens them: plain, compressed with zstd, or members of a zip."""

from __future__ import annotations

import os
import stat
import sys
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from msgspec import Struct

from ormahd.process.own_files import open_regular
from ormahd.sessions.archive import SourceState

ENDINGS: Final = (".jsonl", ".json", ".zst", ".zip", ".txt")
"""Endings of the files in a folder that may hold sessions. A file that a person names may have any ending."""
NO_SESSIONS: Final = frozenset({"subagents", "tool-results", "workflows", "node_modules", ".git", "__MACOSX"})
"""Names of folders that hold no conversations of a person."""
_ACCOUNT: Final = ("users", "user", "light_metadata", "message_feedback", "shared_conversations")
NOT_THIS: Final = frozenset(f"{name}.json" for name in _ACCOUNT)
"""Names of files in exports that are about the account and hold no conversations."""
LARGEST: Final = 8 << 30
"""Maximum size of a file in bytes after decompression."""
PIECE: Final = 1 << 20
"""Number of bytes that are decompressed at once."""
_ZSTD: Final = b"\x28\xb5\x2f\xfd"


class SourceDocument(Struct, frozen=True):
    """A file, or a member of a zip, as a stream. `name`: its file name without endings. `member`: its path in the zip;
    "" for a file."""

    name: str
    member: str
    stream: BinaryIO


def state_of(path: Path) -> SourceState:
    """Return a file's size, modification time and inode. Raises OSError, also if the path is no regular file, or cannot
    be named."""
    if display_path(path) != str(path):
        raise OSError(0, "its name is not UTF-8")
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise OSError(0, "it is no file")
    return SourceState(found.st_size, found.st_mtime_ns, found.st_ino)


def display_path(file: Path) -> str:
    """Return a path as text, with bytes that are not UTF-8 replaced. It differs from the path only then, and names no
    file."""
    return str(file).encode("utf-8", "replace").decode()


def is_session_file(path: Path) -> bool:
    """Return whether a file may hold a session, judged by its path relative to a folder of transcripts."""
    return path.name.endswith(ENDINGS) and path.name not in NOT_THIS and not NO_SESSIONS.intersection(path.parts[:-1])


def session_files(folder: Path, without: tuple[Path, ...]) -> list[Path]:
    """Return the files in a folder that may hold sessions, oldest first. Folders in `without` are left out.

    A `.json` file is left out if there is a `.jsonl` file of the same name: Gemini CLI then wrote the chat anew as
    lines.
    """
    found: list[tuple[int, Path]] = []
    for place, folders, names in os.walk(folder):
        folder_path = Path(place)
        folders[:] = sorted(name for name in folders if name not in NO_SESSIONS and folder_path / name not in without)
        for name in names:
            file = folder_path / name
            if not name.endswith(ENDINGS) or name in NOT_THIS or (name.endswith(".json") and f"{name}l" in names):
                continue
            with suppress(FileNotFoundError):  # the file was deleted in the meantime
                if not file.is_symlink() and file.is_file():
                    found.append((file.stat().st_mtime_ns, file))
    return [file for _, file in sorted(found)]


def unreadable(folder: Path) -> str | None:
    """Return why a folder cannot be read; None if it can be read, or does not exist."""
    try:
        with os.scandir(folder) as entries:
            next(entries, None)
    except FileNotFoundError:
        return None
    except OSError as error:
        return error.strerror or str(error)
    return None


@contextmanager
def documents(path: Path) -> Iterator[Iterator[SourceDocument]]:
    """Context manager: open a file, and yield an iterator of its documents, which are the file itself, or the members
    of a zip, decompressed as they are read. Their streams can seek to their beginning. Raises OSError."""
    with open_regular(path) as opened:
        begin = opened.read(4)
        opened.seek(0)
        if begin == b"PK\x03\x04":
            if not zipfile.is_zipfile(opened):
                raise OSError(0, "the zip is damaged, or was not downloaded to its end")
            yield _zip_members(opened)
        else:
            stream = _Unpacked(_zstd().ZstdFile(opened)) if begin == _ZSTD else opened
            yield iter([SourceDocument(_stem(path.name), "", cast("BinaryIO", stream))])


def _zstd() -> Any:
    """Return the module that reads zstd, from Python's library or its backport."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


class _Unpacked:
    """Reads a compressed stream, at most `LARGEST` bytes of it. A stream that is cut off ends where it is cut off."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._done = 0

    def read(self, size: int = PIECE) -> bytes:
        """Return some bytes, at most `size`; b"" only at the end. Raises OSError, also if nothing can be read."""
        try:
            data: bytes = self._stream.read1(min(size, PIECE) if size > 0 else PIECE)
        except EOFError:
            data = b""
            if not self._done:
                raise OSError(0, "it cannot be decompressed: it is cut off") from None
        except (_zstd().ZstdError, zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError) as error:
            raise OSError(0, f"it cannot be decompressed: {error}") from error
        self._done += len(data)
        if self._done > LARGEST:
            raise OSError(0, f"it has more than {LARGEST >> 30} GB")
        return data

    def seek(self, place: int) -> None:
        """Go to the byte `place` of the decompressed content."""
        self._stream.seek(place)
        self._done = place


def _zip_members(opened: BinaryIO) -> Iterator[SourceDocument]:
    """Yield the members of a zip that may hold sessions, sorted by name. Raises OSError."""
    opened.seek(0)
    try:
        with zipfile.ZipFile(opened) as box:
            for member in sorted(box.infolist(), key=lambda member: member.filename):
                parts = member.filename.split("/")
                inside = not NO_SESSIONS.intersection(parts[:-1]) and parts[-1] not in NOT_THIS
                if inside and parts[-1].endswith((".json", ".jsonl", ".txt")):
                    with box.open(member) as stream:
                        yield SourceDocument(_stem(parts[-1]), member.filename, cast("BinaryIO", _Unpacked(stream)))
    except (zipfile.BadZipFile, zipfile.LargeZipFile, RuntimeError, NotImplementedError, EOFError) as error:
        raise OSError(0, f"the zip cannot be read: {error}") from error


def _stem(name: str) -> str:
    """Return a file name without the endings of session files."""
    for ending in (".zst", ".jsonl", ".json", ".txt"):
        name = name.removesuffix(ending)
    return name
