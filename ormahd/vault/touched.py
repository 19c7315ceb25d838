"""Which commits touched a note, without walking the whole history for it.

Ops of ours name their notes in a trailer. Of the others (commits by hand, imports too large to list ids) the changed
paths are read once, kept in memory, and what is new since is added: 20,000 commits by hand take some seconds the first
time and about 10 MB.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable

from ormahd.core.node import short_id
from ormahd.core.note import stem_short_id
from ormahd.vault.oplog import OpLog, View
from ormahd.vault.versions import Versions, is_markdown


class Touched:
    """For one vault. Safe for many threads."""

    def __init__(self, oplog: OpLog, versions: Versions) -> None:
        self._oplog = oplog
        self._versions = versions
        self._lock = threading.Lock()
        self._head: str | None = None
        self._seen: set[str] = set()
        self._by_path: dict[str, list[str]] = {}
        self._by_short: dict[str, set[str]] = {}

    def warm(self) -> None:
        """Read what is not known yet, so that the first question need not."""
        with self._lock:
            self._learn(self._oplog.view())

    def commits(self, node_id: str, also: Iterable[str] = ()) -> frozenset[str]:
        """Commits that changed the note, as far as they say so or are known to have had it under one of its paths.

        `also`: paths where the note stands, for one that no op names and whose file's name does not tell.
        """
        with self._lock:
            view = self._oplog.view()
            self._learn(view)
            named = [entry.commit for entry in view.entries if node_id in entry.nodes]
            paths = set(self._by_short.get(short_id(node_id), ())) | set(also)
        self._versions.load(named)
        for commit in named:
            paths |= self._places(commit, node_id)
        found: set[str] = set()
        seen: set[str] = set()
        while paths:
            with self._lock:
                fresh = {commit for path in paths for commit in self._by_path.get(path, ())} - seen
            seen |= fresh
            self._versions.load(fresh)
            paths = set()
            for commit in fresh:
                places = self._places(commit, node_id)
                if places:
                    found.add(commit)
                    paths |= places  # under another name before
        return frozenset([*named, *found])

    def nodes(self, prefix: str) -> set[str]:
        """Ids that begin so, of notes in files whose name ends in their short id and that no op needs to name: also of
        those that were removed by hand."""
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

    def _places(self, commit: str, node_id: str) -> set[str]:
        """The paths that a note had before and after a commit that changed it."""
        changed = self._versions.of_node(commit, node_id)
        return set() if changed is None else {path for path in (changed.path, changed.old_path) if path}

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
