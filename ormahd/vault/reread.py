"""Caches the parsed content of one file of the vault until the file changes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from ormahd.model.change import Stat
from ormahd.vault.vault import Vault

T = TypeVar("T")


class Reread(Generic[T]):
    """The parsed content of one file, read again when its stat changes. Safe for many threads."""

    def __init__(self, vault: Vault, path: str, understand: Callable[[bytes], T]) -> None:
        """`understand` parses the file's bytes, called by one thread at a time; a missing file is parsed as b""."""
        self._vault = vault
        self._path = path
        self._understand = understand
        self._lock = threading.Lock()
        self._stat: Stat | None = None
        self._said = understand(b"")

    def said(self) -> T:
        try:
            found = (self._vault.root / self._path).stat()
        except OSError:
            stat = None
        else:
            stat = (found.st_size, found.st_mtime_ns, found.st_ino)
        with self._lock:
            if stat != self._stat:
                self._said = self._understand(self._vault.read(self._path) or b"")
                self._stat = stat
            return self._said
