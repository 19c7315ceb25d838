"""When each memory was last used: accesses that wait in the state to be folded into the vault, and edits in the history.

Reads only. Most commits that change a note are no sign of use: links and moves by jobs, and the commit that brought the note in.
A note's own `updated` counts where no job wrote it.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct

from ormahd.errors import VaultBusy
from ormahd.model import strength
from ormahd.model.change import Kind
from ormahd.model.node import read_time
from ormahd.model.strength import STRENGTH_FILE, Access, ActiveDays, How, LastUses, last_uses

if TYPE_CHECKING:
    from ormahd.ormah import Ormah
from datetime import UTC
from typing import TYPE_CHECKING

from ormahd.model.node import Tier
from ormahd.note.note import NoteKind, parse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ormahd.git.oplog import Entry
    from ormahd.index.rows import NodeRow
    from ormahd.note.note import Note
    from ormahd.vault.vault import Vault
    from ormahd.vault.versions import Text


_HOW: dict[str, How] = {"get": "use", "feedback": "use", "recall": "recall", "whisper": "whisper"}
"""What the journal's events are to strength. Opened, or judged useful: a confirmed use. What a recall found first and what a whisper
showed in full may have been looked past: a weak one."""


class Waiting(Struct, frozen=True):
    """Events of memories that there are; `last`: the number of the last event, of whatever memory. 0: there are none."""

    last: int
    events: list[Access]

    def of(self) -> dict[str, tuple[int, datetime]]:
        """Node id to how often and when last. Not what was whispered: that makes nothing more important."""
        found: dict[str, tuple[int, datetime]] = {}
        for event in self.events:
            if event.how == "whisper":
                continue
            times, latest = found.get(event.node, (0, event.at))
            found[event.node] = times + event.times, max(latest, event.at)
        return found


def waiting(ormah: Ormah) -> Waiting:
    """What is to be folded in. Weak uses only say when and how often, and so are one event a memory and kind."""
    last = 0
    found: dict[tuple[str, How], tuple[int, datetime]] = {}
    events: list[Access] = []
    for last, node_id, time, said in ormah.state.accesses():  # noqa: B007 - the last one is what is wanted
        at, how = read_time(time), _HOW.get(said)
        if at is None or how is None:
            continue
        if how == "use":
            events.append(Access(node_id, at))
        else:
            times, latest = found.get((node_id, how), (0, at))
            found[node_id, how] = times + 1, max(latest, at)
    events += [Access(node_id, at, how, times) for (node_id, how), (times, at) in found.items()]
    alive = ormah.index.candidates([event.node for event in events])
    return Waiting(last, [event for event in events if event.node in alive])


def settle(ormah: Ormah) -> None:
    """A run that was killed had made its commit, or had not: the history says whether its events are in the vault.

    Raises VaultBusy while git is held by somebody else: what is queued is not in the history yet.
    """
    if why := ormah.vault.busy():
        raise VaultBusy(f"uses were not folded in: {why}", hint="nothing is lost; it is done at the next run")
    runs = ormah.state.half_folded()
    if runs:
        held = {entry.run for entry in ormah.vault.oplog.view().entries if entry.kind == Kind.STRENGTH}
        for run in runs:
            ormah.state.folded(run, held=run in held)


def used(ormah: Ormah) -> dict[str, LastUses]:
    """Node id to its last uses: as folded into the vault, and what waits to be."""
    found = last_uses(ormah.vault.read(STRENGTH_FILE) or b"")
    for _, node_id, time, said in ormah.state.accesses():
        at, how = read_time(time), _HOW.get(said)
        if at is not None and how is not None:
            found.setdefault(node_id, LastUses()).take(how, at.replace(microsecond=0))  # as the vault will have it
    return found


def days(ormah: Ormah) -> ActiveDays:
    """Time as memories count it: the days on which something was asked, as the vault and this machine know them."""
    known = strength.read_active_days(ormah.vault.read(strength.ACTIVE_DAYS_FILE) or b"") | ormah.state.active_days()
    return ActiveDays.of(known, ormah.settings.decay.idle_share)


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
