"""The files of the vault at an earlier commit, as the reconciler would index them."""

from __future__ import annotations

from ormahd.vault.excluded import Excluded, is_note_name
from ormahd.vault.vault import Vault


class CommitFiles:
    """Reads the vault's files as they are in one commit. `files`: {path relative to the vault's root: blob id} of
    those that can be notes."""

    def __init__(self, vault: Vault, excluded: Excluded, commit: str) -> None:
        self._vault = vault
        self._tree = vault.tree(commit)
        self.files = {
            path: oid for path, oid in self._tree.items()
            if is_note_name(path.rpartition("/")[2]) and not excluded.by_name(path)
        }  # fmt: skip

    def file(self, path: str) -> bytes | None:
        """Return the bytes of any file of the vault in this commit; None if there is none at `path`."""
        oid = self._tree.get(path)
        return None if oid is None else self._vault.blob(oid)
