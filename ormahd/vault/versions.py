"""Read which files each commit changed, what a commit did to one note, and which commits changed a note.

A note is followed by its id whatever its path. Blobs are read only when needed: a commit that imports 10,000 notes
is a list of paths until a caller asks for one of them.

The commits of a note are found without a walk through the whole history. Ormah's ops name their notes in a trailer.
For all other commits (made by hand, or imports too large to list ids) the changed paths are read once and kept in
memory; later questions read only new commits.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from ormahd.git.blobs import ask_many
from ormahd.git.oplog import LogView, OpLog
from ormahd.git.repository import Git
from ormahd.model.node import short_id
from ormahd.note.read import parse
from ormahd.note.values import claim, stem_short_id

READ = 2_000
"""How many added (or removed) files of one commit are all read, to match moved notes by id. When there are more,
files are matched by equal bytes, or are read only if their names have the same short id."""
IDS = 20_000
"""Number of blobs whose note id is cached."""
FILES = 20_000
"""Number of files in all cached commits together. It is large, because a recall asks for the edits of a few
memories, and in a new vault most of these came in commits of hundreds of files."""

_FILES = {b"100644", b"100755"}

Text = tuple[str, bytes]
"""A file in one state: (path relative to the vault's root, bytes)."""


class Changed(Struct, frozen=True):
    """One file that a commit changed. `old_path`, `old`: its path and blob id before the commit; `path`, `new`: those
    after it. None: no such file."""

    old_path: str | None
    old: str | None
    path: str | None
    new: str | None

    @property
    def place(self) -> str:
        """The path after the commit, or before it if the file was removed."""
        return self.path or self.old_path or ""


class Versions:
    """Reads the history of one repository. Results are cached within bounds, since commits never change. Safe for many threads."""

    def __init__(self, git: Git) -> None:
        self._git = git
        self._lock = threading.Lock()
        self._ids: dict[str, str | None] = {}
        self._commits: dict[str, tuple[Changed, ...]] = {}
        self._files = 0

    def changed(self, commit: str) -> Sequence[Changed]:
        """Return the vault's regular files that a commit changed against its first parent; a moved note is one entry."""
        kept = self._commits.get(commit)
        return self.load([commit]).get(commit, ()) if kept is None else kept

    def load(self, commits: Iterable[str]) -> Mapping[str, Sequence[Changed]]:
        """Read several commits into the cache by one git process. Return those that were missing in it."""
        read = dict(self._read([commit for commit in commits if commit not in self._commits]))
        for commit, found in read.items():
            with self._lock:
                self._files += len(found) + 1
                if self._files > FILES:
                    self._commits, self._files = {}, len(found) + 1
                self._commits[commit] = found
        return read

    def of_node(self, commit: str, node_id: str) -> Changed | None:
        """Return the change that a commit made to one note; None: no change."""
        short = short_id(node_id)
        changed = self.changed(commit)
        named = [
            one for one in changed if short in one.place
        ]  # names given by Ormah have the short id; a person's do not
        for one in itertools.chain(named, (one for one in changed if short not in one.place)):
            was, now = (self.node_of(oid, one.place) == node_id for oid in (one.old, one.new))
            if was and now:
                return one
            if was:
                return Changed(one.old_path, one.old, None, None)
            if now:
                return Changed(None, None, one.path, one.new)
        return None

    def pair(self, one: Changed) -> tuple[Text | None, Text | None]:
        """Return (the file before the commit, the file after it); None: no such file."""
        old = None if one.old is None else (one.old_path or "", self._git.read(one.old, "blob"))
        return old, None if one.new is None else (one.path or "", self._git.read(one.new, "blob"))

    def node_of(self, oid: str | None, path: str) -> str | None:
        """Return the id of the note in a blob. None: the blob is no note with an id."""
        if oid is None or not is_markdown(path):
            return None
        if oid in self._ids:
            return self._ids[oid]
        note = parse(self._git.read(oid, "blob"), path)
        found = claim(note.kind, note.id)
        with self._lock:
            if len(self._ids) >= IDS:
                self._ids.clear()
            self._ids[oid] = found
        return found

    def differences(self, commits: Sequence[str]) -> Iterator[tuple[str, list[Changed]]]:
        """Yield (commit, the files that it changed against its first parent). Moved files are not matched; commits
        that changed nothing are skipped."""
        arguments = ["diff-tree", "--stdin", "-r", "-z", "--root", "--no-renames", "--no-ext-diff"]
        arguments += ["--diff-merges=first-parent"]
        commit, found = "", []
        records = ask_many(self._git, arguments, commits)
        for record in records:
            if record.startswith(b":"):
                path = os.fsdecode(next(records))
                old_mode, new_mode, old, new, _ = record[1:].split(b" ")
                was, now = (
                    oid.decode() if mode in _FILES else None for mode, oid in ((old_mode, old), (new_mode, new))
                )
                if was or now:
                    found.append(Changed(path if was else None, was, path if now else None, now))
            elif record:
                if found:
                    yield commit, found
                commit, found = record.decode(), []
        if found:
            yield commit, found

    def _read(self, commits: Sequence[str]) -> Iterator[tuple[str, tuple[Changed, ...]]]:
        left = dict.fromkeys(commits)
        for commit, found in self.differences(commits):
            left.pop(commit, None)
            gone = {one.place: one.old for one in found if one.new is None and one.old is not None}
            come = {one.place: one.new for one in found if one.old is None and one.new is not None}
            moved = list(self._moves(gone, come)) if gone and come else []
            there = {one.path for one in moved} | {one.old_path for one in moved}
            rest = [one for one in found if not (one.place in there and (one.old is None or one.new is None))]
            yield commit, tuple(sorted([*rest, *moved], key=lambda one: one.place))
        for commit in left:
            yield commit, ()

    def _moves(self, gone: dict[str, str], come: dict[str, str]) -> Iterator[Changed]:
        """Yield the files that moved, matched by their bytes, then by the note's id. `gone` and `come`: `{path: blob
        id}` of the files that a commit removed and added."""
        left = dict(come)
        by_oid: dict[str, list[str]] = {}
        for path, oid in come.items():
            by_oid.setdefault(oid, []).append(path)
        rest: dict[str, str] = {}
        for path, oid in gone.items():
            twins = [twin for twin in by_oid.get(oid, ()) if twin in left]
            if not twins:
                rest[path] = oid
                continue
            name = path.rpartition("/")[2]
            twin = next((twin for twin in twins if twin.rpartition("/")[2] == name), twins[0])
            del left[twin]
            yield Changed(path, oid, twin, oid)
        places = self._by_node(left, among=rest)
        for node_id, path in self._by_node(rest, among=left).items():
            if node_id in places:
                yield Changed(path, rest[path], places[node_id], left[places[node_id]])

    def _by_node(self, files: dict[str, str], *, among: Iterable[str]) -> dict[str, str]:
        """Return `{node id: path}` of the notes in `files` (`{path: blob id}`). If there are more than `READ` files,
        only those are read whose name has the same short id as a name in `among`."""
        if len(files) > READ:
            shorts = {stem_short_id(path) for path in among} - {None}
            files = {path: oid for path, oid in files.items() if stem_short_id(path) in shorts}
        found = {self.node_of(oid, path): path for path, oid in files.items()}
        return {node_id: path for node_id, path in found.items() if node_id is not None}


def is_markdown(path: str) -> bool:
    return path[-3:].lower() == ".md"


class NoteCommits:
    """Finds the commits that changed a given note, for one vault. Safe for many threads."""

    def __init__(self, oplog: OpLog, versions: Versions) -> None:
        self._oplog = oplog
        self._versions = versions
        self._lock = threading.Lock()
        self._head: str | None = None
        self._seen: set[str] = set()
        self._by_path: dict[str, list[str]] = {}
        self._by_short: dict[str, set[str]] = {}

    def warm(self) -> None:
        """Read the commits that are not cached yet, so that the first call of `commits` is fast."""
        with self._lock:
            self._learn(self._oplog.view())

    def commits(self, node_id: str, also: Iterable[str] = ()) -> frozenset[str]:
        """Return the commits that changed the note: those whose message names it, and those that changed it at one
        of its known paths.

        `also`: paths where the note is now, for a note that no op names and whose file name does not have its short
        id.
        """
        with self._lock:
            view = self._oplog.view()
            self._learn(view)
            by_path = self._by_path
            paths = {*self._by_short.get(short_id(node_id), ()), *also}
        named = {entry.commit for entry in view.entries if node_id in entry.nodes}
        looked, touched = set[str](), set[str]()
        fresh = named.union(*(by_path.get(path, ()) for path in paths))
        while fresh:
            self._versions.load(fresh)
            looked |= fresh
            for commit in fresh:
                if (changed := self._versions.of_node(commit, node_id)) is not None:
                    touched.add(commit)
                    paths |= {path for path in (changed.path, changed.old_path) if path}  # an earlier one, perhaps
            fresh = {commit for path in paths for commit in by_path.get(path, ())} - looked
        return frozenset(named | touched)

    def unnamed(self, notes: Mapping[str, str]) -> dict[str, frozenset[str]]:
        """Return `{node id: commits}` for these notes (`{node id: path}`). The commits are those whose message lists
        no node ids, and which changed the note's path or a file whose name has the note's short id. No file is read,
        so that it is fast for thousands of notes."""
        with self._lock:
            self._learn(self._oplog.view())
            places = {node_id: {path, *self._by_short.get(short_id(node_id), ())} for node_id, path in notes.items()}
            return {
                node_id: frozenset(commit for path in paths for commit in self._by_path.get(path, ()))
                for node_id, paths in places.items()
            }

    def nodes(self, prefix: str) -> set[str]:
        """Return the node ids with this prefix that are found in commits whose message lists no node ids. Only files
        whose name ends in a short id are considered. Includes notes that were removed by hand."""
        with self._lock:
            self._learn(self._oplog.view())
            paths = {
                path for short, some in self._by_short.items() if short.startswith(prefix[:8]) or prefix.startswith(short)
                for path in some
            }  # fmt: skip
            commits = {commit for path in paths for commit in self._by_path[path]}
        self._versions.load(commits)
        found: set[str | None] = set()
        for commit in commits:
            for one in self._versions.changed(commit):
                if one.path in paths or one.old_path in paths:
                    found |= {self._versions.node_of(oid, one.place) for oid in (one.old, one.new)}
        return {node_id for node_id in found if node_id is not None and node_id.startswith(prefix)}

    def _learn(self, view: LogView) -> None:
        if view.head == self._head:
            return
        silent = [entry.commit for entry in view.entries if not entry.nodes and entry.commit not in self._seen]
        for commit, changes in self._versions.differences(silent):
            for change in changes:
                if is_markdown(change.place):
                    path = sys.intern(change.place)
                    self._by_path.setdefault(path, []).append(commit)
                    if short := stem_short_id(path):
                        self._by_short.setdefault(short, set()).add(path)
        self._seen.update(silent)
        self._head = view.head
