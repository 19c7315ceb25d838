"""The YAML frontmatter of a note: parsed with the position of every key, and edited by replacing characters.

YAML's types are not applied: each field's reader interprets the text, so `yes`, `1:20` and `0123` stay text. The
parser reports each node's position in the file, so that an edit replaces only those characters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml
from msgspec import Struct, field
from yaml.composer import Composer
from yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode, SequenceNode
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.resolver import Resolver
from yaml.scanner import Scanner

MAX_FRONTMATTER = 1 << 20
"""Maximum number of characters of a frontmatter; enough for more than 5,000 edges."""
MAX_DEPTH = 100
"""Maximum nesting depth. PyYAML's C parser recurses without a limit and would crash the process."""

_CLOSER = re.compile(r"^(?:---|\.\.\.)[ \t]*\r?$", re.MULTILINE)
_OPENER = re.compile(r"\ufeff?---[ \t]*\r?\n")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufeff\ufffe\uffff]")
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})


class FrontmatterError(Exception):
    """Raised if a frontmatter block cannot be parsed. `what`: the reason; `index`: its position in the file's text,
    in characters; `mend`: how to repair it."""

    def __init__(self, what: str, index: int, mend: str) -> None:
        super().__init__(what)
        self.what = what
        self.index = index
        self.mend = mend


class Frontmatter(Struct):
    """A parsed frontmatter block and its position in `text` (the whole file). `root` is None for an empty block.

    The positions in YAML nodes count from `start`. `pairs`: key -> (key node, value node), in file order.
    """

    text: str
    start: int
    """First character after the opening `---` line."""
    end: int
    """First character of the closing line."""
    body: int
    """First character after the closing line."""
    root: MappingNode | None
    pairs: dict[str, tuple[Node, Node]] = field(default_factory=dict)
    twice: dict[str, Node] = field(default_factory=dict)
    """Keys that occur more than once; the last occurrence is used."""

    def get(self, key: str) -> Node | None:
        pair = self.pairs.get(key)
        return None if pair is None else pair[1]

    @property
    def column(self) -> int:
        """The column in which the keys begin, mostly 0."""
        if self.root is None:
            return 0
        mark = self.root.value[0][0].start_mark
        line = self.text[self.start + mark.index - mark.column : self.start + mark.index]
        return len(line) - len(line.lstrip(" "))  # for `? key` this is less than the key's column

    def raw(self, node: Node) -> str:
        """Return the text of a YAML node as it is written in the file."""
        return self.text[self.start + node.start_mark.index : self.start + node.end_mark.index]


class _Flat:
    """Mixin for YAML loaders: resolves every scalar as text, whatever its tag."""

    def resolve(self, kind: type[Node], _value: Any, _implicit: Any) -> str:
        if kind is ScalarNode:
            return "tag:yaml.org,2002:str"
        return "tag:yaml.org,2002:seq" if kind is SequenceNode else "tag:yaml.org,2002:map"

    def descend_resolver(self, _parent: Any, _index: Any) -> None:
        pass

    def ascend_resolver(self) -> None:
        pass


class PythonLoader(_Flat, Reader, Scanner, Parser, Composer):
    """The YAML loader that is used if PyYAML was built without libyaml. It makes the same nodes, but is much
    slower."""

    def __init__(self, stream: str) -> None:
        Reader.__init__(self, stream)
        Scanner.__init__(self)
        Parser.__init__(self)
        Composer.__init__(self)


Loader: type[Any]
try:
    from yaml.cyaml import CParser  # type: ignore[attr-defined]  # the stubs know its subclasses only
except ImportError:
    Loader = PythonLoader
else:

    class CLoader(_Flat, CParser):
        def __init__(self, stream: str) -> None:
            CParser.__init__(self, stream)

    Loader = CLoader


