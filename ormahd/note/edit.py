"""Edit a note: change only the lines concerned, then parse the result to verify it.

`edit` changes fields, edges and text; `retarget` the note that links lead to.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from ormahd.errors import InvalidNote
from ormahd.model.node import EdgeType
from ormahd.note.fields import EDGES, FIELDS, ORDER, OWN, InvalidValue, Item, NoteReader, unfit_error
from ormahd.note.frontmatter import BlockLines, FrontmatterError, Unusual, is_block, is_null, quoted, read, scalar
from ormahd.note.markdown import body_change, body_links, conflict_line, dominant_eol, link_target, normalise, relink
from ormahd.note.read import note_by_path, parse
from ormahd.note.values import Note, NoteKind, NoteLink, edge_key, folder_says, stem_short_id
from ormahd.note.write import clean_link, detail, detail_parts, is_empty


class Editor:
    """The lines of a note's frontmatter, and methods that change them. Raises Unusual if they cannot be changed safely,
    and InvalidValue if a property for edges contains anything else."""

    def __init__(self, note: Note, text: str) -> None:
        block = read(text)
        if block is None:
            raise Unusual("the frontmatter is gone")
        self.note, self.block = note, block
        self.reader = NoteReader(block)
        self.lines = BlockLines(block, dominant_eol(text), block.root, block.start, block.end)

    def set(self, field: str, value: Any) -> None:
        """Write a field; an empty value removes its key. If the key holds an unrelated value, that is kept, and the
        field is written under the key with the prefix `ormah_`."""
        key = FIELDS[field].key
        if key in self.note.taken or self.lines.get(OWN + key) is not None:
            key = OWN + key
        if not is_empty(value):
            lists = {"tags": self.reader.tags, "aliases": self.reader.aliases}
            lists |= {name: partial(self.reader.globs, name) for name in ("paths", "commands", "evidence")}
            items = lists.get(field)
            if items is not None and self.lines.get(key) is not None:
                self._write_list(key, items(), {item: item for item in value})
            else:
                self.lines.put(key, FIELDS[field].render(value), ORDER)
        elif field == "space" and folder_says(self.note.path)[1] is not None:
            if self.lines.get(key) is None or self.note.space is not None:
                self.lines.put(key, "null", ORDER)
        elif field != "everywhere" or self.note.everywhere:  # else `global` is the person's, with another meaning
            self.lines.remove(key)

    def _write_list(self, key: str, items: Sequence[Item], wanted: Mapping[str, str]) -> None:
        """Give a list property the values `wanted` (value -> the text to write, if it is new). Present items that are
        wanted are kept as they are written. New items are quoted if they are links, or if YAML needs it."""
        # Keep the present items if `wanted` begins with them, in their order; else write all items again.
        stay = [item for item in items if item.value in wanted]
        order = list(dict.fromkeys(item.value for item in stay))
        if list(wanted)[: len(order)] != order:
            stay, order = [], []
        added = list(wanted.values())[len(order) :]

        # A list with a line for each item: change only the lines of removed and new items.
        entry = self.lines.get(key)
        node: Any = entry.value if entry else None
        in_lines = isinstance(node, SequenceNode) and is_block(node)
        in_brackets = isinstance(node, SequenceNode) and not in_lines and self.reader.unquoted_link(node) is None
        if entry and in_lines and stay and all(item.alone for item in items):
            drop = {id(item.node) for item in items} - {id(item.node) for item in stay}
            self.lines.change_items(entry, drop, [quoted(text) if key in EDGES else scalar(text) for text in added])
            return
        if in_brackets and "\n" in self.block.raw(node):
            raise Unusual(f"{key} is a list in brackets on several lines")

        # Any other form: write the whole value again, in brackets or with a line for each item.
        flow = len(stay) + len(added) == 1 or (in_brackets and len(node.value) > 1) if key in EDGES else not in_lines
        render = quoted if key in EDGES else partial(scalar, flow=flow)
        parts = [self.block.raw(item.node) if in_brackets and item.alone else render(item.text) for item in stay]
        parts += map(render, added)
        self.lines.put(key, f"[{', '.join(parts)}]" if flow else [f"- {part}" for part in parts], ORDER)

    def set_edges(
        self, link: Sequence[NoteLink], unlink: Collection[str], details: Mapping[str, NoteLink | None] = {}
    ) -> None:
        """Remove the edges whose edge keys are in `unlink`, then add edges, or replace their details. `details`: edge
        key -> edge of the text with its new details; None removes them."""
        new = {wish.key: wish for wish in link}
        for name, edge in EDGES.items():
            try:
                items = self.reader.targets(name)
            except InvalidValue:
                if any(key.startswith(f"{name}:") for key in [*unlink, *new]):
                    raise
                continue  # the key holds an unrelated value, and no edge of this type is to be changed
            stay = {item.value: item.text for item in items if edge_key(edge, item.value) not in unlink}
            known = {edge_key(edge, target) for target in stay}
            targets = [wish.target for key, wish in new.items() if wish.edge is edge and key not in known]
            added = {target: f"[[{target}]]" for target in targets}
            if not stay and not added:
                self.lines.remove(name)
            elif added or len(stay) < len({item.value for item in items}):
                self._write_list(name, items, stay | added)
        self._set_details({**dict.fromkeys(unlink), **new, **details})

    def _set_details(self, wanted: Mapping[str, NoteLink | None]) -> None:
        """Write the details of edges under the key `edges`. `wanted`: edge key -> edge with its new details; None
        removes them."""
        # Find the edges whose details differ.
        names = {key: str(name.value) for key, name, _ in self.reader.detail_nodes() if key}
        old = {key: detail_parts(self.reader.details.get(key) or NoteLink(EdgeType.SUPPORTS, key)) for key in wanted}
        changes = {
            key: wish
            for key, wish in wanted.items()
            if (key in names if wish is None else detail_parts(wish) != old[key])
        }

        # Without present details, write the key `edges` as a whole.
        entry = self.lines.get("edges")
        if not changes:
            return
        if entry is None or is_null(entry.value) or not entry.value.value:
            lines = [f"{quoted(key)}: {detail(wish)}" for key, wish in changes.items() if wish]
            self.lines.put("edges", lines, ORDER)
            return

        if not isinstance(entry.value, MappingNode):
            raise Unusual("edges holds something else than edges")

        # Change the lines of single edges; details on lines of their own are changed one by one.
        inner = self.lines.inside(entry)
        for key, wish in changes.items():
            name = names.get(key, quoted(key))
            line = inner.get(name)
            if line and wish and is_block(line.value) and line.value.value:
                parts = inner.inside(line)
                for part, value in detail_parts(wish).items():
                    if not value:
                        parts.remove(part)
                    elif value != old[key][part]:
                        parts.put(part, value)
                inner.put_inside(line, parts)
            elif wish and (text := self._on_one_line(line.value if line else None, wish)):
                inner.put(name, text)
            else:
                inner.remove(name)
        self.lines.put_inside(entry, inner)

    def _on_one_line(self, node: Node | None, link: NoteLink) -> str:
        """Return the details of an edge on one line; empty if there are none. `node`: the present details; keys in it
        that are not Ormah's are kept."""
        new, parts = detail_parts(link), dict[str, str]()
        present = node if isinstance(node, MappingNode) else None
        if present is not None and "\n" in self.block.raw(present):
            raise Unusual("the details of an edge are in braces on several lines")
        for name, value in present.value if present is not None else ():
            start, end = self.block.from_(name), max(self.block.to(name), self.block.to(value))
            if not start <= self.block.from_(value):
                raise Unusual("the details of an edge hold an alias")
            text = self.block.text[start:end]
            part = name.value if isinstance(name, ScalarNode) else text
            parts[part] = text if part not in new else new[part] and f"{self.block.raw(name)}: {new[part]}"
        for part, value in new.items():
            parts.setdefault(part, value and f"{part}: {value}")
        joined = ", ".join(filter(None, parts.values()))
        return f"{{{joined}}}" if joined else ""


