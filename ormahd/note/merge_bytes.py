"""Writing a merged note: ours, with their lines where only they touched them, then edited to say what it should.

A key's lines are taken as they stand, with the comments above them, so that a merge reformats nothing. Only what
both sides changed is written anew, by `note.note.edit`. The result is read again: it says what was wanted, or it is
not returned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any

from msgspec import Struct

from ormahd.errors import InvalidNote
from ormahd.model.node import EdgeType
from ormahd.note.frontmatter import Frontmatter, FrontmatterError, is_block, read, scalar
from ormahd.note.links import NoteReader
from ormahd.note.markdown import dominant_eol, normalise
from ormahd.note.merge_fields import Side, Wanted
from ormahd.note.naming import file_title
from ormahd.note.note import Note, NoteKind, NoteLink, edit, parse
from ormahd.note.read import KNOWN
from ormahd.note.splice import Pair, Splices, Unusual

_OURS = KNOWN - {"global", "ormah_global"}
TextMerge = Callable[[list[str], list[str], list[str]], list[str] | None]
"""Three lists of lines to one, or None where they conflict."""


class Sheet(Struct, frozen=True, dict=True):
    """A readable note's text, cut into the lines of each key. Raises Unusual for YAML that cannot be cut."""

    data: bytes
    note: Note

    @cached_property
    def text(self) -> str:
        return self.data.decode()

    @cached_property
    def block(self) -> Frontmatter:
        block = read(self.text)
        if block is None or block.root is None:
            raise Unusual("there is no frontmatter")
        if block.twice:
            raise Unusual("a key stands twice")
        return block

    @cached_property
    def pairs(self) -> dict[str, Pair]:
        assert self.block.root is not None
        found = Splices(self.block, "\n").pairs(self.block.root, self.block.end)
        return dict(zip(self.block.pairs, found, strict=True))

    @cached_property
    def starts(self) -> dict[str | None, int]:
        """Where each key's lines begin, comments above it included; None is what follows the last key."""
        ends = [self.block.start, *(pair.end for pair in self.pairs.values())]
        return dict(zip([*self.pairs, None], ends, strict=True))

    def end(self, key: str | None) -> int:
        return self.block.end if key is None else self.pairs[key].end

    def chunk(self, key: str | None) -> str | None:
        """The lines of a key, comments above it included, with `\\n` line ends; None: no such key."""
        return _unix(self.text[self.starts[key] : self.end(key)]) if key in self.starts else None

    def lines(self, key: str) -> str:
        """The lines of a key alone."""
        return _unix(self.text[self.pairs[key].start : self.pairs[key].end]).rstrip()

    def side(self) -> Side:
        extra = {key: self.lines(key) for key in self.pairs if key not in _OURS or key in self.note.taken}
        return Side(self.note, extra, NoteReader(self.block).details)


def write(base: Sheet | None, ours: Sheet, theirs: Sheet, wanted: Wanted, merge: TextMerge) -> bytes | None:
    """The bytes of a note that says what is wanted, as near to both sides' lines as can be; None: there is no safe way."""
    for candidate in _candidates(base, ours, theirs, wanted, merge):
        try:
            return _finished(candidate, ours.note.path, wanted)
        except (InvalidNote, Unusual, FrontmatterError):
            continue  # a next one is tried; in the end the caller reports a conflict
    return None


def _candidates(base: Sheet | None, ours: Sheet, theirs: Sheet, wanted: Wanted, merge: TextMerge) -> list[bytes]:
    texts = []
    if base is not None:
        whole = merge(*(sheet.text.splitlines(keepends=True) for sheet in (base, ours, theirs)))
        if whole is not None:
            texts.append("".join(whole))
    with suppress(Unusual):  # their lines do not fit in: ours alone is edited
        texts.append(_spliced(base, ours, theirs, wanted, merge))
    return [text.encode() for text in [*texts, ours.text]]


