"""`history.*`: looking back and taking back."""

from __future__ import annotations

from typing import Final

from ormahd.rpc.schema.base import Count, Params, Result


class HistoryParams(Params):
    node_id: str | None = None
    job: str | None = None
    run: str | None = None
    kind: str | None = None
    since: str | None = None
    """An ISO time, or a date: the whole day. Without a zone it is UTC."""
    before: str | None = None
    """The same, a day included; or an op or a commit: what stands behind it in the list, that is the next page."""
    limit: Count = 50


class OpResult(Result):
    op: str | None
    """Null for a commit that is not ours."""
    commit: str
    time: str
    kind: str | None
    source: str
    subject: str
    body: str
    nodes: list[str]
    run: str | None
    undone_by: str | None


class HistoryResult(Result):
    ops: list[OpResult]


class ShowOpParams(Params):
    op: str
    """A unique beginning, of 4 or more characters, of an op's id or a commit's."""
    limit: Count = 50
    """Notes whose differences are told."""


class NoteChange(Result):
    node_id: str | None
    """Null: the file is no memory."""
    title: str
    path: str
    """Where the note stands after the op, or stood before it was removed."""
    old_path: str | None
    """Where it stood before, when it was moved."""
    change: str
    """added, edited, removed or moved (and perhaps edited)."""
    diff: str
    """For people. `field: old -> new`, `tags: +new -old`, `+ supports -> Title`, then `content:` and a unified diff."""
    cut: bool = False
    """True: lines were left out."""


class ShowOpResult(OpResult):
    notes: list[NoteChange]
    total: int
    """Files that the op changed; more than `notes` when the list is cut."""


class LifeParams(Params):
    """A memory's versions, newest first; also of one that is forgotten."""

    node_id: str
    since: str | None = None
    before: str | None = None
    limit: Count = 50


class VersionResult(OpResult):
    change: NoteChange | None
    """What the op did to this note; null when it named the note without changing it."""


class LifeResult(Result):
    node_id: str
    versions: list[VersionResult]


HISTORY: Final[dict[str, tuple[type[Params], type[Result]]]] = {
    "history.list": (HistoryParams, HistoryResult),
    "history.show": (ShowOpParams, ShowOpResult),
    "history.life": (LifeParams, LifeResult),
}
