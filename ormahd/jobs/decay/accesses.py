"""Find out when each memory was last used: from accesses in the state, from `strength.jsonl`, and from edits in
git's history.

Accesses are collected in the state; to fold them in is to write them to `strength.jsonl` in the vault. Many commits
that change a note are no sign of use: links and moves by jobs, and the commit that added the note. The date in a
note's field `updated` counts as a use, unless a job wrote it.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from msgspec import Struct

from ormahd.errors import VaultBusy
from ormahd.git.oplog import LogEntry
from ormahd.index.rows import NodeRow
from ormahd.model import strength
from ormahd.model.change import Kind
from ormahd.model.node import Tier, read_time
from ormahd.model.strength import STRENGTH_FILE, Access, ActiveDays, How, LastUses, last_uses
from ormahd.note.read import parse
from ormahd.note.values import Note, NoteKind
from ormahd.ormah import Ormah
from ormahd.vault.vault import Vault
from ormahd.vault.versions import Text

_HOW: dict[str, How] = {"get": "use", "feedback": "use", "recall": "recall", "whisper": "whisper"}
"""{kind of access in the state: kind of use in `strength.jsonl`}.

A memory that was opened or judged useful had a confirmed use. One that was among the first results of a recall, or
quoted in full in a whisper, had a weak use, because the agent may have ignored it.
"""


class Waiting(Struct, frozen=True):
    """The accesses of existing memories that are in the state and not folded in yet.

    `last`: number of the last access in the state, also if its memory was deleted; 0: there is none.
    """

    last: int
    events: list[Access]

    def of(self) -> dict[str, tuple[int, datetime]]:
        """Return `{node id: (number of uses, time of the last one)}` without whispers, which do not count for
        importance."""
        found: dict[str, tuple[int, datetime]] = {}
        for event in self.events:
            if event.how == "whisper":
                continue
            times, latest = found.get(event.node, (0, event.at))
            found[event.node] = times + event.times, max(latest, event.at)
        return found


def waiting(ormah: Ormah) -> Waiting:
    """Return the accesses that are not folded in yet. Weak uses are combined into one event per memory and kind."""
    last = 0
    found: dict[tuple[str, How], tuple[int, datetime]] = {}
    events: list[Access] = []
    for last, node_id, time, kind in ormah.state.accesses():  # noqa: B007 - the last one is what is wanted
        at, how = read_time(time), _HOW.get(kind)
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
    """Complete the record of runs that were killed while they folded uses in, so that no use is counted twice or lost.

    Git's history shows whether the commit of such a run was made.

    Raises:
        VaultBusy: another process holds git, so queued commits are not in the history yet.
    """
    if why := ormah.vault.busy():
        raise VaultBusy(f"uses were not folded in: {why}", hint="nothing is lost; it is done at the next run")
    runs = ormah.state.half_folded()
    if runs:
        held = {entry.run for entry in ormah.vault.oplog.view().entries if entry.kind == Kind.STRENGTH}
        for run in runs:
            ormah.state.folded(run, held=run in held)


def used(ormah: Ormah) -> dict[str, LastUses]:
    """Return `{node id: its last uses}`, from the vault and from accesses that are not folded in yet."""
    found = last_uses(ormah.vault.read(STRENGTH_FILE) or b"")
    for _, node_id, time, kind in ormah.state.accesses():
        at, how = read_time(time), _HOW.get(kind)
        if at is not None and how is not None:
            found.setdefault(node_id, LastUses()).take(how, at.replace(microsecond=0))  # the vault stores whole seconds
    return found


def days(ormah: Ormah) -> ActiveDays:
    """Return the days on which this vault got requests, as recorded in the vault and on this machine. Leases
    count such days in full."""
    known = strength.read_active_days(ormah.vault.read(strength.ACTIVE_DAYS_FILE) or b"") | ormah.state.active_days()
    return ActiveDays.of(known, ormah.settings.decay.idle_share)


_SAYS = {Kind.UPDATE, Kind.LINK, Kind.UNDO, Kind.MERGE, Kind.CONSOLIDATE}
"""Kinds of ops that count as a use of the notes that they name, except links made by jobs.

