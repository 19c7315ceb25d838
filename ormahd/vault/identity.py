"""Answers questions of the reconciler about the history, from caches: which files HEAD has, whether Ormah wrote
them, and which note has an id.

Reads HEAD and the folder and writes nothing. The index is not asked, because it can be empty or out of date.
"""

from __future__ import annotations

import os
import stat
import threading
import unicodedata
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from ormahd.git.process import GitFailed
from ormahd.model.change import Committed, Kind
from ormahd.model.node import short_id
from ormahd.note.read import parse
from ormahd.note.values import Note, adopted_id, claim, stem_short_id
from ormahd.vault.conversion import FilterFailed
from ormahd.vault.create import RENAMED
from ormahd.vault.create import read as read_renamed
from ormahd.vault.excluded import is_note_name
from ormahd.vault.vault import Vault

STEPS = 1000
"""Number of Ormah's commits whose changes are recorded until the tree is next read."""
MANY = 200
"""If at least this many paths are asked about, git lists all paths, instead of only those named on its command line."""
TRAIL = 64
"""Number of steps that are recorded for `between`: a scan calls it once, while other callers may have updated the
tree many times."""


class TreeStep(Struct, frozen=True):
    """One recorded change of HEAD's tree: the commits `before` and `after` it, and `{path: new blob id}` of the
    changed files (None: removed)."""

    before: str | None
    after: str
    changes: Mapping[str, str | None]


class RepositoryView:
    """Answers questions on the commits, the tree of HEAD and the git index of one vault, with caches. Paths are posix
    and relative to the vault's root."""

    def __init__(self, vault: Vault) -> None:
        self.vault = vault
        self._tree: tuple[str | None, dict[str, str]] | None = None
        self._steps: dict[str, tuple[str, Mapping[str, str | None]]] = {}
        """`{parent: (commit, its changes)}` of Ormah's commits since the cached tree."""
        self._trail: deque[TreeStep] = deque(maxlen=TRAIL)
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
        self._trail.append(TreeStep(kept[0], head, changes))
        found = kept[1] | {path: oid for path, oid in changes.items() if oid is not None}
        for path in [path for path, oid in changes.items() if oid is None]:
            found.pop(path, None)
        return found

    def between(self, before: str | None, after: str | None) -> Mapping[str, str | None] | None:
        """Return `{path: new blob id}` (None: removed) of the changes between the trees of two commits for which
        `tree` was called; None when the changes are not recorded."""
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
        """Record the changes of one of Ormah's commits, so that `tree` need not read them. A sync's commit is not
        recorded, because it changes more than the files that it lists."""
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
        """Return the id of the blob that one of Ormah's commits has for these bytes at a path. It is computed; when
        git attributes apply to the path, so that git may have converted the bytes, it is read from the commit."""
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
        """Return the paths that have staged changes, which are not committed yet."""
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
        """Return the path whose file was added to the history first, by the order of the commits, since clocks may
        differ.

        Paths that are not in the history come last, the shorter name first ("note.md" before "note copy.md"). A path
        that was removed and added again counts from its last addition: a note that was moved away from it meanwhile
        keeps its new path.
        """
        added = self._added(paths)
        never = -1  # not in the history yet: after all others
        return min(paths, key=lambda path: (-added.get(path, never), len(path), path))

    def _added(self, paths: Sequence[str]) -> dict[str, int]:
        """Return `{path: number}`. Of the commits that added one of these paths, the number says how many are newer
        than the last addition of this path."""
        prefix, found, number = self.vault.prefix, dict[str, int](), -1
        for record in self.vault.git.log("--date-order", "--format=%x01", "--name-only", "--diff-filter=A", "--no-renames",
                                         "--", *(prefix + path for path in paths)):  # fmt: skip
            if record == b"\x01":
                if len(found) == len(paths):
                    break
                number += 1
            elif record:
                found.setdefault(os.fsdecode(record.lstrip(b"\n")).removeprefix(prefix), number)
        return found