def read(text: str, loader: type[Any] | None = None) -> Frontmatter | None:
    """Parse the frontmatter block at the beginning of a file's text; None if there is none. `loader`: the YAML
    loader; None: the fastest.

    Raises FrontmatterError if the block is unclosed, too large, not YAML, or not a plain mapping.
    """
    opener = _OPENER.match(text)
    if opener is None:
        if text.rstrip(" \t").removeprefix("\ufeff") == "---":
            raise _unclosed()
        return None
    start = opener.end()
    closer = _CLOSER.search(text, start, start + MAX_FRONTMATTER)
    if closer is None:
        if len(text) - start > MAX_FRONTMATTER:
            raise FrontmatterError("the frontmatter has no end within a million characters", 0,
                                   "close it with a line ---, or make it smaller")  # fmt: skip
        raise _unclosed()
    end = closer.start()
    newline = text.find("\n", closer.end())
    block = Frontmatter(text, start, end, len(text) if newline < 0 else newline + 1, None)
    root = _compose(text[start:end], start, loader or Loader)
    if root is None or (isinstance(root, ScalarNode) and is_null(root)):
        return block
    if not isinstance(root, MappingNode):
        raise FrontmatterError("the frontmatter is not a list of properties", start + root.start_mark.index,
                               "write one `key: value` a line, or remove the two --- lines")  # fmt: skip
    if root.flow_style:
        raise FrontmatterError("the frontmatter is written in braces", start + root.start_mark.index,
                               "write one `key: value` a line")  # fmt: skip
    block.root = root
    pairs = block.pairs
    for key, value in root.value:
        name = key.value if isinstance(key, ScalarNode) else repr(key.start_mark.index)
        if name in pairs:
            block.twice[name] = key
            del pairs[name]  # the last one is used, in its position
        pairs[name] = (key, value)
    return block


def is_null(node: Node) -> bool:
    """Whether a YAML value is empty, `~` or `null`, and not quoted."""
    return isinstance(node, ScalarNode) and not node.style and node.value in _NULLS


def is_block(node: Node) -> bool:
    """Whether a YAML node is a list or mapping in block style: a line for each item, without brackets or braces."""
    return isinstance(node, CollectionNode) and not node.flow_style


def _unclosed() -> FrontmatterError:
    return FrontmatterError("the frontmatter is not closed", 0,
                            "close it with a line ---, or, if no frontmatter is meant, put an empty line first")  # fmt: skip


def _compose(block: str, offset: int, loader: type[Any]) -> Node | None:
    try:
        if sum(map(block.count, "[{:-?")) > 2 * MAX_DEPTH:  # an upper bound of the depth; most notes stay below it
            _check_depth(block, offset, loader)
        reader = loader(block)
        try:
            node: Node | None = reader.get_single_node()
        finally:
            reader.dispose()
    except yaml.YAMLError as exc:
        raise _as_frontmatter_error(exc, block, offset) from None
    except (RecursionError, ValueError, OverflowError) as exc:  # PyYAML on numbers in escapes and directives
        raise FrontmatterError(f"the frontmatter is not YAML: {exc}", offset, _MEND) from None
    return node


def _check_depth(block: str, offset: int, loader: type[Any]) -> None:
    reader = loader(block)
    depth = 0
    while reader.check_event():
        event = reader.get_event()
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                index = event.start_mark.index if event.start_mark else 0
                raise FrontmatterError(_TOO_DEEP, offset + index, _FLATTEN)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


_MEND = "put the value in quotes, or remove the line"
_TOO_DEEP = "the frontmatter is nested too deeply"
_FLATTEN = "flatten it, or move it into the text"
_MENDS: Mapping[str, str] = {
    "mapping values are not allowed": "put the value in quotes: it holds a colon",
    "cannot start any token": "use spaces instead of a tab, or put the value in quotes",
    "a simple key": "every line needs `key: value`; put a text of several lines in quotes",
    "expected ':'": "every line needs `key: value`; put a text of several lines in quotes",
    "end of stream": "close the quote or bracket",
    "expected ',' or": "close the bracket, or put the value in quotes",
    "<document start>": "put the value in quotes, or close the bracket in front of it",
    "expected <block end>": "put the whole value in quotes, and start every key in the same column",
    "alias": "put the value in quotes: it begins with *",
    "escape": "double the backslash, or use single quotes",
}


