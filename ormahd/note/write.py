"""Write a new note, and add an id to a person's note."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Required, TypedDict, Unpack

from msgspec.structs import replace

from ormahd.errors import InvalidNote
from ormahd.model.node import EdgeType, NodeType, NoteGuard, NoteStanding, Tier
from ormahd.note.fields import FIELDS, ORDER, OWN, as_utc, moment, prose, unfit_error
from ormahd.note.frontmatter import BlockLines, FrontmatterError, Unusual, quoted, read
from ormahd.note.markdown import conflict_line, dominant_eol, link_target, normalise
from ormahd.note.read import parse
from ormahd.note.values import DEFAULT_WEIGHT, NoteKind, NoteLink


class NewFields(TypedDict, total=False):
    """The fields of a new note, see `Note`."""

    id: Required[str]
    type: Required[NodeType]
    tier: Required[Tier]
    space: Required[str | None]
    title: Required[str | None]
    tags: Required[Sequence[str]]
    source: Required[str]
    confidence: Required[float]
    created: Required[datetime]
    updated: Required[datetime]
    valid_until: datetime | None
    outdated_reason: str | None
    standing: NoteStanding | None
    because: str | None
    paths: Sequence[str]
    commands: Sequence[str]
    guard: NoteGuard | None
    evidence: Sequence[str]
    everywhere: bool
    said_in: str | None


def compose(*, content: str, links: Sequence[NoteLink] = (), **fields: Unpack[NewFields]) -> bytes:
    r"""Return the bytes of a new note: UTF-8, `\n`, keys in the order of FORMAT.md. `parse` returns the same values.

    Links in the body are not written as properties. `everywhere` is ignored if there is a space. Raises InvalidNote
    if the text cannot be stored.
    """
    lines = ["---"]
    for name, field in FIELDS.items():
        value = fields.get(name)
        clean = None if value is None else field.clean(value)
        if not is_empty(clean) and not (name == "everywhere" and fields["space"]):
            lines.append(f"{field.key}: {field.render(clean)}")
    lines.extend(_edge_lines(links))
    body = normalise(content)
    if "\0" in body or conflict_line(body):
        raise unfit_error(body)
    try:
        return "\n".join([*lines, "---", body + "\n" if body else ""]).encode()
    except UnicodeEncodeError as exc:
        raise unfit_error(body) from exc


def is_empty(value: object) -> bool:
    """Return whether a clean value of a field needs no key."""
    return value is None or value is False or value in ("", ())


def _edge_lines(links: Sequence[NoteLink]) -> Iterable[str]:
    """Yield the lines of the properties for edges, then those of their details. Links in the body are left out."""
    order = list(EdgeType)
    written: dict[str, NoteLink] = {}
    for link in sorted((clean_link(link) for link in links if not link.body), key=lambda link: order.index(link.edge)):
        written.setdefault(link.key, link)
    for edge in EdgeType:
        targets = [wikilink(link.target) for link in written.values() if link.edge is edge]
        if len(targets) == 1:
            yield f"{edge}: [{targets[0]}]"
        elif targets:
            yield f"{edge}:"
            yield from (f"  - {target}" for target in targets)
    details = [f"  {quoted(key)}: {text}" for key, link in written.items() if (text := detail(link))]
    yield from ["edges:", *details] if details else ()


def clean_link(link: NoteLink) -> NoteLink:
    """Return an edge as `parse` would return it: its target without alias, heading or block. Raises ValueError if no
    target is left."""
    target = link_target(link.target)
    if not target:
        raise ValueError("an edge needs a target")
    reason = link.reason if link.reason and link.reason.strip() else None
    return replace(link, target=target, created=link.created and as_utc(link.created), reason=reason, body=False)


def detail_parts(link: NoteLink) -> dict[str, str]:
    """Return {`weight`, `created` and `reason`: the detail of an edge as YAML}. A detail is "" if it is not written,
    because it is absent or the default."""
    return {
        "weight": repr(float(link.weight)) if link.weight != DEFAULT_WEIGHT else "",
        "created": moment(link.created) if link.created is not None else "",
        "reason": prose(link.reason, flow=True) if link.reason else "",
    }


def detail(link: NoteLink) -> str:
    """Return the details of an edge on one line, such as `{weight: 0.8}`; empty if it has none."""
    parts = ", ".join(f"{part}: {value}" for part, value in detail_parts(link).items() if value)
    return f"{{{parts}}}" if parts else ""


def wikilink(target: str) -> str:
    """Return a wikilink to `target` as a quoted YAML value."""
    return quoted(f"[[{target}]]")


def give_id(data: bytes, path: str, *, id: str, created: datetime) -> bytes:  # noqa: A002
    """Return the bytes of a person's note with the id added by the smallest edit: a new first key `id` (or `ormah_id`).
    If the note has no frontmatter, it gets one with id, type and created.

    A note that has this id already is returned unchanged. Raises InvalidNote for a note that is not BARE.
    """
    note = parse(data, path)
    if note.kind is NoteKind.NOTE and note.id == id:
        return data
    if note.kind is not NoteKind.BARE:
        why = note.problems[0] if note.problems else "it has an id"
        raise InvalidNote(f"{path} cannot be given an id: {why}", data={"path": path})
    try:
        result = _with_id(data.decode(), id, f"type: {note.type}", f"created: {moment(created)}").encode()
        after = parse(result, path)
        if after.kind is not NoteKind.NOTE or after.id != id or after.content != note.content:
            raise Unusual("the id would not be read")
    except (FrontmatterError, Unusual) as exc:
        message = f"{path} cannot be given an id: its frontmatter is written in an unusual way"
        hint = f"add the line  {OWN}id: {id}  to its frontmatter by hand"
        raise InvalidNote(message, hint=hint, data={"path": path}) from exc
    return result


def _with_id(whole: str, id: str, *more: str) -> str:  # noqa: A002
    """Return the text of a file with the id as the first key. `more`: further lines, if the file has no frontmatter."""
    eol = dominant_eol(whole)
    block = read(whole)
    if block is None:
        at = 1 if whole.startswith("\ufeff") else 0
        return whole[:at] + eol.join(["---", f"id: {id}", *more, "---", ""]) + whole[at:]
    if block.root is None:
        return f"{whole[: block.start]}id: {id}{eol}{whole[block.start :]}"
    lines = BlockLines(block, eol, block.root, block.start, block.end)
    key = OWN + "id" if {"id", OWN + "id"} & block.pairs.keys() else "id"
    first = lines.entries[0]
    if key in block.pairs and key not in block.twice:  # the key exists, without a value
        lines.put(key, id, ORDER)
    elif any(line.strip() and not line.lstrip().startswith("#") for line in first.above.splitlines()):
        first.above += f"{lines.margin}{key}: {id}{eol}"  # after a tag or anchor of the whole block
    else:
        first.above = f"{lines.margin}{key}: {id}{eol}{first.above}"
    return f"{whole[: block.start]}{lines}{whole[block.end :]}"