KEPT = 2_000
"""Number of blobs whose note id stays cached, in addition to two for each file of HEAD."""


def _nothing(path: str) -> None:  # noqa: ARG001 - placeholder until the first scan sets the reader
    return None


class Identity:
    """Tells, during one scan of the reconciler, which note ids files have in HEAD and in the folder. Call `begin` at
    the start of a scan, `saw` when a changed file was read, and `took` when it is decided to which file an id
    belongs."""

    def __init__(self, look: RepositoryView, home: str) -> None:
        self._look = look
        self._root = os.fspath(look.vault.root)
        self._home = home
        self._by_blob: dict[str, tuple[str | None, datetime | None]] = {}
        self._head: str | None = None
        self._tree: dict[str, str] = {}
        self._by_id: dict[str, list[str]] | None = None
        self._by_name: tuple[dict[str, list[str]], dict[str, list[str]]] | None = None
        self._shorts: set[str] = set()
        self._now: dict[str, str | None] = {}
        self._taken: dict[str, str] = {}
        self._renamed: tuple[str | None, dict[str, str]] = (None, {})
        self._unread: set[str] = set()
        self._read: Callable[[str], str | None] = _nothing

    def begin(self, head: str | None, unread: Collection[str], read: Callable[[str], str | None]) -> None:
        """Start a scan. `unread`: changed files that were not read yet. `read` returns the id that such a file has now."""
        if head != self._head:
            before, old = self._head, self._tree
            self._head = head
            self._tree = self._look.tree(head)
            self._by_id = None
            changes = self._look.between(before, head)
            if changes is not None:
                self._follow(changes, old)
            else:
                self._by_name = None
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
        if oid is None:
            return None
        node_id = self._blob(oid, path)
        return None if node_id is None else (node_id, self._by_blob[oid][1])

    def _blob(self, oid: str, path: str) -> str | None:
        if oid not in self._by_blob:
            try:
                note = parse(self._look.vault.conversion.checked_out(path, oid), path)
            except FilterFailed:
                return None
            self._by_blob[oid] = (claim(note.kind, note.id), note.created)
        return self._by_blob[oid][0]

    def paths(self, node_id: str) -> list[str]:
        """Return the paths where HEAD has a note with this id.

        At first only two groups are read: the files whose name ends in the short id, and the notes whose name has no
        short id. Every note is read only if none of these has the id, because a person may have given a file another
        note's name.
        """
        if self._by_id is None:
            by_name, unnamed = self._sorted_by_name()
            found = [
                path for path in by_name.get(short_id(node_id), ()) if self._blob(self._tree[path], path) == node_id
            ]
            found += unnamed.get(node_id, ())
            if found:
                return found
        return self._all().get(node_id, [])

    def _sorted_by_name(self) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
        """Return two maps: `{short id: paths}` of files whose name ends in a short id, and `{id: paths}` of all
        other notes."""
        if self._by_name is None:
            by_name: dict[str, list[str]] = {}
            unnamed: dict[str, list[str]] = {}
            for path, oid in self._tree.items():
                if not is_note_name(path.rpartition("/")[2]):
                    continue
                if short := stem_short_id(path):
                    by_name.setdefault(short, []).append(path)
                elif found := self._blob(oid, path):
                    unnamed.setdefault(found, []).append(path)
            self._by_name = by_name, unnamed
        return self._by_name

    def _follow(self, changes: Mapping[str, str | None], old: Mapping[str, str]) -> None:
        """Update the maps of `_sorted_by_name` from the tree `old` to today's tree. `changes`: `{path: new blob id}`
        of the paths that differ (None: removed)."""
        if self._by_name is None:
            return
        by_name, unnamed = self._by_name
        for path, oid in changes.items():
            if not is_note_name(path.rpartition("/")[2]):
                continue
            short = stem_short_id(path)
            for now, blob in ((False, old.get(path)), (True, oid)):
                if blob is None:
                    continue
                name = short or self._blob(blob, path)
                if not name:
                    continue
                places = (by_name if short else unnamed).setdefault(name, [])
                if path in places:
                    places.remove(path)
                if now:
                    places.append(path)

    def _all(self) -> dict[str, list[str]]:
        if self._by_id is None:
            self._by_id = {}
            for path, oid in self._tree.items():
                if is_note_name(path.rpartition("/")[2]) and (found := self._blob(oid, path)):
                    self._by_id.setdefault(found, []).append(path)
            self._shorts |= {short_id(found) for found in self._by_id}
        return self._by_id

    def is_taken(self, node_id: str) -> bool:
        self._all()
        return node_id in self._taken or short_id(node_id) in self._shorts

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

    # Notes that are only indexed

    def renamed(self) -> dict[str, str]:
        """Return `{path: id}` of the notes of kind `indexed` that have left the path where they were first found, as
        recorded by `.ormah/renamed.jsonl` in HEAD."""
        oid = self._tree.get(RENAMED)
        if self._renamed[0] != oid:
            self._renamed = oid, read_renamed(None if oid is None else self._look.vault.blob(oid, RENAMED))
        return self._renamed[1]

    def rename(self, renamed: dict[str, str]) -> None:
        """Set the value that `renamed` returns, after Ormah committed a change of `.ormah/renamed.jsonl` during this
        scan."""
        self._renamed = self._tree.get(RENAMED), renamed

    def lent(self, vault_id: str, path: str, renamed: Mapping[str, str] | None = None) -> str:
        """Return the id that Ormah uses for the note at `path`, whose file contains no id. It is derived from the
        path where the note was first found. `renamed`: the value of `renamed()` for another state of the vault."""
        said = self.renamed() if renamed is None else renamed
        if path in said:
            return said[path]
        gone, twin = set(said.values()), self._is_twin(path)
        for attempt in range(1000):
            node_id = adopted_id(vault_id, path, b"", attempt=attempt, exact=twin)
            if node_id not in gone and not any(other != path for other in self.paths(node_id)):
                break
        return node_id

    def _is_twin(self, path: str) -> bool:
        """Whether another file's path differs from this one only in the Unicode form of accents (NFC and NFD): both
        would get one id."""
        composed = unicodedata.normalize("NFC", path)
        if path == composed:
            return False
        if path != unicodedata.normalize("NFD", path):
            return True
        try:
            return os.lstat(f"{self._root}/{composed}").st_ino != os.lstat(f"{self._root}/{path}").st_ino
        except OSError:  # one of the two files does not exist
            return False

    def moved_from(self, node_id: str, path: str) -> list[str]:
        """Return the paths where HEAD has the note and the folder has no file: the note was moved from one of them to
        `path`."""
        return [other for other in self.paths(node_id) if other != path and not self.present(other)]

    def followed(self, path: str, node_id: str | None) -> bool:
        """Whether Ormah wrote or adopted the note, wherever it is now."""
        if node_id is None:
            before = self.at_head(path)
            if before is None:
                return False
            node_id = before[0]
        places = {path, *self.paths(node_id)} if path not in self._tree or self._home else {path}
        return any(other in self._tree and self._was_ours(other) for other in places)

    def _was_ours(self, path: str) -> bool:
        if self._home and not path.startswith(self._home + "/"):
            return self._look.wrote(path)
        return self._blob(self._tree[path], path) is not None

    def first_path(self, node_id: str, paths: Collection[str]) -> str | None:
        """Return which of several files with one id had it first: the oldest of those that have the id in HEAD, else
        the oldest of all."""
        tree = self._look.tree(self._look.vault.head())
        known = [path for path in paths if path in tree and self._blob(tree[path], path) == node_id]
        return self._look.first(known or sorted(paths)) if paths else None
