"""Builds the commits of a batch of ops, each on top of the last: trees, parents, author and committer."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence

from ormahd.git.objects import EXECUTABLE, FILE, Entry, Objects
from ormahd.git.refs import is_ancestor
from ormahd.git.repository import Git, Identity
from ormahd.vault.conversion import Conversion
from ormahd.vault.intents import Intent, Step

DAEMON = Identity("ormahd", "ormahd@localhost")

Fresh = dict[str, tuple[str, bytes]]
"""Git objects that are not written yet: `{id: (kind, bytes)}`."""
Told = dict[bytes, Entry | None]
"""The entries that git's index must get: `{path: entry}`; None removes the path."""


class Builder:
    """Builds git objects in memory; writes nothing."""

    def __init__(self, git: Git, objects: Objects, conversion: Conversion, where: Callable[[str], bytes]) -> None:
        """`where` converts a path of the vault to the spelling of git's trees."""
        self._git = git
        self._objects = objects
        self._conversion = conversion
        self._where = where

    def build(self, intents: Sequence[Intent], head: str | None, fresh: Fresh) -> tuple[list[str | None], Told]:
        """Return the commit of each op (None: HEAD contains its changes) and the entries that git's index must get. New
        objects are added to `fresh`."""
        root = self._objects.root(head)
        parent = head
        person = self._git.identity()
        commits: list[str | None] = []
        told: Told = {}
        for intent in intents:
            before = None
            if intent.first is not None and (tree := self._first(intent, root, fresh)) != root:
                author, committer = _who(intent, person)
                parents = [] if parent is None else [parent]
                before = self._objects.add_commit(tree, parents, author, committer, intent.first, fresh)
                root, parent = tree, before
            changes = self._changes(intent, root, fresh)
            told |= changes
            tree = self._objects.edit(root, changes, fresh)
            commit = self._commit(intent, tree, root, parent, head, person, fresh)
            commits.append(commit or before)
            if commit is not None:
                root, parent = tree, commit
        return commits, told

    def _first(self, intent: Intent, root: str | None, fresh: Fresh) -> str:
        """Return the tree of the op's first commit, which holds the files as the person wrote them."""
        changes = {
            self._where(step.path): self._entry(step.path, step.first, root, fresh, self._looks(intent, step))
            for step in intent.steps
            if step.first is not None
        }
        return self._objects.edit(root, changes, fresh)

    def _entry(self, name: str, data: bytes, root: str | None, fresh: Fresh, looks: bool) -> Entry:
        """Return the tree entry for these bytes. `looks`: take the executable bit from the file on disk; else from
        `root`."""
        path = self._where(name)
        old = self._objects.find(root, path, fresh)
        runs = old is not None and old.mode == EXECUTABLE
        if looks and self._runs(path) not in (runs, None) and self._trusts_modes():
            runs = not runs
        return Entry(
            EXECUTABLE if runs else FILE, self._objects.add_blob(self._conversion.checked_in(name, data), fresh)
        )

    @staticmethod
    def _looks(intent: Intent, step: Step) -> bool:
        """Whether the executable bit of the file on disk counts, as for `git add`: the op is the person's and the file
        existed before."""
        return intent.person and step.old is not None

    def _runs(self, path: bytes) -> bool | None:
        """Whether the file at a path is executable by its owner; None: there is no such file."""
        try:
            mode = os.lstat(os.path.join(os.fsencode(self._git.top), path)).st_mode
        except OSError:
            return None
        return bool(mode & stat.S_IXUSR) if stat.S_ISREG(mode) else None

    def _trusts_modes(self) -> bool:
        """Whether the executable bit is meaningful on this file system (`core.fileMode`, which git detects)."""
        return self._git.flag("core.filemode", default=True)

    def _changes(self, intent: Intent, root: str | None, fresh: Fresh) -> Told:
        changes: Told = {}
        for step in intent.steps:
            path = self._where(step.path)
            data = step.in_history
            changes[path] = (
                None if data is None else self._entry(step.path, data, root, fresh, self._looks(intent, step))
            )
        for entry in intent.entries:
            path = self._where(entry.path)
            file = changes[path] if path in changes else self._objects.find(root, path, fresh)
            oid = entry.oid or (file.oid if file is not None else None)
            if entry.removed:
                changes[path] = None
            elif oid is not None:
                changes[path] = Entry(entry.mode.encode(), oid)
        return changes

    def _commit(
        self, intent: Intent, tree: str, root: str | None, parent: str | None, head: str | None, person: Identity | None,
        fresh: Fresh,
    ) -> str | None:  # fmt: skip
        """Return the op's commit, or None when HEAD contains all its changes.

        An op that joins another commit gets that as its second parent, even when no file changes. When the result is a
        fast-forward, the other commit itself is returned. Otherwise two machines would answer each other's merge
        commits for ever.
        """
        parents = [] if parent is None else [parent]
        other = intent.joins
        if other is None or (head is not None and is_ancestor(self._git, other, head)):
            if tree == root:
                return None
        elif parent == head and tree == self._objects.root(other) and _within(self._git, head, other):
            return other
        else:
            parents.append(other)
        author, committer = _who(intent, person)
        return self._objects.add_commit(tree, parents, author, committer, intent.message, fresh)


def _who(intent: Intent, person: Identity | None) -> tuple[str, str]:
    """Return the author and committer lines of a commit; `person` is the identity that git is configured with, or None."""
    seconds = int(intent.time.timestamp())
    committer = person or DAEMON
    if intent.person:
        author = person or Identity("person", DAEMON.email)
    else:
        author = Identity.named(intent.source, DAEMON.email)
    return author.line(seconds), committer.line(seconds)


def _within(git: Git, commit: str | None, other: str) -> bool:
    """Whether `commit` is an ancestor of `other`; True for None (no commit yet)."""
    return commit is None or is_ancestor(git, commit, other)
