"""Edit a note: change only the lines concerned, then parse the result to verify it.

`edit` changes fields, edges and text; `retarget`, `lead` and `unlink` change the targets of links.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any
from urllib.parse import quote

from msgspec.structs import replace
from yaml.nodes import MappingNode, SequenceNode

from ormahd.errors import InvalidNote
from ormahd.model.node import EdgeType, NodeType, Tier
from ormahd.note.fields import (
    EDGES,
    FIELD_KEYS,
    NO_DETAIL,
    OWN,
    EdgeDetail,
    InvalidValue,
    NoteReader,
    Written,
    as_utc,
    clean_tag,
    one_line,
)
from ormahd.note.frontmatter import (
    Frontmatter,
    FrontmatterError,
    KeyLines,
    Splices,
    Unusual,
    is_block,
    is_null,
    quoted,
    read,
    scalar,
)
from ormahd.note.markdown import (
    LINK,
    body_change,
    body_links,
    conflict_line,
    dominant_eol,
    link_target,
    linked_note,
    normalise,
)
from ormahd.note.read import parse
from ormahd.note.values import (
    DEFAULT_SOURCE,
    Note,
    NoteKind,
    NoteLink,
    edge_key,
    file_title,
    folder_says,
    stem_short_id,
)
from ormahd.note.write import INDENT, clean_link, detail, detail_parts, flow_tags, has_detail, moment, number, unfit
from ormahd.note.write import prose as rendered_prose
from ormahd.note.write import text as rendered_text

FIELDS = ("id", "type", "tier", "space", "everywhere", "title", "tags", "source", "confidence", "created", "updated",
          "valid_until", "outdated_reason")  # fmt: skip
_KEYS = {"everywhere": "global"}
"""Field -> its key in the frontmatter, for fields whose key has another name."""
ORDER = (*(own + key for key in FIELD_KEYS for own in ("", OWN)), *EDGES, "edges")
"""Order of keys. A new key is inserted after the nearest preceding one that the note has."""

_RENDER: Mapping[str, Callable[[Any], str]] = {
    "id": str, "type": str, "tier": str, "space": rendered_text, "everywhere": lambda _: "true", "title": rendered_text, "tags": flow_tags,
    "source": rendered_text, "confidence": number, "created": moment, "updated": moment, "valid_until": moment,
    "outdated_reason": rendered_prose,
}  # fmt: skip


class Editor:
    """Edits a note's frontmatter: `set`, `clear` and `edges` plan changes, `apply` returns the text with all of them.
    Raises Unusual if the frontmatter cannot be edited safely."""

    def __init__(self, note: Note, text: str) -> None:
        block = read(text)
        if block is None or block.root is None:
            raise Unusual("the frontmatter is gone")
        self.note = note
        self.block: Frontmatter = block
        self.fields = NoteReader(block)
        self.splices = Splices(block, dominant_eol(text))
        names = {id(node): key for key, (node, _) in block.pairs.items()}
        pairs = self.splices.pairs(block.root, block.end)
        self.pairs: dict[str, KeyLines] = {names[id(pair.key)]: pair for pair in pairs if id(pair.key) in names}
        self.margin = " " * block.column

    def apply(self) -> str:
        return self.splices.apply()

    def key(self, field: str) -> str:
        """Return the frontmatter key of a field: its own, or the one prefixed `ormah_` if its own holds an unrelated value."""
        key = _KEYS.get(field, field)
        own = OWN + key
        return own if key in self.note.taken or own in self.pairs else key

    def set(self, field: str, value: Any) -> None:
        key = self.key(field)
        if field == "tags" and key in self.pairs and value:
            self._list(key, self.fields.tags(), list(value), lambda tag, flow: scalar(tag, flow=flow))
        elif value is None or value is False or value == ():
            self.clear(field)
        else:
            self._put(key, _RENDER[field](value))

    def clear(self, field: str) -> None:
        key = self.key(field)
        if field == "space" and folder_says(self.note.path)[1] is not None:
            if key not in self.pairs or self.note.space is not None:
                self._put(key, "null")
        elif field == "everywhere":
            if self.note.everywhere:  # the key may be the person's own, with another meaning
                self.splices.remove(self.pairs[key])
        elif key in self.pairs:
            self.splices.remove(self.pairs[key])

    def _put(self, key: str, value: str | list[str]) -> None:
        """Write the value of a key: a str on the key's line, a list as lines after it."""
        pair = self.pairs.get(key)
        if isinstance(value, str):
            if pair:
                self.splices.set_inline(pair, value)
            else:
                self.splices.insert(self._place(key), [f"{self.margin}{key}: {value}"])
            return
        lines = [f"{self.margin}{INDENT}{line}" for line in value]
        if pair:
            self.splices.set_lines(pair, lines)
        else:
            self.splices.insert(self._place(key), [f"{self.margin}{key}:", *lines])

    def _place(self, key: str) -> int:
        before = [name for name in ORDER[: ORDER.index(key)] if name in self.pairs]
        return self.pairs[before[-1]].end if before else next(iter(self.pairs.values())).start

    def _list(self, key: str, items: list[Written], wanted: list[str], render: Callable[[str, bool], str]) -> None:
        """Set a list property to the values `wanted` (not empty). Items whose value stays are kept as they are written.

        `items`: the present items; `render`: called with (value, whether it is placed inside `[...]`), returns the
        YAML.
        """
        goal = frozenset(wanted)
        kept = [item for item in items if item.value in goal]
        order = list(dict.fromkeys(item.value for item in kept))
        if wanted[: len(order)] != order:
            kept, order = [], []
        added = wanted[len(order) :]
        pair = self.pairs.get(key)
        if pair and kept and all(item.alone for item in items):
            stay = {id(item.node) for item in kept}
            drop = [item.node for item in items if id(item.node) not in stay]
            if self.splices.change_items(pair, drop, [render(value, False) for value in added]):
                return
        block_list = pair is not None and pair.here and is_block(pair.value)
        # Several items on one line stay on one line.
        several = pair is not None and self._flow_list(key) and len(pair.value.value) > 1
        flow = not block_list and (key not in EDGES or len(kept) + len(added) == 1 or several)
        # An item of a list on one line is kept as it is written; a line of its own may need other quotes.
        as_is = {id(child) for child in pair.value.value} if pair and pair.here and self._flow_list(key) else set()
        parts = [
            self.splices.raw(item.node)
            if id(item.node) in as_is and "\n" not in self.splices.raw(item.node)
            else render(item.said, flow)
            for item in kept
        ] + [render(value, flow) for value in added]
        if len(parts) == 1 and key in EDGES:
            flow = True
        self._put(key, f"[{', '.join(parts)}]" if flow else [f"- {part}" for part in parts])

    def _flow_list(self, key: str) -> bool:
        node = self.block.get(key)
        return isinstance(node, SequenceNode) and not is_block(node)

    def edges(self, link: Sequence[NoteLink], unlink: Sequence[str]) -> None:
        gone = frozenset(unlink)
        new = {one.key: one for one in link}
        for name, edge in EDGES.items():
            try:
                items = self.fields.targets(name)
            except InvalidValue:
                if any(key.startswith(f"{name}:") for key in [*gone, *new]):
                    raise
                continue  # the key holds an unrelated value, and no edge of this type is to be changed
            kept = [
                item for item in items if edge_key(edge, item.value) not in gone or edge_key(edge, item.value) in new
            ]
            there = {edge_key(edge, item.value) for item in kept}
            added = [one for key, one in new.items() if one.edge is edge and key not in there]
            if len(kept) == len(items) and not added:
                continue
            if not kept and not added:
                self.splices.remove(self.pairs[name])
                continue
            names = {one.target: f"[[{one.target}]]" for one in added}
            wanted = list(dict.fromkeys([item.value for item in kept] + list(names)))
            self._list(name, items, wanted, partial(_quoted_link, names))
        details: dict[str, NoteLink | None] = dict.fromkeys(gone - new.keys())
        details.update(new)
        self._details(details)

    def _details(self, wanted: Mapping[str, NoteLink | None]) -> None:
        """Write or remove the details of edges under the key `edges`. `wanted`: edge key -> link that has the new
        details; None removes the details."""
        nodes = {key: (name, value) for key, name, value in self.fields.detail_nodes() if key}
        said = self.fields.details
        changes = {
            key: one for key, one in wanted.items()
            if (key in nodes if one is None else detail_of(one) != said.get(key, NO_DETAIL))
        }  # fmt: skip
        if not changes:
            return
        pair = self.pairs.get("edges")
        if pair is not None and not isinstance(pair.value, MappingNode) and not is_null(pair.value):
            raise Unusual("edges holds something else than edges")
        lines = [f"{quoted(key)}: {detail(one)}" for key, one in changes.items() if one and key not in nodes]
        if pair is None or not isinstance(pair.value, MappingNode) or not pair.value.value:
            self._put("edges", lines)
        elif not pair.here:
            raise Unusual("edges is an alias")
        elif pair.value.flow_style:
            self._flow_details(pair, pair.value, changes, nodes)
        else:
            self._block_details(pair, pair.value, changes, nodes, lines)

    def _flow_details(
        self, pair: KeyLines, node: MappingNode, changes: Mapping[str, NoteLink | None], nodes: Mapping[str, Any]
    ) -> None:
        by_name: dict[str, str | None] = {}
        for key, one in changes.items():
            if key in nodes:
                name, value = nodes[key]
                by_name[name.value] = None if one is None else self._changed_detail(value, one) or None
            elif one is not None:
                by_name[quoted(key)] = detail(one)
        text = self.splices.flow_with(node, by_name)
        if text:
            self.splices.set_inline(pair, text)
        else:
            self.splices.remove(pair)

    def _block_details(self, pair: KeyLines, node: MappingNode, changes: Mapping[str, NoteLink | None], nodes: Mapping[str, Any],
                       lines: list[str]) -> None:  # fmt: skip
        inner = self.splices.pairs(node, pair.end)
        by_node = {id(one.value): one for one in inner if one.here}
        gone: list[KeyLines] = []
        for key, one in changes.items():
            if key not in nodes:
                continue
            entry = by_node.get(id(nodes[key][1]))
            if entry is None:
                raise Unusual(f"{key} is an alias")
            if one is None:
                gone.append(entry)
            elif isinstance(entry.value, MappingNode) and entry.value.value and not entry.value.flow_style:
                self._lines_of_detail(entry, entry.value, one, gone)
            elif text := self._changed_detail(entry.value, one):
                self.splices.set_inline(entry, text)
            else:
                gone.append(entry)
        if len(gone) == len(inner) and not lines:
            self.splices.remove(pair)
            return
        for entry in gone:
            self.splices.remove(entry)
        if lines:
            margin = " " * int(inner[0].key.start_mark.column)
            self.splices.insert(inner[-1].end, [margin + line for line in lines])

    def _changed_detail(self, value: Any, one: NoteLink) -> str:
        """Return the details of `one` as a flow mapping, such as `{weight: 0.8}`. `value`: the present details; keys
        that a person added to them are kept. Empty if there is nothing to write."""
        if isinstance(value, MappingNode):
            return self.splices.flow_with(value, detail_parts(one))
        return detail(one) if has_detail(one) else ""

    def _lines_of_detail(self, entry: KeyLines, node: MappingNode, one: NoteLink, gone: list[KeyLines]) -> None:
        parts = detail_parts(one)
        inner = {str(pair.key.value): pair for pair in self.splices.pairs(node, entry.end)}
        if not any(parts.values()) and inner.keys() <= parts.keys():
            gone.append(entry)
            return
        old = self.fields.details[one.key]
        for part, value in parts.items():
            if part not in inner:
                if value:
                    margin = " " * int(node.value[0][0].start_mark.column)
                    self.splices.insert(entry.end, [f"{margin}{part}: {value}"])
            elif value is None:
                self.splices.remove(inner[part])
            elif getattr(old, part) != getattr(detail_of(one), part):
                self.splices.set_inline(inner[part], value)


