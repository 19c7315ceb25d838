"""Finds the files that may hold sessions, and opens them: plain, compressed with zstd, or members of a zip."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final, cast

from msgspec import Struct

from ormahd.sessions.archive import SourceState

ENDINGS: Final = (".jsonl", ".json", ".zst", ".zip", ".txt")
"""Of files in a folder that are looked at; a file that is named may have any ending."""
NOT_HERE: Final = frozenset({"subagents", "tool-results", "workflows", "node_modules", ".git", "__MACOSX"})
"""Folders without conversations of a person."""
NOT_THIS: Final = frozenset(
    {"users.json", "user.json", "light_metadata.json", "message_feedback.json", "shared_conversations.json"}
)
"""Files of exports that are about the account."""
LARGEST: Final = 8 << 30
"""Bytes of a file once it is decompressed."""
PIECE: Final = 1 << 20
"""Bytes that are decompressed at once."""
_ZSTD: Final = b"\x28\xb5\x2f\xfd"


class SourceDocument(Struct, frozen=True):
    """A stream of a file. `name`: the file's or member's name without its endings."""

    name: str
    member: str
    stream: BinaryIO


def state_of(path: Path) -> SourceState:
    """Return a file's state. Raises OSError, also for what is no file."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise OSError(0, "it is no file")
    return SourceState(found.st_size, found.st_mtime_ns, found.st_ino)


def is_session_file(path: Path) -> bool:
    """Return whether a path, relative to a folder of transcripts, may hold a session, judged by its name."""
    return path.name.endswith(ENDINGS) and path.name not in NOT_THIS and not NOT_HERE.intersection(path.parts[:-1])


def walk(folder: Path, without: tuple[Path, ...]) -> list[Path]:
    """Return the files in a folder that may hold sessions, oldest first; folders of `without` are left out.

    Of a chat that Gemini CLI wrote anew as lines the former file is left out.
    """
    found: list[tuple[int, Path]] = []
    for place, folders, names in os.walk(folder):
        here = Path(place)
        folders[:] = sorted(name for name in folders if name not in NOT_HERE and here / name not in without)
        for name in names:
            file = here / name
            if not name.endswith(ENDINGS) or name in NOT_THIS or (name.endswith(".json") and f"{name}l" in names):
                continue
            with suppress(FileNotFoundError):  # it was deleted meanwhile
                if not file.is_symlink() and file.is_file():
                    found.append((file.stat().st_mtime_ns, file))
    return [file for _, file in sorted(found)]


@contextmanager
def documents(path: Path) -> Iterator[Iterator[SourceDocument]]:
    """Yield the documents of a file, each a stream that can go back to its beginning. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(fd, "rb") as opened:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(0, "it is no file")
        begin = opened.read(4)
        opened.seek(0)
        if begin == b"PK\x03\x04":
            if not zipfile.is_zipfile(opened):
                raise OSError(0, "the zip is damaged, or was not downloaded to its end")
            yield _members(opened)
        elif begin == _ZSTD:
            with tempfile.TemporaryFile() as whole:
                _unpack(opened, whole)
                yield iter([SourceDocument(_stem(path.name), "", cast("BinaryIO", whole))])
        else:
            yield iter([SourceDocument(_stem(path.name), "", opened)])


def _members(opened: BinaryIO) -> Iterator[SourceDocument]:
    opened.seek(0)
    try:
        with zipfile.ZipFile(opened) as box:
            for one in sorted(box.infolist(), key=lambda one: one.filename):
                parts = one.filename.split("/")
                inside = not NOT_HERE.intersection(parts[:-1]) and parts[-1] not in NOT_THIS
                if inside and parts[-1].endswith((".json", ".jsonl", ".txt")) and one.file_size <= LARGEST:
                    with box.open(one) as stream:
                        yield SourceDocument(_stem(parts[-1]), one.filename, cast("BinaryIO", stream))
    except (zipfile.BadZipFile, zipfile.LargeZipFile, RuntimeError, NotImplementedError, EOFError) as error:
        raise OSError(0, f"the zip cannot be read: {error}") from error


def _unpack(packed: BinaryIO, whole: BinaryIO) -> None:
    """Decompress a stream; of one that is cut off, as much as there is."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd

    size = 0
    try:
        with zstd.ZstdFile(packed) as stream:
            while chunk := stream.read1(PIECE):
                size += len(chunk)
                if size > LARGEST:
                    raise OSError(0, f"it has more than {LARGEST >> 30} GB")
                whole.write(chunk)
    except zstd.ZstdError as error:
        if not size:
            raise OSError(0, f"it cannot be decompressed: {error}") from error
    except EOFError:
        pass  # cut off
    if not size:
        raise OSError(0, "it cannot be decompressed: it is cut off")
    whole.seek(0)


def _stem(name: str) -> str:
    for ending in (".zst", ".jsonl", ".json", ".txt"):
        name = name.removesuffix(ending)
    return name
