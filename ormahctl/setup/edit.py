"""Read and edit JSON and TOML files that a person wrote, and leave every other byte as it is.

JSON may have comments, trailing commas and a byte order mark. These are replaced by spaces, so that the standard
library parses the file; this module only finds the position of each value. Known Python editors of JSON do not keep a
file's layout, and tree-sitter's grammar rejects numbers such as `1e+16`.

TOML is read by tomllib. Our part is appended as text, and cut out again as text. If a person or a program rewrote it,
tomlkit edits it.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

from ormahctl.setup.file import HandlerPlace, InvalidSettings, Splice, apply, between
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


def without_comments(data: bytes) -> bytes:
    """Return `data` with its byte order mark and comments replaced by as many spaces."""
    data = b"   " + data[3:] if data.startswith(BOM) else data
    return _COMMENT.sub(lambda found: _VISIBLE.sub(b" ", found[0]) if found["comment"] else found[0], data)


def without_trailing_commas(text: bytes) -> bytes:
    """Return `text`, which must have no comments, with its trailing commas replaced by spaces."""
    return _TRAILING.sub(lambda found: found[0][:-1] + b" " if found["comma"] else found[0], text)


def ends_in_line_comment(line: bytes) -> bool:
    """Whether a line ends in a `//` comment, so that anything added needs a line of its own."""
    found = list(_COMMENT.finditer(line))
    return bool(found) and found[-1].end() == len(line) and found[-1][0].startswith(b"//")


def read(text: bytes) -> Mapping[str, Any]:
    """Parse `text`, which must have no comments or trailing commas, and return the object.

    Raises:
        InvalidSettings: `text` is no JSON object; the message has line and column.
    """
    try:
        value = json.loads(text.decode(), parse_constant=_no_constant)
    except UnicodeDecodeError as exc:
        line, column = text.count(b"\n", 0, exc.start) + 1, exc.start - text.rfind(b"\n", 0, exc.start)
        raise InvalidSettings(f"line {line}, column {column}: this is no UTF-8") from None
    except json.JSONDecodeError as exc:
        raise InvalidSettings(f"line {exc.lineno}, column {exc.colno}: {exc.msg[:1].lower()}{exc.msg[1:]}") from None
    except RecursionError:
        raise InvalidSettings("it is nested too deeply") from None
    except ValueError as exc:  # a number of thousands of digits, or NaN
        raise InvalidSettings(str(exc)) from None
    if not isinstance(value, dict):
        raise InvalidSettings(f"line 1, column 1: an object is expected, not {type(value).__name__}")
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def tree(text: bytes) -> Node:
    """Return the root node, with all positions, of a text that `read` accepts."""
    root = Node(None, 0, 0, len(text))
    open_nodes = [root]
    kinds = [b"["]
    key: tuple[str, int] | None = None
    for found in _TOKEN.finditer(text):
        token, at = found[0], found.start()
        if token in b",:":
            continue
        if token in b"]}":
            open_nodes.pop().end = found.end()
            kinds.pop()
        elif kinds[-1] == b"{" and key is None:
            key = json.loads(token), at
        else:
            name, start = key if key is not None else (None, at)
            node = Node(name, start, at, found.end())
            open_nodes[-1].children.append(node)
            key = None
            if token in b"[{":
                open_nodes.append(node)
                kinds.append(token)
    return root.children[0]


Path = tuple[str | int, ...]

UNIT = b"  "
"""Default indentation, for a file that shows none."""


@dataclass(frozen=True)
class Json:
    """Reads and edits a JSON settings file whose root is an object (`file.Document`). An empty file is an empty
    object."""

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
        bare = without_comments(data)
        plain = without_trailing_commas(bare)
        empty = not data.removeprefix(BOM).strip(SPACE)
        return cls(data, bare, plain, {} if empty else read(plain))

    @property
    def comment(self) -> int | None:
        """The number of the first line with something that strict JSON does not allow (comment, trailing comma), or
        None."""
        start = len(BOM) if self.data.startswith(BOM) else 0
        if self.data[start:] == self.plain[start:]:
            return None
        pairs = zip(self.data[start:], self.plain[start:], strict=True)
        at = next((at for at, (ours, strict) in enumerate(pairs, start) if ours != strict), None)
        return None if at is None else self.data.count(b"\n", 0, at) + 1

    # ---------------------------------------------------------------- hooks

    def add(self, event: str, handler: Mapping[str, Any], matcher: str | None = None) -> list[Splice]:
        group = {**({} if matcher is None else {"matcher": matcher}), "hooks": [handler]}
        if not self._has("hooks"):
            return self._insert((), "hooks", {event: [group]})
        if not self._has("hooks", event):
            return self._insert(("hooks",), event, [group])
        return self._insert(("hooks", event), None, group)

    def change(self, place: HandlerPlace, handler: Mapping[str, Any], gone: Iterable[str]) -> list[Splice]:
        return self._set(self._path(place), handler, gone)

    def put(self, table: str, name: str, value: Mapping[str, Any]) -> list[Splice]:
        if not self._has(table):
            return self._insert((), table, {name: value})
        return self._insert((table,), name, value)

    def renew(self, table: str, name: str, value: Mapping[str, Any]) -> list[Splice]:
        return self._set((table, name), value, ())

    def take(self, table: str, name: str, *, keep: bool) -> list[Splice]:
        return self._remove((table, name) if keep or len(self._at((table,))) > 1 else (table,))

    def _set(self, path: Path, members: Mapping[str, Any], gone: Iterable[str]) -> list[Splice]:
        """Return the edits that set `members` in the object at `path`, and remove its members whose keys are in
        `gone`."""
        edits: list[Splice] = []
        now = self
        steps = [*((key, value) for key, value in members.items()), *((key, None) for key in gone)]
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

    def drop(self, place: HandlerPlace, keep: frozenset[str]) -> list[Splice]:
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
    def _path(place: HandlerPlace) -> Path:
        return ("hooks", place.event, place.group, "hooks", place.number)

    # ---------------------------------------------------------------- any JSON

    def _after(self, edits: list[Splice]) -> Self:
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
        return step if isinstance(step, int) else [at for at, one in enumerate(node.children) if one.key == step][-1]

    def _insert(self, path: Path, key: str | None, value: Any) -> list[Splice]:
        """Return the edit that adds `value` at the end of the container at `path`: as the member `key`, or if `key`
        is None as an element."""
        if not self.data.removeprefix(BOM).strip(SPACE):
            text = self._text({key: value}, b"", inline=False)
            end = len(self.data)
            return [Splice(end, b"", text + self._newline)]
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
            edits = [Splice(end, b"", space + member + self._text(value, b"", inline=True))]
        else:
            outer = self._indent(start)
            indent = self._own_indent(children[0]) if children else None
            indent = outer + self._unit if indent is None else indent
            text = self._newline + indent + member + self._text(value, indent, inline=False)
            if b"\n" in tail:
                edits = [Splice(end, b"", text)]
            else:
                edits = [Splice(end, tail, text + self._newline + outer)]
        if children and b"," not in self.bare[last:close]:
            edits.append(Splice(last, b"", b","))
        return edits

    def _replace(self, path: Path, value: Any) -> list[Splice]:
        node = self._node(path)
        now = self.data[node.at : node.end]
        return [Splice(node.at, now, self._text(value, self._indent(node.at), inline=b"\n" not in now))]

    def _remove(self, path: Path) -> list[Splice]:
        """Return the edit that removes the member or element at `path`, with its comma and white space."""
        node = self._node(path[:-1])
        siblings, number, close = node.children, self._number(node, path[-1]), node.end - 1
        start, end = siblings[number].start, siblings[number].end
        if len(siblings) == 1:
            rest = self.data[node.at + 1 : start] + self.data[end:close].replace(b",", b"", 1)
            if not rest.strip(SPACE):
                return [Splice(node.at + 1, self.data[node.at + 1 : close], b"")]
        begin = len(self.data[:start].rstrip(SPACE))
        after = siblings[number + 1].start if number + 1 < len(siblings) else close
        gap = self.data[end : after + 1].replace(b",", b" ")
        if self._line_comment(begin) and b"\n" not in gap[: len(gap) - len(gap.lstrip(SPACE))]:
            begin = start
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
        return b"\r\n" if b"\r\n" in self.data else b"\n"

    @cached_property
    def _minified(self) -> bool:
        """Whether the file has content and all of it is on one line."""
        return b"\n" not in self.data.strip(SPACE) and bool(self.value)

    @cached_property
    def _spaced(self) -> bool:
        """Whether there is a space before the value of the root's first member; True if the root has no member."""
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
        """Return the white space before `node` on its line; None if anything else precedes it on that line, or if it
        is on the file's first line."""
        line = self.data[self.data.rfind(b"\n", 0, node.start) + 1 : node.start]
        return line if b"\n" in self.data[: node.start] and not line.strip(b" \t") else None

    def _indent(self, at: int) -> bytes:
        """Return the white space at the start of the line that contains the byte `at`."""
        line = self.data[self.data.rfind(b"\n", 0, at) + 1 : at]
        return line[: len(line) - len(line.lstrip(b" \t"))]

    def _line_comment(self, end: int) -> bool:
        """Whether a `//` comment ends at the byte `end` of the file."""
        return ends_in_line_comment(self.data[self.data.rfind(b"\n", 0, end) + 1 : end])

    def _text(self, value: Any, indent: bytes, *, inline: bool) -> bytes:
        colon = self._colon.decode()
        comma = (", " if self._spaced else ",") if inline else ","
        unit = None if inline else self._unit.decode()
        text = json.dumps(value, ensure_ascii=False, indent=unit, separators=(comma, colon)).encode()
        return text.replace(b"\n", self._newline + indent)


