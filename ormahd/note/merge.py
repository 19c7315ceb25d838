"""The three-way merge of notes and of `.ormah/*.jsonl`: for undo, sync, recovery and git's merge driver. Pure.

Notes merge by what they say (`merge_fields`), written with the lines that the sides wrote (`merge_bytes`), their
content line by line. A file that is no readable note merges as text. Nothing with conflict markers is ever returned:
a merge is whole, or it is a list of conflicts.

Where one side is the base, the other is returned byte for byte; so an undo of the last change gives the old bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Any, TypeVar

import merge3
from msgspec import Struct
from msgspec.structs import replace

from ormahd.errors import InvalidNote
from ormahd.model.line_merge import merge_lines, one_side
from ormahd.note.frontmatter import FrontmatterError
from ormahd.note.markdown import conflict_line
from ormahd.note.merge_bytes import Sheet, write
from ormahd.note.merge_fields import FieldMerge, MergeConflict
from ormahd.note.note import Note, NoteKind, adopt, parse, unadopted
from ormahd.note.splice import Unusual

__all__ = ["MergeConflict", "Merged", "is_lines", "merge_file", "merge_notes", "merge_texts"]

_COMPARED = 5_000
"""Lines between the first and the last difference. Beyond that, two versions are taken for wholly different there:
difflib needs hours for some texts."""
_LINE = TypeVar("_LINE", str, bytes)


class Merged(Struct, frozen=True):
    """A merge. With conflicts `data` is None, unless ours was to be kept (`keep_ours`)."""

    data: bytes | None
    conflicts: tuple[MergeConflict, ...] = ()
    reasons: tuple[str, ...] = ()
    """Where a rule chose between two changes: a sentence each, for the commit's message."""


def is_lines(path: str) -> bool:
    """Whether a file is one of ours with an id in each line, and so a set."""
    return path.endswith(".jsonl") and ".ormah" in path.split("/")[:-1]


def merge_file(base: bytes | None, ours: bytes, theirs: bytes, path: str, *, keep_ours: bool = False) -> Merged:
    """The three-way merge by what kind of file stands at `path`: lines of ours as sets, the rest as note or as text.

    Bytes with a NUL have no lines: changed on both sides, they are a conflict. The order of a person's own `.jsonl`
    outside of `.ormah` may mean something: it is a text.

    With `keep_ours` there is always a result: whatever conflicts is as ours has it, all else is merged, and the
    conflicts are named beside it.
    """
    if theirs in (base, ours):
        return Merged(ours)
    if ours == base:
        return Merged(theirs)
    if any(b"\0" in data for data in (base or b"", ours, theirs)):
        conflict = MergeConflict(path, None, "text", None, None, None)
        return Merged(ours if keep_ours else None, (conflict,))
    if is_lines(path):
        return Merged(merge_lines(base or b"", ours, theirs))
    return merge_notes(base, ours, theirs, path, keep_ours=keep_ours)


def merge_notes(base: bytes | None, ours: bytes, theirs: bytes, path: str, *, keep_ours: bool = False) -> Merged:
    """Merge two versions of the note at `path`; `base` is what both come from, None when both added it.

    Any bytes are taken. Notes with different ids are a conflict in `id`: they are not one note. `keep_ours`: see
    `merge_file`.
    """
    merged = _merge_notes(base, ours, theirs, path, keep_ours)
    return replace(merged, data=ours) if keep_ours and merged.data is None else merged


def _merge_notes(base: bytes | None, ours: bytes, theirs: bytes, path: str, keep_ours: bool) -> Merged:
    if theirs in (base, ours):
        return Merged(ours)
    if ours == base:
        return Merged(theirs)
    versions = None if base is None else parse(base, path), parse(ours, path), parse(theirs, path)
    ids = {note.id for note in versions if note is not None and note.id}
    if len(ids) > 1:
        said = [note.id if note else None for note in versions]
        return Merged(None, (MergeConflict(path, None, "id", *said),))
    without = _without_adoption(base, ours, theirs, path)
    if without is not None:
        return Merged(without)
    sheets = _sheets((base, ours, theirs), versions, path)
    if sheets is None:
        return _merge_text(base, ours, theirs, path, next(iter(ids), None))
    try:
        return _merge_sheets(*sheets, keep_ours=keep_ours)
    except (Unusual, FrontmatterError):
        return _merge_text(base, ours, theirs, path, next(iter(ids), None))


