"""Which space a project has: `.ormah/spaces.jsonl`, with one line for each key that identifies a project. No I/O.

    {"id": "5f…", "key": "git.example.org/acme/api", "space": "api", "since": "2026-11-21T20:00:00Z", "folder": "~/src/api", "root": "9c…"}

`key` is the address of the project's remote (`git/remote.py`), otherwise `root:` and its first commit, otherwise
`folder:` and its path. A project whose remote changes gets a second line whose `same` is the first key. The files of
two machines merge as sets of lines; if both gave different projects the same name, the older line keeps it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from msgspec import MsgspecError, Struct, convert, field, to_builtins

from ormahd.model.lines import merge_lines

FILE: Final = ".ormah/spaces.jsonl"
"""The file, relative to the vault."""


class ProjectKey(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A key that identifies a project (its remote, first commit or folder), and the space of the project.

    `since`: when the key was first seen, ISO 8601. `same`: an earlier key of the same project. `chosen`: whether
    a person chose the name of the space.
    """

    key: str
    space: str
    since: str
    folder: str | None = None
    root: str | None = None
    same: str | None = None
    chosen: bool = field(default=False, name="told")

    @property
    def line_id(self) -> str:
        """The id of the line: a hash of key and space."""
        return hashlib.sha256(f"{self.key}\n{self.space}".encode("utf-8", "surrogateescape")).hexdigest()[:16]

    def line(self) -> bytes:
        """Return the JSON line, with its newline."""
        row = {"id": self.line_id, **to_builtins(self)}
        return json.dumps(row, ensure_ascii=False).encode("utf-8", "surrogateescape") + b"\n"


def read(data: bytes) -> list[ProjectKey]:
    """Return the lines of a file, oldest first. Unreadable lines are skipped."""
    found = []
    for line in data.splitlines():
        try:
            row = convert(json.loads(line), ProjectKey)
        except (ValueError, RecursionError, MsgspecError):
            continue
        if row.key and row.space.strip():
            found.append(row)
    return sorted(found, key=lambda line: (line.since, line.key, line.space))


def with_line(data: bytes, new: ProjectKey) -> bytes:
    """Return the file's bytes with `new` added. An older line that has the same key and space is removed."""
    line_id = f'"{new.line_id}"'.encode()
    others = [line + b"\n" for line in data.splitlines() if line.strip() and line_id not in line]
    return merge_lines(b"", b"".join(others), new.line())


def spaces(lines: Iterable[ProjectKey]) -> dict[str, str]:
    """Return {key: space} for the lines of a file, given oldest first.

    If a key has several lines, the latest one whose name a person chose counts; without such a line, the oldest one. If
    two projects have the same name, the later project's name gets a suffix.
    """
    # The line that counts, for each key.
    chosen: dict[str, ProjectKey] = {}
    for line in lines:
        before = chosen.get(line.key)
        if before is None or line.chosen:
            chosen[line.key] = line

    # The name of each project: a chosen name as it is, another with a suffix if an older project has it.
    found: dict[str, str] = {}
    owners: dict[str, str] = {}
    for line in sorted(chosen.values(), key=lambda line: (line.since, line.key)):
        first = _first_key(line, chosen)
        name = line.space
        if line.chosen:
            owners.setdefault(name.casefold(), first)
        elif first != line.key and first in found:
            name = found[first]
        elif owners.setdefault(name.casefold(), first) != first:
            name = free_name(name, suffixes(line.key), owners)
            owners[name.casefold()] = first
        found[line.key] = name
    return found


def _first_key(line: ProjectKey, lines: Mapping[str, ProjectKey]) -> str:
    """Return the key under which the project of `line` was first recorded. `lines`: key -> line."""
    seen = {line.key}
    while line.same is not None and line.same not in seen and line.same in lines:
        seen.add(line.same)
        line = lines[line.same]
    return line.key


def suffixes(key: str) -> tuple[str, ...]:
    """Return suffixes that distinguish a project from another of the same name, shortest first, such as its owner
    or folder."""
    if key.startswith("root:"):
        return (key[5:12],)  # the first seven digits of the first commit

    # Folders above the project: only the last one, the last two, and so on.
    parts = key.removeprefix("folder:").strip("/").split("/")[:-1]
    if key.startswith("folder:"):
        return tuple("/".join(parts[at:]) for at in range(len(parts) - 1, -1, -1))

    # Parts of an address: the same, then its host, then all of it.
    middle = ["/".join(parts[at:]) for at in range(len(parts) - 1, 0, -1)]
    return (*middle, parts[0], "/".join(parts)) if middle else tuple(parts)


def free_name(name: str, endings: Iterable[str], taken: Collection[str]) -> str:
    """Return `name`; if it is taken, return the first free `name (suffix)`. `endings`: the suffixes to try. `taken`:
    casefolded names."""
    for candidate in (name, *(f"{name} ({ending})" for ending in endings)):
        if candidate.casefold() not in taken:
            return candidate
    number = 2
    while f"{name} ({number})".casefold() in taken:
        number += 1
    return f"{name} ({number})"
