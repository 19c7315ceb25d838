"""Write a new note, and add an id to a person's note."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from msgspec.structs import replace

from ormahd.errors import InvalidNote
from ormahd.model.node import EdgeType, NodeType, Tier
from ormahd.note.fields import OWN, as_utc, clean_tag, one_line
from ormahd.note.frontmatter import FrontmatterError, quoted, read, scalar
from ormahd.note.markdown import conflict_line, dominant_eol, link_target, normalise
from ormahd.note.read import parse
from ormahd.note.values import DEFAULT_WEIGHT, NoteKind, NoteLink

INDENT = "  "


def compose(
    *,
    id: str,  # noqa: A002
    type: NodeType,  # noqa: A002
    tier: Tier,
    space: str | None,
    title: str | None,
    tags: Sequence[str],
    source: str,
    confidence: float,
    created: datetime,
    updated: datetime,
    content: str,
    links: Sequence[NoteLink] = (),
    valid_until: datetime | None = None,
    outdated_reason: str | None = None,
    everywhere: bool = False,
    said_in: str | None = None,
) -> bytes:
    r"""Return the bytes of a new note: UTF-8, `\n`, keys in the order of FORMAT.md. `parse` returns the same values.

    Links in the body are not written as properties. `everywhere` is ignored if there is a space. Raises InvalidNote
    if the text cannot be stored.
    """
    lines = ["---", f"id: {id}", f"type: {type}", f"tier: {tier}"]
    if space:
        lines.append(f"space: {text(space)}")
    elif everywhere:
        lines.append("global: true")
    if title and title.strip():
        lines.append(f"title: {text(title)}")
    if tags:
        lines.append(f"tags: {flow_tags(tags)}")
    lines.append(f"source: {text(source)}")
    if said_in is not None:
        lines.append(f"from: {text(said_in)}")
    lines.append(f"confidence: {number(confidence)}")
    lines.append(f"created: {moment(created)}")
    lines.append(f"updated: {moment(updated)}")
    if valid_until is not None:
        lines.append(f"valid_until: {moment(valid_until)}")
    if outdated_reason and outdated_reason.strip():
        lines.append(f"outdated_reason: {prose(outdated_reason)}")
    if links:
        lines.extend(_edges(links))
    lines.append("---\n")
    body = normalise(content)
    if "\0" in body or conflict_line(body):
        raise unfit(body)
    if body:
        body += "\n"
    try:
        return ("\n".join(lines) + body).encode()
    except UnicodeEncodeError as exc:
        raise unfit(body) from exc


def _edges(links: Sequence[NoteLink]) -> Iterable[str]:
    written: dict[str, NoteLink] = {}
    for link in map(clean_link, links):
        if not link.body:
            written.setdefault(link.key, link)
    details: list[str] = []
    for edge in EdgeType:
        group = [(key, link) for key, link in written.items() if link.edge is edge]
        targets = [wikilink(link.target) for _, link in group]
        details += [f"{INDENT}{quoted(key)}: {detail(link)}" for key, link in group if has_detail(link)]
        if len(targets) == 1:
            yield f"{edge}: [{targets[0]}]"
        elif targets:
            yield f"{edge}:"
            yield from (f"{INDENT}- {target}" for target in targets)
    if details:
        yield "edges:"
        yield from details


def clean_link(link: NoteLink) -> NoteLink:
    """Return the link with a target that is valid in a property: without alias, heading or block. Raises ValueError if
    no target is left."""
    target = link_target(link.target)
    if not target:
        raise ValueError("an edge needs a target")
    return link if target == link.target else replace(link, target=target)


def has_detail(link: NoteLink) -> bool:
    return link.weight != DEFAULT_WEIGHT or link.created is not None or bool(link.reason and link.reason.strip())


def detail_parts(link: NoteLink) -> dict[str, str | None]:
    """Return the details of a link as they are written under `edges`: weight, created and reason -> YAML, or None if it
    is left out."""
    return {
        "weight": number(link.weight) if link.weight != DEFAULT_WEIGHT else None,
        "created": moment(link.created) if link.created is not None else None,
        "reason": prose(link.reason, flow=True) if link.reason and link.reason.strip() else None,
    }


def detail(link: NoteLink) -> str:
    return "{" + ", ".join(f"{part}: {value}" for part, value in detail_parts(link).items() if value) + "}"


def wikilink(target: str) -> str:
    return quoted(f"[[{target}]]")


def flow_tags(tags: Iterable[str]) -> str:
    return f"[{', '.join(scalar(tag, flow=True) for tag in dict.fromkeys(map(clean_tag, tags)) if tag)}]"


def text(value: str) -> str:
    return prose(one_line(value))


def prose(value: str, *, flow: bool = False) -> str:
    if "\0" in value:
        raise unfit(value)
    return scalar(value, flow=flow)


def number(value: float) -> str:
    return repr(float(value))


def moment(value: datetime) -> str:
    """Return the time in UTC as text, such as `2026-11-21T20:00:00Z`; with microseconds only if they are not zero."""
    return as_utc(value).replace(tzinfo=None).isoformat() + "Z"


def unfit(text: str) -> InvalidNote:
    """Return the error that says why a note cannot contain this text."""
    if "\0" in text:
        return InvalidNote("the text holds a NUL character", hint="remove it")
    if conflict_line(text):
        return InvalidNote("the text holds git's conflict markers, which a note cannot",
                           hint="put the example into a fenced code block (```)")  # fmt: skip
    return InvalidNote("the text holds half of a character (a lone surrogate)", hint="send it as valid Unicode")


def give_id(data: bytes, path: str, *, id: str, created: datetime) -> bytes:  # noqa: A002
    """Add an id to a person's note by the smallest edit: a new first key `id` (or `ormah_id`); without frontmatter, a
    new one with id, type and created.

    A note that has this id already is returned unchanged. Raises InvalidNote for a note that is not BARE.
    """
    note = parse(data, path)
    if note.kind is NoteKind.NOTE and note.id == id:
        return data
    if note.kind is not NoteKind.BARE:
        raise InvalidNote(f"{path} cannot be given an id: {note.problems[0] if note.problems else 'it has an id'}",
                          data={"path": path})  # fmt: skip
    whole = data.decode()
    eol = dominant_eol(whole)
    try:
        block = read(whole)
    except FrontmatterError as exc:  # unlikely: `parse` has read the same text
        raise InvalidNote(f"{path} cannot be given an id: {exc.what}", hint=exc.mend) from exc
    if block is None:
        at = 1 if whole.startswith("\ufeff") else 0
        added = eol.join(["---", f"id: {id}", f"type: {note.type}", f"created: {moment(created)}", "---", ""])
        new = whole[:at] + added + whole[at:]
    else:
        at, old = block.start, block.start
        if block.root is not None:
            first = block.root.value[0][0].start_mark
            head = whole[block.start : block.start + first.index - first.column]
            if any(line.strip() and not line.lstrip().startswith("#") for line in head.splitlines()):
                at = old = block.start + first.index - first.column  # after a tag or anchor of the whole block
        key = OWN + "id" if {"id", OWN + "id"} & block.pairs.keys() else "id"
        added = f"{' ' * block.column}{key}: {id}{eol}"
        if key in block.pairs and key not in block.twice:  # the key exists, without a value
            name, value = block.pairs[key]
            at, old = block.start + name.end_mark.index, block.start + value.end_mark.index
            added = f": {id}"
        new = whole[:at] + added + whole[old:]
    result = new.encode()
    after = parse(result, path)
    if after.kind is not NoteKind.NOTE or after.id != id or after.content != note.content:
        raise InvalidNote(f"{path} cannot be given an id: its frontmatter is written in an unusual way",
                          hint=f"add the line  {OWN}id: {id}  to its frontmatter by hand", data={"path": path})  # fmt: skip
    return result