def edit(
    data: bytes,
    path: str,
    *,
    set: Mapping[str, Any] = {},  # noqa: A002
    clear: Collection[str] = (),
    link: Sequence[NoteLink] = (),
    unlink: Collection[tuple[EdgeType, str]] = (),
    content: str | None = None,
) -> bytes:
    """Return the bytes of a note with other fields, edges or content. Lines whose value does not change are kept as
    written.

    `set`: field (a name in FIELDS) -> new value. None means the default: the key is removed, unless the field has its
    default already. `clear`: fields whose keys are removed. If the folder implies a space, `space: null` is written
    instead; setting a space removes `global: true`. `link`: edges to add, or whose details are replaced. `unlink`:
    (type, target) of edges to remove from the frontmatter; the target is as written, or a short id.

    Only `doctor --fix` may change `id`. Raises InvalidNote if the note cannot be edited safely.
    """
    # Check and clean what the caller gave.
    note = parse(data, path)
    if note.kind is not NoteKind.NOTE:
        problem = note.problems[0] if note.problems else None
        hint, line = (problem.mend, problem.line) if problem else (None, None)
        message = f"{path} is left alone: {problem or 'it has no id yet'}"
        raise InvalidNote(message, hint=hint, data={"path": path, "line": line})
    values: dict[str, Any] = {}
    for field, value in {**set, **dict.fromkeys(clear)}.items():
        if field not in FIELDS or field == "said_in" or (field == "id" and value is None):
            raise ValueError(f"{field!r} is no field of a note that can be set")
        values[field] = None if value is None else FIELDS[field].clean(value)
    if not is_empty(values.get("space")):
        values["everywhere"] = False

    # The values that the result must have: a field that is removed gets its default.
    default = replace(note_by_path(path, NoteKind.NOTE, ""), space=None)
    expected = {field: getattr(default, field) if is_empty(value) else value for field, value in values.items()}
    links = list(map(clean_link, link))
    unlinked = [edge_key(edge, link_target(target)) for edge, target in unlink]

    # Change the lines of the frontmatter, then of the body.
    try:
        text = data.decode()
        editor = Editor(note, text)
        for field in FIELDS:
            if field in clear or (field in values and getattr(note, field) != expected[field]):
                editor.set(field, values[field])
        if links or unlinked:
            editor.set_edges(links, unlinked)
        body = text[editor.block.end :]
        if content is not None and (content := normalise(content)) != note.content:
            if conflict_line(content):
                raise unfit_error(content)
            start, end, lines = body_change(text, editor.block.body, content)
            body = text[editor.block.end : start] + lines + text[end:]
        result = f"{text[: editor.block.start]}{editor.lines}{body}".encode()
    except UnicodeEncodeError as exc:
        raise unfit_error("") from exc
    except (Unusual, InvalidValue, FrontmatterError) as exc:
        raise _unsafe_error(path, str(exc)) from exc
    if result == data:
        return data

    # Parse the result, and compare it with what was wanted.
    after = parse(result, path)
    if after.kind is not NoteKind.NOTE:
        problem = after.problems[0] if after.problems else None
        why, hint = (problem.what, problem.mend) if problem else (after.kind, None)
        raise InvalidNote(f"{path} would no longer be a readable note: {why}", hint=hint, data={"path": path})
    wanted = {key: old for key, old in note.edges.items() if key not in unlinked}
    wanted |= {new.key: replace(new, target=wanted.get(new.key, new).target) for new in links}
    if content is not None:
        expected["content"] = content
    other = replace(note, **expected, digest=after.digest, links=after.links, problems=after.problems)
    if after != other or after.edges != wanted:
        raise _unsafe_error(path, "its frontmatter is written in an unusual way")
    return result


def _unsafe_error(path: str, why: str) -> InvalidNote:
    """Return the error for a note that cannot be edited safely. `why`: the reason."""
    return InvalidNote(f"{path} cannot be changed safely: {why}", hint="change it by hand", data={"path": path})


def retarget(data: bytes, path: str, short: str, stem: str) -> bytes:
    """Return a note's bytes with all links to the short id `short` changed, in properties and text: they then lead to
    the note named `stem`. Heading, block and alias of a link are kept. The bytes of a note that cannot be read or
    edited are returned unchanged."""
    if short.encode() not in data:
        return data
    note = parse(data, path)
    if note.kind is not NoteKind.NOTE:
        return data
    old = [link for link in note.edges.values() if stem_short_id(link.target) == short]
    new = [NoteLink(link.edge, stem, link.weight, link.created, link.reason) for link in old]
    names = {target for target in body_links(note.content) if stem_short_id(target) == short}
    content = relink(note.content, names, stem)
    try:
        return edit(data, path, unlink=[(link.edge, link.target) for link in old], link=new, content=content)
    except InvalidNote:
        return data  # it cannot be edited safely: the link stays broken, but nothing is lost
