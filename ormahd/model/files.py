"""The state of a file in the vault when it was read, and the findings of `doctor`. No I/O."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class FileState(Struct, frozen=True):
    """The state of a file when it was read. It shows whether the file changed since, without reading it again.

    `path` is posix and relative to the vault; `digest` is the sha256 (hex) of the bytes on disk.
    """

    path: str
    size: int
    mtime_ns: int
    inode: int
    digest: str
    lent: str | None = None
    """The id of a note that is only indexed; its file contains none."""
    space: str | None = None
    """The space that the person chose for the folder; used if the note names none."""


def finding(path: str | None, level: str, what: str, mend: str, line: int | None = None) -> dict[str, Any]:
    """Return one finding in the form of `doctor`'s reply."""
    return {"level": level, "what": what, "path": path, "line": line, "mend": mend}