def _quoted_link(names: Mapping[str, str], text: str, _flow: bool) -> str:
    return quoted(names.get(text, text))


def detail_of(link: NoteLink) -> EdgeDetail:
    reason = link.reason if link.reason and link.reason.strip() else None
    return EdgeDetail(link.weight, None if link.created is None else as_utc(link.created), reason)


def edit(
    data: bytes,
    path: str,
    *,
    set: Mapping[str, Any] = {},  # noqa: A002
    clear: Collection[str] = (),
    link: Sequence[NoteLink] = (),
    unlink: Sequence[tuple[EdgeType, str]] = (),
    content: str | None = None,
) -> bytes:
    """Return the bytes of a note with other fields, edges or content. Lines whose value does not change stay as
    written.

    `set`: field (one of FIELDS) -> new value; None stands for the default and removes the key, unless the field has
    its default already. `clear`: fields whose keys are removed. If the folder implies a space, `space: null` is
    written instead; setting a space removes `global: true`. `link`: edges to add, or whose details are replaced.
    `unlink`: (type, target) of edges to remove from the frontmatter; the target is as written, or a short id. Only
    `doctor --fix` may change `id`. Raises InvalidNote if the note cannot be edited safely.
    """
    note = parse(data, path)
    if note.kind is not NoteKind.NOTE:
        problem = note.problems[0] if note.problems else None
        raise InvalidNote(f"{path} is left alone: {problem or 'it has no id yet'}",
                          hint=problem.mend if problem else None,
                          data={"path": path, "line": problem.line if problem else None})  # fmt: skip
    link = [clean_link(one) for one in link]
    wanted = {field: _value(field, value, path) for field, value in {**set, **dict.fromkeys(clear)}.items()}
    if wanted.get("space") is not None:
        wanted["everywhere"] = False
    changed = {field: value for field, value in wanted.items() if getattr(note, field) != value}
    try:
        editor = Editor(note, data.decode())
        for field in FIELDS:
            if field in clear:
                editor.clear(field)
            elif field in changed:
                unset = field == "title" and not set.get(field)  # the title is then the file's name
                editor.set(field, None if unset else changed[field])
        if link or unlink:
            editor.edges(link, [edge_key(edge, link_target(target)) for edge, target in unlink])
        if content is not None and normalise(content) != note.content:
            if conflict_line(normalise(content)):
                raise unfit(normalise(content))
            editor.splices.replace(*body_change(editor.block.text, editor.block.body, normalise(content)))
        result = editor.apply().encode()
    except UnicodeEncodeError as exc:
        raise unfit("") from exc
    except (Unusual, InvalidValue, FrontmatterError) as exc:
        raise _unsafe(path, str(exc)) from exc
    if result != data:
        _check(note, parse(result, path), changed, link, unlink, content)
    return result


