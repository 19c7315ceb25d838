"""The files of the vault at an earlier commit, in the form in which the reconciler would index them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ormahd.git.blobs import read_blobs
from ormahd.note.read import parse
from ormahd.note.values import NoteKind
from ormahd.vault.create import RENAMED
from ormahd.vault.create import read as read_renamed
from ormahd.vault.excluded import is_note_name
from ormahd.vault.vault import Vault
from ormahd.watch.reconciler import Reconciler


class CommitFiles:
    """Reads the vault's files as they are in one commit. `files`: {path relative to the vault's root: blob id} of
    those that can be notes."""

    def __init__(self, vault: Vault, reconciler: Reconciler, commit: str) -> None:
        self._vault = vault
        self._reconciler = reconciler
        tree = vault.tree(commit)
        self._tree = tree
        excluded = reconciler.excluded
        self.files = {
            path: oid for path, oid in tree.items()
            if is_note_name(path.rpartition("/")[2]) and excluded.by_name(path) is None
        }  # fmt: skip

    def read(self, files: Sequence[tuple[str, str]]) -> Iterator[bytes]:
        """Yield the bytes of each of `files`, given as (path, blob id), as they would be in the folder."""
        for (path, oid), (_, data) in zip(files, read_blobs(self._vault.git, [oid for _, oid in files]), strict=True):
            yield self._vault.conversion.checked_out(path, oid) if self._vault.attributes.words(path) else data

    def file(self, path: str) -> bytes | None:
        """Return the bytes of any file of the vault in this commit; None if there is none at `path`."""
        oid = self._tree.get(path)
        return None if oid is None else self._vault.blob(oid, path)

    def indexed(self, path: str, data: bytes) -> bytes:
        """Return the bytes to index for a file.

        A note that Ormah never wrote, and that the present choices (`vault.adopt`) do not adopt, is indexed without its
        frontmatter, and so without its id.
        """
        if self._ours(path):
            return data
        note = parse(data, path)
        return data if note.kind is not NoteKind.NOTE else b"\n" + note.content.encode()

    def lent(self, path: str, data: bytes) -> tuple[str | None, str | None]:
        """Return (the id for a file that is only indexed and contains none, None for other files; its folder's space).

        The present choices of what to adopt decide, not those at that commit.
        """
        context, note = self._reconciler.context, parse(data, path)
        if note.kind is not NoteKind.FOREIGN and self._ours(path):
            return None, context.space_at(path)
        return self._reconciler.lent(path, data, read_renamed(self.file(RENAMED))), context.space_at(path)

    def _ours(self, path: str) -> bool:
        if self._reconciler.context.chosen(path):
            return True
        return self._reconciler.look.wrote(path)