_PLACE = re.compile(r"^(?P<what>.*?) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)$", re.DOTALL)


@dataclass(frozen=True)
class Toml:
    """Reads and edits a TOML settings file (`file.Document`). Hooks are arrays of tables (`[[hooks.EVENT]]`,
    `[[hooks.EVENT.hooks]]`)."""

    data: bytes
    value: Mapping[str, Any]

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Parse the bytes of a settings file.

        Raises:
            InvalidSettings: they are no TOML; the message has line and column.
        """
        try:
            text = data.decode()
        except UnicodeDecodeError as exc:
            line, column = data.count(b"\n", 0, exc.start) + 1, exc.start - data.rfind(b"\n", 0, exc.start)
            raise InvalidSettings(f"line {line}, column {column}: this is no UTF-8") from None
        try:
            return cls(data, tomllib.loads(text))
        except tomllib.TOMLDecodeError as exc:
            found = _PLACE.match(str(exc))
            what = (found["what"] if found else str(exc)).strip()
            what = what[:1].lower() + what[1:]
            if found and found["line"]:
                raise InvalidSettings(f"line {found['line']}, column {found['column']}: {what}") from None
            last = text.rstrip("\r\n").count("\n") + 1
            raise InvalidSettings(f"line {last}, at the end: {what}") from None
        except RecursionError:
            raise InvalidSettings("it is nested too deeply") from None

    @property
    def comment(self) -> int | None:
        """Return None: TOML allows comments."""
        return None

    @property
    def _newline(self) -> bytes:
        return b"\r\n" if b"\r\n" in self.data else b"\n"

    def add(self, event: str, handler: Mapping[str, Any], matcher: str | None = None) -> list[Splice]:
        newline, data = self._newline, self.data
        gap = b"" if not data else newline if data.endswith((b"\n", b"\r")) else newline * 2
        limit = [] if matcher is None else [f"matcher = {_value(matcher)}"]
        lines = [
            f"[[hooks.{event}]]",
            *limit,
            f"[[hooks.{event}.hooks]]",
            *(f"{k} = {_value(v)}" for k, v in handler.items()),
        ]
        return [Splice(len(data), b"", gap + newline.join(line.encode() for line in lines) + newline)]

    def change(self, place: HandlerPlace, handler: Mapping[str, Any], gone: Iterable[str]) -> list[Splice]:
        document = self._document()
        return self._set(document, document["hooks"][place.event][place.group]["hooks"][place.number], handler, gone)

    def put(self, table: str, name: str, value: Mapping[str, Any]) -> list[Splice]:
        newline, data = self._newline, self.data
        gap = b"" if not data else newline if data.endswith((b"\n", b"\r")) else newline * 2
        lines = [f"[{table}.{name}]", *(f"{key} = {_value(one)}" for key, one in value.items())]
        return [Splice(len(data), b"", gap + newline.join(line.encode() for line in lines) + newline)]

    def renew(self, table: str, name: str, value: Mapping[str, Any]) -> list[Splice]:
        document = self._document()
        return self._set(document, document[table][name], value, ())

    def take(self, table: str, name: str, *, keep: bool) -> list[Splice]:
        expected = json.loads(json.dumps(self.value, default=str))
        del expected[table][name]
        cut = self._cut(self.put(table, name, self.value[table][name])[0].inserted, table, expected)
        if cut is not None:
            return [cut]
        import tomlkit

        document = self._document()
        if len(document[table]) > 1 or keep:
            del document[table][name]
        else:
            del document[table]
        return between(self.data, tomlkit.dumps(document).encode())

    def _set(self, document: Any, table: Any, members: Mapping[str, Any], gone: Iterable[str]) -> list[Splice]:
        """Return the edits that set `members` in `table`, a table of the parsed `document`, and remove its keys in
        `gone`."""
        import tomlkit

        for key, value in members.items():
            if table.get(key) != value:
                table[key] = value
        for key in gone:
            table.pop(key, None)
        return between(self.data, tomlkit.dumps(document).encode())

    def drop(self, place: HandlerPlace, keep: frozenset[str]) -> list[Splice]:  # noqa: ARG002 - an array of tables leaves nothing
        cut = self._cut_hook(place)
        if cut is not None:
            return [cut]
        import tomlkit

        document = self._document()
        hooks = document["hooks"]
        groups = hooks[place.event]
        handlers = groups[place.group]["hooks"]
        if len(handlers) > 1:
            del handlers[place.number]
        elif len(groups) > 1:
            del groups[place.group]
        elif len(hooks) > 1:
            del hooks[place.event]
        else:
            del document["hooks"]
        return between(self.data, tomlkit.dumps(document).encode())

    def _cut_hook(self, place: HandlerPlace) -> Splice | None:
        """Return the edit that removes the text which `add` wrote for the handler at `place`; None if that text was
        changed, or if the handler's group has other handlers."""
        handler = self.value["hooks"][place.event][place.group]["hooks"][place.number]
        expected = json.loads(json.dumps(self.value, default=str))
        groups = expected["hooks"][place.event]
        if len(groups[place.group]["hooks"]) > 1:
            return None
        del groups[place.group]
        if not groups:
            del expected["hooks"][place.event]
        return self._cut(self.add(place.event, handler)[0].inserted, "hooks", expected)

    def _cut(self, inserted: bytes, table: str, expected: Mapping[str, Any]) -> Splice | None:
        """Return the edit that removes `inserted`, a text that Ormah added, with the empty line before it.

        None if the file does not have `inserted` exactly once, or if the rest of the file would not parse to
        `expected`. In this comparison an empty `table` equals a missing one.
        """
        text = inserted.strip(b"\r\n")
        start = self.data.find(text)
        if start < 0 or self.data.find(text, start + 1) >= 0:
            return None
        newline = self._newline
        end = start + len(text)
        end += len(newline) if self.data.startswith(newline, end) else 0
        if self.data.endswith(newline * 2, 0, start):
            start -= len(newline)
        edit = Splice(start, self.data[start:end], b"")
        try:
            left = json.loads(json.dumps(type(self).parse(apply(self.data, [edit])).value, default=str))
        except InvalidSettings:
            return None
        return edit if {table: {}} | left == {table: {}} | dict(expected) else None

    def _document(self) -> Any:
        """Return the file parsed by tomlkit.

        Raises:
            Conflict: tomlkit cannot parse the file, or would write it with other bytes.
        """
        import tomlkit
        from tomlkit.exceptions import TOMLKitError

        hint = "edit the file by hand: take out the lines with /ormahctl/hook.py, then try again"
        try:
            document = tomlkit.parse(self.data)
        except TOMLKitError as exc:
            raise Conflict(f"our hooks stand in a form that cannot be edited safely: {exc}", hint=hint) from None
        if tomlkit.dumps(document).encode() != self.data:
            raise Conflict("our hooks stand in a form that cannot be edited safely", hint=hint)
        return document


def _value(value: Any) -> str:
    """Return a string or a number as TOML. A JSON string is a TOML basic string, except that TOML requires DEL to be
    escaped."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)
