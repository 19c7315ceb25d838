"""The state of a file when it was taken in: what the vault's scan and the index tell each other."""

from __future__ import annotations

from msgspec import Struct


class FileState(Struct, frozen=True):
    """Enough to see without reading that nothing changed. `path` is posix and relative to the vault's root, `digest` the
    sha256 (hex) of the file's bytes on the disk."""

    path: str
    size: int
    mtime_ns: int
    inode: int
    digest: str
