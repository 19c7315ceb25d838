"""Read the history: what an op changed, the versions of a memory, merges, and destructive changes. Changes nothing.

`agent.audit` lists three operations: delete, update (including moves between tiers) and mark_outdated. Other changes
are listed by `history`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from msgspec import Struct

from ormahd.actions.views import headline, iso
from ormahd.api import (
    AuditParams,
    AuditResult,
    AuditRow,
    HistoryParams,
    HistoryResult,
    LifeParams,
    LifeResult,
    MergeRow,
    MergesParams,
    MergesResult,
    MonthsResult,
    NoteChange,
    OpResult,
    ShowOpParams,
    ShowOpResult,
    VersionResult,
)  # fmt: skip
from ormahd.errors import BadRequest
from ormahd.index.history import Op, OpFilter, Text, is_markdown
from ormahd.index.rows import Filter
from ormahd.model.change import Kind
from ormahd.note.diff import note_diff
from ormahd.note.read import parse
from ormahd.note.values import Note, NoteKind, stem_short_id
from ormahd.ormah import Ormah

CHARACTERS = 4_000_000
"""Maximum number of characters of all differences in one answer; a protocol message holds 16 MiB. Further notes are
listed without their difference (`cut`)."""


def history(ormah: Ormah, params: HistoryParams) -> HistoryResult:
    """Return the newest ops that match `params`, newest first (see `list_ops`). `params.node_id` may name a forgotten
    memory.

    Raises BadRequest, NotFound, Ambiguous: the id, a kind, a date.
    """
    return HistoryResult(
        [OpResult(*_fields(op)) for op in ormah.history.ops(limit=params.limit, **_wanted(ormah, params))]
    )


def months(ormah: Ormah, params: HistoryParams) -> MonthsResult:
    """Return how many ops of each month match `params`, newest month first. Raises as `history`."""
    return MonthsResult(dict(islice(ormah.history.count_months(**_wanted(ormah, params)).items(), params.limit)))


def _wanted(ormah: Ormah, params: HistoryParams) -> OpFilter:
    space = params.space
    return OpFilter(
        node_id=None if params.node_id is None else ormah.anyone(params.node_id), run=params.run, since=params.since,
        kinds=None if params.kind is None else [params.kind], before=params.before,
        source=params.source if params.job is None else f"job:{params.job}",
        space=None if space is None else (space, frozenset(ormah.index.ids(Filter(spaces=(space,))))),
    )  # fmt: skip


def show_op(ormah: Ormah, params: ShowOpParams) -> ShowOpResult:
    """Return what an op did to the vault. `op`: a unique prefix of an op's or commit's id.

    Raises BadRequest, NotFound, Ambiguous: the op.
    """
    found = ormah.history.find(params.op)
    changed = ormah.history.changed(found.commit)
    pairs = [ormah.history.pair(one) for one in changed[: params.limit]]
    views = _Views(ormah, pairs)
    notes = [view for pair in pairs for view in views.changes(*pair)]
    return ShowOpResult(*_fields(found), notes, len(changed) - len(pairs) + len(notes))


def life(ormah: Ormah, params: LifeParams) -> LifeResult:
    """Return the newest versions of a memory, newest first: each op with its change to this note. The memory may be
    forgotten.

    Raises BadRequest, NotFound, Ambiguous: the id, a date.
    """
    node_id = ormah.anyone(params.node_id)
    ops = ormah.history.ops(node_id=node_id, limit=params.limit, since=params.since, before=params.before)
    changed = [ormah.history.of_node(op.commit, node_id) for op in ops]
    pairs = [None if one is None else ormah.history.pair(one) for one in changed]
    views = _Views(ormah, [pair for pair in reversed(pairs) if pair is not None])
    versions = []
    for op, pair in zip(ops, pairs, strict=True):
        changes = [] if pair is None else views.changes(*pair)
        own = next((one for one in changes if one.node_id in {node_id, None}), None)
        versions.append(VersionResult(*_fields(op), own))
    return LifeResult(node_id, versions)


_Fields = tuple[str | None, str, str, str | None, str, str, str, list[str], str | None, str | None]


def _fields(op: Op) -> _Fields:
    """Return an op's values in the order in which `OpResult` takes them."""
    return (
        op.op, op.commit, iso(op.time) or "", op.kind, op.source, op.subject, op.body, list(op.nodes), op.run, op.undone_by,
    )  # fmt: skip


