"""A part of an op: its changes to one note, or only to that note's edges to another memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ormahd.errors import Ambiguous, BadRequest, Conflict, NotFound
from ormahd.git.oplog import Part
from ormahd.index.lookup import clean_prefix
from ormahd.model.node import EdgeType, short_id
from ormahd.note import note as codec
from ormahd.note.note import Note, NoteKind, NoteLink, stem_short_id
from ormahd.vault.three_way import Pair, Version, node_of

if TYPE_CHECKING:
    from ormahd.ormah import Ormah
    from ormahd.vault.history import Op

SHOWN = 10


def narrowed(
    ormah: Ormah, op: Op, pairs: Mapping[str, Pair], node: str, edge: str | None
) -> tuple[dict[str, Pair], list[Part]]:
    """Return the part of an op's changes that concerns one note, as `{id: (before, after)}` and as named parts.

    `node`: a prefix of the note's id. `edge`: `ID` or `TYPE:ID` (a prefix), for only its edges to that memory; then
    "before" differs from the op's result in these edges only.

    Raises:
        NotFound: the op did not change the note, or no such edge. BadRequest, Ambiguous: the ids.
        Conflict: that part is undone already.
    """
    node_id = _node_of_op(op, pairs, node)
    if edge is None:
        parts = [Part(op.name, node_id)]
        pair = pairs[node_id]
    else:
        pair, keys = _edges(ormah, op, node_id, pairs[node_id], edge)
        parts = [Part(op.name, node_id, key) for key in keys]
    undone = ormah.vault.oplog.view().parts
    done = [undone.get(part) or undone.get(Part(op.name, node_id)) for part in parts]
    if all(done):
        raise Conflict(
            f"this part of {op.name} is undone already, by {done[0]}",
            hint=f"to bring it back: ormahctl undo {done[0]}",
            data={"undone_by": done[0]},
        )
    return {node_id: pair}, parts


def _node_of_op(op: Op, pairs: Mapping[str, Pair], node: str) -> str:
    wanted = clean_prefix(node)
    touched = [node_id for key in pairs if (node_id := node_of(key))]
    found = [node_id for node_id in touched if node_id.startswith(wanted)]
    if not found:
        named = ", ".join(map(short_id, touched[:SHOWN])) + (" and others" if len(touched) > SHOWN else "")
        raise NotFound(f"{op.name} did not touch a memory {wanted}", hint=f"it touched: {named}" if touched else None)
    if len(found) > 1:
        raise Ambiguous(f"'{wanted}' begins several ids", hint="give more of it", data={"ids": found[:SHOWN]})
    return found[0]


def _edges(ormah: Ormah, op: Op, node_id: str, pair: Pair, edge: str) -> tuple[Pair, list[str]]:
    before, after = pair
    kind, colon, prefix = edge.rpartition(":")
    if colon and kind not in set(EdgeType):
        raise BadRequest(f"'{kind}' is no type of edge", hint=f"there are: {', '.join(EdgeType)}")
    target = ormah.anyone(prefix)
    if after is None:
        raise BadRequest(f"{op.name} removed the note itself", hint="leave --edge out")
    was, is_ = _links(before), _links(after)
    keys = [
        key for key in {**was, **is_}
        if was.get(key) != is_.get(key)
        and (not colon or key.startswith(f"{kind}:"))
        and _leads(ormah, was.get(key) or is_[key], target)
    ]  # fmt: skip
    if not keys:
        raise NotFound(
            f"{op.name} changed no {kind + ' ' if colon else ''}edge of {short_id(node_id)} to {short_id(target)}",
            hint=f"what it changed: git show {op.commit[:8]}",
        )
    data = codec.edit(
        after.data, after.path,
        unlink=[(is_[key].edge, is_[key].target) for key in keys if key not in was],
        link=[was[key] for key in keys if key in was],
    )  # fmt: skip
    if before is not None and before.path == after.path and _same(before, Version(after.path, data)):
        return (before, after), keys  # the op changed nothing else in the note
    return (Version(after.path, data), after), keys


def _links(version: Version | None) -> dict[str, NoteLink]:
    note = None if version is None else codec.parse(version.data, version.path)
    return {link.key: link for link in (note.links if note and note.kind is NoteKind.NOTE else ()) if not link.body}


def _leads(ormah: Ormah, link: NoteLink, target: str) -> bool:
    return stem_short_id(link.target) == short_id(target) or ormah.index.resolve_link(link.target) == target


def _same(one: Version, other: Version) -> bool:
    """Whether two versions of a note have the same content, ignoring `updated`."""
    return _said(codec.parse(one.data, one.path)) == _said(codec.parse(other.data, other.path))


def _said(note: Note) -> Note:
    return replace(note, digest="", updated=None, problems=())