def _value(field: str, value: Any, path: str) -> Any:
    """Return a new value of a field in the form that `parse` returns. For None, return the field's default."""
    if field not in FIELDS or (field == "id" and value is None):
        raise ValueError(f"{field!r} is no field of a note that can be set")
    if field == "everywhere":
        return bool(value)
    if field == "tags":
        return tuple(tag for tag in dict.fromkeys(clean_tag(tag) for tag in value or ()) if tag)
    if isinstance(value, datetime):
        return as_utc(value)
    if field == "outdated_reason":
        return value if value and value.strip() else None
    if field in {"title", "space", "source"}:
        value = one_line(value) if value else None
        return value or {"source": DEFAULT_SOURCE, "title": file_title(path)}.get(field)
    if value is None:
        defaults = {"type": folder_says(path)[0] or NodeType.FACT, "tier": Tier.WORKING, "confidence": 1.0}
        return defaults.get(field)
    return {"type": NodeType, "tier": Tier, "confidence": float}.get(field, lambda same: same)(value)


def _check(before: Note, after: Note, changed: Mapping[str, Any], link: Sequence[NoteLink],
           unlink: Sequence[tuple[EdgeType, str]], content: str | None) -> None:  # fmt: skip
    """Raise InvalidNote unless `after`, the edited note, has the intended values and is otherwise equal to
    `before`."""
    if after.kind is not NoteKind.NOTE:
        problem = after.problems[0] if after.problems else None
        raise InvalidNote(f"{before.path} would no longer be a readable note: {problem.what if problem else after.kind}",
                          hint=problem.mend if problem else None, data={"path": before.path})  # fmt: skip
    expected = replace(before, **changed, digest=after.digest, links=after.links, problems=after.problems)
    if content is not None:
        expected = replace(expected, content=normalise(content))
    details = {one.key: detail_of(one) for one in before.links if not one.body}
    for edge, target in unlink:
        details.pop(edge_key(edge, link_target(target)), None)
    details.update((one.key, detail_of(one)) for one in link)
    if after != expected or details != {one.key: detail_of(one) for one in after.links if not one.body}:
        raise _unsafe(before.path, "its frontmatter is written in an unusual way")


