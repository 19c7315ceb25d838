"""Find out when each memory was last used: from accesses in the state, from `strength.jsonl`, and from edits in
git's history.

Accesses are collected in the state; to fold them in is to write them to `strength.jsonl` in the vault. Many commits
that change a note are no sign of use: links and moves by jobs, and the commit that added the note. The date in a
note's field `updated` counts as a use, unless a job wrote it.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct

from ormahd.errors import VaultBusy
from ormahd.index.history import History, Op
from ormahd.index.rows import NodeRow
from ormahd.model import strength
from ormahd.model.change import Kind
from ormahd.model.node import Tier, read_time
from ormahd.model.strength import STRENGTH_FILE, Access, ActiveDays, How, LastUses, last_uses
from ormahd.note.read import parse
from ormahd.note.values import Note, NoteKind
from ormahd.ormah import Ormah

_HOW: dict[str, How] = {"get": "use", "feedback": "use", "recall": "recall", "whisper": "whisper"}
"""{kind of access in the state: kind of use in `strength.jsonl`}.

A memory that was opened or judged useful had a confirmed use. One that was among the first results of a recall, or
quoted in full in a whisper, had a weak use, because the agent may have ignored it.
"""


class Waiting(Struct, frozen=True):
    """The accesses of existing memories that are in the state, and not in the strength files yet.

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
    """Return the accesses that are not in the strength files yet. Weak uses are combined into one event per memory and
    kind."""
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
    """Complete the record of runs that were killed while they moved accesses into the strength files, so that no use is
    counted twice or lost.

    Git's history shows whether the commit of such a run was made.

    Raises:
        VaultBusy: another process holds git, so queued commits are not in the history yet.
    """
    if why := ormah.vault.busy():
        raise VaultBusy(f"uses were not folded in: {why}", hint="nothing is lost; it is done at the next run")
    runs = ormah.state.unfinished_foldings()
    if runs:
        held = {op.run for op in ormah.history.ops(kinds=[Kind.STRENGTH], limit=None)}
        for run in runs:
            ormah.state.end_folding(run, held=run in held)


def used(ormah: Ormah) -> dict[str, LastUses]:
    """Return `{node id: its last uses}`, from the strength files and from accesses that are not in them yet."""
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
_WRITTEN_WITHIN = timedelta(seconds=60)
"""Maximum time between the date `updated` that a job wrote and the time of its commit, which may have waited
for git."""


class NoteChanges:
    """Finds in the history when a memory was added and changed, and by whom."""

    def __init__(self, history: History, row: NodeRow) -> None:
        self._history = history
        self._row = row
        self._ops = history.ops(node_id=row.id, limit=None)
        undone = {aim: op.time for op in reversed(self._ops) for aim in op.undoes}
        names = [(op.commit, name) for op in self._ops for name in (op.commit, op.op)]
        self._undone = {commit: undone[name] for commit, name in names if name is not None and name in undone}

    @property
    def came(self) -> datetime | None:
        """The time of the commit that added the note, if known."""
        return min((op.time for op in self._ops), default=None)

    @property
    def was_moved_back(self) -> bool:
        """Whether a person ever undid a move of this note to a lower tier."""
        return any(op.kind == Kind.DECAY and op.commit in self._undone for op in self._ops)

    def last(self, since: datetime) -> datetime | None:
        """Return when a person or agent last changed this memory, if after `since`; else None.

        The commit that added the note does not count.
        """
        job = [op for op in self._ops if op.kind in _QUIET and op.source.startswith("job:")]
        times = [*self._undone.values(), *(op.time for op in self._ops if op.kind in _SAYS and op not in job)]
        updated = self._row.updated
        # `updated` counts, unless a job wrote it.
        if not any(timedelta(seconds=-2) <= op.time - updated <= _WRITTEN_WITHIN for op in job):
            times.append(updated.replace(microsecond=0))
        found = max(times, default=since)
        if found <= since:
            edit = next((op for op in self._ops if op.kind in {None, Kind.EDIT}), None)
            if edit is not None and edit.time > since:
                before, after = self._versions(edit)
                # It counts if it neither added the note nor changed its dates
                dates = [None if note is None else (note.created, note.updated) for note in (before, after)]
                found = edit.time if before is not None and dates[0] == dates[1] else found
        return found if found > since else None

    def archived(self) -> Op | None:
        """Return the op that last moved the note to the archive, or added it as archived; None if the history has no
        such op."""
        found = None
        for op in self._ops:
            before, after = self._versions(op)
            if after is None or after.tier is not Tier.ARCHIVAL:
                break
            found = op
            if before is None or before.tier is not Tier.ARCHIVAL:
                break
        return found

    def _versions(self, op: Op) -> tuple[Note | None, Note | None]:
        """Return the note before and after an op; None where there is no readable note."""
        changed = self._history.of_node(op.commit, self._row.id)
        pair = (None, None) if changed is None else self._history.pair(changed)
        notes = [None if version is None else parse(version[1], version[0]) for version in pair]
        before, after = (note if note is not None and note.kind is NoteKind.NOTE else None for note in notes)
        return before, after
