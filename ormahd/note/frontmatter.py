"""The YAML block at the head of a note: found, read with the place of every key, and written value by value.

The one module that knows PyYAML. Values are never resolved by YAML's own rules: a field's reader decides what its
text means, so `yes`, `1:20` and `0123` stay the text a person typed. libyaml's parser gives each node its place in
the file, so that an edit can replace those characters and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml
from msgspec import Struct, field
from yaml.composer import Composer
from yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode, SequenceNode
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.resolver import Resolver
from yaml.scanner import Scanner

__all__ = [
    "MAX_FRONTMATTER",
    "Frontmatter",
    "FrontmatterError",
    "MappingNode",
    "Node",
    "ScalarNode",
    "SequenceNode",
    "is_block",
    "is_null",
    "quoted",
    "read",
    "scalar",
]  # fmt: skip

MAX_FRONTMATTER = 1 << 20
"""Characters. A hub of 5,000 edges needs about 0.6 million; libyaml reads a million in 0.1 s."""
MAX_DEPTH = 100
"""Levels. The C composer recurses without a check of its own: 200,000 `[` end the process."""

_CLOSER = re.compile(r"^(?:---|\.\.\.)[ \t]*\r?$", re.MULTILINE)
_OPENER = re.compile(r"\ufeff?---[ \t]*\r?\n")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufeff\ufffe\uffff]")
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})


class FrontmatterError(Exception):
    """The block cannot be read. `index` is a character of the file's text, `mend` says what to do about it."""

    def __init__(self, what: str, index: int, mend: str) -> None:
        super().__init__(what)
        self.what = what
        self.index = index
        self.mend = mend


class Frontmatter(Struct):
    """Where the block stands in `text` (the whole file), and what is in it.

    Node marks count from `start`; `pairs` maps each key's text to its key and value node, in the file's order.
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
    """Keys that stand there more than once; the last one counts."""

    def get(self, key: str) -> Node | None:
        pair = self.pairs.get(key)
        return None if pair is None else pair[1]

    @property
    def column(self) -> int:
        """The column that every key begins in; 0 in all but odd notes."""
        if self.root is None:
            return 0
        mark = self.root.value[0][0].start_mark
        line = self.text[self.start + mark.index - mark.column : self.start + mark.index]
        return len(line) - len(line.lstrip(" "))  # less than the key's own for `? key`

    def raw(self, node: Node) -> str:
        """The characters of a node as the file has them."""
        return self.text[self.start + node.start_mark.index : self.start + node.end_mark.index]


class _Flat:
    """No implicit types: every scalar is its text (`!!` tags included), which also makes composing faster."""

    def resolve(self, kind: type[Node], _value: Any, _implicit: Any) -> str:
        if kind is ScalarNode:
            return "tag:yaml.org,2002:str"
        return "tag:yaml.org,2002:seq" if kind is SequenceNode else "tag:yaml.org,2002:map"

    def descend_resolver(self, _parent: Any, _index: Any) -> None:
        pass

    def ascend_resolver(self) -> None:
        pass


class PythonLoader(_Flat, Reader, Scanner, Parser, Composer):
    """The fallback where PyYAML was built without libyaml: the same nodes and places, about 15 times slower."""

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
    """The block of a file's text, or None when the text does not begin with one.

    Raises FrontmatterError: unclosed, too large, not YAML, not a plain mapping.
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
            del pairs[name]  # the last one counts, in its place
        pairs[name] = (key, value)
    return block


def is_null(node: Node) -> bool:
    """True for an empty value, `~` and `null`, unless quoted."""
    return isinstance(node, ScalarNode) and not node.style and node.value in _NULLS


def is_block(node: Node) -> bool:
    """True for a list or mapping with a line for each of its items."""
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
    if "flow" in context or "quoted" in context:  # what is to be mended is where the bracket or quote was opened
        marks.reverse()
    mark = marks[0] or marks[1]
    mend = next((mend for sign, mend in _MENDS.items() if sign in context), _MEND)
    index = 0 if mark is None else min(mark.index, max(len(block) - 1, 0))
    if "nesting depth" in problem:  # PyYAML from 6.0.4 on has a bound of its own
        return FrontmatterError(_TOO_DEEP, offset + index, _FLATTEN)
    return FrontmatterError(f"the frontmatter is not YAML: {problem}", offset + index, mend)


class _Dumper(yaml.Dumper):
    """Quotes whatever YAML 1.1 or 1.2 would read as something else than text."""


_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(?:\.\d+|\d+(?:\.\d*)?)(?:[eE][-+]?\d+)?|0o[0-7]+|0x[0-9a-fA-F]+"),
    list("-+.0123456789"),
)
_STR = Resolver.DEFAULT_SCALAR_TAG
_PLAIN = re.compile(r"[^\W\d_](?:[\w ./()@+-]*[\w./()@+-])?(?::[^\W\d_][\w./-]*)?")
"""Texts that every YAML reader takes as they are: they begin with a letter and hold nothing that has a meaning."""
_WORDS = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"])
_SIMPLE = re.compile(r"[\w ./()@:;,|#+*&!?\[\]'-]*")
"""Texts that stand unchanged between double quotes."""


def scalar(text: str, *, flow: bool = False) -> str:
    """A text as a YAML value on one line: plain where that is safe everywhere, else quoted.

    `flow` is for a place inside `[...]` or `{...}`.
    """
    if _PLAIN.fullmatch(text) and text.casefold() not in _WORDS and not (flow and ":" in text) and _printable(text):
        return text
    return _emit(text, '"' if _breaks(text) else None, flow=flow)


def quoted(text: str) -> str:
    """A text in quotes, double ones where that leaves every character readable."""
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