class _Views:
    """Makes readable differences between two versions of a note. Linked notes are named by the titles that they have
    in `pairs`, the (before, after) versions to compare; if they are not there, by their titles of today."""

    def __init__(self, ormah: Ormah, pairs: Sequence[tuple[Text | None, Text | None]]) -> None:
        self._ormah = ormah
        self._parsed: dict[Text, Note] = {}
        self._titles: dict[str, str] = {}
        self._left = CHARACTERS
        for pair in pairs:
            for version in pair:  # `after` last: its title wins
                if version is not None and (short := stem_short_id(version[0])):
                    self._titles[short] = self._title(version)

    def changes(self, before: Text | None, after: Text | None) -> list[NoteChange]:
        """Return the change from `before` to `after`, two versions of one file (None: no file). If the file holds
        another memory afterwards, these are two changes: a removal and an addition."""
        old, new = (None if version is None else self._node(version) for version in (before, after))
        if before is not None and after is not None and old != new and old and new:
            return [self._change(old, before, None), self._change(new, None, after)]
        return [self._change(new or old, before, after)]

    def _change(self, node_id: str | None, before: Text | None, after: Text | None) -> NoteChange:
        last = after or before
        assert last is not None
        moved = before is not None and after is not None and before[0] != after[0]
        change = "added" if before is None else "removed" if after is None else "moved" if moved else "edited"
        diff = note_diff(before, after, name=self._name)
        old_path = before[0] if before is not None and moved else None
        self._left -= len(diff.text)
        text, cut = (diff.text, diff.cut) if self._left >= 0 else ("", True)
        return NoteChange(node_id, self._title(last), last[0], old_path, change, text, cut)

    def _note(self, version: Text) -> Note:
        if version not in self._parsed:
            self._parsed[version] = parse(version[1], version[0])
        return self._parsed[version]

    def _node(self, version: Text) -> str | None:
        note = self._note(version) if is_markdown(version[0]) else None
        return note.id if note is not None and note.kind in {NoteKind.NOTE, NoteKind.BROKEN} else None

    def _title(self, version: Text) -> str:
        if not is_markdown(version[0]):
            return version[0]
        note = self._note(version)
        return headline(note.title, note.content) if note.title or note.content else version[0]

    def _name(self, target: str) -> str | None:
        short = stem_short_id(target)
        if short in self._titles:
            return self._titles[short]
        node_id = self._ormah.index.resolve_link(target)
        row = None if node_id is None else self._ormah.index.notes([node_id]).get(node_id)
        return None if row is None else headline(row.title, row.content)


DELETE, UPDATE, OUTDATED = "delete", "update", "mark_outdated"
_UPDATES = {Kind.UPDATE, Kind.EDIT, Kind.DECAY, Kind.PROMOTE, Kind.CONSOLIDATE, Kind.CLUSTER}
KINDS: Mapping[str, Collection[Kind]] = {DELETE: {Kind.FORGET, Kind.EDIT}, UPDATE: _UPDATES, OUTDATED: {Kind.OUTDATED}}
"""Operation of the audit -> kinds of ops that may contain it. A note that a person deletes by hand is an edit."""


def audit(ormah: Ormah, params: AuditParams) -> AuditResult:
    """Return the newest entries of the audit: deletions, updates, and marks as outdated. Raises BadRequest: unknown
    operation."""
    node_id, operation = params.node_id and ormah.anyone(params.node_id), params.operation
    if operation is not None and operation not in KINDS:
        raise BadRequest(f"there is no operation '{operation}'", hint=f"there are: {', '.join(KINDS)}")
    kinds = {kind for name, some in KINDS.items() if operation in {None, name} for kind in some}
    rows: list[AuditRow] = []
    for op in ormah.history.ops(kinds=kinds, node_id=node_id, limit=None):
        for before, after in _pairs(ormah, op):
            row = _audit_row(op, before, after)
            if row is not None and operation in {None, row.operation} and node_id in {None, row.node_id}:
                rows.append(row)
        if len(rows) >= params.limit:
            break
    return AuditResult(entries=rows[: params.limit])


