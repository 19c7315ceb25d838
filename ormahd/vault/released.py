"""The list of files that a person released: `.ormah/released.jsonl`, a line per file. None of these is adopted again
until the person asks for it.

The list is part of the vault and its history, so that it survives a restart or a rebuilt index, and reaches other
machines.
"""

from __future__ import annotations

import hashlib
import json
import threading
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from msgspec import Struct

from ormahd.model.change import sha256
from ormahd.model.lines import merge_lines
from ormahd.vault.create import RELEASED
from ormahd.vault.reread import Reread
from ormahd.vault.vault import Vault

PATH = RELEASED


class Released(Struct, frozen=True):
    """One released file: its path, and the sha256 of its content when it was released, which identifies it after a
    move. `node_id`: the id that it had as a memory."""

    path: str
    sha256: str
    node_id: str | None = None

    @property
    def id(self) -> str:
        """The id of the file's line, derived from the path: the same on every machine."""
        return hashlib.sha256(unicodedata.normalize("NFC", self.path).encode("utf-8", "surrogateescape")).hexdigest()[
            :16
        ]

    def line(self) -> bytes:
        row = {"id": self.id, "path": self.path, "sha256": self.sha256, "node": self.node_id}
        return json.dumps(row, ensure_ascii=False).encode("utf-8", "surrogateescape") + b"\n"


def read(data: bytes) -> dict[str, Released]:
    """Return `{path: file}` of the list; unreadable lines are ignored."""
    found = {}
    for line in data.splitlines():
        row = _row(line)
        path, digest = row.get("path"), row.get("sha256")
        if isinstance(path, str) and isinstance(digest, str):
            node = row.get("node")
            found[path] = Released(path, digest, node if isinstance(node, str) else None)
    return found


def _row(line: bytes) -> Mapping[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return row if isinstance(row, dict) else {}


def with_files(data: bytes, files: Iterable[Released]) -> bytes:
    """Return the list with these files added."""
    new = {one.id: one for one in files}
    kept = b"".join(line + b"\n" for line in data.splitlines() if line.strip() and _row(line).get("id") not in new)
    return merge_lines(b"", kept, b"".join(one.line() for one in new.values())) if new else data


def without_files(data: bytes, paths: Collection[str]) -> bytes:
    """Return the list without the files at these paths."""
    return b"".join(line + b"\n" for line in data.splitlines() if line.strip() and _row(line).get("path") not in paths)


class ReleasedFiles:
    """The list of one vault, read again when the file changes. Safe for many threads."""

    def __init__(self, vault: Vault) -> None:
        self._lock = threading.Lock()
        self._paths: set[str] = set()
        self._dropped: set[str] = set()
        self._list = Reread(vault, PATH, self._understand)

    def _understand(self, data: bytes) -> tuple[Mapping[str, Released], set[str]]:
        """Return (`{path: file}`, the sha256 of each file's released content), and note which paths are no longer
        listed."""
        files = read(data)
        with self._lock:
            self._dropped |= self._paths - files.keys()
            self._paths = set(files)
        return files, {one.sha256 for one in files.values()}

    def files(self) -> Mapping[str, Released]:
        """Return `{path: released file}`."""
        return self._list.said()[0]

    def holds(self, path: str, data: bytes) -> bool:
        """Whether a file was released: its path is listed, or it has the content of a listed file (it was moved)."""
        files, digests = self._list.said()
        return bool(files) and (path in files or sha256(data) in digests)

    def take_dropped(self) -> set[str]:
        """Return the paths that were removed from the list since the last call: files there may be adopted now."""
        self.files()
        with self._lock:
            dropped, self._dropped = self._dropped, set()
            return dropped
