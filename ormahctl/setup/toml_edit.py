"""Editing TOML that a person or Codex wrote: what we add is a piece of text of its own, every other byte stays.

tomllib reads, the piece is appended and cut out as text; only where somebody rewrote our lines tomlkit edits them.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from ormahctl.setup.file import Edit, InvalidSettings, Place, apply, between
from ormahd.rpc.wire import Conflict

_PLACE = re.compile(r"^(?P<what>.*?) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)$", re.DOTALL)


@dataclass(frozen=True)
class Toml:
    """A TOML file; hooks are arrays of tables (`[[hooks.EVENT]]`, `[[hooks.EVENT.hooks]]`)."""

    data: bytes
    value: Mapping[str, Any]

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read a settings file.

        Raises:
            InvalidSettings: it is no TOML, with line and column.
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
        """TOML has comments."""
        return None

    @property
    def _newline(self) -> bytes:
        return b"\r\n" if b"\r\n" in self.data else b"\n"

    def add(self, event: str, handler: Mapping[str, Any]) -> list[Edit]:
        newline, data = self._newline, self.data
        gap = b"" if not data else newline if data.endswith((b"\n", b"\r")) else newline * 2
        lines = [f"[[hooks.{event}]]", f"[[hooks.{event}.hooks]]", *(f"{k} = {_value(v)}" for k, v in handler.items())]
        return [Edit(len(data), b"", gap + newline.join(line.encode() for line in lines) + newline)]

    def change(self, place: Place, handler: Mapping[str, Any], gone: Iterable[str]) -> list[Edit]:
        import tomlkit

        document = self._document()
        table = document["hooks"][place.event][place.group]["hooks"][place.number]
        for key, value in handler.items():
            if table.get(key) != value:
                table[key] = value
        for key in gone:
            table.pop(key, None)
        return between(self.data, tomlkit.dumps(document).encode())

    def drop(self, place: Place, keep: frozenset[str]) -> list[Edit]:  # noqa: ARG002 - an array of tables leaves nothing
        cut = self._cut(place)
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

    def _cut(self, place: Place) -> Edit | None:
        """The piece that `add` wrote for this handler, where it stands as it was written; None where it does not."""
        handler = self.value["hooks"][place.event][place.group]["hooks"][place.number]
        text = self.add(place.event, handler)[0].inserted.strip(b"\r\n")
        start = self.data.find(text)
        if start < 0 or self.data.find(text, start + 1) >= 0:
            return None
        newline = self._newline
        end = start + len(text)
        end += len(newline) if self.data.startswith(newline, end) else 0
        if self.data.endswith(newline * 2, 0, start):
            start -= len(newline)
        edit = Edit(start, self.data[start:end], b"")
        expected = json.loads(json.dumps(self.value, default=str))
        groups = expected["hooks"][place.event]
        if len(groups[place.group]["hooks"]) > 1:
            return None
        del groups[place.group]
        if not groups:
            del expected["hooks"][place.event]
        try:
            left = json.loads(json.dumps(type(self).parse(apply(self.data, [edit])).value, default=str))
        except InvalidSettings:
            return None
        return edit if {"hooks": {}} | left == {"hooks": {}} | expected else None

    def _document(self) -> Any:
        """The file as tomlkit's, which gives back every byte of it.

        Raises:
            Conflict: it would not.
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
    """A string or a number as TOML; JSON's string is TOML's basic string, but for DEL, which TOML wants escaped."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)
