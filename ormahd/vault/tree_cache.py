"""The history as the observer asks it: what HEAD has, what was ours, what came first. Nothing is written here."""

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
"""Commits of ours that are remembered until somebody asks for the tree."""
MANY = 200
"""Paths from which one listing of everything is cheaper, and safer, than naming them on a command line."""
TRAIL = 64
"""Steps that are remembered for whoever follows trees more slowly: a scan asks once for what ten others have asked about meanwhile."""


class Step(Struct, frozen=True):
    """One from a tree to the next that was followed: both commits, and the blob of each path that changed (None: gone)."""

    before: str | None
    after: str
    changes: Mapping[str, str | None]


class Look:
    """One vault's view of its repository. Paths are posix and relative to the vault's root."""

    def __init__(self, vault: Vault) -> None:
        self.vault = vault
        self._tree: tuple[str | None, dict[str, str]] | None = None
        self._steps: dict[str, tuple[str, Mapping[str, str | None]]] = {}
        """Commits of ours: by the commit each was put on, what it is called and what it changed."""
        self._trail: deque[Step] = deque(maxlen=TRAIL)
        self._lock = threading.Lock()
        self._ours: set[str] | None = None

    def reopen(self) -> None:
        """Forget what was read: the history was replaced."""
        self._tree = self._ours = None
        self._trail.clear()
        with self._lock:
            self._steps.clear()

    @property
    def ignore_files(self) -> list[Path]:
        """Files with ignore rules that lie outside the vault's folder."""
        git, prefix = self.vault.git, self.vault.prefix
        above = [git.top / parent / ".gitignore" for parent in Path(prefix).parents] if prefix else []
        return [git.common / "info/exclude", *above]

    def tree(self, head: str | None) -> dict[str, str]:
        """{path: blob id} of the vault's folder in the commit `head`; the last one is kept, and commits of ours since then are
        followed without reading it all again."""
        kept = self._tree
        if kept is None or kept[0] != head:
            found = None if head is None else self._followed(kept, head)
            kept = self._tree = (head, {} if head is None else self.vault.tree(head) if found is None else found)
        return kept[1]

    def _followed(self, kept: tuple[str | None, dict[str, str]] | None, head: str) -> dict[str, str] | None:
        """The tree that is kept with all that leads from there to `head`; None where something else came between, or none is kept."""
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
        """What differs between two trees that were asked for, the blob of each path (None: gone); None where that is not known."""
        at, changes = before, dict[str, str | None]()
        for step in list(self._trail):
            if at != after and step.before == at:
                at = step.after
                changes.update(step.changes)
        return changes if at == after else None

    def differing(self, before: str, after: str | None) -> set[str] | None:
        """Paths of the vault's folder whose blobs differ between two commits; None where one of them is not there (any more)."""
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
        """A commit of ours: what it changed is known. One that brought in more than its files is not followed."""
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
        """The blob that a commit of ours has of these bytes; where git converted them, it is looked up."""
        vault = self.vault
        return vault.blob_at(commit, path) if vault.attributes.words(path) else vault.blob_id(path, data)

    def sparse(self, paths: Collection[str]) -> set[str]:
        """Those of `paths` that are missing because of a sparse checkout: nobody deleted them."""
        prefix = self.vault.prefix
        wanted = [prefix + path for path in paths] if len(paths) < MANY else []
        found = set()
        for record in self.vault.git.stream("ls-files", "-z", "-t", "--full-name", "--", *wanted):
            tag, _, name = record.partition(b" ")
            if tag == b"S":
                found.add(os.fsdecode(name).removeprefix(prefix))
        return found.intersection(paths)

    def staged(self) -> set[str]:
        """Paths of what the person has staged and not committed."""
        vault = self.vault
        if vault.head() is None:
            return set()
        where = ["--", vault.prefix.rstrip("/")] if vault.prefix else []
        out = vault.git.run("diff-index", "--cached", "--name-only", "--no-renames", "-z", "HEAD", *where)
        return {os.fsdecode(name).removeprefix(vault.prefix) for name in out.split(b"\0") if name}

    def wrote(self, path: str) -> bool:
        """Whether a commit of ours ever added or changed the file."""
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
        """A commit of ours wrote these just now."""
        if self._ours is not None:
            self._ours.update(paths)

    def first(self, paths: Sequence[str]) -> str:
        """The one of `paths` that has stood there longest; without a history the shorter name ("note.md" before
        "note copy.md"). A place that came back (a reverted deletion) counts from then: the note that moved away
        meanwhile lives where it moved to."""
        return min(paths, key=lambda path: (self._added(path), len(path), path))

    def _added(self, path: str) -> float:
        last = self.vault.git.log("-1", "--format=%ct", "--diff-filter=A", "--no-renames", "--",
                                  self.vault.prefix + path)  # fmt: skip
        return next((float(time) for time in last if time.strip()), float("inf"))
