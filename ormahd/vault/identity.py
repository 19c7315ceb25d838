"""Answers questions of the reconciler about the history, from caches: which files HEAD has, and which note has an id.

Reads HEAD and the folder and writes nothing. The index is not asked, because it can be empty or out of date.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from ormahd.git.process import GitFailed
from ormahd.model.change import Committed, Kind
from ormahd.model.node import short_id
from ormahd.note.read import parse
from ormahd.note.values import Note, claim, stem_short_id
from ormahd.vault.excluded import is_note_name
from ormahd.vault.vault import Vault

STEPS = 1000
"""Number of Ormah's commits whose changes are recorded until the tree is next read."""


class RepositoryView:
    """Answers questions on the commits and the tree of HEAD of one vault, with a cache. Paths are posix and relative to
    the vault's root."""

    def __init__(self, vault: Vault) -> None:
        self.vault = vault
        self._tree: tuple[str | None, dict[str, str]] = (None, {})
        self._steps: dict[str, tuple[str, Mapping[str, str | None]]] = {}
        """`{parent: (commit, its changes)}` of Ormah's commits since the cached tree."""
        self._lock = threading.Lock()

    def reopen(self) -> None:
        """Clear the cache, because the history was replaced."""
        with self._lock:
            self._tree = (None, {})
            self._steps.clear()

    @property
    def ignore_files(self) -> list[Path]:
        """Return the ignore files outside the vault's folder."""
        return [self.vault.git.git_dir / "info/exclude"]

    def tree(self, head: str | None) -> dict[str, str]:
        """Return `{path: blob id}` of the vault's folder in the commit `head`. The last result is cached, and updated
        by Ormah's own commits without reading the tree again."""
        at, found = self._tree
        if at != head:
            changes: dict[str, str | None] = {}
            with self._lock:
                while at is not None and at != head and at in self._steps:
                    at, some = self._steps.pop(at)
                    changes.update(some)
                if at != head:
                    self._steps.clear()
            if head is None or at != head:
                found = {} if head is None else self.vault.tree(head)
            else:
                merged = {**found, **changes}
                found = {path: oid for path, oid in merged.items() if oid is not None}
            self._tree = head, found
        return found

    def differing(self, before: str, after: str | None) -> set[str] | None:
        """Return the paths of the vault's folder whose blobs differ between two commits; None when one of the commits
        does not exist."""
        vault = self.vault
        if after is None:
            return None
        try:
            out = vault.git.run("diff-tree", "-r", "--name-only", "--no-renames", "-z", before, after)
        except GitFailed:
            return None
        return {os.fsdecode(name) for name in out.split(b"\0") if name}

    def follow(self, done: Committed) -> None:
        """Record the changes of one of Ormah's commits, so that `tree` need not read them. A sync's commit is not
        recorded, because it changes more than the files that it lists."""
        with self._lock:
            if done.parent is None or done.kind is Kind.SYNC or len(self._steps) >= STEPS:
                self._steps.clear()
            else:
                self._steps[done.parent] = (
                    done.commit,
                    {
                        one.path: None if one.data is None else self.vault.git.oid("blob", one.data)
                        for one in done.changes
                    },
                )

    def first(self, paths: Sequence[str]) -> str:
        """Return the path whose file was added to the history first, by the order of the commits, since clocks may
        differ.

        Paths that are not in the history come last, the shorter name first ("note.md" before "note copy.md"). A path
        that was removed and added again counts from its last addition: a note that was moved away from it meanwhile
        keeps its new path.
        """
        added, number = dict[str, int](), -1
        for record in self.vault.git.log("--date-order", "--format=%x01", "--name-only", "--diff-filter=A", "--no-renames",
                                         "--", *paths):  # fmt: skip
            if record == b"\x01":
                if len(added) == len(paths):
                    break
                number += 1
            elif record:
                added.setdefault(os.fsdecode(record.lstrip(b"\n")), number)
        never = -1  # not in the history yet: after all others
        return min(paths, key=lambda path: (-added.get(path, never), len(path), path))


KEPT = 2_000
"""Number of blobs whose note id stays cached, in addition to two for each file of HEAD."""


