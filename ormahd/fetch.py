"""Index single notes on demand, when a question names their id or contains their words and the index lacks them.

Every memory can thus be found while an index is being rebuilt. Only notes as HEAD has them are indexed here; the
scan decides about all others.
"""

from __future__ import annotations

import contextlib
import heapq
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from ormahd.errors import NoRoom, OrmahError
from ormahd.index.index import Index
from ormahd.model.change import FileState, sha256
from ormahd.note.read import parse
from ormahd.note.values import NoteKind
from ormahd.vault.excluded import is_note_name
from ormahd.vault.vault import Vault
from ormahd.watch.reading import state_of
from ormahd.watch.reconciler import Reconciler

SECONDS: Final = 0.4
"""Seconds after which a question reads no more files of the vault, once it has read `AT_LEAST`."""
AT_LEAST: Final = 200
"""Number of files that a question reads however long that takes: a small vault is searched whole even on a busy
machine."""
MOST: Final = 24
"""Maximum number of files that are indexed for one question; more than its answer shows."""
STEM: Final = 4
"""A word of up to this many letters must match whole. Of a longer one, all letters but the last two must match, and at
least this many."""
_SHORT: Final = re.compile(r"_([0-9a-f]{8})\.md$")
_ID: Final = re.compile(r"[0-9a-f]{4}[0-9a-f-]{0,32}")


class Fetcher:
    """Indexes single notes of one vault that a request needs and the index lacks. Thread-safe."""

    def __init__(
        self,
        vault: Vault,
        reconciler: Reconciler,
        index: Index,
        lagging: Callable[[], bool],
        wait: Callable[[], object],
    ) -> None:
        """`lagging`: returns whether the index is known to lack something. `wait`: waits, at most some seconds, until
        the mender has repaired the index."""
        self._vault = vault
        self._reconciler = reconciler
        self._index = index
        self._lagging = lagging
        self._wait = wait

    def by_id(self, prefix: str) -> bool:
        """Index the note whose id begins with `prefix`, if the index lacks it. Return whether one was indexed.

        Raises NoRoom: the vault has it, but no disk has room for the index.
        """
        wanted = prefix.strip().lower()
        if _ID.fullmatch(wanted) is None:
            return False
        found = [
            path
            for path in self._tree()
            if (name := _SHORT.search(path)) is not None and (name[1].startswith(wanted) or wanted.startswith(name[1]))
        ]
        try:
            return self._take_in(found, lambda node_id: node_id.startswith(wanted)) > 0
        except NoRoom as exc:
            said = f"the vault has a memory with the id {prefix.strip()!r}, and it cannot be shown now: {exc.message}"
            raise NoRoom(said, hint=exc.hint, data=exc.data) from exc

    def by_words(self, terms: Sequence[str]) -> None:
        """Index those notes that contain the most of the words `terms` and are not in the index. Does nothing unless
        the index is known to lag."""
        if not self._lagging() or not terms:
            return
        stems = [
            term.casefold() if len(term) <= STEM else term.casefold()[: max(STEM, len(term) - 2)] for term in terms
        ]
        known, end = self._index.known(), time.monotonic() + SECONDS
        scored = []
        unknown = (path for path in self._tree() if path not in known and is_note_name(path.rpartition("/")[2]))
        for count, path in enumerate(unknown):
            if count >= AT_LEAST and time.monotonic() > end:
                break
            data = self._vault.read(path)
            text = b"" if data is None else data
            folded = text.decode("utf-8", "replace").casefold()
            if score := sum(stem in folded for stem in stems):
                scored.append((score, path))
        with contextlib.suppress(NoRoom):  # an index too large for memory answers with what it has
            self._take_in([path for _, path in heapq.nlargest(MOST, scored)], lambda _: True)

    def _tree(self) -> dict[str, str]:
        return self._reconciler.look.tree(self._vault.head())

    def _take_in(self, paths: Sequence[str], wanted: Callable[[str], bool]) -> int:
        """Index the notes at `paths` whose id `wanted` accepts, and return their number. Raises NoRoom."""
        upserts = dict(self._read(paths, wanted))
        if not upserts:
            return 0
        try:
            self._index.apply(upserts, (), head=None, embed=False, superseded=self._superseded)
        except NoRoom:
            self._wait()  # the index then usually continues in memory
            self._index.apply(upserts, (), head=None, embed=False, superseded=self._superseded)
        return len(upserts)

    def _superseded(self, path: str, digest: str | None) -> bool:
        """Whether the file was changed or removed since it was read with this `digest`. A commit or a scan
        then indexes its newer state."""
        try:
            data = self._vault.read(path)
        except (OSError, OrmahError):
            return True
        return data is None or sha256(data) != digest

    def _read(
        self, paths: Sequence[str], wanted: Callable[[str], bool]
    ) -> Iterator[tuple[str, tuple[bytes, FileState]]]:
        """Yield (path, (bytes, file state)) of those files that are memories, have an id that `wanted` accepts, and
        do not differ from HEAD."""
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
