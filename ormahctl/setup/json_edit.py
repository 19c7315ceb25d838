"""Editing JSON that a person wrote: splices at the positions of its values, every other byte stays."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from ormahctl.setup import json_read
from ormahctl.setup.file import Edit, Place, apply
from ormahctl.setup.json_read import BOM, SPACE, Node

Path = tuple[str | int, ...]

UNIT = b"  "
"""One level of a file that does not show how its writer indents."""


@dataclass(frozen=True)
class Json:
    """A JSON file whose root is an object. An empty file is one without members."""

    data: bytes
    bare: bytes
    """`data` without byte order mark and comments, all positions the same."""
    plain: bytes
    """`bare` without trailing commas."""
    value: Mapping[str, Any]

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read a settings file.

        Raises:
            InvalidSettings: it is no JSON object, with line and column.
        """
        bare = json_read.bare(data)
        plain = json_read.plain(bare)
        empty = not data.removeprefix(BOM).strip(SPACE)
        return cls(data, bare, plain, {} if empty else json_read.read(plain))

    @property
    def comment(self) -> int | None:
        """The line of the first thing that strict JSON does not have; None where it has none."""
        start = len(BOM) if self.data.startswith(BOM) else 0
        pairs = zip(self.data[start:], self.plain[start:], strict=True)
        at = next((at for at, (ours, strict) in enumerate(pairs, start) if ours != strict), None)
        return None if at is None else self.data.count(b"\n", 0, at) + 1

    # ---------------------------------------------------------------- hooks

    def add(self, event: str, handler: Mapping[str, Any]) -> list[Edit]:
        group = {"hooks": [handler]}
        if not self._has("hooks"):
            return self._insert((), "hooks", {event: [group]})
        if not self._has("hooks", event):
            return self._insert(("hooks",), event, [group])
        return self._insert(("hooks", event), None, group)

    def change(self, place: Place, handler: Mapping[str, Any], gone: Iterable[str]) -> list[Edit]:
        edits: list[Edit] = []
        now, path = self, self._path(place)
        steps = [*((key, value) for key, value in handler.items()), *((key, None) for key in gone)]
        for key, value in steps:
            there = now._at(path)
            if value is None:
                made = now._remove((*path, key)) if key in there else []
            elif key not in there:
                made = now._insert(path, key, value)
            else:
                made = now._replace((*path, key), value) if there[key] != value else []
            edits += made
            now = now._after(made)
        return edits

    def drop(self, place: Place, keep: frozenset[str]) -> list[Edit]:
        path = self._path(place)
        group = self._at(path[:-2])
        if len(group["hooks"]) > 1:
            return self._remove(path)
        if len(self._at(path[:2])) > 1 or f"hooks.{place.event}" in keep:
            return self._remove(path[:3])
        if len(self._at(path[:1])) > 1 or "hooks" in keep:
            return self._remove(path[:2])
        return self._remove(path[:1])

    @staticmethod
    def _path(place: Place) -> Path:
        return ("hooks", place.event, place.group, "hooks", place.number)

    # ---------------------------------------------------------------- any JSON

    def _after(self, edits: list[Edit]) -> Self:
        return self.parse(apply(self.data, edits)) if edits else self

    def _has(self, *path: str) -> bool:
        return path[-1] in self._at(path[:-1])

    def _at(self, path: Path) -> Any:
        value: Any = self.value
        for step in path:
            value = value[step]
        return value

    @cached_property
    def _root(self) -> Node:
        return json_read.tree(self.plain)

    def _node(self, path: Path) -> Node:
        """The value at `path`."""
        node = self._root
        for step in path:
            node = node.children[self._number(node, step)]
        return node

    @staticmethod
    def _number(node: Node, step: str | int) -> int:
        """The number of a child: of several members with one key the last, which is the one that counts."""
        return step if isinstance(step, int) else [at for at, one in enumerate(node.children) if one.key == step][-1]

    def _insert(self, path: Path, key: str | None, value: Any) -> list[Edit]:
        """A last member or element in the container at `path`."""
        if not self.data.removeprefix(BOM).strip(SPACE):
            text = self._text({key: value}, b"", inline=False)
            end = len(self.data)
            return [Edit(end, b"", text + self._newline)]
        node = self._node(path)
        start, close, children = node.at, node.end - 1, node.children
        end = max(len(self.data[:close].rstrip(SPACE)), start + 1)
        tail = self.data[end:close]
        last = children[-1].end if children else start + 1
        own_line = self._line_comment(end)
        inline = not own_line and (b"\n" not in self.data[start : children[0].start] if children else self._minified)
        member = b"" if key is None else json.dumps(key, ensure_ascii=False).encode() + self._colon
        if inline:
            space = b" " if children and self._spaced else b""
            edits = [Edit(end, b"", space + member + self._text(value, b"", inline=True))]
        else:
            outer = self._indent(start)
            indent = self._own_indent(children[0]) if children else None
            indent = outer + self._unit if indent is None else indent
            text = self._newline + indent + member + self._text(value, indent, inline=False)
            if b"\n" in tail:
                edits = [Edit(end, b"", text)]
            else:
                edits = [Edit(end, tail, text + self._newline + outer)]
        if children and b"," not in self.bare[last:close]:
            edits.append(Edit(last, b"", b","))
        return edits

    def _replace(self, path: Path, value: Any) -> list[Edit]:
        node = self._node(path)
        now = self.data[node.at : node.end]
        return [Edit(node.at, now, self._text(value, self._indent(node.at), inline=b"\n" not in now))]

    def _remove(self, path: Path) -> list[Edit]:
        """Take out one member or element with the comma and the white space that it needed."""
        node = self._node(path[:-1])
        siblings, number, close = node.children, self._number(node, path[-1]), node.end - 1
        start, end = siblings[number].start, siblings[number].end
        if len(siblings) == 1:
            rest = self.data[node.at + 1 : start] + self.data[end:close].replace(b",", b"", 1)
            if not rest.strip(SPACE):
                return [Edit(node.at + 1, self.data[node.at + 1 : close], b"")]
        begin = len(self.data[:start].rstrip(SPACE))
        after = siblings[number + 1].start if number + 1 < len(siblings) else close
        gap = self.data[end : after + 1].replace(b",", b" ")
        if self._line_comment(begin) and b"\n" not in gap[: len(gap) - len(gap.lstrip(SPACE))]:
            begin = start
        edits = [Edit(begin, self.data[begin:end], b"")]
        comma = self.bare.find(b",", end, after)
        if comma >= 0:
            edits.insert(0, Edit(comma, b",", b""))
        elif number > 0:
            edits.append(Edit(self.bare.index(b",", siblings[number - 1].end, start), b",", b""))
        return edits

    # ---------------------------------------------------------------- as its writer would

    @cached_property
    def _newline(self) -> bytes:
        return b"\r\n" if b"\r\n" in self.data else b"\n"

    @cached_property
    def _minified(self) -> bool:
        """All on one line, though there is something."""
        return b"\n" not in self.data.strip(SPACE) and bool(self.value)

    @cached_property
    def _spaced(self) -> bool:
        """Whether the first member has a space before its value; in a file without one ours do."""
        first = next(iter(self._root.children), None) if self.value else None
        return first is None or self.plain[first.at - 1 : first.at] != b":"

    @property
    def _colon(self) -> bytes:
        return b": " if self._spaced else b":"

    @cached_property
    def _unit(self) -> bytes:
        children = self._root.children if self.value else []
        return (self._own_indent(children[0]) if children else None) or UNIT

    def _own_indent(self, node: Node) -> bytes | None:
        """The white space before `node`, where nothing else stands before it on its line."""
        line = self.data[self.data.rfind(b"\n", 0, node.start) + 1 : node.start]
        return line if b"\n" in self.data[: node.start] and not line.strip(b" \t") else None

    def _indent(self, at: int) -> bytes:
        """The white space with which the line of the byte `at` begins."""
        line = self.data[self.data.rfind(b"\n", 0, at) + 1 : at]
        return line[: len(line) - len(line.lstrip(b" \t"))]

    def _line_comment(self, end: int) -> bool:
        """Whether a `//` comment ends at `end`."""
        return json_read.ends_in_line_comment(self.data[self.data.rfind(b"\n", 0, end) + 1 : end])

    def _text(self, value: Any, indent: bytes, *, inline: bool) -> bytes:
        colon = self._colon.decode()
        comma = (", " if self._spaced else ",") if inline else ","
        unit = None if inline else self._unit.decode()
        text = json.dumps(value, ensure_ascii=False, indent=unit, separators=(comma, colon)).encode()
        return text.replace(b"\n", self._newline + indent)