def _as_frontmatter_error(exc: yaml.YAMLError, block: str, offset: int) -> FrontmatterError:
    control = _CONTROL.search(block)
    if control is not None:
        return FrontmatterError(f"the frontmatter holds the character U+{ord(control.group()):04X}",
                                offset + control.start(), "remove that character")  # fmt: skip
    problem = str(getattr(exc, "problem", None) or exc).strip() or "unreadable"
    context = f"{getattr(exc, 'context', None) or ''} {problem}"
    marks = [getattr(exc, "problem_mark", None), getattr(exc, "context_mark", None)]
    if "flow" in context or "quoted" in context:  # the place to repair is where the bracket or quote was opened
        marks.reverse()
    mark = marks[0] or marks[1]
    mend = next((mend for sign, mend in _MENDS.items() if sign in context), _MEND)
    index = 0 if mark is None else min(mark.index, max(len(block) - 1, 0))
    if "nesting depth" in problem:  # PyYAML from 6.0.4 on has a bound of its own
        return FrontmatterError(_TOO_DEEP, offset + index, _FLATTEN)
    return FrontmatterError(f"the frontmatter is not YAML: {problem}", offset + index, mend)


class _Dumper(yaml.Dumper):
    """YAML dumper that quotes texts which YAML 1.1 or 1.2 would not read as text."""


_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(?:\.\d+|\d+(?:\.\d*)?)(?:[eE][-+]?\d+)?|0o[0-7]+|0x[0-9a-fA-F]+"),
    list("-+.0123456789"),
)
_STR = Resolver.DEFAULT_SCALAR_TAG
_PLAIN = re.compile(r"[^\W\d_](?:[\w ./()@+-]*[\w./()@+-])?(?::[^\W\d_][\w./-]*)?")
"""Texts that every YAML reader reads as written: they begin with a letter and contain no special characters."""
_WORDS = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"])
_SIMPLE = re.compile(r"[\w ./()@:;,|#+*&!?\[\]'-]*")
"""Texts that need no escapes between double quotes."""


def scalar(text: str, *, flow: bool = False) -> str:
    """Return a text as a YAML value on one line: plain if that is always safe, otherwise quoted.

    `flow`: the value is placed inside `[...]` or `{...}`.
    """
    if _PLAIN.fullmatch(text) and text.casefold() not in _WORDS and not (flow and ":" in text) and _printable(text):
        return text
    return _emit(text, '"' if _breaks(text) else None, flow=flow)


def quoted(text: str) -> str:
    """Return a text in quotes: double ones if that leaves every character readable, otherwise single ones."""
    if _SIMPLE.fullmatch(text) and _printable(text):
        return f'"{text}"'
    # PyYAML escapes everything beyond U+FFFF between double quotes; single quotes keep it as it is.
    return _emit(text, "'" if not text.isascii() and max(text) > "\uffff" and not _breaks(text) else '"', flow=True)


def _printable(text: str) -> bool:
    return text.isascii() or (text.isprintable() and max(text) <= "\uffff")


def _breaks(text: str) -> bool:
    return len(f"{text}.".splitlines()) > 1


def _emit(text: str, style: str | None, *, flow: bool) -> str:
    value = ScalarNode(_STR, text, style=style)
    root = SequenceNode("tag:yaml.org,2002:seq", [value], flow_style=flow)
    out = yaml.serialize(root, Dumper=_Dumper, allow_unicode=True, width=1 << 30)
    return out[1:-2] if flow else out[2:-1]


_DASH = re.compile(r"[ \t]*-[ \t]+")


class Unusual(Exception):
    """Raised for a frontmatter that is written in a form in which single values cannot be replaced safely."""


