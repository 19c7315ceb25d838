"""The paragraph about Ormah in the file that an agent reads at the start (CLAUDE.md, AGENTS.md, GEMINI.md).

It stands between two comments. The first one holds a digest of what is between them: so it is known, on every machine and without
a record, whether a person has edited it. One that was edited is the person's, and neither renewed nor taken out.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from ormahctl.setup import change as record
from ormahctl.setup import file
from ormahctl.setup.change import FileChange, Record
from ormahctl.setup.file import Edit, Seen, apply, reverse

TEXT: Final = """\
## Memory (Ormah)

The user's agents share one long-term memory. What fits a prompt arrives by itself, under the heading "Ormah whispers". The rest is
reached from the shell:

- `{program} recall "which database did we choose"` searches it. Ask it before you ask the user what may have been settled already.
- `{program} show ID` prints a whole memory; whispers give ids.
- `{program} remember "…" --type decision` keeps what a later session will want to know: a decision and why, a correction, a
  preference (`--type preference`), what took long to find out (`--type procedure`). One self-contained statement each, no secrets.
- `{program} remember "…" --replaces ID` keeps what has changed, in place of what is no longer true.
- `{program} feedback ID +1 --event E` says that a whispered memory helped, with -1 that it did not; E stands in the whisper's last line.
"""

State = Literal["added", "renewed", "there", "edited", "removed", "unreadable"]
_BLOCK: Final = re.compile(rb"<!-- ormah:begin ([0-9a-f]{8})[^\n]*-->\r?\n(.*?)<!-- ormah:end -->", re.DOTALL)
_BEGUN: Final = b"<!-- ormah:begin"


def owner(agent: str) -> str:
    """Under which the records of an agent's paragraphs are kept."""
    return f"instructions.{agent}"


@dataclass(frozen=True)
class Paragraph(FileChange):
    """What would become of a file with our paragraph."""

    state: State
    """added, renewed: it will be. there: it is. edited: a person changed it, so it stays. removed: a person took it out, so it stays
    out. unreadable: the file is no text."""

    def make(self) -> None:
        super().make()
        if not self.changed and self.record is not None and self.was is None:
            with record.alone():
                self.record.store()


def plan(agent: str, path: Path, program: str, *, wished: bool = False) -> Paragraph:
    """Our paragraph in the file at `path`, with commands by `program`. `wished`: also where a person took it out before."""
    seen = file.read(path)
    data = seen.data or b""
    was = Record.of(owner(agent), seen.real)
    if b"\0" in data or data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return Paragraph(seen, seen.data, was, was, "unreadable")
    newline = b"\r\n" if b"\r\n" in data else b"\n"
    wanted = block(program, newline)
    found = _BLOCK.search(data)
    if found is None:
        if _BEGUN in data:
            return Paragraph(seen, seen.data, was, was, "edited")
        if was is not None and not wished:
            return Paragraph(seen, seen.data, was, was, "removed")
        return _added(agent, seen, was, data, wanted, newline, existed=seen.data is not None)
    if not _untouched(found):
        return Paragraph(seen, seen.data, was, was, "edited")
    if found[0] == wanted:
        return Paragraph(seen, seen.data, was or _borrowed(agent, seen), was, "there")
    if was is not None and was.fits(seen.data):
        before = apply(data, reverse(was.edits))
        made = _added(agent, seen, was, before, wanted, newline, existed=was.existed)
        return Paragraph(seen, made.after, made.record, was, "renewed")
    after = data[: found.start()] + wanted + data[found.end() :]
    edits = [Edit(0, b"", one.inserted.replace(found[0], wanted)) for one in (was.edits if was else ())]
    kept = Record(
        agent=owner(agent), file=str(path), real=str(seen.real), existed=was.existed if was else True, after="",
        edits=tuple(edits),
    )  # fmt: skip
    return Paragraph(seen, after, kept, was, "renewed")


def block(program: str, newline: bytes = b"\n") -> bytes:
    """The paragraph between its comments, without an end of the last line."""
    body = TEXT.format(program=program).encode().replace(b"\n", newline)
    begin = f"<!-- ormah:begin {_digest(body)} (ormahctl uninstall takes this out, unless it was edited) -->".encode()
    return begin + newline + body + b"<!-- ormah:end -->"


def _added(
    agent: str, seen: Seen, was: Record | None, before: bytes, wanted: bytes, newline: bytes, *, existed: bool
) -> Paragraph:
    """Our paragraph at the end of what was there before, after an empty line."""
    apart = b"" if not before or before.endswith(newline * 2) else newline if before.endswith(newline) else newline * 2
    inserted = apart + wanted + newline
    after = before + inserted
    kept = Record(
        agent=owner(agent), file=str(seen.path), real=str(seen.real), existed=existed, after=record.digest(after),
        edits=(Edit(len(before), b"", inserted),),
    )  # fmt: skip
    return Paragraph(seen, after, kept, was, "added")


def _borrowed(agent: str, seen: Seen) -> Record:
    """For a paragraph that is there already: what another agent of ours that reads this file remembers, else as if the person's."""
    others = (one for one in Record.all("instructions.*") if one.real == str(seen.real))
    other = next(others, None)
    return Record(
        agent=owner(agent), file=str(seen.path), real=str(seen.real), existed=other.existed if other else True,
        after=other.after if other else "", edits=other.edits if other else (),
    )  # fmt: skip


@dataclass(frozen=True)
class Removal:
    """What becomes of an agent's paragraphs when it is disconnected."""

    changes: list[FileChange] = field(default_factory=list)
    edited: list[Path] = field(default_factory=list)
    forgotten: list[Record] = field(default_factory=list)
    """Records of files that stay: edited, gone, or read by another agent that is connected."""

    def make(self) -> None:
        for one in self.changes:
            one.make()
        for was in self.forgotten:
            was.forget()


def removal(agents: Collection[str]) -> Removal:
    """The paragraphs of these agents taken out; one that another connected agent reads stays."""
    found = Removal()
    names = {owner(agent) for agent in agents}
    records = Record.all("instructions.*")
    needed = {one.real for one in records if one.agent not in names}
    for was in (one for one in records if one.agent in names):
        seen = file.read(Path(was.file))
        if was.real in needed or any(str(one.seen.real) == was.real for one in found.changes):
            found.forgotten.append(was)
            continue
        after, state = _without(seen.data, was)
        if state == "edited":
            found.edited.append(seen.path)
        if state == "out":
            found.changes.append(FileChange(seen, after, None, was))
        else:
            found.forgotten.append(was)
    return found


def _without(data: bytes | None, was: Record) -> tuple[bytes | None, Literal["out", "gone", "edited"]]:
    if was.fits(data):
        before = apply(data or b"", reverse(was.edits))
        return (before if was.existed or before else None), "out"
    found = _BLOCK.search(data or b"")
    if data is None or (found is None and _BEGUN not in data):
        return data, "gone"
    if found is None or not _untouched(found):
        return data, "edited"
    inserted = was.edits[-1].inserted if was.edits else b""
    if inserted and data.count(inserted) == 1:
        left = data.replace(inserted, b"")
    else:
        rest = data[found.end() :]
        left = data[: found.start()] + re.sub(rb"\A\r?\n", b"", rest)
    return (left if was.existed or left.strip() else None), "out"


def _untouched(found: re.Match[bytes]) -> bool:
    return found[1].decode() == _digest(found[2])


def _digest(body: bytes) -> str:
    """Of the lines, whatever their ends: git may change those."""
    return record.digest(body.replace(b"\r\n", b"\n"))[:8]
