"""The versions of files that the history holds: what a commit changed, and what became of one note in it.

A note is followed by its id wherever it stands. Only what is looked at is read: an import of 10,000 notes is a list of
paths until somebody asks for one of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ormahd.core.node import short_id
from ormahd.core.note import parse, stem_short_id
from ormahd.vault.identity import claim
from ormahd.vault.three_way import Version
from ormahd.vault.vault import Vault

_FILES = {b"100644", b"100755"}
READ = 2_000
"""Files that came or went in one commit and are read to find out whether they are one note that moved. Beyond that only
those with the same bytes, or the same short id in their name, are matched."""


@dataclass(frozen=True, slots=True)
class Changed:
    """One file of a commit: where it stood before and stands after, with the blobs' ids; None: no such file."""

    old_path: str | None
    old: str | None
    path: str | None
    new: str | None

    @property
    def place(self) -> str:
        """Where the file is, or was."""
        return self.path or self.old_path or ""

    @property
    def how(self) -> str:
        """added, edited, removed or moved (perhaps edited too)."""
        if self.old is None:
            return "added"
        if self.new is None:
            return "removed"
        return "edited" if self.old_path == self.path else "moved"


class Versions:
    """Reads one vault's history. Ids of blobs that were read are remembered; safe for many threads."""

    KEPT = 50_000

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._ids: dict[str, str | None] = {}

    def changed(self, commit: str) -> list[Changed]:
        """What a commit did to the vault's regular files, against its first parent; a note that moved is one of them."""
        same: list[Changed] = []
        gone: dict[str, str] = {}
        come: dict[str, str] = {}
        for path, old, new in self._differences(commit):
            if old is not None and new is not None:
                same.append(Changed(path, old, path, new))
            elif old is not None:
                gone[path] = old
            elif new is not None:
                come[path] = new
        moved = list(self._moves(gone, come)) if gone and come else []
        same += moved
        there = {one.path for one in moved} | {one.old_path for one in moved}
        same += [Changed(path, old, None, None) for path, old in gone.items() if path not in there]
        same += [Changed(None, None, path, new) for path, new in come.items() if path not in there]
        return sorted(same, key=lambda one: one.place)

    def of_node(self, commit: str, node_id: str) -> Changed | None:
        """What a commit did to one note; None: nothing."""
        short = short_id(node_id)
        # our own names tell at once whose file it is; a person's do not
        for one in sorted(self.changed(commit), key=lambda one: stem_short_id(one.place) != short):
            was, now = (self.node_of(oid, one.place) == node_id for oid in (one.old, one.new))
            if was and now:
                return one
            if was:
                return Changed(one.old_path, one.old, None, None)
            if now:
                return Changed(None, None, one.path, one.new)
        return None

    def pair(self, one: Changed) -> tuple[Version | None, Version | None]:
        """The file before and after, with its bytes."""
        old = None if one.old is None else Version(one.old_path or "", self._vault.blob(one.old))
        return old, None if one.new is None else Version(one.path or "", self._vault.blob(one.new))

    def node_of(self, oid: str | None, path: str) -> str | None:
        """The id of the note in a blob."""
        if oid is None or path[-3:].lower() != ".md":
            return None
        if oid not in self._ids:
            note = parse(self._vault.blob(oid), path)
            if len(self._ids) >= self.KEPT:
                self._ids.clear()
            self._ids[oid] = claim(note.kind, note.id)
        return self._ids.get(oid)

    def _moves(self, gone: dict[str, str], come: dict[str, str]) -> Iterator[Changed]:
        """Files that went from one path to another: by their bytes, then by the id of the note."""
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
        """{id: path} of the notes in these files that may also be `among` the others."""
        if len(files) > READ:
            shorts = {stem_short_id(path) for path in among} - {None}
            files = {path: oid for path, oid in files.items() if stem_short_id(path) in shorts}
        found = {self.node_of(oid, path): path for path, oid in files.items()}
        return {node_id: path for node_id, path in found.items() if node_id is not None}

    def _differences(self, commit: str) -> Iterator[tuple[str, str | None, str | None]]:
        """(path relative to the root, blob before, blob after) of each regular file that a commit changed."""
        vault = self._vault
        parent = vault.git.resolve(f"{commit}^1") or vault.empty_tree
        arguments = ["diff-tree", "-r", "-z", "--no-renames", "--no-ext-diff", parent, commit]
        if vault.prefix:
            arguments += ["--", vault.prefix.rstrip("/")]
        records = vault.git.stream(*arguments)
        for meta in records:
            path = os.fsdecode(next(records)).removeprefix(vault.prefix)
            old_mode, new_mode, old, new, _ = meta[1:].split(b" ")
            yield path, old.decode() if old_mode in _FILES else None, new.decode() if new_mode in _FILES else None