def _unsafe(path: str, why: str) -> InvalidNote:
    return InvalidNote(f"{path} cannot be changed safely: {why}", hint="change it by hand", data={"path": path})


_WIKILINK = re.compile(r"(?<!\\)\[\[([^\[\]\n]{1,500})\]\]")
_NAME = re.compile(r"[^|#^]*")


def retarget(data: bytes, path: str, short: str, stem: str) -> bytes:
    """Return a note's bytes with all links to the short id `short` changed, in properties and text: they then lead to
    the note named `stem`.

    Heading, block and alias of a link stay. The bytes of a note that cannot be read or edited are returned unchanged.
    """
    if short.encode() not in data:
        return data
    note = parse(data, path)
    if note.kind is not NoteKind.NOTE:
        return data
    old = [link for link in note.links if not link.body and stem_short_id(link.target) == short]
    new = [NoteLink(link.edge, stem, link.weight, link.created, link.reason) for link in old]
    try:
        return edit(
            data, path, unlink=[(link.edge, link.target) for link in old], link=new,
            content=_text(note.content, short, stem),
        )  # fmt: skip
    except InvalidNote:
        return data  # it cannot be edited safely: the link stays broken, but nothing is lost


def _text(content: str, short: str, stem: str) -> str:
    names = {target for target in body_links(content) if stem_short_id(target) == short}
    return _led(content, names, lambda inside: _NAME.sub(stem, inside, count=1))


