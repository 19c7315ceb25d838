"""Three-way merge of notes and of `.ormah/*.jsonl`, used by undo, sync, recovery and git's merge driver. No I/O.

Notes merge field by field, and their content line by line; a file that is no readable note merges as text. Keys that
one side changed keep that side's lines. A result never contains conflict markers: it is complete, or a list of
conflicts. If one side equals the base, the other is returned byte for byte, so undoing the last change restores the
old bytes.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ormahd.errors import InvalidNote
from ormahd.model.lines import is_lines, merge_lines, one_side
from ormahd.model.node import Tier
from ormahd.note.edit import Editor
from ormahd.note.fields import KNOWN, LISTS, ORDER, SINGLE, InvalidValue, NoteReader
from ormahd.note.frontmatter import BlockLines, Entry, FrontmatterError, Unusual, read
from ormahd.note.markdown import body_change, conflict_line, dominant_eol
from ormahd.note.read import parse
from ormahd.note.values import Note, NoteKind, NoteLink, file_title
from ormahd.note.write import give_id
from ormahd.text.diff import three_ways

_OURS = KNOWN - {"global", "ormah_global"}
_HEIGHT = {Tier.CORE: 2, Tier.WORKING: 1, Tier.ARCHIVAL: 0}
_T = TypeVar("_T", bound=Hashable)


class MergeConflict(Struct, frozen=True):
    """A part of a file (`field`) that both sides changed differently. `base`, `ours`, `theirs`: the part as text in
    each version; None if the version lacks it."""

    path: str
    node: str | None
    """The note's id, if it has one."""
    field: str
    """A key of the frontmatter, `supports:1a2b3c4d` for an edge, `content`, `id`, or `text` for a file that is no note."""
    base: str | None
    ours: str | None
    theirs: str | None

    def __str__(self) -> str:
        """Return the sentence that names the file and the part."""
        return f"{self.path}: {self.field} was changed on both sides"


_ABSENT = object()
"""The base's value of a field if there is no base."""
Part = tuple[str, str]
"""A part of a frontmatter that merges on its own: (kind, name). The kinds, in the order of `_KINDS`: a field of `Note`; an
edge of a property, by its edge key; details under `edges` without such an edge; a key that is not Ormah's."""
_KINDS = ("field", "edge", "details", "key")


class NoteVersion:
    """A version of a note, as lines and as `parts`. `parts`: part -> its value; the value of a key that is not Ormah's
    is its lines, with `\n` line ends.

    Raises Unusual or FrontmatterError if the YAML cannot be divided into keys.
    """

    def __init__(self, note: Note, text: str) -> None:
        block = read(text)
        if block is None:
            raise Unusual("there is no frontmatter")
        self.note, self.text, self.block, self.body = note, text, block, text[block.body :]
        self.lines = BlockLines(block, dominant_eol(text), block.root, block.start, block.end)
        if not all(entry.key for entry in self.lines.entries):
            raise Unusual("a key stands twice, or has no name")
        links, details = note.edges, NoteReader(block).details
        self.parts: dict[Part, Any] = {("field", name): getattr(note, name) for name in (*SINGLE, *LISTS)}
        self.parts |= {("edge", key): link for key, link in links.items()}
        self.parts |= {("details", key): link for key, link in details.items() if key not in links}
        for entry in self.lines.entries:
            if entry.key not in _OURS or entry.key in note.taken:
                self.parts["key", entry.key] = _unix(entry.text).rstrip()


