"""The files of an earlier state that are to be indexed, as the observer would take them in if that were today."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ormahd.git.blobs import read_blobs
from ormahd.note.note import NoteKind, parse
from ormahd.vault.excluded import is_note_name
from ormahd.vault.renamed import RENAMED
from ormahd.vault.renamed import read as read_renamed
from ormahd.vault.vault import Vault
from ormahd.watch.reconciler import Reconciler


class State:
    """The vault at one commit. `files`: {path relative to the root: blob id} of what can be a note."""

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
        """The bytes of files, (path, blob id), in order."""
        for (path, oid), (_, data) in zip(files, read_blobs(self._vault.git, [oid for _, oid in files]), strict=True):
            yield self._vault.conversion.checked_out(path, oid) if self._vault.attributes.words(path) else data

    def file(self, path: str) -> bytes | None:
        """The bytes of any file of the vault in this state."""
        oid = self._tree.get(path)
        return None if oid is None else self._vault.blob(oid, path)

    def indexed(self, path: str, data: bytes) -> bytes:
        """What the index gets of a file: of one that was never ours only the text (the setting `vault.adopt`)."""
        if self._ours(path):
            return data
        note = parse(data, path)
        return data if note.kind is not NoteKind.NOTE else b"\n" + note.content.encode()

    def lent(self, path: str, data: bytes) -> tuple[str | None, str | None]:
        """Under which id a file was found that holds none of ours (None: it is none of those), and the space of its folder; by the choices
        of today."""
        context, note = self._reconciler.context, parse(data, path)
        if note.kind is not NoteKind.FOREIGN and self._ours(path):
            return None, context.space_at(path)
        return self._reconciler.lent(path, data, read_renamed(self.file(RENAMED))), context.space_at(path)

    def _ours(self, path: str) -> bool:
        if self._reconciler.context.chosen(path):
            return True
        return self._reconciler.look.wrote(path)