def lead(content: str, names: Collection[str], stem: str) -> str:
    """Return the text with all links to one of `names` (targets as returned by `body_links`) changed: they then lead
    to the note named `stem`.

    A link by title keeps the title as its alias; heading, block and alias are kept.
    """

    def led(inside: str) -> str:
        led_to = _NAME.sub(stem, inside, count=1)
        return led_to if "|" in inside or stem_short_id(link_target(inside)) else f"{led_to}|{link_target(inside)}"

    return _led(content, names, led)


def unlink(content: str, names: Collection[str], word: str) -> str:
    """Return the text with all links to one of `names` replaced by plain text: by the link's alias; if it has none,
    by its target, or by `word` if the target is a file name with a short id."""

    def said(inside: str) -> str:
        alias = inside.partition("|")[2].strip()
        return alias or (word if stem_short_id(link_target(inside)) else link_target(inside))

    return _led(content, names, said, ends=("", ""))


def _led(
    content: str, names: Collection[str], led: Callable[[str], str], ends: tuple[str, str] = ("[[", "]]")
) -> str:  # fmt: skip
    def changed(found: re.Match[str]) -> str:
        return f"{ends[0]}{led(found[1])}{ends[1]}" if link_target(found[1]) in names else found[0]

    def changed_path(found: re.Match[str]) -> str:
        """Return the replacement for a markdown link. It keeps its text but loses its heading, which the other note
        does not have."""
        name = linked_note(found)
        if name not in names:
            return found[0]
        return f"[{found['text']}]({quote(link_target(led(name)))}.md)" if ends[0] else found["text"]

    return LINK.sub(changed_path, _WIKILINK.sub(changed, content)) if names else content