def merges(ormah: Ormah, params: MergesParams) -> MergesResult:
    """Return the newest merges, including undone ones."""
    rows = (row for op in ormah.history.ops(kinds=[Kind.MERGE], limit=None) for row in _merge_rows(ormah, op))
    return MergesResult(merges=list(islice(rows, params.limit)))


def _pairs(ormah: Ormah, op: Op) -> Iterator[tuple[_Read | None, _Read | None]]:
    """Yield (before, after) of each memory that an op changed."""
    for changed in ormah.history.changed(op.commit):
        before, after = (_read(version) for version in ormah.history.pair(changed))
        if before is not None or after is not None:
            yield before, after


class _Read(Struct, frozen=True):
    id: str
    note: Note


def _read(version: Text | None) -> _Read | None:
    if version is None or not is_markdown(version[0]):
        return None
    note = parse(version[1], version[0])
    return _Read(note.id, note) if note.kind is NoteKind.NOTE and note.id is not None else None


def _audit_row(op: Op, before: _Read | None, after: _Read | None) -> AuditRow | None:
    if before is None:
        return None  # the memory was created: nothing was lost
    operation = DELETE if after is None else OUTDATED if op.kind == Kind.OUTDATED else UPDATE
    return AuditRow(
        op.commit, operation, before.id, _title(before), op.body.strip() or op.subject, _snapshot(before),
        iso(op.time) or "", op.source, op.commit, op.undone_by,
    )  # fmt: skip


def _merge_rows(ormah: Ormah, op: Op) -> Iterator[MergeRow]:
    pairs = list(_pairs(ormah, op))
    kept = _keeper(ormah, op, pairs)
    undone_at = iso(ormah.history.find(op.undone_by).time) if op.undone_by else None
    for before, after in pairs:
        if before is not None and after is None:
            yield MergeRow(
                op.commit, op.commit, kept.id if kept else None, _title(kept) if kept else "", before.id, _title(before),
                _snapshot(before), op.body.strip(), op.source, iso(op.time) or "", undone_at, op.undone_by,
            )  # fmt: skip


def _keeper(ormah: Ormah, op: Op, pairs: list[tuple[_Read | None, _Read | None]]) -> _Read | None:
    """Return the memory that is left after the merge `op`, which took the other memory into it.

    It is the remaining memory whose text changed, if there is exactly one; otherwise the first remaining one that the
    op names, even if the merge did not change its file. The op names neighbours, whose edges were redirected, after
    it.
    """
    stay = {after.id: (before, after) for before, after in pairs if after is not None}
    told = [
        after for before, after in stay.values() if before is not None and before.note.content != after.note.content
    ]
    if len(told) == 1:
        return told[0]
    removed = {before.id for before, after in pairs if before is not None and after is None}
    for node_id in op.nodes:
        if node_id in stay:
            return stay[node_id][1]
        if node_id not in removed and (unchanged := _last_before(ormah, op, node_id)) is not None:
            return unchanged
    return next((after for _, after in stay.values()), None)


def _last_before(ormah: Ormah, op: Op, node_id: str) -> _Read | None:
    """Return a memory in the state in which the newest op on it, of those before `op`, left it. None if there is no
    such op, or if that op removed the memory."""
    for earlier in ormah.history.ops(node_id=node_id, before=op.commit, limit=None):
        if (changed := ormah.history.of_node(earlier.commit, node_id)) is not None:
            return _read(ormah.history.pair(changed)[1])
    return None


def _title(read: _Read) -> str:
    return headline(read.note.title, read.note.content)


def _snapshot(read: _Read) -> dict[str, Any]:
    """Return a memory's fields and connections as this version of its note has them: name -> value."""
    note = read.note
    connections = [
        {"target": link.target, "edge": link.edge.value, "weight": link.weight, "created": iso(link.created),
         "reason": link.reason}
        for link in note.links if not link.body
    ]  # fmt: skip
    return {
        "id": read.id, "type": note.type.value, "tier": note.tier.value, "space": note.space, "title": note.title,
        "content": note.content, "tags": list(note.tags), "source": note.source, "confidence": note.confidence,
        "created": iso(note.created), "updated": iso(note.updated), "valid_until": iso(note.valid_until),
        "outdated_reason": note.outdated_reason, "path": note.path, "connections": connections,
    }  # fmt: skip