class PartMerge:
    """Merges two versions of a note part by part. Collects `conflicts`, and `reasons` (a sentence for each choice
    between two changes)."""

    def __init__(self, base: NoteVersion | None, ours: NoteVersion, theirs: NoteVersion) -> None:
        self.base, self.ours, self.theirs = base, ours, theirs
        self.conflicts: list[MergeConflict] = []
        self.reasons: list[str] = []

    def parts(self) -> dict[Part, Any]:
        """Return {part: merged value}. If both sides changed a part differently, this adds a conflict, and our value is
        returned."""
        out: dict[Part, Any] = {}

        # An absent field has the value `_ABSENT` in the base only; an absent part of another kind is None.
        sides = [{} if side is None else side.parts for side in (self.base, self.ours, self.theirs)]
        for part in sorted(dict.fromkeys([*sides[1], *sides[2]]), key=lambda part: _KINDS.index(part[0])):
            kind, name = part
            missing = _ABSENT if kind == "field" else None
            base, ours, theirs = (side.get(part, missing) for side in sides)
            one_sided, value = one_side(base, ours, theirs)
            if name in LISTS and kind == "field":
                value = merged_set(() if base is _ABSENT else base, ours, theirs)
            elif not one_sided and kind == "field":
                value = self._merge_field(name, base, ours, theirs)
            elif not one_sided and kind == "edge" and ours is not None and theirs is not None:
                value = self._merge_link(name, base, ours, theirs)
            elif not one_sided:
                self.conflict(f"edges {name}" if kind == "details" else name, base, ours, theirs)
                value = ours
            if value is not None or kind == "field":
                out[part] = value
        return {part: value for part, value in out.items() if part[0] != "details" or ("edge", part[1]) not in out}

    def conflict(self, name: str, base: Any, ours: Any, theirs: Any) -> None:
        """Add a conflict in the part `name`."""
        note = self.ours.note
        self.conflicts.append(MergeConflict(note.path, note.id, name, _text(base), _text(ours), _text(theirs)))

    def _merge_field(self, name: str, base: Any, ours: Any, theirs: Any) -> Any:
        """Return the merged value of a field that both sides changed: the later `updated`, the higher tier, the earlier
        `created` or `valid_until`. Any other field is a conflict, and our value is returned."""
        if name == "updated":
            return max(date for date in (ours, theirs) if date is not None)
        if name == "tier":
            value = max(ours, theirs, key=_HEIGHT.__getitem__)
            self.reasons.append(f"tier: {value} of {ours} and {theirs}, the higher")
            return value
        if name in {"created", "valid_until"} and ours is not None and theirs is not None:
            self.reasons.append(f"{name}: {_text(min(ours, theirs))}, the earlier")
            return min(ours, theirs)
        self.conflict(name, base, ours, theirs)
        return ours

    def _merge_link(self, key: str, base: NoteLink | None, ours: NoteLink, theirs: NoteLink) -> NoteLink:
        """Return the merged edge `key` that both sides changed: the larger weight, the earlier date. Two different
        reasons are a conflict."""
        merged: dict[str, Any] = {}
        for part in ("target", "weight", "created", "reason"):
            versions: list[Any] = [getattr(link, part) if link else _ABSENT for link in (base, ours, theirs)]
            one_sided, value = one_side(*versions)
            if not one_sided:
                known: list[Any] = [version for version in versions[1:] if version is not None]
                if part == "reason" and len(known) == 2:
                    self.conflict(f"{key} reason", *versions)
                # Two stems with the same short id are two names of one note: either resolves.
                value = max(known) if part == "weight" else min(known)
            merged[part] = value
        return replace(ours, **merged)


def merged_set(base: Sequence[_T], ours: Sequence[_T], theirs: Sequence[_T]) -> tuple[_T, ...]:
    """Return two versions of a list merged as sets: the items of `ours`, without those that `theirs` removed from
    `base`, and with those that `theirs` added."""
    before, other = frozenset(base), frozenset(theirs)
    remaining = [item for item in ours if item in other or item not in before]
    return tuple(dict.fromkeys([*remaining, *(item for item in theirs if item not in before)]))


def _text(value: Any) -> str | None:
    """Return the value of a part as text, for a conflict; None if the version lacks the part."""
    if value in (None, _ABSENT):
        return None
    if isinstance(value, NoteLink):
        more = "".join(f", {part}: {_text(text)}" for part in ("created", "reason") if (text := getattr(value, part)))
        return f"[[{value.target}]] {{weight: {value.weight}{more}}}"
    return str(value.isoformat()).replace("+00:00", "Z") if hasattr(value, "isoformat") else str(value)


