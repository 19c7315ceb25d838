"""What is known of a file in the vault: its state when it was read, and findings for `doctor`. Pure."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class FileState(Struct, frozen=True):
    """The state of a file when it was read, enough to see without reading that it did not change.

    `path` is posix and relative to the vault; `digest` is the sha256 (hex) of the bytes on disk.
    """

    path: str
    size: int
    mtime_ns: int
    inode: int
    digest: str
    lent: str | None = None
    """The id of a note that is only indexed; its file holds none."""
    space: str | None = None
    """The space that the person chose for the folder; it holds where the note names none."""


def finding(path: str | None, level: str, what: str, mend: str, line: int | None = None) -> dict[str, Any]:
    """Return one finding of `doctor` as its reply has it."""
    return {"level": level, "what": what, "path": path, "line": line, "mend": mend}
