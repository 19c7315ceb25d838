"""When somebody last had a memory in hand, as the history tells: a person, an agent, an undo. Reads only.

Most of what changes a note is no sign that anybody needs it: links and moves by jobs, and the commit it came in with. A note's own
`updated` counts too, where no job wrote it: an import says so, and a person who types it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ormahd.model.change import Kind
from ormahd.model.node import Tier
from ormahd.note.note import NoteKind, parse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ormahd.git.oplog import Entry
    from ormahd.index.rows import NodeRow
    from ormahd.note.note import Note
    from ormahd.vault.vault import Vault
    from ormahd.vault.versions import Text

_SAYS = {Kind.UPDATE, Kind.LINK, Kind.UNDO, Kind.MERGE, Kind.CONSOLIDATE}
"""Kinds of ops after which somebody had the note in hand. A merge and a consolidation do as well when a job made them: what they
brought together was said again. Not a judgement: useful ones are uses, the others are no reason to keep anything."""
_QUIET = {Kind.LINK, Kind.CLUSTER, Kind.CONFLICT, Kind.DECAY, Kind.PROMOTE}
"""By a job, these write `updated` and say nothing of the memory's worth."""
_WRITTEN_WITHIN = 60
"""Seconds between an `updated` that a job wrote and its commit, at most: git may have been busy."""
LOOKS = 500
"""Edits whose two versions are read in one life of this value, at most. Further ones count as what they mostly are."""


class Touches:
    """Of one vault, as its history is when this is made."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._said: dict[str, Entry] = {}
        self._edits: dict[str, Entry] = {}
        self._quiet: dict[str, list[int]] = {}
        self._undone: dict[str, int] = {}
        self._wanted: set[str] = set()
        self._by_hand: dict[str, Entry] = {}
        self._named: dict[str, int] = {}
        self._silent: dict[str, int] = {}
        self._looks = 0
        self._read(vault.oplog.view().entries)

    def last(self, row: NodeRow, since: datetime) -> datetime | None:
        """When somebody last had this memory in hand after it had come; None: nobody did, after `since`."""
        times = [self._undone.get(row.id, 0)]
        if (said := self._said.get(row.id)) is not None:
            times.append(said.time)
        if not self._by_job(row):
            times.append(int(row.updated.timestamp()))
        first = since.timestamp()
        if max(times) <= first:
            edit = self._edit(row, first)
            if edit is not None and edit.time > first and self._is_touch(edit, row):
                times.append(edit.time)
        found = max(times)
        return datetime.fromtimestamp(found, UTC) if found > first else None

    def came(self, rows: Iterable[NodeRow]) -> dict[str, datetime]:
        """When notes came into this vault, whatever they say of themselves: by id the first commit, where the history tells."""
        found = {}
        for node_id, commits in self._vault.touched.unnamed({row.id: row.path for row in rows}).items():
            times = [self._silent[commit] for commit in commits if commit in self._silent]
            if node_id in self._named:
                times.append(self._named[node_id])
            if times:
                found[node_id] = datetime.fromtimestamp(min(times), UTC)
        return found

    def wanted(self, node_id: str) -> bool:
        """Whether somebody ever took back that this note fell a tier."""
        return node_id in self._wanted

    def archived(self, row: NodeRow) -> Entry | None:
        """The change since which the note is in the archive without a break: it moved it there, or brought it so. None: the
        history does not tell."""
        commits = self._vault.touched.commits(row.id, also=[row.path])
        found = None
        for entry in self._vault.oplog.view().entries:
            if entry.commit not in commits:
                continue
            before, after = self._versions(entry, row)
            if after is None or after.tier is not Tier.ARCHIVAL:
                break
            found = entry
            if before is None or before.tier is not Tier.ARCHIVAL:
                break
        return found

    def _read(self, entries: Iterable[Entry]) -> None:
        """One pass, newest first: an undo is met before what it takes back."""
        undoes: dict[str, int] = {}
        for entry in entries:
            for aim in entry.undoes:
                undoes.setdefault(aim, entry.time)
            taken = undoes.get(entry.op or "") or undoes.get(entry.commit)
            job = entry.source.startswith("job:")
            if not entry.nodes:
                self._silent[entry.commit] = entry.time
            for node_id in entry.nodes:
                self._named[node_id] = entry.time  # newest first: the oldest stays
                if taken is not None:
                    self._undone[node_id] = max(taken, self._undone.get(node_id, 0))
                    if entry.kind == Kind.DECAY:
                        self._wanted.add(node_id)
                if entry.kind == Kind.EDIT:
                    self._edits.setdefault(node_id, entry)
                elif entry.kind in _QUIET and job:
                    self._quiet.setdefault(node_id, []).append(entry.time)
                elif entry.kind in _SAYS:
                    self._said.setdefault(node_id, entry)
            if not entry.nodes and (entry.kind is None or entry.kind == Kind.EDIT):
                self._by_hand[entry.commit] = entry

    def _by_job(self, row: NodeRow) -> bool:
        """Whether it was a job that wrote `updated`."""
        written = row.updated.timestamp()
        return any(-2 <= time - written <= _WRITTEN_WITHIN for time in self._quiet.get(row.id, ()))

    def _edit(self, row: NodeRow, first: float) -> Entry | None:
        """The last edit by a person, in an editor or by git."""
        edit = self._edits.get(row.id)
        if any(entry.time > first for entry in self._by_hand.values()):
            for commit in self._vault.touched.commits(row.id, also=[row.path]):
                entry = self._by_hand.get(commit)
                if entry is not None and (edit is None or entry.time > edit.time):
                    edit = entry
        return edit

    def _is_touch(self, edit: Entry, row: NodeRow) -> bool:
        """Not when the note came with it, nor when it changed the note's dates: then they say when."""
        self._looks += 1
        if self._looks > LOOKS:
            return True
        before, after = self._versions(edit, row)
        return before is not None and after is not None and _dates(before) == _dates(after)

    def _versions(self, entry: Entry, row: NodeRow) -> tuple[Note | None, Note | None]:
        changed = self._vault.versions.of_node(entry.commit, row.id)
        return (None, None) if changed is None else tuple(map(_note, self._vault.versions.pair(changed)))  # type: ignore[return-value]


def _note(version: Text | None) -> Note | None:
    note = None if version is None else parse(version[1], version[0])
    return note if note is not None and note.kind is NoteKind.NOTE else None


def _dates(note: Note) -> tuple[datetime | None, datetime | None]:
    return note.created, note.updated