def _with_their_lines(base: NoteVersion | None, ours: NoteVersion, theirs: NoteVersion) -> str:
    """Return the text of `ours` with the lines of keys, the comments and the body that only `theirs` changed."""
    before = {entry.key: entry for entry in base.lines.entries} if base else {}
    after = {entry.key: entry for entry in theirs.lines.entries}
    eol = ours.lines.eol

    def newer(old: str, mine: str, other: str) -> str:
        """Return the lines of `theirs` with our line ends if only they changed them, else our lines."""
        changed = base is not None and _unix(mine) == _unix(old) != _unix(other)
        return _unix(other).replace("\n", eol) if changed else mine

    # Keys that they have: take their lines if only they changed them, or if the key is new.
    for key, other in after.items():
        mine = ours.lines.get(key)
        if mine is not None and (old := before.get(key)):
            mine.above = newer(old.above, mine.above, other.above)
            mine.text = newer(old.text, mine.text, other.text)
        elif mine is None and key not in before:
            above, text = (_unix(piece).replace("\n", eol) for piece in (other.above, other.text))
            ours.lines.insert(Entry(key, above, text), ORDER if key in ORDER else list(after))

    # Keys that they removed, and that we did not change.
    for mine in ours.lines.entries:
        if mine.key in before and mine.key not in after and _unix(mine.text) == _unix(before[mine.key].text):
            mine.above = newer(before[mine.key].above, mine.above, "")
            mine.key = mine.text = ""

    # The end of the frontmatter, and the body.
    old_version = base or ours
    ours.lines.rest = newer(old_version.lines.rest, ours.lines.rest, theirs.lines.rest)
    body = newer(old_version.body, ours.body, theirs.body)
    return f"{ours.text[: ours.block.start]}{ours.lines}{ours.text[ours.block.end : ours.block.body]}{body}"


def _write_parts(text: str, path: str, node: str | None, wanted: Mapping[Part, Any], content: str) -> bytes:
    """Return the bytes of a note with the parts `wanted` and the content. `text`: the note, in which some parts differ
    from those. Raises Unusual or another error of the editor if they cannot be written."""
    # Find the parts whose value in `text` is not the wanted one, and write them.
    note = parse(text.encode(), path)
    if note.kind is not NoteKind.NOTE or note.id != node:
        raise Unusual("the lines do not fit together")
    present = NoteVersion(note, text).parts
    different = {part: value for part, value in wanted.items() if not _equal_values(part, present.get(part), value)}
    absent = present.keys() - wanted.keys()
    if different or absent:
        editor = Editor(note, text)
        for (kind, name), value in different.items():
            if kind == "field":
                editor.set(name, None if name == "title" and value == file_title(path) else value)
        links = {key: link for (kind, key), link in different.items() if kind == "edge"}

        # An edge whose target is written otherwise is removed and added again.
        unlink = [key for kind, key in absent if kind == "edge"]
        targets = {key: link.target for (kind, key), link in present.items() if kind == "edge"}
        unlink += [key for key, link in links.items() if targets.get(key, link.target) != link.target]
        without = [key for kind, key in absent if kind == "details" and key not in links]
        details: dict[str, NoteLink | None] = dict.fromkeys(without)
        details |= {key: link for (kind, key), link in different.items() if kind == "details"}
        editor.set_edges(list(links.values()), unlink, details)
        text = f"{text[: editor.block.start]}{editor.lines}{text[editor.block.end :]}"

    # Write the content.
    if content != note.content:
        start, end, lines = body_change(text, NoteVersion(note, text).block.body, content)
        text = text[:start] + lines + text[end:]

    # Parse the result, and compare it with what was wanted.
    data = text.encode()
    result = parse(data, path)
    parts = NoteVersion(result, text).parts
    if (
        (result.kind, result.id, result.content) != (NoteKind.NOTE, node, content)
        or parts.keys() != wanted.keys()
        or not all(_equal_values(part, parts[part], value) for part, value in wanted.items())
    ):
        raise Unusual("the merged note would not say what it should")
    return data


def _equal_values(part: Part, value: Any, other: Any) -> bool:
    """Return whether two values of a part are equal; lists are compared as sets."""
    return set(value) == set(other) if part[1] in LISTS and part[0] == "field" else bool(value == other)


def _unix(text: str) -> str:
    """Return the text with `\n` line ends."""
    return text.replace("\r\n", "\n")


class Merged(Struct, frozen=True):
    """The result of a merge. `data`: the merged bytes; None if there are conflicts and `keep_ours` was not given."""

    data: bytes | None
    conflicts: tuple[MergeConflict, ...] = ()
    reasons: tuple[str, ...] = ()
    """A sentence for each choice between two changes, for the commit message."""


