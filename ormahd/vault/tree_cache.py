"""Cached queries on the history for the reconciler: the files of HEAD, which of them Ormah wrote, and which came first.
Writes nothing."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from ormahd.git.process import GitFailed
from ormahd.model.change import Committed, Kind
from ormahd.vault.vault import Vault

STEPS = 1000
"""Number of Ormah's commits that are remembered until the tree is next read."""
MANY = 200
"""From this many paths on, all paths are listed instead of naming them on git's command line."""
TRAIL = 64
"""Number of steps kept for `between`: a scan calls it once, while other callers may have updated the tree many times."""


class Step(Struct, frozen=True):
    """A step from one tree to the next: both commits, and `{path: new blob id}` of the changes (None: removed)."""

    before: str | None
    after: str
    changes: Mapping[str, str | None]


class Look:
    """Cached view of one vault's repository. Paths are posix and relative to the vault's root."""

    def __init__(self, vault: Vault) -> None:
        self.vault = vault
        self._tree: tuple[str | None, dict[str, str]] | None = None
        self._steps: dict[str, tuple[str, Mapping[str, str | None]]] = {}
        """`{parent: (commit, its changes)}` of Ormah's commits since the cached tree."""
        self._trail: deque[Step] = deque(maxlen=TRAIL)
        self._lock = threading.Lock()
        self._ours: set[str] | None = None

    def reopen(self) -> None:
        """Clear the caches, because the history was replaced."""
        self._tree = self._ours = None
        self._trail.clear()
        with self._lock:
            self._steps.clear()

    @property
    def ignore_files(self) -> list[Path]:
        """Return the ignore files outside the vault's folder."""
        git, prefix = self.vault.git, self.vault.prefix
        above = [git.top / parent / ".gitignore" for parent in Path(prefix).parents] if prefix else []
        return [git.common / "info/exclude", *above]

    def tree(self, head: str | None) -> dict[str, str]:
        """Return `{path: blob id}` of the vault's folder in the commit `head`. The last result is cached, and updated
        by Ormah's own commits without reading the tree again."""
        kept = self._tree
        if kept is None or kept[0] != head:
            found = None if head is None else self._followed(kept, head)
            kept = self._tree = (head, {} if head is None else self.vault.tree(head) if found is None else found)
        return kept[1]

    def _followed(self, kept: tuple[str | None, dict[str, str]] | None, head: str) -> dict[str, str] | None:
        """Return the cached tree updated by Ormah's commits up to `head`; None when another commit is between, or no
        tree is cached."""
        at = kept[0] if kept is not None else None
        changes: dict[str, str | None] = {}
        with self._lock:
            while at is not None and at != head and at in self._steps:
                at, some = self._steps.pop(at)
                changes.update(some)
            if kept is None or at != head:
                self._steps.clear()
                return None
        self._trail.append(Step(kept[0], head, changes))
        found = kept[1] | {path: oid for path, oid in changes.items() if oid is not None}
        for path in [path for path, oid in changes.items() if oid is None]:
            found.pop(path, None)
        return found

    def between(self, before: str | None, after: str | None) -> Mapping[str, str | None] | None:
        """Return `{path: new blob id}` (None: removed) of the changes between two trees that `tree` returned; None when
        not known."""
        at, changes = before, dict[str, str | None]()
        for step in list(self._trail):
            if at != after and step.before == at:
                at = step.after
                changes.update(step.changes)
        return changes if at == after else None

    def differing(self, before: str, after: str | None) -> set[str] | None:
        """Return the paths of the vault's folder whose blobs differ between two commits; None when one of the commits
        does not exist."""
        vault = self.vault
        if after is None:
            return None
        where = ["--", vault.prefix.rstrip("/")] if vault.prefix else []
        try:
            out = vault.git.run("diff-tree", "-r", "--name-only", "--no-renames", "-z", before, after, *where)
        except GitFailed:
            return None
        return {os.fsdecode(name).removeprefix(vault.prefix) for name in out.split(b"\0") if name}

    def follow(self, done: Committed) -> None:
        """Remember the changes of one of Ormah's commits. A sync's commit is not remembered, because it changes more
        than its listed files."""
        with self._lock:
            if done.parent is None or done.kind is Kind.SYNC or len(self._steps) >= STEPS:
                self._steps.clear()
            else:
                changes = {
                    change.path: None
                    if change.in_history is None
                    else self._blob(done.commit, change.path, change.in_history)
                    for change in done.changes
                }
                self._steps[done.parent] = done.commit, changes

    def _blob(self, commit: str, path: str, data: bytes) -> str | None:
        """Return the blob id of these bytes in one of Ormah's commits; read from the commit where git may have
        converted the bytes."""
        vault = self.vault
        return vault.blob_at(commit, path) if vault.attributes.words(path) else vault.blob_id(path, data)

    def sparse(self, paths: Collection[str]) -> set[str]:
        """Return those of `paths` that are missing only because of a sparse checkout."""
        prefix = self.vault.prefix
        wanted = [prefix + path for path in paths] if len(paths) < MANY else []
        found = set()
        for record in self.vault.git.stream("ls-files", "-z", "-t", "--full-name", "--", *wanted):
            tag, _, name = record.partition(b" ")
            if tag == b"S":
                found.add(os.fsdecode(name).removeprefix(prefix))
        return found.intersection(paths)

    def staged(self) -> set[str]:
        """Return the paths of staged changes that are not committed."""
        vault = self.vault
        if vault.head() is None:
            return set()
        where = ["--", vault.prefix.rstrip("/")] if vault.prefix else []
        out = vault.git.run("diff-index", "--cached", "--name-only", "--no-renames", "-z", "HEAD", *where)
        return {os.fsdecode(name).removeprefix(vault.prefix) for name in out.split(b"\0") if name}

    def wrote(self, path: str) -> bool:
        """Whether one of Ormah's commits ever added or changed the file."""
        if self._ours is None:
            self._ours = set()
            prefix = self.vault.prefix
            for record in self.vault.git.log("--format=", "--name-only", "-E", "--grep=^Ormah-Op: ", "--diff-filter=AM",
                                             "--no-renames"):  # fmt: skip
                name = os.fsdecode(record).lstrip("\n")
                if name.startswith(prefix):
                    self._ours.add(name.removeprefix(prefix))
        return path in self._ours

    def written(self, paths: Collection[str]) -> None:
        """Record that one of Ormah's commits just wrote these paths."""
        if self._ours is not None:
            self._ours.update(paths)

    def first(self, paths: Sequence[str]) -> str:
        """Return the path whose file was added first; without a history, the shorter name ("note.md" before "note
        copy.md"). A path that was removed and added again counts from its last addition: the note that was moved away
        meanwhile keeps its new path."""
        return min(paths, key=lambda path: (self._added(path), len(path), path))

    def _added(self, path: str) -> float:
        last = self.vault.git.log("-1", "--format=%ct", "--diff-filter=A", "--no-renames", "--",
                                  self.vault.prefix + path)  # fmt: skip
        return next((float(time) for time in last if time.strip()), float("inf"))
