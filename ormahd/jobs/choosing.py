"""How a person approves a proposal: as it was made, with the newer or the older memory's text, or with one of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from ormahd.actions.amend import clean
from ormahd.errors import BadRequest
from ormahd.jobs.job import Change, Edit
from ormahd.model.node import MAX_CONTENT, MAX_TITLE, ProposalType
from ormahd.note import note as codec
from ormahd.note.markdown import normalise

if TYPE_CHECKING:
    from ormahd.index.rows import NodeRow
    from ormahd.ormah import Ormah
    from ormahd.state.proposals import StoredProposal

ChangeOf = Callable[["Ormah", Mapping[str, Any]], Change]
"""Makes the change of an approved proposal from its payload."""
NEWER: Final = "newer"
OLDER: Final = "older"
BOTH: Final = "both"
KEPT: Final = (NEWER, OLDER, BOTH)
PAIRED: Final = (ProposalType.MERGE, ProposalType.CONFLICT)
"""Proposals about two memories, from which one may be chosen."""


class Choice(Struct, frozen=True):
    """`keep`: whose words hold; `content`, `title`: the words of the memory that stays. None: as it was proposed."""

    keep: str | None = None
    content: str | None = None
    title: str | None = None


def check(choice: Choice) -> None:
    """Raise BadRequest where a choice makes no sense by itself."""
    if choice.keep is not None and choice.keep not in KEPT:
        raise BadRequest(f"keep is {choice.keep[:60]!r}", hint="newer, older or both")
    if choice.keep == BOTH and (choice.content is not None or choice.title is not None):
        raise BadRequest("where both memories are kept there is no text to choose", hint="leave the text out")
    if choice.content is not None and not normalise(choice.content):
        raise BadRequest("the text is empty", hint="to do nothing: reject it")
    if len(choice.content or "") > MAX_CONTENT or len(choice.title or "") > MAX_TITLE:
        raise BadRequest(f"a text has at most {MAX_CONTENT:,} characters, and a title {MAX_TITLE:,}")


def chosen_change(ormah: Ormah, row: StoredProposal, choice: Choice, change_of: ChangeOf) -> Change:
    """The change of an approved proposal.

    Raises:
        BadRequest: the choice does not fit the proposal; or as `change_of`. NotFound, Conflict: as `change_of`.
    """
    if choice == Choice():
        return change_of(ormah, row.payload)
    check(choice)
    if row.type not in PAIRED or len(row.nodes) != 2:
        raise BadRequest(
            f"of a proposal of the type {row.type} nothing can be chosen", hint="approve or reject it as it is"
        )
    newer, older = by_age(list(ormah.index.notes(row.nodes, connections=False).values()))
    stays, goes = (older, newer) if choice.keep == OLDER else (newer, older)
    title, content = clean(ormah, choice.title, []), clean(ormah, choice.content, [])
    if row.type is ProposalType.MERGE:
        return change_of(ormah, _merge(row.payload, choice, stays, goes, title, content))
    kept = choice.keep is not None
    payload = {**row.payload, "kind": "evolution", "source_id": stays.id, "target_id": goes.id} if kept else row.payload
    change = change_of(ormah, payload)
    return change if content is None else _with_text(change, str(payload["source_id"]), title, content)


def by_age(rows: Sequence[NodeRow]) -> tuple[NodeRow, NodeRow]:
    """(newer, older) of two memories."""
    newer, older = sorted(rows, key=lambda row: (row.created, row.id), reverse=True)
    return newer, older


def text_of(row: StoredProposal, nodes: Sequence[NodeRow]) -> tuple[str | None, str] | None:
    """The title and the text that an approval would leave, to be edited; None: it leaves none."""
    if row.type not in PAIRED or len(nodes) != 2:
        return None
    if row.type is ProposalType.MERGE:
        keep = next((node for node in nodes if node.id == row.payload.get("keep_id")), nodes[0])
        content = row.payload.get("content")
        return row.payload.get("title") or keep.title, keep.content if content is None else content
    stays = next((node for node in nodes if node.id == row.payload.get("source_id")), nodes[0])
    return stays.title, stays.content


def _merge(
    payload: Mapping[str, Any], choice: Choice, stays: NodeRow, goes: NodeRow, title: str | None, content: str | None
) -> dict[str, Any]:
    chosen = dict(payload)
    if choice.keep is not None:
        chosen |= {"keep_id": stays.id, "remove_id": goes.id, "title": stays.title, "content": stays.content}
    if content is not None:
        chosen["content"] = content
    if title is not None:
        chosen["title"] = title
    return chosen


def _with_text(change: Change, node_id: str, title: str | None, content: str) -> Change:
    """The change with another text in the memory that stays."""

    def edits() -> Sequence[Edit]:
        made = change.edits()
        if not any(one.node_id == node_id and one.data is not None for one in made):
            raise BadRequest("the memory that stays is not changed by it", hint=f"edit it: ormahctl edit {node_id[:8]}")
        return [
            _rewritten(one, title, content) if one.node_id == node_id and one.data is not None else one for one in made
        ]

    return replace(change, edits=edits)


def _rewritten(edit: Edit, title: str | None, content: str) -> Edit:
    assert edit.data is not None
    fields: dict[str, Any] = {} if title is None else {"title": title}
    return replace(edit, data=codec.edit(edit.data, edit.path, set=fields, content=normalise(content)))
