"""Read and edit JSON and TOML files that a person wrote, and leave every other byte as it is.

JSON may have comments, trailing commas and a byte order mark. These are replaced by spaces, so that the standard
library parses the file; this module only finds the position of each value. Known Python editors of JSON do not keep a
file's layout, and tree-sitter's grammar rejects numbers such as `1e+16`.

TOML is read by tomllib. Our table is appended as text, and cut out again as text.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Self

from ormahctl.setup.file import InvalidSettings, Splice, apply
from ormahd.rpc.wire import Conflict

BOM = b"\xef\xbb\xbf"
SPACE = b" \t\r\n"
_STRING = rb'"(?:[^"\\]|\\.)*"'
_COMMENT = re.compile(_STRING + rb"|(?P<comment>//[^\r\n]*|/\*.*?\*/)", re.DOTALL)
_TRAILING = re.compile(_STRING + rb"|(?<=[^\s\[{,])\s*(?P<comma>,)(?=\s*[]}])", re.DOTALL)
_TOKEN = re.compile(_STRING + rb'|[][{},:]|[^][{},:"\s]+', re.DOTALL)
_VISIBLE = re.compile(rb"[^\r\n]")


@dataclass(slots=True)
class Node:
    """A JSON value in a text; its bytes are `[at, end)`. For a member of an object, `key` is its key, which begins at
    `start`; otherwise `key` is None, and `start` is `at`."""

    key: str | None
    start: int
    at: int
    end: int
    children: list[Node] = field(default_factory=list)


def read(text: bytes) -> Mapping[str, Any]:
    """Parse `text`, which must have no comments or trailing commas, and return the object.

    Raises:
        InvalidSettings: `text` is no JSON object; the message has line and column.
    """
    try:
        value = json.loads(_decoded(text), parse_constant=_refuse_constant)
    except json.JSONDecodeError as exc:
        raise InvalidSettings(f"line {exc.lineno}, column {exc.colno}: {exc.msg[:1].lower()}{exc.msg[1:]}") from None
    except RecursionError:
        raise InvalidSettings("it is nested too deeply") from None
    except ValueError as exc:  # a number of thousands of digits, or NaN
        raise InvalidSettings(str(exc)) from None
    if not isinstance(value, dict):
        raise InvalidSettings(f"line 1, column 1: an object is expected, not {type(value).__name__}")
    return value


def _decoded(text: bytes) -> str:
    """Return `text` decoded as UTF-8. Raises InvalidSettings, with line and column, if it is something else."""
    try:
        return text.decode()
    except UnicodeDecodeError as exc:
        line, column = text.count(b"\n", 0, exc.start) + 1, exc.start - text.rfind(b"\n", 0, exc.start)
        raise InvalidSettings(f"line {line}, column {column}: this is no UTF-8") from None


def _refuse_constant(name: str) -> Any:
    """Raise ValueError for NaN and Infinity, which Python's parser accepts and JSON does not have."""
    raise ValueError(f"{name} is no JSON")


def tree(text: bytes) -> Node:
    """Return the root node of a JSON text that `read` accepts, with the positions of all values."""
    # a list around the text, so that the root is the child of a node as all others are
    container = Node(None, 0, 0, len(text))
    open_nodes = [container]
    brackets = [b"["]
    key: tuple[str, int] | None = None
    for found in _TOKEN.finditer(text):
        token, at = found[0], found.start()
        if token in b",:":
            continue
        if token in b"]}":
            open_nodes.pop().end = found.end()
            brackets.pop()
        elif brackets[-1] == b"{" and key is None:  # the next value is that of this key
            key = json.loads(token), at
        else:
            name, start = key if key is not None else (None, at)
            node = Node(name, start, at, found.end())
            open_nodes[-1].children.append(node)
            key = None
            if token in b"[{":
                open_nodes.append(node)
                brackets.append(token)
    return container.children[0]


Path = tuple[str | int, ...]

UNIT = b"  "
"""Default indentation, for a file that shows none."""


