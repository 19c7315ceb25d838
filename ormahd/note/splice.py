"""Changes to a frontmatter block, character by character: what is not changed stays as it is.

Everything is planned against one reading of the block and applied at once. Where YAML's many forms leave no safe
way (an alias in the place of a value), `Unusual` is raised and the note is left to its owner.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from ormahd.note.frontmatter import Frontmatter, MappingNode, Node, ScalarNode, SequenceNode, is_block

_DASH = re.compile(r"[ \t]*-[ \t]+")


class Unusual(Exception):
    """The block is written in a way that cannot be changed piece by piece."""


class Pair(Struct, frozen=True):
    """A key of a block mapping and its lines; the numbers are characters of the file's text."""

    key: Node
    value: Node
    here: bool
    """False for an alias: its value stands elsewhere."""
    start: int
    """The beginning of the key's line."""
    colon: int
    """After the colon."""
    last: int
    """After the last character of the value."""
    end: int
    """After the last line that belongs to the value, its line end included."""


class Splices:
    """Changes planned against `block`; new lines end in `eol`."""

    def __init__(self, block: Frontmatter, eol: str) -> None:
        self.block = block
        self.text = block.text
        self.eol = eol
        self.changes: list[tuple[int, int, str]] = []

    def replace(self, start: int, end: int, new: str) -> None:
        self.changes.append((start, end, new))

    def apply(self) -> str:
        out: list[str] = []
        done = 0
        for start, end, new in sorted(self.changes, key=lambda change: change[:2]):
            if start < done:
                raise Unusual("two changes meet in one place")
            out += (self.text[done:start], new)
            done = end
        out.append(self.text[done:])
        return "".join(out)

    def from_(self, node: Node) -> int:
        return self.block.start + int(node.start_mark.index)

    def to(self, node: Node) -> int:
        return self.block.start + int(node.end_mark.index)

    def line_of(self, node: Node) -> int:
        return self.from_(node) - int(node.start_mark.column)

    def raw(self, node: Node) -> str:
        return self.block.raw(node)

    def pairs(self, mapping: MappingNode, limit: int) -> list[Pair]:
        """The pairs of a block mapping that ends before `limit`."""
        found: list[Pair] = []
        for at, (key, value) in enumerate(mapping.value):
            start = self.line_of(key)
            until = self.line_of(mapping.value[at + 1][0]) if at + 1 < len(mapping.value) else limit
            colon = self.text.find(":", self.to(key), until) + 1
            if not colon or not start < until <= limit or (found and start < found[-1].end):
                raise Unusual("an alias stands in the place of a key")
            here = colon <= self.from_(value) <= until
            last = self.last(value, colon, until)
            found.append(Pair(key, value, here, start, colon, last, self.lines_to(last, until)))
        return found

    def last(self, node: Node, since: int, until: int, seen: frozenset[int] = frozenset()) -> int:
        """After the last character of a value, without the comments and blank lines behind it."""
        if id(node) in seen or not since <= self.from_(node) <= until:
            return since
        if isinstance(node, ScalarNode):
            if node.style in {"|", ">"}:
                return self.from_(node) + len(self.raw(node).rstrip())
            return self.to(node)
        if not is_block(node):
            return self.to(node)
        children = [child for pair in node.value for child in pair] if isinstance(node, MappingNode) else node.value
        inside = seen | {id(node)}
        return max((self.last(child, since, until, inside) for child in children[-2:]), default=since)

    def lines_to(self, last: int, until: int) -> int:
        """The end of the line of `last`, and of what follows it before `until` that is neither blank nor comment."""
        end = self._line_end(last, until)
        at = end
        while at < until:
            after = self._line_end(at, until)
            line = self.text[at:after].strip()
            if line and not line.startswith("#"):
                end = after
            at = after
        return end

    def _line_end(self, at: int, until: int) -> int:
        newline = self.text.find("\n", at, until)
        return until if newline < 0 else newline + 1

    # Changes to a pair

    def set_inline(self, pair: Pair, value: str) -> None:
        """Give a key a value on its own line; a comment behind the old one stays."""
        node = pair.value
        if pair.here and not is_block(node):
            start = self.from_(node)
            if start == self.to(node):  # nothing stood there, a comment may follow
                self.replace(pair.colon, pair.colon, f" {value}")
            else:
                self.replace(start, pair.last, value)
            return
        self.replace(pair.colon, self._before_eol(pair), f" {value}{self._comment(pair.colon, pair)}")

    def set_lines(self, pair: Pair, lines: Sequence[str]) -> None:
        """Give a key a value of several lines, indented already; a comment behind the key or the old value stays."""
        flat = pair.here and not is_block(pair.value)
        comment = self._comment(pair.last if flat else pair.colon, pair)
        self.replace(pair.colon, self._before_eol(pair), comment + self.eol + self.eol.join(lines))

    def remove(self, pair: Pair) -> None:
        self.replace(pair.start, pair.end, "")

    def insert(self, at: int, lines: Sequence[str]) -> None:
        """Put lines in front of the line that begins at `at`."""
        self.replace(at, at, "".join(line + self.eol for line in lines))

    def _comment(self, at: int, pair: Pair) -> str:
        rest = self.text[at : self._line_end(at, pair.end)].strip()
        return f" {rest}" if rest.startswith("#") else ""

    def _before_eol(self, pair: Pair) -> int:
        end = pair.end
        if self.text.endswith("\r\n", pair.colon, end):
            return end - 2
        return end - 1 if self.text.endswith(("\n", "\r"), pair.colon, end) else end

    # Lists and flow mappings

    def change_items(self, pair: Pair, drop: Sequence[Node], add: Sequence[str]) -> bool:
        """Take items out of a block list and put others behind them, each on its line; False where it is no such."""
        node = pair.value
        if not pair.here or not isinstance(node, SequenceNode) or node.flow_style or not node.value:
            return False
        dropped = {id(item) for item in drop}
        if len(dropped) == len(node.value):
            return False
        lines: list[tuple[int, int]] = []
        for at, item in enumerate(node.value):
            if not pair.colon <= self.from_(item) <= pair.end:
                return False
            until = self.line_of(node.value[at + 1]) if at + 1 < len(node.value) else pair.end
            start = self.line_of(item)
            if not start < until:
                return False
            lines.append((start, self.lines_to(self.last(item, start, until), until)))
        first = node.value[0]
        dash = self.text[self.line_of(first) : self.from_(first)]
        if not _DASH.fullmatch(dash):
            return False
        for item, (start, end) in zip(node.value, lines, strict=True):
            if id(item) in dropped:
                if not _DASH.fullmatch(self.text[start : self.from_(item)]):
                    raise Unusual("a list in a list")
                self.replace(start, end, "")
        self.insert(pair.end, [f"{dash}{item}" for item in add])
        return True

    def flow_with(self, mapping: MappingNode, changes: Mapping[str, str | None]) -> str:
        """A `{...}` with some values changed, added or (None) taken out; the others as they are written."""
        left = dict(changes)
        parts: list[str] = []
        for key, value in mapping.value:
            if not self.from_(mapping) <= self.from_(key) <= self.from_(value) <= self.to(mapping):
                raise Unusual("an alias in a mapping")
            name = key.value if isinstance(key, ScalarNode) else ""
            if name not in changes:
                parts.append(self.text[self.from_(key) : max(self.to(key), self.to(value))])
                continue
            new = left.pop(name, None)
            if new is not None:
                parts.append(f"{self.raw(key)}: {new}")
        parts.extend(f"{name}: {new}" for name, new in left.items() if new is not None)
        return "{" + ", ".join(parts) + "}" if parts else ""