class Identity:
    """Tells, during one scan of the reconciler, which note ids files have in HEAD and in the folder. Call `begin` at
    the start of a scan, `saw` when a changed file was read, and `took` when it is decided to which file an id
    belongs."""

    def __init__(self, look: RepositoryView) -> None:
        self._look = look
        self._root = os.fspath(look.vault.root)
        self._by_blob: dict[str, tuple[str | None, datetime | None]] = {}
        self._head: str | None = None
        self._tree: dict[str, str] = {}
        self._by_id: dict[str, list[str]] | None = None
        self._by_name: tuple[dict[str, list[str]], dict[str, list[str]]] | None = None
        self._shorts: set[str] = set()
        self._now: dict[str, str | None] = {}
        self._taken: dict[str, str] = {}
        self._unread: set[str] = set()
        self._read: Callable[[str], str | None] = lambda _path: None

    def begin(self, head: str | None, unread: Collection[str], read: Callable[[str], str | None]) -> None:
        """Start a scan. `unread`: changed files that were not read yet. `read` returns the id that such a file has now."""
        if head != self._head:
            self._head, self._tree = head, self._look.tree(head)
            self._by_id = self._by_name = None
            if len(self._by_blob) > 2 * len(self._tree) + KEPT:
                blobs = set(self._tree.values())
                self._by_blob = {oid: found for oid, found in self._by_blob.items() if oid in blobs}
        self._now.clear()
        self._taken.clear()
        self._unread = set(unread)
        self._read = read

    def saw(self, path: str, note: Note, blob: str | None) -> None:
        """Record that the changed file at `path` was read, as `note`. `blob`: its blob id, if HEAD has exactly the
        same bytes; else None."""
        self._now[path] = claim(note.kind, note.id)
        if blob is not None:
            self._by_blob[blob] = (claim(note.kind, note.id), note.created)

    def took(self, path: str, node_id: str) -> None:
        """Record that the id belongs to the file at `path` from now on."""
        self._taken[node_id] = path
        self._shorts.add(short_id(node_id))

    # What HEAD has

    def at_head(self, path: str) -> tuple[str, datetime | None] | None:
        """Return id and `created` of the note that HEAD has at `path`, or None."""
        oid = self._tree.get(path)
        node_id = None if oid is None else self._blob(oid, path)
        return None if oid is None or node_id is None else (node_id, self._by_blob[oid][1])

    def _blob(self, oid: str, path: str) -> str | None:
        if oid not in self._by_blob:
            note = parse(self._look.vault.blob(oid), path)
            self._by_blob[oid] = (claim(note.kind, note.id), note.created)
        return self._by_blob[oid][0]

    def paths(self, node_id: str) -> list[str]:
        """Return the paths where HEAD has a note with this id.

        At first only two groups are read: the files whose name ends in the short id, and the notes whose name has no
        short id. Every note is read only if none of these has the id, because a person may have given a file another
        note's name.
        """
        if self._by_id is None:
            if self._by_name is None:
                named: dict[str, list[str]] = {}
                unnamed: dict[str, list[str]] = {}
                for path, oid in self._notes():
                    if short := stem_short_id(path):
                        named.setdefault(short, []).append(path)
                    elif found := self._blob(oid, path):
                        unnamed.setdefault(found, []).append(path)
                self._by_name = named, unnamed
            by_name, unnamed = self._by_name
            paths = [
                path for path in by_name.get(short_id(node_id), ()) if self._blob(self._tree[path], path) == node_id
            ]
            paths += unnamed.get(node_id, ())
            if paths:
                return paths
        return self._all().get(node_id, [])

    def _notes(self) -> list[tuple[str, str]]:
        return [(path, oid) for path, oid in self._tree.items() if is_note_name(path.rpartition("/")[2])]

    def _all(self) -> dict[str, list[str]]:
        if self._by_id is None:
            self._by_id = {}
            for path, oid in self._notes():
                if found := self._blob(oid, path):
                    self._by_id.setdefault(found, []).append(path)
            self._shorts = {short_id(found) for found in (*self._by_id, *self._taken)}
        return self._by_id

    def is_taken(self, node_id: str) -> bool:
        """Whether another note has this id, or one with the same short id."""
        self._all()
        return short_id(node_id) in self._shorts

    # What the folder has

    def now(self, path: str) -> str | None:
        """Return the id that the file at `path` has in the folder, or None."""
        if path in self._now:
            return self._now[path]
        if path in self._unread:
            self._now[path] = self._read(path)
            return self._now[path]
        if not self.present(path):
            return None
        oid = self._tree.get(path)
        return None if oid is None else self._blob(oid, path)

    def present(self, path: str) -> bool:
        try:
            return stat.S_ISREG(os.lstat(f"{self._root}/{path}").st_mode)
        except OSError:
            return False

    def owner(self, node_id: str, path: str) -> str | None:
        """Return the path of another file to which the id belongs; None: the file at `path` may have the id."""
        if node_id in self._taken:
            other = self._taken[node_id]
            return None if other == path else other
        others = [other for other in self.paths(node_id) if other != path and self.now(other) == node_id]
        if not others:
            return None
        before = self.at_head(path)
        rivals = [path, *others] if before is not None and before[0] == node_id else others
        chosen = rivals[0] if len(rivals) == 1 else self._look.first(rivals)
        return None if chosen == path else chosen

    def moved_from(self, node_id: str, path: str) -> list[str]:
        """Return the paths where HEAD has the note and the folder has no file: the note was moved from one of them to
        `path`."""
        return [other for other in self.paths(node_id) if other != path and not self.present(other)]

    def first_path(self, node_id: str, paths: Collection[str]) -> str | None:
        """Return which of several files with one id had it first: the oldest of those that have the id in HEAD, else
        the oldest of all."""
        tree = self._look.tree(self._look.vault.head())
        known = [path for path in paths if path in tree and self._blob(tree[path], path) == node_id]
        return self._look.first(known or sorted(paths)) if paths else None
