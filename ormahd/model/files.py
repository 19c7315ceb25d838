"""The state of a file when it was taken in: what the vault's scan and the index tell each other."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class FileState(Struct, frozen=True):
    """Enough to see without reading that nothing changed. `path` is posix and relative to the vault's root, `digest` the
    sha256 (hex) of the file's bytes on the disk."""

    path: str
    size: int
    mtime_ns: int
    inode: int
    digest: str
    lent: str | None = None
    """The id of a note that is only indexed: nothing of ours is written into the file, so it does not stand there."""
    space: str | None = None
    """The space that the person chose for the folder, which holds where the note names none."""


def finding(path: str | None, level: str, what: str, mend: str, line: int | None = None) -> dict[str, Any]:
    """One thing for `doctor`, in the shape of its reply."""
    return {"level": level, "what": what, "path": path, "line": line, "mend": mend}