def _spliced(base: Sheet | None, ours: Sheet, theirs: Sheet, wanted: Wanted, merge: TextMerge) -> str:
    """Ours with the lines of every key that only they changed, and with their changes to the body."""
    eol = dominant_eol(ours.text)
    splices = Splices(ours.block, eol)
    for at, key in enumerate(list(theirs.starts)):
        there, here, before = theirs.chunk(key), ours.chunk(key), base.chunk(key) if base else None
        if there in (before, here) or here != before:
            continue
        new = str(there).replace("\n", eol)
        if here is not None:
            splices.replace(ours.starts[key], ours.end(key), new)
        else:
            known = [name for name in list(theirs.starts)[:at] if name in ours.pairs]
            place = ours.pairs[known[-1]].end if known else next(iter(ours.pairs.values())).start
            splices.replace(place, place, new)
    for key in ours.pairs:
        if key not in theirs.pairs and base is not None and ours.chunk(key) == base.chunk(key):
            splices.replace(ours.starts[key], ours.end(key), "")
    if base is not None:
        bodies = [_unix(sheet.text[sheet.block.body :]) for sheet in (base, ours, theirs)]
        body = merge(*(text.splitlines(keepends=True) for text in bodies))
        plain = eol == "\r\n" or "\r" not in ours.text[ours.block.body :]
        if body is not None and plain and "".join(body) != bodies[1] and normalise("".join(body)) == wanted.content:
            splices.replace(ours.block.body, len(ours.text), "".join(body).replace("\n", eol))
    return splices.apply()


def _finished(data: bytes, path: str, wanted: Wanted) -> bytes:
    """`data` edited until it says what is wanted. Raises InvalidNote or Unusual where it does not get there."""
    note = parse(data, path)
    if note.kind is not NoteKind.NOTE or note.id != wanted.id:
        raise Unusual("the lines do not fit together")
    changed: dict[str, Any] = {name: value for name, value in wanted.fields.items() if getattr(note, name) != value}
    if "title" in changed and changed["title"] == file_title(path):
        changed["title"] = None
    if set(note.tags) != set(wanted.tags):
        changed["tags"] = wanted.tags
    present = _property_links(note)
    gone: list[tuple[EdgeType, str]] = [
        (link.edge, link.target)
        for key, link in present.items()
        if key not in wanted.links or wanted.links[key].target != link.target
    ]
    for key in Sheet(data, note).side().details.keys() - wanted.links.keys() - wanted.details.keys():
        if key not in present:  # the link's own lines are gone already, what `edges` says of it is left
            edge, _, target = key.partition(":")
            gone.append((EdgeType(edge), target))
    data = edit(data, path, set=changed, unlink=gone, content=wanted.content)
    present = _property_links(parse(data, path))
    data = edit(data, path, link=[link for key, link in wanted.links.items() if present.get(key) != link])
    data = _with_lines(data, path, wanted)
    _check(Sheet(data, parse(data, path)), wanted)
    return data


def _with_lines(data: bytes, path: str, wanted: Wanted) -> bytes:
    """The keys that `edit` does not know: those of other programs as one side wrote them, and aliases."""
    sheet = Sheet(data, parse(data, path))
    lines: dict[str, str | None] = {}
    said = sheet.side().extra
    for key in dict.fromkeys([*said, *wanted.extra]):
        if said.get(key) != wanted.extra.get(key):
            lines[key] = wanted.extra.get(key)
    if set(sheet.note.aliases) != set(wanted.aliases):
        lines["aliases"] = _aliases(sheet, wanted.aliases)
    if not lines:
        return data
    eol = dominant_eol(sheet.text)
    splices = Splices(sheet.block, eol)
    for key, text in lines.items():
        new = "" if text is None else text.replace("\n", eol) + eol
        start, end = (sheet.pairs[key].start, sheet.pairs[key].end) if key in sheet.pairs else (sheet.starts[None],) * 2
        splices.replace(start, end, new)
    return splices.apply().encode()


def _aliases(sheet: Sheet, aliases: tuple[str, ...]) -> str | None:
    if not aliases:
        return None
    margin = " " * sheet.block.column
    pair = sheet.pairs.get("aliases")
    if pair is not None and is_block(pair.value):
        return "\n".join([f"{margin}aliases:", *(f"{margin}  - {scalar(alias)}" for alias in aliases)])
    return f"{margin}aliases: [{', '.join(scalar(alias, flow=True) for alias in aliases)}]"


def _check(sheet: Sheet, wanted: Wanted) -> None:
    note, side = sheet.note, sheet.side()
    loose: Mapping[str, Any] = {key: value for key, value in side.details.items() if key not in wanted.links}
    same = (
        note.kind is NoteKind.NOTE
        and note.id == wanted.id
        and all(getattr(note, name) == value for name, value in wanted.fields.items())
        and set(note.tags) == set(wanted.tags)
        and set(note.aliases) == set(wanted.aliases)
        and _property_links(note) == wanted.links
        and loose == wanted.details
        and side.extra == wanted.extra
        and note.content == wanted.content
    )
    if not same:
        raise Unusual("the merged note would not say what it should")


def _property_links(note: Note) -> dict[str, NoteLink]:
    return {link.key: link for link in note.links if not link.body}


def _unix(text: str) -> str:
    return text.replace("\r\n", "\n")
