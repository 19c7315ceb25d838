"""Read the history: what an op changed, and the versions of one memory. Reads git and changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ormahd.actions.views import headline, iso
from ormahd.api import (
    HistoryParams,
    HistoryResult,
    LifeParams,
    LifeResult,
    NoteChange,
    OpResult,
    ShowOpResult,
    VersionResult,
)  # fmt: skip
from ormahd.note.diff import note_diff
from ormahd.note.note import NoteKind, parse, stem_short_id
from ormahd.vault.history import Op, find_op, list_ops
from ormahd.vault.versions import is_markdown

if TYPE_CHECKING:
    from ormahd.note.note import Note
    from ormahd.ormah import Ormah
    from ormahd.vault.versions import Text

NOTES = 50
"""Default number of an op's notes whose differences are shown: an import may have thousands."""
CHARACTERS = 4_000_000
"""Maximum number of characters of all differences in one answer; a protocol message holds 16 MiB. Further notes are listed without
(`cut`)."""


def history(ormah: Ormah, params: HistoryParams) -> HistoryResult:
    """Return the newest ops that match (`list_ops`), newest first; `node_id` may name a forgotten memory.

    Raises BadRequest, NotFound, Ambiguous: the id, a kind, a date.
    """
    node_id = None if params.node_id is None else ormah.anyone(params.node_id)
    ops = list_ops(
        ormah.vault, node_id=node_id, kind=params.kind, job=params.job, run=params.run, since=params.since,
        before=params.before, limit=params.limit,
    )  # fmt: skip
    return HistoryResult([OpResult(*_fields(op)) for op in ops])


def show_op(ormah: Ormah, op: str, *, limit: int = NOTES) -> ShowOpResult:
    """Return what an op did to the vault. `op`: a unique prefix of an op's or commit's id.

    Raises BadRequest, NotFound, Ambiguous: the op.
    """
    found = find_op(ormah.vault, op)
    changed = ormah.vault.versions.changed(found.commit)
    pairs = [ormah.vault.versions.pair(one) for one in changed[:limit]]
    views = _Views(ormah, pairs)
    notes = [view for pair in pairs for view in views.changes(*pair)]
    return ShowOpResult(*_fields(found), notes, len(changed) - len(pairs) + len(notes))


def life(ormah: Ormah, params: LifeParams) -> LifeResult:
    """Return the newest versions of a memory, newest first: each op with its change to this note. The memory may be forgotten.

    Raises BadRequest, NotFound, Ambiguous: the id, a date.
    """
    node_id = ormah.anyone(params.node_id)
    ops = list_ops(ormah.vault, node_id=node_id, limit=params.limit, since=params.since, before=params.before)
    ormah.vault.versions.load(op.commit for op in ops)
    changed = [ormah.vault.versions.of_node(op.commit, node_id) for op in ops]
    pairs = [None if one is None else ormah.vault.versions.pair(one) for one in changed]
    views = _Views(ormah, [pair for pair in reversed(pairs) if pair is not None])
    versions = []
    for op, pair in zip(ops, pairs, strict=True):
        changes = [] if pair is None else views.changes(*pair)
        own = next((one for one in changes if one.node_id in {node_id, None}), None)
        versions.append(VersionResult(*_fields(op), own))
    return LifeResult(node_id, versions)


_Fields = tuple[str | None, str, str, str | None, str, str, str, list[str], str | None, str | None]


def _fields(op: Op) -> _Fields:
    """Return an op's values in the order of `OpResult`."""
    return (
        op.op, op.commit, iso(op.time) or "", op.kind, op.source, op.subject, op.body, list(op.nodes), op.run, op.undone_by,
    )  # fmt: skip


class _Views:
    """Differences in readable form. Titles of linked notes are those in this op, otherwise today's."""

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
        """Return one change; two if the file was replaced by that of another memory."""
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
        row = None if node_id is None else self._ormah.index.notes([node_id], connections=False).get(node_id)
        return None if row is None else headline(row.title, row.content)
