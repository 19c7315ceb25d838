"""The paragraph about Ormah in the instructions file that an agent reads: CLAUDE.md, AGENTS.md, GEMINI.md.

It is between two comments. The first one has a digest of the text, which shows on every machine whether a person
edited it. An edited paragraph belongs to the person and is neither renewed nor removed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final, Literal

from ormahctl.setup import change, file
from ormahctl.setup.change import ConfigChange, Record
from ormahctl.setup.file import Splice, apply, reverse

TEXT: Final = files("ormahctl.setup").joinpath("paragraph.md").read_text("utf-8")
"""The paragraph; `{program}` is the shell command for ormahctl."""
State = Literal["added", "renewed", "there", "edited", "removed", "unreadable"]
_BLOCK: Final = re.compile(rb"<!-- ormah:begin ([0-9a-f]{8})[^\n]*-->\r?\n(.*?)<!-- ormah:end -->", re.DOTALL)
_BEGUN: Final = b"<!-- ormah:begin"


def owner(agent: str) -> str:
    """Return the name for the records (`Record.agent`) of Ormah's paragraph in an agent's instructions file."""
    return f"instructions.{agent}"


@dataclass(frozen=True)
class Paragraph(ConfigChange):
    """A planned change of Ormah's paragraph in an agent's instructions file; `make` carries it out."""

    state: State
    """added, renewed: the paragraph will be written. there: it is up to date. edited: a person changed it, so it stays.
    removed: a person removed it, so it is not added. unreadable: the file is no text."""


def plan(agent: str, path: Path, program: str) -> Paragraph:
    """Return the change that writes Ormah's paragraph into the instructions file at `path`, or brings it up to date.
    `Paragraph.state` says what it does. `program`: the shell command for ormahctl that the paragraph names."""
    seen = file.read(path)
    data = seen.data or b""
    was = Record.of(owner(agent), seen.real)
    if b"\0" in data or data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return Paragraph(seen, seen.data, was, was, "unreadable")

    # what must be left alone
    newline = b"\r\n" if b"\r\n" in data else b"\n"
    wanted = block(program, newline)
    found = _BLOCK.search(data)
    if found is None and (_BEGUN in data or was is not None):
        return Paragraph(seen, seen.data, was, was, "edited" if _BEGUN in data else "removed")
    if found is not None and not _is_unedited(found):
        return Paragraph(seen, seen.data, was, was, "edited")
    if found is not None and found[0] == wanted:
        return Paragraph(seen, seen.data, was or _record(agent, seen, None, b"", []), was, "there")
    if found is not None and not (was is not None and was.fits(seen.data)):
        # others wrote around it, or it came from another machine: it is replaced at its place
        after = data[: found.start()] + wanted + data[found.end() :]
        edits = [Splice(0, b"", edit.inserted.replace(found[0], wanted)) for edit in (was.edits if was else ())]
        return Paragraph(seen, after, _record(agent, seen, was, b"", edits), was, "renewed")

    # write it at the end of the file, as that is without an earlier paragraph
    before = data if was is None else apply(data, reverse(was.edits))
    gap = b"" if not before or before.endswith(newline * 2) else newline if before.endswith(newline) else newline * 2
    edits = [Splice(len(before), b"", gap + wanted + newline)]
    after = apply(before, edits)
    state: State = "added" if found is None else "renewed"
    return Paragraph(seen, after, _record(agent, seen, was, after, edits), was, state)


def block(program: str, newline: bytes = b"\n") -> bytes:
    """Return Ormah's paragraph, from the comment that begins it to the comment that ends it, without a line end after
    that. `newline`: the line end to use."""
    body = TEXT.format(program=program).encode().replace(b"\n", newline)
    begin = f"<!-- ormah:begin {_digest(body)} (ormahctl uninstall takes this out, unless it was edited) -->".encode()
    return begin + newline + body + b"<!-- ormah:end -->"


def _record(agent: str, seen: file.FileRead, was: Record | None, after: bytes, edits: Sequence[Splice]) -> Record:
    """Return the record of a paragraph that was written into the file `seen`. `was`: the earlier record. `after`:
    the file's bytes after the change; b"" if the edits cannot be reversed one by one."""
    existed = was.existed if was else seen.data is not None
    place = {"agent": owner(agent), "file": str(seen.path), "real": str(seen.real)}
    return Record(**place, existed=existed, after=change.digest(after) if after else "", edits=tuple(edits))


def removal(agent: str) -> tuple[list[ConfigChange], list[Path]]:
    """Return (the changes that remove Ormah's paragraphs from the agent's instructions files, the files in which it
    stays because a person edited it)."""
    changes, edited = [], []
    for was in Record.all(owner(agent)):
        seen = file.read(Path(was.file))
        data, found = seen.data or b"", _BLOCK.search(seen.data or b"")
        after = seen.data
        if was.fits(seen.data):
            remaining = apply(data, reverse(was.edits))
            after = remaining if was.existed else None
        elif found is not None and _is_unedited(found):
            inserted = was.edits[-1].inserted if was.edits else b""
            if inserted and data.count(inserted) == 1:
                remaining = data.replace(inserted, b"")
            else:
                remaining = data[: found.start()] + re.sub(rb"\A\r?\n", b"", data[found.end() :])
            after = remaining if was.existed or remaining.strip() else None
        elif _BEGUN in data:
            edited.append(seen.path)
        changes.append(ConfigChange(seen, after, None, was))
    return changes, edited


def _is_unedited(found: re.Match[bytes]) -> bool:
    """Whether the paragraph `found` (a match of `_BLOCK`) has the digest in its first comment, so that no person has
    edited it."""
    return found[1].decode() == _digest(found[2])


def _digest(body: bytes) -> str:
    """Return a digest of the paragraph `body`. It does not depend on line ends, because git may change them."""
    return change.digest(body.replace(b"\r\n", b"\n"))[:8]
