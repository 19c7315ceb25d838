"""The YAML frontmatter of a note: parsed with the position of every key, and edited by replacing characters.

YAML's types are not applied: each field's reader interprets the text, so `yes`, `1:20` and `0123` stay text. The
parser reports each node's position in the file, so that an edit replaces only those characters.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
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

    Positions are in characters of the file; those in YAML nodes count from `start`. `pairs`: key -> (key node, value
    node), in file order.
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
        """Return the value of a key; None if the key is absent."""
        pair = self.pairs.get(key)
        return None if pair is None else pair[1]

    def from_(self, node: Node) -> int:
        """Return the position in the file at which a node begins."""
        return self.start + int(node.start_mark.index)

    def to(self, node: Node) -> int:
        """Return the position in the file at which a node ends."""
        return self.start + int(node.end_mark.index)

    def raw(self, node: Node) -> str:
        """Return the text of a YAML node as it is written in the file."""
        return self.text[self.from_(node) : self.to(node)]

    def last(self, node: Node) -> int:
        """Return the position after the last character of a value. Comments and blank lines after the value are not
        part of it."""
        while isinstance(node, CollectionNode) and is_block(node) and node.value:
            child = node.value[-1][1] if isinstance(node, MappingNode) else node.value[-1]
            if self.from_(child) <= self.from_(node):
                break  # an alias, whose value is elsewhere
            node = child
        if isinstance(node, ScalarNode) and node.style in {"|", ">"}:
            return self.from_(node) + len(self.raw(node).rstrip())
        return self.from_(node) if is_block(node) else self.to(node)

    def pieces(self, pairs: Sequence[tuple[Node, Node]], end: int) -> Iterator[tuple[int, int]]:
        """Yield (start, end) of the lines of each key or list item, without the comments and blank lines around them.

        `pairs`: (the first node on these lines, the node of the value). `end`: where the collection ends. Raises
        Unusual if two values share a line.
        """
        # A value begins at the start of its line, and ends at most where the next one begins.
        starts = [self.text.rfind("\n", 0, self.from_(first)) + 1 for first, _ in pairs]
        for (first, value), start, until in zip(pairs, starts, [*starts[1:], end], strict=True):
            if not start < until:
                raise Unusual("two values stand on one line")
            at = min(max(start, self.last(first), self.last(value)), until - 1)
            done = after = self.text.find("\n", at, until) + 1 or until
            while (at := after) < until:  # later lines belong to the value unless they are blank or comments
                after = self.text.find("\n", at, until) + 1 or until
                line = self.text[at:after].strip()
                if line and not line.startswith("#"):
                    done = after
            yield start, done


class _Flat:
    """Mixin for YAML loaders: resolves every scalar as text, whatever its tag."""

    def resolve(self, kind: type[Node], _value: Any, _implicit: Any) -> str:
        """Return the tag of a node by its kind: text, list or mapping. The composer calls it."""
        if kind is ScalarNode:
            return "tag:yaml.org,2002:str"
        return "tag:yaml.org,2002:seq" if kind is SequenceNode else "tag:yaml.org,2002:map"

    def descend_resolver(self, _parent: Any, _index: Any) -> None:
        """Do nothing. The composer calls it when it enters a node."""

    def ascend_resolver(self) -> None:
        """Do nothing. The composer calls it when it leaves a node."""


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
    """Return the frontmatter block at the beginning of a file's text; None if there is none. `loader`: the YAML loader;
    None: the fastest.

    Raises FrontmatterError if the block is unclosed, too large, not YAML, or not a plain mapping.
    """
    # Find the lines that open and close the block.
    opener = _OPENER.match(text)
    if opener is None:
        if text.rstrip(" \t").removeprefix("\ufeff") == "---":
            raise _unclosed_error()
        return None
    start = opener.end()
    closer = _CLOSER.search(text, start, start + MAX_FRONTMATTER)
    if closer is None:
        if len(text) - start > MAX_FRONTMATTER:
            mend = "close it with a line ---, or make it smaller"
            raise FrontmatterError("the frontmatter has no end within a million characters", 0, mend)
        raise _unclosed_error()
    end = closer.start()
    newline = text.find("\n", closer.end())
    block = Frontmatter(text, start, end, len(text) if newline < 0 else newline + 1, None)

    # Parse the YAML between them, which must be a block mapping.
    root = _compose(text[start:end], start, loader or Loader)
    if root is None or (isinstance(root, ScalarNode) and is_null(root)):
        return block
    at, mend = start + root.start_mark.index, "write one `key: value` a line"
    if not isinstance(root, MappingNode):
        mend += ", or remove the two --- lines"
        raise FrontmatterError("the frontmatter is not a list of properties", at, mend)
    if root.flow_style:
        raise FrontmatterError("the frontmatter is written in braces", at, mend)

    # Collect its keys.
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
    """Return whether a YAML value is empty, `~` or `null`, and not quoted."""
    return isinstance(node, ScalarNode) and not node.style and node.value in _NULLS


def is_block(node: Node) -> bool:
    """Return whether a YAML node is a list or mapping in block style: a line for each item, without brackets or
    braces."""
    return isinstance(node, CollectionNode) and not node.flow_style


def _unclosed_error() -> FrontmatterError:
    """Return the error for a frontmatter without a closing line."""
    mend = "close it with a line ---, or, if no frontmatter is meant, put an empty line first"
    return FrontmatterError("the frontmatter is not closed", 0, mend)


def _compose(block: str, offset: int, loader: type[Any]) -> Node | None:
    """Return the YAML node of a frontmatter block; None if it is empty. `offset`: the block's position in the file.
    Raises FrontmatterError."""
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
    """Raise FrontmatterError if the block is nested deeper than `MAX_DEPTH`. `offset`: its position in the file."""
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
    """Return PyYAML's error as a FrontmatterError that says how to repair the block. `offset`: the block's position in
    the file."""
    control = _CONTROL.search(block)
    if control is not None:
        what = f"the frontmatter holds the character U+{ord(control.group()):04X}"
        return FrontmatterError(what, offset + control.start(), "remove that character")
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
    return _emit(text, '"' if _multiline(text) else None, flow=flow)


def quoted(text: str) -> str:
    """Return a text in quotes: double ones if that leaves every character readable, otherwise single ones."""
    if _SIMPLE.fullmatch(text) and _printable(text):
        return f'"{text}"'
    # PyYAML escapes everything beyond U+FFFF between double quotes; single quotes keep it as it is.
    return _emit(text, "'" if not text.isascii() and max(text) > "\uffff" and not _multiline(text) else '"', flow=True)


def _printable(text: str) -> bool:
    """Return whether every character of the text can be written in YAML without an escape."""
    return text.isascii() or (text.isprintable() and max(text) <= "\uffff")


def _multiline(text: str) -> bool:
    """Return whether the text contains a line break, of any kind that Unicode has."""
    return len(f"{text}.".splitlines()) > 1


def _emit(text: str, style: str | None, *, flow: bool) -> str:
    """Return the text as YAML on one line, as PyYAML writes it. `style`: the quote to use; None: PyYAML chooses."""
    value = ScalarNode(_STR, text, style=style)
    root = SequenceNode("tag:yaml.org,2002:seq", [value], flow_style=flow)
    out = yaml.serialize(root, Dumper=_Dumper, allow_unicode=True, width=1 << 30)
    return out[1:-2] if flow else out[2:-1]


class Unusual(Exception):
    """Raised for a frontmatter that is written in a form in which single values cannot be replaced safely."""


class Entry(Struct):
    """A key of a block mapping with the lines of its value, `text`, and the comments and blank lines `above` them."""

    key: str
    """Empty for a key that cannot be named, or that occurs again further down."""
    above: str
    text: str
    value: Any = None
    """The YAML node; None for a key that was inserted."""
    start: int = 0
    """Position of `text` in the file, in characters."""
    colon: int = 0
    """Position after the colon behind the key."""


_DASH = re.compile(r"[ \t]*-[ \t]+")


class BlockLines:
    """The lines of a block mapping: the whole frontmatter, the edges under `edges`, or the details of an edge. The
    lines of one key can be replaced; all others are kept as written. New lines end in `eol`.

    Raises Unusual if the lines of one value cannot be told from those of the next.
    """

    def __init__(self, front: Frontmatter, eol: str, mapping: Node | None, start: int, end: int) -> None:
        if not isinstance(mapping, MappingNode) or mapping.flow_style:
            raise Unusual("a value is not written one key a line")
        self.front, self.text, self.eol, self.start = front, front.text, eol, start
        self.entries: list[Entry] = []
        self.by_key: dict[str, Entry] = {}
        for (name, value), (at, until) in zip(mapping.value, front.pieces(mapping.value, end), strict=True):
            colon = self.text.find(":", front.to(name), until) + 1
            if not colon or at < start:
                raise Unusual("an alias stands in the place of a key")
            key = name.value if isinstance(name, ScalarNode) else ""
            if key in self.by_key:
                self.by_key[key].key = ""
            self.by_key[key] = Entry(key, self.text[start:at], self.text[at:until], value, at, colon)
            self.entries.append(self.by_key[key])
            start = until
        self.rest = self.text[start:end]
        first = self.entries[0].text
        self.margin = first[: len(first) - len(first.lstrip(" "))]

    def __str__(self) -> str:
        """Return all lines as one text, with the changes."""
        return "".join(entry.above + entry.text for entry in self.entries) + self.rest

    def get(self, key: str) -> Entry | None:
        """Return the entry of a key; None if the key is absent."""
        return self.by_key.get(key) if key else None

    def inside(self, entry: Entry) -> BlockLines:
        """Return the lines of the block mapping that is the value of a key."""
        start = self.text.find("\n", entry.colon) + 1
        return BlockLines(self.front, self.eol, entry.value, start, entry.start + len(entry.text))

    def put_inside(self, entry: Entry, inner: BlockLines) -> None:
        """Write the changed lines `inner` of the block mapping that is the value of a key. If no line remains, the key
        is removed."""
        remains = any(other.text for other in inner.entries)
        entry.text = self.text[entry.start : inner.start] + str(inner) if remains else ""

    def insert(self, entry: Entry, order: Sequence[str]) -> None:
        """Insert the lines of a new key: after the nearest present key that precedes it in `order`, before all others
        if none does, and as the last if it is not in `order`."""
        places = {other.key: at for at, other in enumerate(self.entries)}
        before = reversed(order[: order.index(entry.key)]) if entry.key in order else ()
        at = next((places[key] + 1 for key in before if key in places), 0 if entry.key in order else len(self.entries))
        self.entries.insert(at, entry)
        self.by_key[entry.key] = entry

    def put(self, key: str, value: str | Sequence[str], order: Sequence[str] = ()) -> None:
        """Write the value of a key: a text on the key's line, a sequence on lines of its own. A comment after the key
        or the old value is kept. `order`: where a new key is inserted, see `insert`."""
        entry = self.get(key)
        if entry is None:
            lines = f" {value}{self.eol}" if isinstance(value, str) else self.eol + self._indented(value)
            self.insert(Entry(key, "", f"{self.margin}{key}:{lines}"), order)
            return

        # Replace the value of a present key; keep the space before it, and the comment after it.
        head, gap, last = self.text[entry.start : entry.colon], " ", entry.colon
        node = entry.value
        if node is not None and not is_block(node) and (first := self.front.from_(node)) < self.front.to(node):
            if first < entry.colon:
                raise Unusual(f"{key} is an alias")
            if "\n" not in self.text[entry.colon : first]:
                gap, last = self.text[entry.colon : first], self.front.last(node)
        comment = self.text[last : self.text.index("\n", last)].rstrip("\r")
        comment = comment if comment.lstrip().startswith("#") else ""
        end = "\r\n" if entry.text.endswith("\r\n") else "\n"
        if isinstance(value, str):
            entry.text = f"{head}{gap}{value}{comment}{end}"
        else:
            entry.text = f"{head}{comment}{self.eol}{self._indented(value)}"

    def remove(self, key: str) -> None:
        """Remove the lines of a key; comments above it are kept."""
        if (entry := self.by_key.pop(key, None)) is not None:
            entry.key = entry.text = ""

    def change_items(self, entry: Entry, drop: Collection[int], add: Sequence[str]) -> None:
        """Change a block list: remove the items whose nodes have their `id()` in `drop`, and append the items `add`,
        one per line. At least one item must remain."""
        assert isinstance(entry.value, SequenceNode)
        items, end = entry.value.value, entry.start + len(entry.text)
        out, done = "", entry.start
        for item, (start, until) in zip(items, self.front.pieces([(item, item) for item in items], end), strict=True):
            dash = self.text[start : self.front.from_(item)]
            if start <= entry.colon or not _DASH.fullmatch(dash):
                raise Unusual("a list is not written one item a line")
            if id(item) in drop:
                out += self.text[done:start]
                done = until
        entry.text = out + self.text[done:end] + "".join(f"{dash}{item}{self.eol}" for item in add)

    def _indented(self, lines: Sequence[str]) -> str:
        """Return the lines indented below a key, as one text."""
        return "".join(f"{self.margin}  {line}{self.eol}" for line in lines)