class HandlerPlace(NamedTuple):
    """The position of one handler, a hook's entry, in the settings: `hooks[event][group].hooks[number]`."""

    event: str
    group: int
    number: int


@dataclass(frozen=True)
class Json:
    """Reads and edits a JSON settings file whose root is an object. An empty file is an empty object.

    No method changes the document. Each returns edits for `apply`, which leave all other bytes as they are.
    """

    data: bytes
    bare: bytes
    """`data` without byte order mark and comments, at the same positions."""
    plain: bytes
    """`bare` without trailing commas, at the same positions."""
    value: Mapping[str, Any]

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Parse the bytes of a settings file.

        Raises:
            InvalidSettings: they are no JSON object; the message has line and column.
        """
        bare = b"   " + data[3:] if data.startswith(BOM) else data
        bare = _COMMENT.sub(lambda found: _VISIBLE.sub(b" ", found[0]) if found["comment"] else found[0], bare)
        plain = _TRAILING.sub(lambda found: found[0][:-1] + b" " if found["comma"] else found[0], bare)
        empty = not data.removeprefix(BOM).strip(SPACE)
        return cls(data, bare, plain, {} if empty else read(plain))

    # ---------------------------------------------------------------- hooks

    def append(self, path: Sequence[str], value: Any) -> list[Splice]:
        """Return the edits that add `value` at the end of the list at `path`. The list, and objects on the way to
        it, are created if missing."""
        for end, key in enumerate(path):
            if not self._has(*path[: end + 1]):
                made: Any = [value]
                for inner in reversed(path[end + 1 :]):
                    made = {inner: made}
                return self._insert(tuple(path[:end]), key, made)
        return self._insert(tuple(path), None, value)

    def prune(self, path: Path) -> list[Splice]:
        """Return the edits that remove the value at `path`, and also the objects and lists that are empty without
        it."""
        while len(path) > 1 and len(self._at(path[:-1])) == 1:
            path = path[:-1]
        return self._remove(path)

    def change(self, place: HandlerPlace, handler: Mapping[str, Any]) -> list[Splice]:
        """Return edits that replace the handler at `place`."""
        path = self._path(place)
        return self._replace(path, handler) if self._at(path) != handler else []

    def drop(self, place: HandlerPlace) -> list[Splice]:
        """Return edits that remove the handler at `place`, and its group if that has no other."""
        path = self._path(place)
        return self.prune(path if len(self._at(path[:-1])) > 1 else path[:3])

    # ---------------------------------------------------------------- MCP servers

    def put(self, table: str, name: str, value: Mapping[str, Any]) -> list[Splice]:
        """Return edits that add the member `name` with `value` to the root's object `table`, which is created if
        missing."""
        if not self._has(table):
            return self._insert((), table, {name: value})
        return self._insert((table,), name, value)

    def renew(self, table: str, name: str, value: Mapping[str, Any]) -> list[Splice]:
        """Return edits that set the members in `value` in the object `table.name`, and keep its other members."""
        return self._replace((table, name), {**self._at((table, name)), **value})

    def take(self, table: str, name: str) -> list[Splice]:
        """Return edits that remove the member `name` from the root's object `table`."""
        return self.prune((table, name))

    @staticmethod
    def _path(place: HandlerPlace) -> Path:
        """Return the path of the handler at `place`, as keys and indexes from the root."""
        return ("hooks", place.event, place.group, "hooks", place.number)

    # ---------------------------------------------------------------- any JSON

    def after(self, edits: list[Splice]) -> Self:
        """Return the document after `edits`."""
        return self.parse(apply(self.data, edits)) if edits else self

    def _has(self, *path: str) -> bool:
        """Whether the object that contains `path` has its last key."""
        return path[-1] in self._at(path[:-1])

    def _at(self, path: Path) -> Any:
        """Return the value at `path`. Raises KeyError or IndexError if there is none."""
        value: Any = self.value
        for step in path:
            value = value[step]
        return value

    @cached_property
    def _root(self) -> Node:
        """The node of the whole document, with the positions of all values."""
        return tree(self.plain)

    def _node(self, path: Path) -> Node:
        """Return the node of the value at `path`."""
        node = self._root
        for step in path:
            node = node.children[self._number(node, step)]
        return node

    @staticmethod
    def _number(node: Node, step: str | int) -> int:
        """Return the index among the children of `node` of the child with the key or index `step`. If a key occurs
        several times, the last one counts."""
        if isinstance(step, int):
            return step
        return [at for at, child in enumerate(node.children) if child.key == step][-1]

    def _insert(self, path: Path, key: str | None, value: Any) -> list[Splice]:
        """Return the edit that adds `value` at the end of the container at `path`: as the member `key`, or if `key`
        is None as an element."""
        if not self.data.removeprefix(BOM).strip(SPACE):
            return [Splice(len(self.data), b"", self._text({key: value}, b"") + self._newline)]
        node = self._node(path)
        start, close, children = node.at, node.end - 1, node.children
        end = max(len(self.data[:close].rstrip(SPACE)), start + 1)
        tail = self.data[end:close]
        outer = self._indent(start)
        indent = self._own_indent(children[0]) if children else None
        indent = outer + self._unit if indent is None else indent
        member = b"" if key is None else json.dumps(key, ensure_ascii=False).encode() + b": "
        text = self._newline + indent + member + self._text(value, indent)
        edits = [Splice(end, b"", text) if b"\n" in tail else Splice(end, tail, text + self._newline + outer)]
        last = children[-1].end if children else start + 1
        if children and b"," not in self.bare[last:close]:
            edits.append(Splice(last, b"", b","))
        return edits

    def _replace(self, path: Path, value: Any) -> list[Splice]:
        """Return the edit that replaces the value at `path` by `value`."""
        node = self._node(path)
        return [Splice(node.at, self.data[node.at : node.end], self._text(value, self._indent(node.at)))]

    def _remove(self, path: Path) -> list[Splice]:
        """Return the edit that removes the member or element at `path`, with its comma and white space."""
        node = self._node(path[:-1])
        siblings, number, close = node.children, self._number(node, path[-1]), node.end - 1
        start, end = siblings[number].start, siblings[number].end
        if len(siblings) == 1:  # then all white space in the container is removed, unless it has comments
            rest = self.data[node.at + 1 : start] + self.data[end:close].replace(b",", b"", 1)
            if not rest.strip(SPACE):
                return [Splice(node.at + 1, self.data[node.at + 1 : close], b"")]

        # remove the white space before it too, but not the end of a comment's line if the rest would get into the comment
        begin = len(self.data[:start].rstrip(SPACE))
        after = siblings[number + 1].start if number + 1 < len(siblings) else close
        gap = self.data[end : after + 1].replace(b",", b" ")
        line = self.data[self.data.rfind(b"\n", 0, begin) + 1 : begin]
        comments = list(_COMMENT.finditer(line))
        in_comment = bool(comments) and comments[-1].end() == len(line) and comments[-1][0].startswith(b"//")
        if in_comment and b"\n" not in gap[: len(gap) - len(gap.lstrip(SPACE))]:
            begin = start

        # and one comma: that after it, or if it is the last one, that before it
        edits = [Splice(begin, self.data[begin:end], b"")]
        comma = self.bare.find(b",", end, after)
        if comma >= 0:
            edits.insert(0, Splice(comma, b",", b""))
        elif number > 0:
            edits.append(Splice(self.bare.index(b",", siblings[number - 1].end, start), b",", b""))
        return edits

    # ---------------------------------------------------------------- the style of the file

    @cached_property
    def _newline(self) -> bytes:
        """The line end that the file uses."""
        return b"\r\n" if b"\r\n" in self.data else b"\n"

    @cached_property
    def _unit(self) -> bytes:
        """The white space by which the file indents one level; `UNIT` if it does not show it."""
        children = self._root.children if self.value else []
        return (self._own_indent(children[0]) if children else None) or UNIT

    def _own_indent(self, node: Node) -> bytes | None:
        """Return the white space before `node` on its line; None if anything else precedes it on that line, or if it
        is on the file's first line."""
        line = self.data[self.data.rfind(b"\n", 0, node.start) + 1 : node.start]
        return line if b"\n" in self.data[: node.start] and not line.strip(b" \t") else None

    def _indent(self, at: int) -> bytes:
        """Return the white space at the start of the line that contains the byte at position `at`."""
        line = self.data[self.data.rfind(b"\n", 0, at) + 1 : at]
        return line[: len(line) - len(line.lstrip(b" \t"))]

    def _text(self, value: Any, indent: bytes) -> bytes:
        """Return `value` as JSON in the file's style. `indent`: the white space before its second and further lines."""
        text = json.dumps(value, ensure_ascii=False, indent=self._unit.decode()).encode()
        return text.replace(b"\n", self._newline + indent)


