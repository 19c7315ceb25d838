"""The changes to a note's frontmatter, planned property by property."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ormahd.note.fields import FIELD_KEYS, OWN, Written, Wrong, as_utc
from ormahd.note.frontmatter import Frontmatter, MappingNode, SequenceNode, is_block, is_null, quoted, read, scalar
from ormahd.note.links import EDGES, NO_DETAIL, Detail, NoteReader
from ormahd.note.markdown import dominant_eol
from ormahd.note.naming import folder_says
from ormahd.note.splice import Pair, Splices, Unusual
from ormahd.note.values import Note, NoteLink, edge_key
from ormahd.note.write import INDENT, detail, detail_parts, flow_tags, has_detail, moment, number
from ormahd.note.write import prose as rendered_prose
from ormahd.note.write import text as rendered_text

FIELDS = ("id", "type", "tier", "space", "everywhere", "title", "tags", "source", "confidence", "created", "updated",
          "valid_until", "outdated_reason")  # fmt: skip
_KEYS = {"everywhere": "global"}
"""Keys that are not called as their field."""
ORDER = (*(own + key for key in FIELD_KEYS for own in ("", OWN)), *EDGES, "edges")
"""A key that is new stands behind the nearest of these before it that the note has."""

_RENDER: Mapping[str, Callable[[Any], str]] = {
    "id": str, "type": str, "tier": str, "space": rendered_text, "everywhere": lambda _: "true", "title": rendered_text, "tags": flow_tags,
    "source": rendered_text, "confidence": number, "created": moment, "updated": moment, "valid_until": moment,
    "outdated_reason": rendered_prose,
}  # fmt: skip


class Editor:
    """One edit of one note: `set` and `edges` plan, `apply` gives the new text."""

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
        self.pairs: dict[str, Pair] = {names[id(pair.key)]: pair for pair in pairs if id(pair.key) in names}
        self.margin = " " * block.column

    def apply(self) -> str:
        return self.splices.apply()

    def key(self, field: str) -> str:
        """Where a field of ours stands: under its key, or behind `ormah_` where that one holds something else."""
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
            if self.note.everywhere:  # the key may be a person's own, and say something else
                self.splices.remove(self.pairs[key])
        elif key in self.pairs:
            self.splices.remove(self.pairs[key])

    def _put(self, key: str, value: str | list[str]) -> None:
        """A key's value: on its line, or as lines of its own."""
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
        """Make a list property say `wanted` (not empty)."""
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
        # Who wrote several on one line wants them there.
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
            except Wrong:
                if any(key.startswith(f"{name}:") for key in [*gone, *new]):
                    raise
                continue  # the key holds something of the person's, and no edge of this type is asked for
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
        """Make `edges` say what it should of some edges; None: nothing."""
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
        self, pair: Pair, node: MappingNode, changes: Mapping[str, NoteLink | None], nodes: Mapping[str, Any]
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

    def _block_details(self, pair: Pair, node: MappingNode, changes: Mapping[str, NoteLink | None], nodes: Mapping[str, Any],
                       lines: list[str]) -> None:  # fmt: skip
        inner = self.splices.pairs(node, pair.end)
        by_node = {id(one.value): one for one in inner if one.here}
        gone: list[Pair] = []
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
        """`{weight: …}` with what a person added to it; "" when nothing is left to say."""
        if isinstance(value, MappingNode):
            return self.splices.flow_with(value, detail_parts(one))
        return detail(one) if has_detail(one) else ""

    def _lines_of_detail(self, entry: Pair, node: MappingNode, one: NoteLink, gone: list[Pair]) -> None:
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


def detail_of(link: NoteLink) -> Detail:
    reason = link.reason if link.reason and link.reason.strip() else None
    return Detail(link.weight, None if link.created is None else as_utc(link.created), reason)