Merges and consolidations count even if a job makes them, because the same was then remembered several times.
Judgements are not in the list, because a judgement that a memory was useful is counted as a use elsewhere.
"""
_QUIET = {Kind.LINK, Kind.CLUSTER, Kind.CONFLICT, Kind.DECAY, Kind.PROMOTE}
"""Kinds of ops that set `updated`, but do not count as a use if a job makes them."""
_WRITTEN_WITHIN = 60
"""Maximum seconds between the date `updated` that a job wrote and the time of its commit, which may have waited
for git."""
LOOKS = 500
"""Maximum number of edits for which one `LastChanges` reads the versions before and after. Further edits count as
a use without a check."""


class LastChanges:
    """Tells when a person or an agent last changed a note, from the history that the vault has when this object
    is created."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._said: dict[str, LogEntry] = {}
        self._edits: dict[str, LogEntry] = {}
        self._quiet: dict[str, list[int]] = {}
        self._undone: dict[str, int] = {}
        self._wanted: set[str] = set()
        self._by_hand: dict[str, LogEntry] = {}
        self._named: dict[str, int] = {}
        self._silent: dict[str, int] = {}
        self._looks = 0
        self._read(vault.oplog.view().entries)

    def last(self, row: NodeRow, since: datetime) -> datetime | None:
        """Return when a person or agent last changed this memory, if after `since`; else None.

        The commit that added the note does not count.
        """
        times = [self._undone.get(row.id, 0)]
        if (kind := self._said.get(row.id)) is not None:
            times.append(kind.time)
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
        """Return `{node id: time of the commit that added the note}`. Notes for which it is unknown are omitted."""
        found = {}
        for node_id, commits in self._vault.touched.unnamed({row.id: row.path for row in rows}).items():
            times = [self._silent[commit] for commit in commits if commit in self._silent]
            if node_id in self._named:
                times.append(self._named[node_id])
            if times:
                found[node_id] = datetime.fromtimestamp(min(times), UTC)
        return found

    def wanted(self, node_id: str) -> bool:
        """Whether a move of this note to a lower tier was ever undone."""
        return node_id in self._wanted

    def archived(self, row: NodeRow) -> LogEntry | None:
        """Return the commit that last moved the note to the archive, or added it as archived; None if it is not in
        the history."""
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

    def _read(self, entries: Iterable[LogEntry]) -> None:
        """Fill this object from the history `entries`, which come newest first, so an undo comes before the op that
        it undoes."""
        undoes: dict[str, int] = {}
        for entry in entries:
            for aim in entry.undoes:
                undoes.setdefault(aim, entry.time)
            taken = undoes.get(entry.op or "") or undoes.get(entry.commit)
            job = entry.source.startswith("job:")
            if not entry.nodes:
                self._silent[entry.commit] = entry.time
            for node_id in entry.nodes:
                self._named[node_id] = entry.time  # entries come newest first, so the oldest remains
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
        """Whether a job, and no person or agent, set the note's field `updated` to its present value."""
        written = row.updated.timestamp()
        return any(-2 <= time - written <= _WRITTEN_WITHIN for time in self._quiet.get(row.id, ()))

    def _edit(self, row: NodeRow, first: float) -> LogEntry | None:
        """Return the last edit that a person made outside Ormah, with an editor or by git; None if there is none.

        Edits before the time `first` may be missed.
        """
        edit = self._edits.get(row.id)
        if any(entry.time > first for entry in self._by_hand.values()):
            for commit in self._vault.touched.commits(row.id, also=[row.path]):
                entry = self._by_hand.get(commit)
                if entry is not None and (edit is None or entry.time > edit.time):
                    edit = entry
        return edit

    def _is_touch(self, edit: LogEntry, row: NodeRow) -> bool:
        """Whether an edit counts as a use: it neither added the note nor changed its fields `created` and
        `updated`."""
        self._looks += 1
        if self._looks > LOOKS:
            return True
        before, after = self._versions(edit, row)
        return before is not None and after is not None and _dates(before) == _dates(after)

    def _versions(self, entry: LogEntry, row: NodeRow) -> tuple[Note | None, Note | None]:
        changed = self._vault.versions.of_node(entry.commit, row.id)
        return (None, None) if changed is None else tuple(map(_note, self._vault.versions.pair(changed)))  # type: ignore[return-value]


def _note(version: Text | None) -> Note | None:
    note = None if version is None else parse(version[1], version[0])
    return note if note is not None and note.kind is NoteKind.NOTE else None


def _dates(note: Note) -> tuple[datetime | None, datetime | None]:
    return note.created, note.updated
