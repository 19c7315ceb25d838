"""Remembers which turns and titles were purged, so that they are not archived again, even if the archive was deleted.

They are stored in a file of their own beside the archive, on this machine only, because only here their transcripts
can be read again. The file holds keyed hashes and the key. A program that can read it can test guesses, but can read
the transcripts as well. The vault holds none of this, because git may carry it to other machines.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from ormahd.process import disk

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
        self._look()
        return {key for key in keys if self._sealed(key) in self._hashes} if self._hashes else set()

    def add(self, keys: Iterable[str]) -> None:
        """Store durably that the turns and titles with these keys were purged."""
        self._look()
        self._salt = self._salt or secrets.token_hex(_DIGITS // 2)
        fresh = {self._sealed(key) for key in keys} - self._hashes
        if fresh:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            rows = [self._salt, *sorted(self._hashes | fresh)]
            disk.write_durably(self._file, "".join(f"{row}\n" for row in rows).encode(), mode=0o600)
            self._hashes |= fresh

    def _look(self) -> None:
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

    def _sealed(self, key: str) -> str:
        return hmac.new(self._salt.encode(), key.encode("utf-8", "replace"), hashlib.sha256).hexdigest()[:_DIGITS]