def _without_adoption(base: bytes | None, ours: bytes, theirs: bytes, path: str) -> bytes | None:
    """Where one side took out just what an adoption had put in, the other side's version without that; None: none did.

    By lines and not as notes: as notes, a file with an id and one without it are the same."""
    left = None if base is None else unadopted(base, path)
    if base is None or left == base or left not in (ours, theirs):
        return None
    merged = merge_texts(base, ours, theirs)
    if merged is not None:
        return merged
    kept = theirs if left == ours else ours
    without = unadopted(kept, path)
    return None if without == kept else without


def _sheets(
    data: tuple[bytes | None, bytes, bytes], notes: tuple[Note | None, Note, Note], path: str
) -> tuple[Sheet | None, Sheet, Sheet] | None:
    """The versions as notes. One that has no id (yet) is read as adopted like the other; None: one is no note."""
    adopted = next((note for note in notes if note is not None and note.kind is NoteKind.NOTE), None)
    if adopted is None or adopted.id is None or notes[1].kind is notes[2].kind is NoteKind.BARE:
        return None
    created = next((note.created for note in notes if note is not None and note.created is not None), None)
    sheets: list[Sheet | None] = []
    for version, note in zip(data, notes, strict=True):
        if version is None or note is None:
            sheets.append(None)
            continue
        if note.kind is NoteKind.BARE and created is not None:
            try:
                version = adopt(version, path, id=adopted.id, created=note.created or created)
            except InvalidNote:
                return None
            note = parse(version, path)
        if note.kind is not NoteKind.NOTE:
            return None
        sheets.append(Sheet(version, note))
    first, second, third = sheets
    return None if second is None or third is None else (first, second, third)


def _merge_sheets(base: Sheet | None, ours: Sheet, theirs: Sheet, *, keep_ours: bool) -> Merged:
    merge = FieldMerge(base.side() if base else None, ours.side(), theirs.side())
    wanted = merge.wanted()
    contents = [sheet.note.content if sheet else None for sheet in (base, ours, theirs)]
    one_sided, content = one_side(*contents)
    if not one_sided and contents[0] is not None:
        lines = _three_ways(*(str(text).split("\n") for text in contents))
        content = None if lines is None else "\n".join(lines)
        one_sided = content is not None
    if not one_sided:
        merge.conflict("content", *contents)
        content = _with_ours(*contents)
    if merge.conflicts and not keep_ours:
        return Merged(None, tuple(merge.conflicts), tuple(merge.reasons))
    wanted.content = str(content)
    data = write(base, ours, theirs, wanted, _three_ways)
    if data is None:
        merge.conflict("text", *(sheet.text if sheet else None for sheet in (base, ours, theirs)))
        return Merged(None, tuple(merge.conflicts), tuple(merge.reasons))
    return Merged(data, tuple(merge.conflicts), tuple(merge.reasons))


