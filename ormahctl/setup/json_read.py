"""Reading JSON as people write it (comments, trailing commas, a byte order mark), with the position of every value.

Whatever strict JSON does not have is blanked with as many spaces; then the standard library's parser judges what is
left, so that what we call JSON is JSON, and only the positions are found here. (Editors of JSON for Python that are
kept up do not keep a file's layout; tree-sitter's grammar gives positions, but takes `1e+16` for a mistake.)
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ormahctl.setup.file import InvalidSettings

BOM = b"\xef\xbb\xbf"
SPACE = b" \t\r\n"
_STRING = rb'"(?:[^"\\]|\\.)*"'
_COMMENT = re.compile(_STRING + rb"|(?P<comment>//[^\r\n]*|/\*.*?\*/)", re.DOTALL)
_TRAILING = re.compile(_STRING + rb"|(?<=[^\s\[{,])\s*(?P<comma>,)(?=\s*[]}])", re.DOTALL)
_TOKEN = re.compile(_STRING + rb'|[][{},:]|[^][{},:"\s]+', re.DOTALL)
_VISIBLE = re.compile(rb"[^\r\n]")


@dataclass(slots=True)
class Node:
    """A value and where it stands: `[at, end)`; a member begins with its key, at `start`."""

    key: str | None
    start: int
    at: int
    end: int
    children: list[Node] = field(default_factory=list)


def bare(data: bytes) -> bytes:
    """`data` with byte order mark and comments blanked."""
    data = b"   " + data[3:] if data.startswith(BOM) else data
    return _COMMENT.sub(lambda found: _VISIBLE.sub(b" ", found[0]) if found["comment"] else found[0], data)


def plain(text: bytes) -> bytes:
    """`bare` text with trailing commas blanked."""
    return _TRAILING.sub(lambda found: found[0][:-1] + b" " if found["comma"] else found[0], text)


def ends_in_line_comment(line: bytes) -> bool:
    """Whether the last thing on a line is a `//` comment, so that whatever follows needs a line of its own."""
    found = list(_COMMENT.finditer(line))
    return bool(found) and found[-1].end() == len(line) and found[-1][0].startswith(b"//")


def read(text: bytes) -> Mapping[str, Any]:
    """The object that `plain` text is.

    Raises:
        InvalidSettings: it is none, with line and column.
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
    """The root of `plain` text that `read` accepts, with all positions."""
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