class KeyLines(Struct, frozen=True):
    """A key of a block mapping and the position of its lines, in characters of the file's text."""

    key: Node
    value: Node
    here: bool
    """False if the value is an alias, which is defined elsewhere."""
    start: int
    """The beginning of the key's line."""
    colon: int
    """The position after the colon."""
    last: int
    """The position after the last character of the value."""
    end: int
    """The position after the last line of the value, newline included."""


class Splices:
    """Collects changes to the text of a file with a parsed block; `apply` returns the text with all of them made. New
    lines end in `eol`.

    Raises Unusual if an alias or an unusual form makes a change unsafe.
    """

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

    def pairs(self, mapping: MappingNode, limit: int) -> list[KeyLines]:
        """Return the keys of a block mapping with the positions of their lines. `limit`: the position in the text at
        which the mapping ends."""
        found: list[KeyLines] = []
        for at, (key, value) in enumerate(mapping.value):
            start = self.line_of(key)
            until = self.line_of(mapping.value[at + 1][0]) if at + 1 < len(mapping.value) else limit
            colon = self.text.find(":", self.to(key), until) + 1
            if not colon or not start < until <= limit or (found and start < found[-1].end):
                raise Unusual("an alias stands in the place of a key")
            here = colon <= self.from_(value) <= until
            last = self.last(value, colon, until)
            found.append(KeyLines(key, value, here, start, colon, last, self.lines_to(last, until)))
        return found

    def last(self, node: Node, since: int, until: int, seen: frozenset[int] = frozenset()) -> int:
        """Return the position after the last character of a value, excluding comments and blank lines after it.

        `since`, `until`: the range in which the value must be. If it is elsewhere (because `node` is an alias),
        `since` is returned. `seen`: ids of the nodes around this one, so that a recursion ends.
        """
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
        """Return the position after the line that contains `last`; if lines that are neither blank nor comments
        follow it before `until`, return the position after the last of these."""
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

    def set_inline(self, pair: KeyLines, value: str) -> None:
        """Write a key's new value on the line of the key; a comment after the old value is kept."""
        node = pair.value
        if pair.here and not is_block(node):
            start = self.from_(node)
            if start == self.to(node):  # the value was empty; a comment may follow
                self.replace(pair.colon, pair.colon, f" {value}")
            else:
                self.replace(start, pair.last, value)
            return
        self.replace(pair.colon, self._before_eol(pair), f" {value}{self._comment(pair.colon, pair)}")

    def set_lines(self, pair: KeyLines, lines: Sequence[str]) -> None:
        """Write a key's new value on indented lines after the key; a comment after the key or the old value is kept."""
        flat = pair.here and not is_block(pair.value)
        comment = self._comment(pair.last if flat else pair.colon, pair)
        self.replace(pair.colon, self._before_eol(pair), comment + self.eol + self.eol.join(lines))

    def remove(self, pair: KeyLines) -> None:
        self.replace(pair.start, pair.end, "")

    def insert(self, at: int, lines: Sequence[str]) -> None:
        """Insert lines before the line that begins at `at`."""
        self.replace(at, at, "".join(line + self.eol for line in lines))

    def _comment(self, at: int, pair: KeyLines) -> str:
        rest = self.text[at : self._line_end(at, pair.end)].strip()
        return f" {rest}" if rest.startswith("#") else ""

    def _before_eol(self, pair: KeyLines) -> int:
        end = pair.end
        if self.text.endswith("\r\n", pair.colon, end):
            return end - 2
        return end - 1 if self.text.endswith(("\n", "\r"), pair.colon, end) else end

    # Lists and flow mappings

    def change_items(self, pair: KeyLines, drop: Sequence[Node], add: Sequence[str]) -> bool:
        """Remove the items `drop` of a block list and append the items `add`, one per line. Returns False, without a
        change, if the value is no such list or would lose all its items."""
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
        """Return the text of a flow mapping (`{...}`) after some changes. `changes`: key -> new value, or None to
        remove the key. All other values stay as written."""
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
