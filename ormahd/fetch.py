"""Notes that the index does not have yet, or any more, are taken in when a question is about them: by their id, or by words.

So nothing is out of reach while an index is begun anew, which takes minutes in a large vault. Only what HEAD has is taken in here;
what becomes of everything else is decided by the scan.
"""

from __future__ import annotations

import heapq
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from ormahd.errors import NoRoom, OrmahError
from ormahd.index.index import Index
from ormahd.model.files import FileState
from ormahd.note.note import NoteKind, parse
from ormahd.vault.excluded import is_note_name
from ormahd.vault.vault import Vault
from ormahd.watch.reading import state_of
from ormahd.watch.reconciler import Reconciler

SECONDS: Final = 0.4
"""So long one question reads the vault's files; some thousand of them."""
MOST: Final = 24
"""Files that are taken in for one question: more than it shows."""
STEM: Final = 4
"""Letters of a word from which on its last two need not be the same."""
_SHORT: Final = re.compile(r"_([0-9a-f]{8})\.md$")
_ID: Final = re.compile(r"[0-9a-f]{4}[0-9a-f-]{0,32}")


class Fetcher:
    """Of one vault and its index; any thread may ask."""

    def __init__(
        self,
        vault: Vault,
        reconciler: Reconciler,
        index: Index,
        lagging: Callable[[], bool],
        wait: Callable[[], object],
    ) -> None:
        """`lagging`: whether the index is known to lack something; `wait`: until what was met is mended, or for some seconds."""
        self._vault = vault
        self._reconciler = reconciler
        self._index = index
        self._lagging = lagging
        self._wait = wait

    def by_id(self, prefix: str) -> bool:
        """Take in the note whose id begins so, if there is one that the index lacks."""
        wanted = prefix.strip().lower()
        if _ID.fullmatch(wanted) is None:
            return False
        found = [
            path
            for path in self._tree()
            if (name := _SHORT.search(path)) is not None and (name[1].startswith(wanted) or wanted.startswith(name[1]))
        ]
        return self._take_in(found, lambda node_id: node_id.startswith(wanted)) > 0

    def by_words(self, terms: Sequence[str]) -> None:
        """Take in the notes with the most of these words, as far as the index lacks them and is known to lag."""
        if not self._lagging() or not terms:
            return
        stems = [
            term.casefold() if len(term) <= STEM else term.casefold()[: max(STEM, len(term) - 2)] for term in terms
        ]
        known, end = self._index.known(), time.monotonic() + SECONDS
        scored = []
        for path in self._tree():
            if path in known or not is_note_name(path.rpartition("/")[2]):
                continue
            if time.monotonic() > end:
                break
            data = self._vault.read(path)
            text = b"" if data is None else data
            folded = text.decode("utf-8", "replace").casefold()
            if score := sum(stem in folded for stem in stems):
                scored.append((score, path))
        self._take_in([path for _, path in heapq.nlargest(MOST, scored)], lambda _: True)

    def _tree(self) -> dict[str, str]:
        return self._reconciler.look.tree(self._vault.head())

    def _take_in(self, paths: Sequence[str], wanted: Callable[[str], bool]) -> int:
        upserts = dict(self._read(paths, wanted))
        if not upserts:
            return 0
        self._reconciler.complete(upserts)
        for _ in range(2):
            try:
                self._index.apply(upserts, (), head=None, embed=False)
            except NoRoom:
                self._wait()  # most go on in memory
            else:
                return len(upserts)
        return 0  # an index too large for that answers with what it has

    def _read(
        self, paths: Sequence[str], wanted: Callable[[str], bool]
    ) -> Iterator[tuple[str, tuple[bytes, FileState]]]:
        """Those that are memories, with the bytes that HEAD has of them."""
        tree = self._tree()
        for path in paths:
            try:
                data = self._vault.read(path)
            except (OSError, OrmahError):
                continue
            if data is None or self._vault.blob_id(path, data) != tree.get(path):
                continue
            note = parse(data, path)
            state = state_of(self._vault.root, path, data, None)
            if note.kind is NoteKind.NOTE and note.id is not None and wanted(note.id) and state is not None:
                yield path, (data, state)