def merge_file(base: bytes | None, ours: bytes, theirs: bytes, path: str, *, keep_ours: bool = False) -> Merged:
    """Return the merge of three versions of a file: JSON lines in `.ormah` as sets, other files as notes or texts.
    `base`: the common ancestor; None if both sides added the file.

    A file with a NUL byte that both sides changed is a conflict. With `keep_ours` there is always a result: our version
    of each conflict is used, and the conflicts are listed.
    """
    one_sided, data = one_side(base, ours, theirs)
    if one_sided:
        return Merged(data)
    if any(b"\0" in data for data in (base or b"", ours, theirs)):
        conflict = MergeConflict(path, None, "text", None, None, None)
        return Merged(ours if keep_ours else None, (conflict,))
    if is_lines(path):
        return Merged(merge_lines(base or b"", ours, theirs))
    merged = _merge_notes(base, ours, theirs, path, keep_ours)
    return replace(merged, data=ours) if keep_ours and merged.data is None else merged


def _merge_notes(base: bytes | None, ours: bytes, theirs: bytes, path: str, keep_ours: bool) -> Merged:
    """Return the merge of two versions of a note. Different ids are a conflict in `id`. If a version is no note, they
    are merged as texts."""
    notes = [None if version is None else parse(version, path) for version in (base, ours, theirs)]
    ids = {note.id for note in notes if note is not None and note.id}
    if len(ids) > 1:
        return Merged(None, (MergeConflict(path, None, "id", *(note.id if note else None for note in notes)),))
    try:
        before, mine, other = _note_versions([base, ours, theirs], path, notes)
    except (InvalidNote, Unusual, FrontmatterError):
        return _merge_text(base, ours, theirs, path, next(iter(ids), None))

    # Merge the parts of the frontmatter, then the content line by line.
    merge = PartMerge(before, mine, other)
    wanted = merge.parts()
    contents = [side and side.note.content for side in (before, mine, other)]
    one_sided, content = one_side(*contents)
    if not one_sided:
        texts = [str(text).split("\n") for text in contents]
        lines = None if before is None else three_ways(*texts)
        if lines is None:
            merge.conflict("content", *contents)
            lines = [mine.note.content] if before is None else three_ways(*texts, keep_ours=True)
        content = "\n".join(lines or ())

    # Write the result in the lines of our version.
    data = None
    if keep_ours or not merge.conflicts:
        written = [side and side.text for side in (before, mine, other)]
        try:
            data = _write_parts(_with_their_lines(before, mine, other), path, mine.note.id, wanted, str(content))
        except (InvalidNote, InvalidValue, Unusual, FrontmatterError):
            merge.conflict("text", *written)
    return Merged(data, tuple(merge.conflicts), tuple(merge.reasons))


def _note_versions(
    data: Sequence[bytes | None], path: str, notes: Sequence[Note | None]
) -> tuple[NoteVersion | None, NoteVersion, NoteVersion]:
    """Return (base, ours, theirs) divided into parts. A version without an id first gets the id of the others. Raises
    InvalidNote, Unusual or FrontmatterError if one of them is no note."""
    if all(note is not None and note.kind is NoteKind.BARE for note in notes[1:]):
        raise Unusual("both sides took the id away")
    known = next((note.id for note in notes if note is not None and note.kind is NoteKind.NOTE), None)
    created = next((note.created for note in notes if note is not None and note.created is not None), None)
    versions: list[NoteVersion | None] = []
    for version, note in zip(data, notes, strict=True):
        if version is None or note is None:
            versions.append(None)
            continue
        if note.kind is NoteKind.BARE and known and created:
            version = give_id(version, path, id=known, created=note.created or created)
            note = parse(version, path)
        if note.kind is not NoteKind.NOTE:
            raise Unusual("it is no note")
        versions.append(NoteVersion(note, version.decode()))
    base, ours, theirs = versions
    assert ours is not None
    assert theirs is not None
    return base, ours, theirs


def merge_texts(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """Return two versions merged by lines, for any files; None if both changed the same lines."""
    lines = three_ways(*(data.splitlines(keepends=True) for data in (base, ours, theirs)))
    return None if lines is None else b"".join(lines)


def _merge_text(base: bytes | None, ours: bytes, theirs: bytes, path: str, node: str | None) -> Merged:
    """Return the merge of two versions of a file as text. If it cannot be merged, the whole text is the conflict.
    `node`: the note's id, for the conflict."""
    merged = None if base is None else merge_texts(base, ours, theirs)
    if merged is None or conflict_line(merged.decode(errors="replace")):
        texts = (None if data is None else data.decode(errors="replace") for data in (base, ours, theirs))
        return Merged(None, (MergeConflict(path, node, "text", *texts),))
    return Merged(merged)
