"""Read the history: what an op changed, the versions of a memory, merges, and destructive changes. Changes nothing.

`agent.audit` lists three operations: delete, update (including moves between tiers) and mark_outdated. Other changes
are listed by `history`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from ormahd.actions.views import CONNECTION, headline, iso, of_row, plain
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
)
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
    """Return the newest ops that match `params`, newest first. `params.node_id` may name a forgotten memory.

    Raises:
        BadRequest, NotFound, Ambiguous: the id is invalid, unknown or not unique, or a kind or a date is invalid.
    """
    ops = ormah.history.ops(limit=params.limit, **_op_filter(ormah, params))
    return HistoryResult([of_row(OpResult, op) for op in ops])


def months(ormah: Ormah, params: HistoryParams) -> MonthsResult:
    """Return how many ops of each month match `params`, newest month first. Raises the errors of `history`."""
    return MonthsResult(dict(islice(ormah.history.count_months(**_op_filter(ormah, params)).items(), params.limit)))


def _op_filter(ormah: Ormah, params: HistoryParams) -> OpFilter:
    """Return the conditions of the request as a filter of ops.

    Raises:
        BadRequest, NotFound, Ambiguous: the id is invalid, unknown, or not unique.
    """
    source = params.source if params.job is None else f"job:{params.job}"
    wanted = OpFilter(run=params.run, since=params.since, before=params.before, source=source)
    if params.node_id is not None:
        wanted["node_id"] = ormah.full_id(params.node_id)
    if params.kind is not None:
        wanted["kinds"] = [params.kind]
    if params.space is not None:
        wanted["space"] = params.space, frozenset(ormah.index.ids(Filter(spaces=(params.space,))))
    return wanted


def show_op(ormah: Ormah, params: ShowOpParams) -> ShowOpResult:
    """Return what an op did to the vault. `op`: a unique prefix of an op's or commit's id.

    Raises:
        BadRequest, NotFound, Ambiguous: the prefix is invalid, unknown, or not unique.
    """
    found = ormah.history.find(params.op)
    changed = ormah.history.changed(found.commit)
    pairs = [ormah.history.pair(one) for one in changed[: params.limit]]
    views = _Views(ormah, pairs)
    notes = [view for pair in pairs for view in views.changes(*pair)]
    return of_row(ShowOpResult, found, notes=notes, total=len(changed) - len(pairs) + len(notes))


def life(ormah: Ormah, params: LifeParams) -> LifeResult:
    """Return the newest versions of a memory, newest first: each op with its change to this note. The memory may be
    forgotten.

    Raises:
        BadRequest, NotFound, Ambiguous: the id is invalid, unknown or not unique, or a date is invalid.
    """
    node_id = ormah.full_id(params.node_id)
    ops = ormah.history.ops(node_id=node_id, limit=params.limit, since=params.since, before=params.before)
    changed = [ormah.history.of_node(op.commit, node_id) for op in ops]
    pairs = [None if one is None else ormah.history.pair(one) for one in changed]
    # oldest first, so that the newest title of a memory wins
    views = _Views(ormah, [pair for pair in reversed(pairs) if pair is not None])
    versions = []
    for op, pair in zip(ops, pairs, strict=True):
        changes = [] if pair is None else views.changes(*pair)
        own = next((one for one in changes if one.node_id in {node_id, None}), None)
        versions.append(of_row(VersionResult, op, change=own))
    return LifeResult(node_id, versions)


class _Views:
    """Makes readable differences between two versions of a note. Linked notes are named by the titles that they have
    in `pairs`, the (before, after) versions to compare; if they are not there, by their titles of today."""

    def __init__(self, ormah: Ormah, pairs: Sequence[tuple[Text | None, Text | None]]) -> None:
        self._ormah = ormah
        self._parsed: dict[Text, Note] = {}
        self._titles: dict[str, str] = {}
        self._remaining = CHARACTERS
        for pair in pairs:
            for version in pair:  # `after` last: its title wins
                if version is not None and (short := stem_short_id(version[0])):
                    self._titles[short] = self._headline(version)

    def changes(self, before: Text | None, after: Text | None) -> list[NoteChange]:
        """Return the changes from `before` to `after`, two versions of one file (None: no file). It is one change, or a
        removal and an addition if the file holds another memory afterwards."""
        notes = [self._parse(version) if version and is_markdown(version[0]) else None for version in (before, after)]
        known = (NoteKind.NOTE, NoteKind.BROKEN)
        old, new = (note.id if note is not None and note.kind in known else None for note in notes)
        if before is not None and after is not None and old != new and old and new:
            return [self._note_change(old, before, None), self._note_change(new, None, after)]
        return [self._note_change(new or old, before, after)]

    def _note_change(self, node_id: str | None, before: Text | None, after: Text | None) -> NoteChange:
        """Return what the change did to one file, with its readable difference. `before` or `after` is None if the file
        did not exist. Without text once all characters of the answer are used."""
        last = after or before
        assert last is not None
        moved = before is not None and after is not None and before[0] != after[0]
        change = "added" if before is None else "removed" if after is None else "moved" if moved else "edited"
        diff = note_diff(before, after, name=self._linked_headline)
        old_path = before[0] if before is not None and moved else None
        self._remaining -= len(diff.text)
        text, cut = (diff.text, diff.cut) if self._remaining >= 0 else ("", True)
        return NoteChange(node_id, self._headline(last), last[0], old_path, change, text, cut)

    def _parse(self, version: Text) -> Note:
        """Return the parsed note of a version. Each version is parsed once."""
        if version not in self._parsed:
            self._parsed[version] = parse(version[1], version[0])
        return self._parsed[version]

    def _headline(self, version: Text) -> str:
        """Return the headline of a version, or its path if it is no markdown or is empty."""
        if not is_markdown(version[0]):
            return version[0]
        note = self._parse(version)
        return headline(note.title, note.content) if note.title or note.content else version[0]

    def _linked_headline(self, target: str) -> str | None:
        """Return the headline of the memory that a link points to, preferably as of the compared versions. None if it
        is unknown."""
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
    """Return the newest entries of the audit: deletions, updates, and marks as outdated.

    Raises:
        BadRequest: the operation is unknown.
    """
    node_id, operation = params.node_id and ormah.full_id(params.node_id), params.operation
    if operation is not None and operation not in KINDS:
        raise BadRequest(f"there is no operation '{operation}'", hint=f"there are: {', '.join(KINDS)}")
    kinds = {kind for name, kinds in KINDS.items() if operation in {None, name} for kind in kinds}
    rows: list[AuditRow] = []
    for op in ormah.history.ops(kinds=kinds, node_id=node_id, limit=None):
        for before, after in _pairs(ormah, op):
            if before is None or node_id not in {None, before.id}:
                continue  # where the memory was created, nothing was lost
            did = DELETE if after is None else OUTDATED if op.kind == Kind.OUTDATED else UPDATE
            if operation in {None, did}:
                fields = {"id": op.commit, "operation": did, "created": iso(op.time), "snapshot": _snapshot(before)}
                title, detail = headline(before.title, before.content), op.body.strip() or op.subject
                rows.append(of_row(AuditRow, op, node_id=before.id, title=title, detail=detail, **fields))
        if len(rows) >= params.limit:
            break
    return AuditResult(entries=rows[: params.limit])


def merges(ormah: Ormah, params: MergesParams) -> MergesResult:
    """Return the newest merges, including undone ones."""
    rows = (row for op in ormah.history.ops(kinds=[Kind.MERGE], limit=None) for row in _merge_rows(ormah, op))
    return MergesResult(merges=list(islice(rows, params.limit)))


def _pairs(ormah: Ormah, op: Op) -> Iterator[tuple[Note | None, Note | None]]:
    """Yield (version before, version after) of each memory that an op changed; None: there was no such memory."""
    for changed in ormah.history.changed(op.commit):
        before, after = (_read(version) for version in ormah.history.pair(changed))
        if before is not None or after is not None:
            yield before, after


def _read(version: Text | None) -> Note | None:
    """Return the memory in a version of a file; None if it has none."""
    note = parse(version[1], version[0]) if version is not None and is_markdown(version[0]) else None
    return note if note is not None and note.kind is NoteKind.NOTE and note.id is not None else None


def _merge_rows(ormah: Ormah, op: Op) -> Iterator[MergeRow]:
    """Yield one row for each memory that the merge `op` removed."""
    pairs = list(_pairs(ormah, op))
    keeper = _keeper(ormah, op, pairs)
    names = {"kept": None, "kept_title": ""}
    if keeper is not None:
        names = {"kept": keeper.id, "kept_title": headline(keeper.title, keeper.content)}
    times = {
        "merged_at": iso(op.time),
        "undone_at": iso(ormah.history.find(op.undone_by).time) if op.undone_by else None,
    }
    for before, after in pairs:
        if before is not None and after is None:
            title = headline(before.title, before.content)
            fields = {"id": op.commit, "removed": before.id, "removed_title": title, "snapshot": _snapshot(before)}
            yield of_row(MergeRow, op, reason=op.body.strip(), **names, **times, **fields)


def _keeper(ormah: Ormah, op: Op, pairs: list[tuple[Note | None, Note | None]]) -> Note | None:
    """Return the memory that is left after the merge `op`, which took the other memory into it.

    It is the remaining memory whose text changed, if there is exactly one; otherwise the first remaining one that the
    op names, even if the merge did not change its file. The op names neighbours, whose edges were redirected, after
    it.
    """
    stay = {after.id: (before, after) for before, after in pairs if after is not None}
    edited = [after for before, after in stay.values() if before is not None and before.content != after.content]
    if len(edited) == 1:
        return edited[0]
    removed = {before.id for before, after in pairs if before is not None and after is None}
    for node_id in op.nodes:
        if node_id in stay:
            return stay[node_id][1]
        # Unchanged by it: the state in which the newest op before it left the memory
        earlier = ormah.history.ops(node_id=node_id, before=op.commit, limit=None) if node_id not in removed else []
        states = (ormah.history.of_node(one.commit, node_id) for one in earlier)
        changed = next((state for state in states if state is not None), None)
        unchanged = None if changed is None else _read(ormah.history.pair(changed)[1])
        if unchanged is not None:
            return unchanged
    return next((after for _, after in stay.values()), None)


def _snapshot(note: Note) -> dict[str, Any]:
    """Return {name: value} of a memory's fields and connections, as this version of its note has them."""
    links = [link for link in note.links if not link.body]
    connections = [{name: plain(getattr(link, name)) for name in CONNECTION} for link in links]
    return {name: plain(getattr(note, name)) for name in SNAPSHOT} | {"connections": connections}


SNAPSHOT = (
    *("id", "type", "tier", "space", "title", "content", "tags", "source", "confidence"),
    *("created", "updated", "valid_until", "outdated_reason", "path"),
)
"""Fields of a memory in a snapshot, besides its connections."""
