"""Answers questions about commits: which files one has, and to which files of HEAD a note's id belongs.

Which note a file of HEAD is comes from the index's tables of the history. Its other tables are not asked, because they can
be empty or out of date.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime

from ormahd.errors import Unavailable
from ormahd.git.objects import REGULAR
from ormahd.index.history import History
from ormahd.model.node import short_id
from ormahd.note.read import parse
from ormahd.note.values import Note, claim
from ormahd.vault.excluded import Excluded, is_note_name
from ormahd.vault.vault import Vault
from ormahd.watch.reading import FileStat, read_stable


class HeadFiles:
    """Returns the files of a vault in a commit, usually HEAD, with a cache. Paths are posix and relative to the vault's
    root."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._commit: str | None = None
        self._files: dict[str, str] = {}

    def at(self, commit: str | None) -> dict[str, str]:
        """Return `{path: blob id}` of the regular files of a commit. Reads only what differs from the commit of the
        last call."""
        if self._commit != commit:
            files, changed = self._files, self.differing(self._commit, commit)
            if changed is None:  # the last one is not in the repository any more
                files, changed = {}, {**self._vault.tree(commit)}
            self._files = {path: oid for path, oid in {**files, **changed}.items() if oid is not None}
            self._commit = commit
        return self._files

    def differing(self, before: str | None, after: str | None) -> dict[str, str | None] | None:
        """Return `{path: blob id in the commit after}` of the files that differ between two commits. The id is None for
        a file that `after` does not have. Return None when one of the commits does not exist."""
        try:
            return {
                path: entry.oid if entry is not None and entry.mode in REGULAR else None
                for path, _, entry in self._vault.differences(before, after)
            }
        except Unavailable:
            return None


class CommitFiles:
    """Reads the vault's files as they are in one commit. `files`: {path: blob id} of the files that can be notes, with
    paths relative to the vault's root."""

    def __init__(self, vault: Vault, excluded: Excluded, commit: str) -> None:
        self._vault = vault
        self._tree = vault.tree(commit)
        notes = (path for path in self._tree if is_note_name(path.rpartition("/")[2]))
        self.files = {path: self._tree[path] for path in notes if not excluded.is_excluded_by_name(path)}

    def file(self, path: str) -> bytes | None:
        """Return the bytes of any file of the vault in this commit; None if there is none at `path`."""
        oid = self._tree.get(path)
        return None if oid is None else self._vault.blob(oid)


class Identity:
    """Tells, during one scan of the reconciler, which note ids files have in HEAD and in the folder. Call `record_file` when a
    changed file was read, and `record_owner` when it is decided to which file an id belongs."""

    def __init__(self, vault: Vault, history: History, tree: dict[str, str], changed: Mapping[str, FileStat]) -> None:
        """`tree`: {path: blob id} of HEAD's files. `changed`: {path: stat} of the files that this scan reads."""
        self._vault = vault
        self._history = history
        self._tree = tree
        self._changed = changed
        self._ids: dict[str, str | None] = {}
        self._paths: dict[str, list[str]] = {}
        self._ids_in_folder: dict[str, str | None] = {}
        self._owners: dict[str, str] = {}
        self._is_current = False

    def record_file(self, path: str, note: Note, blob: str | None) -> None:
        """Record that the changed file at `path` was read and parsed as `note`. `blob`: its blob id if HEAD has the
        same bytes, else None."""
        self._ids_in_folder[path] = claim(note.kind, note.id)
        if blob is not None:
            self._ids[blob] = self._ids_in_folder[path]

    def record_owner(self, path: str, node_id: str) -> None:
        """Record that the id belongs to the file at `path` from now on."""
        self._owners[node_id] = path

    # What HEAD has

    def _current_history(self) -> History:
        """Return the tables of the history. The first call brings them up to HEAD, which takes time, and most scans
        need none."""
        if not self._is_current:  # most scans ask nothing
            self._history.follow()
            self._is_current = True
        return self._history

    def id_at_head(self, path: str) -> str | None:
        """Return the id of the note that HEAD has at `path`; None if HEAD has no note there."""
        oid = self._tree.get(path)
        if oid is not None and oid not in self._ids:
            self._ids[oid] = self._current_history().note_in(oid, path)
        return None if oid is None else self._ids[oid]

    def created_at_head(self, path: str) -> datetime | None:
        """Return the date `created` of the note that HEAD has at `path`; None if the note has no such date."""
        return parse(self._vault.blob(self._tree[path]), path).created

    def paths_at_head(self, node_id: str) -> list[str]:
        """Return the paths where HEAD has a note whose id is `node_id`, or begins with it."""
        if node_id not in self._paths:
            found = [path for path, oid in self._current_history().paths(node_id) if self._tree.get(path) == oid]
            self._paths[node_id] = [path for path in found if is_note_name(path.rpartition("/")[2])]
        return self._paths[node_id]

    def is_taken(self, node_id: str) -> bool:
        """Whether another note has this id, or one with the same short id."""
        short = short_id(node_id)
        return bool(self.paths_at_head(short)) or any(short_id(taken) == short for taken in self._owners)

    # What the folder has

    def id_now(self, path: str) -> str | None:
        """Return the id of the note at `path` in the folder; None if there is no file, or it has no id. A changed file
        that cannot be read counts as in HEAD."""
        if path in self._changed and path not in self._ids_in_folder:
            with suppress(OSError):  # until it can be read, it counts as in HEAD
                data = read_stable(self._vault.root, self._changed[path])
                if data is not None:
                    self.record_file(path, parse(data, path), None)
        if path not in self._ids_in_folder:
            self._ids_in_folder[path] = self.id_at_head(path) if self.is_present(path) else None
        return self._ids_in_folder[path]

    def is_present(self, path: str) -> bool:
        """Whether a regular file is at `path` in the folder."""
        with suppress(OSError):
            return stat.S_ISREG(os.lstat(self._vault.root / path).st_mode)
        return False

    def owner(self, node_id: str, path: str) -> str | None:
        """Return the path of the other file to which the id belongs; None if the file at `path` may have it.

        The id belongs to the file that got it in this scan. Otherwise it belongs to one of the files that have it in
        HEAD and still in the folder: if there are several, to the one that had it first in the history.
        """
        if node_id in self._owners:
            other = self._owners[node_id]
            return None if other == path else other
        others = [other for other in self.paths_at_head(node_id) if other != path and self.id_now(other) == node_id]
        if not others:
            return None
        owners = [path, *others] if self.id_at_head(path) == node_id else others
        chosen = owners[0] if len(owners) == 1 else self._current_history().first_path(node_id, owners) or owners[0]
        return None if chosen == path else chosen

    def moved_from(self, node_id: str, path: str) -> list[str]:
        """Return the paths, other than `path`, where HEAD has the note and the folder has no file. The note was moved
        from there."""
        return [other for other in self.paths_at_head(node_id) if other != path and not self.is_present(other)]
