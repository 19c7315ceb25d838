"""Creates each JSON-lines file of the vault empty, in a commit of its own.

`git revert` of a commit that creates a file must remove the file, which is a modify/delete conflict once the file has
grown. So Ormah never creates and fills such a file in one commit.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from ormahd.model.change import Kind, sha256
from ormahd.note.merge import is_lines
from ormahd.vault.create import CARD, LINES

if TYPE_CHECKING:
    from ormahd.vault.transaction import Transaction
    from ormahd.vault.vault import Vault

BODY: Final = "So that each later change of these files can be taken back by git revert."
RESTORING: Final = frozenset({Kind.INIT, Kind.SYNC, Kind.UNDO, Kind.PURGE})
"""Kinds of ops that copy files from another state of the vault as they are; no empty file is committed before them."""


class Beginnings:
    """Creates the JSON-lines files of one vault. Safe for many threads."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._lock = threading.Lock()
        self._complete = False
        """Whether the files of `LINES` are known to exist."""

    def before(self, tx: Transaction) -> None:
        """Commit as empty files the JSON-lines files that `tx` would create, and once also those of `LINES` that an
        older vault lacks. Does nothing while another process holds git; `tx` then creates its files itself."""
        if tx.kind in RESTORING:
            return
        filled = {path for path, wish in tx.wishes.items() if is_lines(path) and wish.data and wish.expect is None}
        if not filled and self._complete:
            return
        with self._lock:
            whole = (
                tx.kind is not Kind.RELEASE and self._vault.read(CARD) is not None
            )  # not on a checked-out branch that holds no vault
            common = LINES if whole and not self._complete else ()
            missing = sorted(path for path in filled.union(common) if self._vault.read(path) is None)
            if missing and self._vault.busy():
                return
            if missing:
                with self._vault.transaction(
                    "init: empty files for lines", kind=Kind.INIT, source="system:self", body=BODY
                ) as begun:
                    for path in missing:
                        begun.put(path, b"", node_id=None, expect=None)
            self._complete = self._complete or bool(common)
            for path in filled.intersection(missing):
                tx.wishes[path] = replace(tx.wishes[path], expect=sha256(b""))
