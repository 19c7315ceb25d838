"""Finds the commits that changed a note, without a walk through the whole history for each note.

Ormah's ops name their notes in a trailer. For all other commits (made by hand, or imports too large to list ids) the
changed paths are read once and kept in memory; later questions read only new commits.
"""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from ormahd.git.oplog import OpLog, View
from ormahd.model.node import short_id
from ormahd.note.note import stem_short_id
from ormahd.vault.versions import Versions, is_markdown

TRAILS = 1_000
"""Number of notes whose results are cached, so that the next question about them reads only new commits."""


class _Trail(Struct):
    """The cached result of one note: its paths, the commits that were examined, and those of them that changed it."""

    paths: set[str] = field(default_factory=set)
    looked: set[str] = field(default_factory=set)
    touched: set[str] = field(default_factory=set)


class Touched:
    """Finds commits by note, for one vault. Safe for many threads."""

    def __init__(self, oplog: OpLog, versions: Versions) -> None:
        self._oplog = oplog
        self._versions = versions
        self._lock = threading.Lock()
        self._head: str | None = None
        self._seen: set[str] = set()
        self._by_path: dict[str, list[str]] = {}
        self._by_short: dict[str, set[str]] = {}
        self._trails: OrderedDict[str, _Trail] = OrderedDict()

    def warm(self) -> None:
        """Read the commits that are not cached yet, so that the first question is fast."""
        with self._lock:
            self._learn(self._oplog.view())

    def commits(self, node_id: str, also: Iterable[str] = ()) -> frozenset[str]:
        """Return the commits that changed the note: those that name it, and those that changed it at one of its known
        paths.

        `also`: paths where the note is now, for a note that no op names and whose file name does not have its short id.
        """
        with self._lock:
            view = self._oplog.view()
            self._learn(view)
            named = [entry.commit for entry in view.entries if node_id in entry.nodes]
            trail = self._trail(node_id)
            trail.paths |= {*self._by_short.get(short_id(node_id), ()), *also}
            self._look(trail, named, node_id)
            while fresh := {commit for path in trail.paths for commit in self._by_path.get(path, ())} - trail.looked:
                self._look(trail, fresh, node_id)  # may find an earlier path of the note
            return frozenset([*named, *trail.touched])

    def unnamed(self, notes: Mapping[str, str]) -> dict[str, frozenset[str]]:
        """Return, for each note (`{id: path}`), the commits without node ids that changed its path or a file whose name
        has its short id. No file is read, so that thousands of notes may be asked about."""
        with self._lock:
            self._learn(self._oplog.view())
            places = {node_id: {path, *self._by_short.get(short_id(node_id), ())} for node_id, path in notes.items()}
            return {
                node_id: frozenset(commit for path in paths for commit in self._by_path.get(path, ()))
                for node_id, paths in places.items()
            }

    def _trail(self, node_id: str) -> _Trail:
        trail = self._trails.setdefault(node_id, _Trail())
        self._trails.move_to_end(node_id)
        while len(self._trails) > TRAILS:
            self._trails.popitem(last=False)
        return trail

    def _look(self, trail: _Trail, commits: Iterable[str], node_id: str) -> None:
        fresh = [commit for commit in commits if commit not in trail.looked]
        self._versions.load(fresh)
        for commit in fresh:
            changed = self._versions.of_node(commit, node_id)
            if changed is not None:
                trail.touched.add(commit)
                trail.paths |= {path for path in (changed.path, changed.old_path) if path}
            trail.looked.add(commit)

    def nodes(self, prefix: str) -> set[str]:
        """Return the ids with this prefix, of notes whose file name ends in their short id and which commits without
        node ids changed. Includes notes that were removed by hand."""
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

    def _learn(self, view: View) -> None:
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