def merge_texts(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """The lines of both sides' changes, whatever the files are; None where both changed the same lines."""
    if theirs in (base, ours) or ours == base:
        return ours if theirs in (base, ours) else theirs
    lines = _three_ways(*(data.splitlines(keepends=True) for data in (base, ours, theirs)))
    return None if lines is None else b"".join(lines)


def _merge_text(base: bytes | None, ours: bytes, theirs: bytes, path: str, node: str | None) -> Merged:
    lines = None
    if base is not None:
        lines = _three_ways(*(data.splitlines(keepends=True) for data in (base, ours, theirs)))
    merged = None if lines is None else b"".join(lines)
    if merged is None or conflict_line(merged.decode(errors="replace")):
        texts = (None if data is None else data.decode(errors="replace") for data in (base, ours, theirs))
        return Merged(None, (MergeConflict(path, node, "text", *texts),))
    return Merged(merged)


def _three_ways(
    base: list[_LINE], ours: list[_LINE], theirs: list[_LINE], *, keep_ours: bool = False
) -> list[_LINE] | None:
    """The lines of both sides' changes; where they meet None, or ours."""
    out: list[_LINE] = []
    for group in merge3.Merge3(base, ours, theirs, sequence_matcher=_Matcher).merge_groups():
        if group[0] != "conflict":
            out.extend(group[1])
            continue
        lines = _side_by_side(list(group[1]), list(group[2]), list(group[3]))
        if lines is None and not keep_ours:
            return None
        out.extend(group[2] if lines is None else lines)
    return out


def _side_by_side(base: list[_LINE], ours: list[_LINE], theirs: list[_LINE]) -> list[_LINE] | None:
    """The lines of changes that only touch: one side's last line is changed and the other's text goes on behind it. Most
    memories have one line, so that git's rule (nothing between two changes is a conflict) would part hardly any two edits.
    None where both changed the same line, or put different ones in the same place."""
    alike = 0
    while alike < min(len(ours), len(theirs)) and ours[-1 - alike] == theirs[-1 - alike]:
        alike += 1
    agreed = ours[len(ours) - alike :]  # both added the same at the end
    here: dict[tuple[int, int], list[_LINE]] = _changes(base, ours[: len(ours) - alike])
    there: dict[tuple[int, int], list[_LINE]] = _changes(base, theirs[: len(theirs) - alike])
    out: list[_LINE] = []
    done = 0
    for place in sorted({*here, *there}):
        if place[0] < done or (place in here and place in there and here[place] != there[place]):
            return None
        out.extend(base[done : place[0]])
        out.extend(here[place] if place in here else there[place])
        done = place[1]
    return out + base[done:] + agreed


def _changes(base: list[_LINE], side: list[_LINE]) -> dict[tuple[int, int], list[_LINE]]:
    """What a side made of which lines of the base: {(first, behind the last): the lines instead}."""
    found: dict[tuple[int, int], list[_LINE]] = {}
    was = now = 0
    for at, there, size in _Matcher(None, base, side).get_matching_blocks():
        if (was, now) != (at, there):
            found[was, at] = side[now:there]
        was, now = at + size, there + size
    return found


def _with_ours(base: str | None, ours: str | None, theirs: str | None) -> str | None:
    """A text with both sides' changes, and ours where they meet; all of ours where nothing is known of before."""
    if base is None:
        return ours
    lines = _three_ways(*(str(text).split("\n") for text in (base, ours, theirs)), keep_ours=True)
    return "\n".join(lines or ())


class _Matcher:
    """difflib without its worst cases: what begins and ends alike is not compared, what is too long not at all."""

    def __init__(self, _junk: Any, one: Sequence[Any], other: Sequence[Any]) -> None:
        shorter = min(len(one), len(other))
        head = next((at for at in range(shorter) if one[at] != other[at]), shorter)
        rest = shorter - head
        tail = next((at for at in range(rest) if one[-1 - at] != other[-1 - at]), rest)
        self.blocks = [(0, 0, head)] if head else []
        left, right = one[head : len(one) - tail], other[head : len(other) - tail]
        if max(len(left), len(right)) <= _COMPARED:
            found = SequenceMatcher(None, left, right).get_matching_blocks()[:-1]
            self.blocks += [(head + at, head + there, size) for at, there, size in found]
        if tail:
            self.blocks.append((len(one) - tail, len(other) - tail, tail))
        self.blocks.append((len(one), len(other), 0))

    def get_matching_blocks(self) -> list[tuple[int, int, int]]:
        return self.blocks