@dataclass(frozen=True)
class Toml:
    """Reads a TOML settings file, and edits its tables of MCP servers, as `Json` does."""

    data: bytes
    value: Mapping[str, Any]

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Parse the bytes of a settings file.

        Raises:
            InvalidSettings: they are no TOML; the message has line and column.
        """
        try:
            return cls(data, tomllib.loads(_decoded(data)))
        except tomllib.TOMLDecodeError as exc:
            raise InvalidSettings(str(exc)[:1].lower() + str(exc)[1:]) from None
        except RecursionError:
            raise InvalidSettings("it is nested too deeply") from None

    def after(self, edits: list[Splice]) -> Self:
        """Return the document after `edits`."""
        return self.parse(apply(self.data, edits)) if edits else self

    def put(self, table: str, name: str, value: Mapping[str, Any]) -> list[Splice]:
        """Return the edit that appends the table `table.name`."""
        data = self.data
        newline = b"\r\n" if b"\r\n" in data else b"\n"
        gap = b"" if not data else newline if data.endswith((b"\n", b"\r")) else newline * 2
        lines = [f"[{table}.{name}]", *(f"{key} = {_value(member)}" for key, member in value.items())]
        return [Splice(len(data), b"", gap + newline.join(line.encode() for line in lines) + newline)]

    def renew(self, table: str, name: str, value: Mapping[str, Any]) -> list[Splice]:
        """Return the edits that set the members in `value`, each on its line of the table `table.name`."""
        start, end = self._span(table, name)
        text = self.data[start:end]
        for key, member in value.items():
            line = f"{key} = {_value(member)}".encode()
            text = re.sub(rb"(?m)^[ \t]*%s[ \t]*=[^\r\n]*" % key.encode(), line.replace(b"\\", b"\\\\"), text, count=1)
        return [Splice(start, self.data[start:end], text)] if text != self.data[start:end] else []

    def take(self, table: str, name: str) -> list[Splice]:
        """Return the edit that removes the table `table.name` with its own tables, and the empty line before it."""
        start, end = self._span(table, name)
        newline = b"\r\n" if b"\r\n" in self.data else b"\n"
        if self.data.endswith(newline * 2, 0, start):
            start -= len(newline)
        return [Splice(start, self.data[start:end], b"")]

    def _span(self, table: str, name: str) -> tuple[int, int]:
        """Return (start, end) of the table `table.name` with its subtables, as positions of bytes. Empty lines after
        it are not included.

        Raises:
            Conflict: the table is written in another form, such as in one line.
        """
        words = re.escape(f"{table}.{name}".encode())
        found = re.search(rb"(?m)^[ \t]*\[%s\][^\n]*(?:\n(?![ \t]*\[(?!%s\.))[^\n]*)*" % (words, words), self.data)
        if found is None:
            hint = "take the server out of the file by hand, then try again"
            raise Conflict(f"the server {name} stands in a form that is not edited", hint=hint)
        end = found.start() + len(found[0].rstrip()) + 1
        return found.start(), min(end + self.data.startswith(b"\r\n", end - 1), len(self.data))


def _value(value: Any) -> str:
    """Return a string or a number as TOML. A JSON string is a TOML basic string, except that TOML requires DEL to be
    escaped."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)
