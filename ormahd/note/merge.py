"""Three-way merge of notes and of `.ormah/*.jsonl`, used by undo, sync, recovery and git's merge driver. No I/O.

Notes merge field by field, and their content line by line; a file that is no readable note merges as text. Keys that
one side changed keep that side's lines. A result never contains conflict markers: it is complete, or a list of
conflicts. If one side equals the base, the other is returned byte for byte, so undoing the last change restores the
old bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from ormahd.errors import InvalidNote
from ormahd.model.lines import merge_lines, one_side
from ormahd.model.node import EdgeType, Tier
from ormahd.note.edit import edit
from ormahd.note.fields import NoteReader
from ormahd.note.frontmatter import Frontmatter, FrontmatterError, KeyLines, Splices, Unusual, is_block, read, scalar
from ormahd.note.markdown import conflict_line, dominant_eol, normalise
from ormahd.note.read import KNOWN, parse
from ormahd.note.values import Note, NoteKind, NoteLink, file_title
from ormahd.note.write import give_id
from ormahd.text.diff import three_ways

FIELDS = ("type", "tier", "space", "title", "source", "confidence", "created", "updated", "valid_until",
          "outdated_reason")  # fmt: skip
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
        return f"{self.path}: {self.field} was changed on both sides"


def property_links(note: Note) -> dict[str, NoteLink]:
    """Return edge key -> link for the links in the note's properties; links in its text are left out."""
    return {link.key: link for link in note.links if not link.body}


class MergeSide(Struct, frozen=True):
    """One version of a note, with the frontmatter keys that are not Ormah's and all details under `edges`."""

    note: Note
    extra: Mapping[str, str]
    r"""Key -> its lines with `\n` line ends, for each key that is not Ormah's."""
    details: Mapping[str, Any]
    """Edge key -> details under `edges`, including those of edges that no property has."""

    @property
    def links(self) -> dict[str, NoteLink]:
        return property_links(self.note)


class Wanted(Struct):
    """The values that the merged note must have."""

    id: str
    fields: dict[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    links: dict[str, NoteLink] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)
    """Edge key -> details, for edges that are not in `links` (links in the body)."""
    extra: dict[str, str] = field(default_factory=dict)
    content: str = ""


class _Absent:
    """The type of `_ABSENT`, which is used as the base's value of a field if there is no base."""


_ABSENT = _Absent()


class FieldMerge:
    """Merges two versions of a note field by field. Collects `conflicts`, and `reasons` (a sentence for each choice
    between two changes)."""

    def __init__(self, base: MergeSide | None, ours: MergeSide, theirs: MergeSide) -> None:
        self.base, self.ours, self.theirs = base, ours, theirs
        self.conflicts: list[MergeConflict] = []
        self.reasons: list[str] = []

    def wanted(self) -> Wanted:
        """Return all merged values except the content; valid only if `conflicts` is empty."""
        out = Wanted(self.ours.note.id or self.theirs.note.id or "")
        for name in FIELDS:
            base = getattr(self.base.note, name) if self.base else _ABSENT
            out.fields[name] = self._field(name, base, getattr(self.ours.note, name), getattr(self.theirs.note, name))
        notes = (self.base.note if self.base else None, self.ours.note, self.theirs.note)
        out.tags = merged_set(*(note.tags if note else () for note in notes))
        out.aliases = merged_set(*(note.aliases if note else () for note in notes))
        out.links = self._links()
        no_base: Mapping[str, Any] = {}
        out.details = {
            key: value
            for key, value in self._mapping(
                "edges", self.base.details if self.base else no_base, self.ours.details, self.theirs.details, out.links
            ).items()
            if key not in out.links
        }
        out.extra = self._mapping("", self.base.extra if self.base else no_base, self.ours.extra, self.theirs.extra)
        return out

    def conflict(self, name: str, base: Any, ours: Any, theirs: Any) -> None:
        note = self.ours.note
        self.conflicts.append(MergeConflict(note.path, note.id, name, _text(base), _text(ours), _text(theirs)))

    def _field(self, name: str, base: Any, ours: Any, theirs: Any) -> Any:
        one_sided, value = one_side(base, ours, theirs)
        if one_sided:
            return value
        if name == "tier":
            value = max(ours, theirs, key=_HEIGHT.__getitem__)
            self.reasons.append(f"tier: {value} of {ours} and {theirs}, the higher")
        elif name == "updated":
            value = max(date for date in (ours, theirs) if date is not None)
        elif name in {"created", "valid_until"} and ours is not None and theirs is not None:
            value = min(ours, theirs)
            self.reasons.append(f"{name}: {_text(value)}, the earlier")
        else:
            self.conflict(name, base, ours, theirs)
            value = ours
        return value

    def _links(self) -> dict[str, NoteLink]:
        base = self.base.links if self.base else {}
        ours, theirs = self.ours.links, self.theirs.links
        out: dict[str, NoteLink] = {}
        for key in dict.fromkeys([*ours, *theirs]):
            one_sided, link = one_side(base.get(key), ours.get(key), theirs.get(key))
            if not one_sided:
                link = self._link(key, base.get(key), ours.get(key), theirs.get(key))
            if link is not None:
                out[key] = link
        return out

    def _link(self, key: str, base: NoteLink | None, ours: NoteLink | None, theirs: NoteLink | None) -> NoteLink | None:
        if ours is None or theirs is None:
            self.conflict(key, base, ours, theirs)
            return ours or theirs
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

    def _mapping(
        self,
        name: str,
        base: Mapping[str, Any],
        ours: Mapping[str, Any],
        theirs: Mapping[str, Any],
        settled: Mapping[str, Any] = {},
    ) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for key in dict.fromkeys([*ours, *theirs]):
            if key in settled:
                continue
            one_sided, value = one_side(base.get(key), ours.get(key), theirs.get(key))
            if not one_sided:
                self.conflict(f"{name} {key}".strip(), base.get(key), ours.get(key), theirs.get(key))
                value = ours.get(key)
            if value is not None:
                out[key] = value
        return out


def merged_set(base: Sequence[_T], ours: Sequence[_T], theirs: Sequence[_T]) -> tuple[_T, ...]:
    """Merge two versions of a list as sets: the items of `ours`, without those that `theirs` removed from `base`, and
    with those that `theirs` added."""
    before, there = frozenset(base), frozenset(theirs)
    kept = [item for item in ours if item in there or item not in before]
    return tuple(dict.fromkeys([*kept, *(item for item in theirs if item not in before)]))


def _text(value: Any) -> str | None:
    if value is None or value is _ABSENT:
        return None
    if isinstance(value, NoteLink):
        more = "".join(f", {part}: {_text(said)}" for part in ("created", "reason") if (said := getattr(value, part)))
        return f"[[{value.target}]] {{weight: {value.weight}{more}}}"
    return str(value.isoformat()).replace("+00:00", "Z") if hasattr(value, "isoformat") else str(value)


_OURS = KNOWN - {"global", "ormah_global"}
TextMerge = Callable[[list[str], list[str], list[str]], list[str] | None]
"""Called with the lines of (base, ours, theirs). Returns the merged lines, or None for a conflict."""


class DividedNote(Struct, frozen=True, dict=True):
    """A readable note whose text is divided into the lines of each key. Its properties raise Unusual if the YAML
    cannot be divided."""

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
    def pairs(self) -> dict[str, KeyLines]:
        assert self.block.root is not None
        found = Splices(self.block, "\n").pairs(self.block.root, self.block.end)
        return dict(zip(self.block.pairs, found, strict=True))

    @cached_property
    def starts(self) -> dict[str | None, int]:
        """Key -> position where its lines begin, including comments above; None -> the position after the last key."""
        ends = [self.block.start, *(pair.end for pair in self.pairs.values())]
        return dict(zip([*self.pairs, None], ends, strict=True))

    def end(self, key: str | None) -> int:
        return self.block.end if key is None else self.pairs[key].end

    def chunk(self, key: str | None) -> str | None:
        r"""Return the lines of a key, including comments above, with `\n` line ends; None if there is no such key."""
        return _unix(self.text[self.starts[key] : self.end(key)]) if key in self.starts else None

    def lines(self, key: str) -> str:
        """Return the lines of a key, without comments above."""
        return _unix(self.text[self.pairs[key].start : self.pairs[key].end]).rstrip()

    def side(self) -> MergeSide:
        extra = {key: self.lines(key) for key in self.pairs if key not in _OURS or key in self.note.taken}
        return MergeSide(self.note, extra, NoteReader(self.block).details)


def write(
    base: DividedNote | None, ours: DividedNote, theirs: DividedNote, wanted: Wanted, merge: TextMerge
) -> bytes | None:
    """Return the bytes of a note with the values `wanted`, keeping the lines of both sides as far as possible; None if
    it cannot be written safely."""
    for candidate in _candidates(base, ours, theirs, wanted, merge):
        try:
            return _finished(candidate, ours.note.path, wanted)
        except (InvalidNote, Unusual, FrontmatterError):
            continue  # try the next one; if none works, the caller reports a conflict
    return None


def _candidates(
    base: DividedNote | None, ours: DividedNote, theirs: DividedNote, wanted: Wanted, merge: TextMerge
) -> list[bytes]:
    texts = []
    if base is not None:
        whole = merge(*(sheet.text.splitlines(keepends=True) for sheet in (base, ours, theirs)))
        if whole is not None:
            texts.append("".join(whole))
    with suppress(Unusual):  # their lines cannot be inserted: edit ours alone
        texts.append(_spliced(base, ours, theirs, wanted, merge))
    return [text.encode() for text in [*texts, ours.text]]


def _spliced(base: DividedNote | None, ours: DividedNote, theirs: DividedNote, wanted: Wanted, merge: TextMerge) -> str:
    """Return the text of `ours` with the changes that only `theirs` made, both to the lines of keys and to the
    body."""
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
    """Return `data`, the bytes of a merged note, edited so that the note has the values `wanted`. Raises InvalidNote
    or Unusual if that fails."""
    note = parse(data, path)
    if note.kind is not NoteKind.NOTE or note.id != wanted.id:
        raise Unusual("the lines do not fit together")
    changed: dict[str, Any] = {name: value for name, value in wanted.fields.items() if getattr(note, name) != value}
    if "title" in changed and changed["title"] == file_title(path):
        changed["title"] = None
    if set(note.tags) != set(wanted.tags):
        changed["tags"] = wanted.tags
    present = property_links(note)
    gone: list[tuple[EdgeType, str]] = [
        (link.edge, link.target)
        for key, link in present.items()
        if key not in wanted.links or wanted.links[key].target != link.target
    ]
    for key in DividedNote(data, note).side().details.keys() - wanted.links.keys() - wanted.details.keys():
        if key not in present:  # the link itself is removed already, its details under `edges` are not
            edge, _, target = key.partition(":")
            gone.append((EdgeType(edge), target))
    data = edit(data, path, set=changed, unlink=gone, content=wanted.content)
    present = property_links(parse(data, path))
    data = edit(data, path, link=[link for key, link in wanted.links.items() if present.get(key) != link])
    data = _with_lines(data, path, wanted)
    _check(DividedNote(data, parse(data, path)), wanted)
    return data


def _with_lines(data: bytes, path: str, wanted: Wanted) -> bytes:
    """Return the bytes of a note with the lines for `wanted` that `edit` cannot write: the aliases, and other
    programs' keys as one side wrote them."""
    sheet = DividedNote(data, parse(data, path))
    said = sheet.side().extra
    keys = [key for key in dict.fromkeys([*said, *wanted.extra]) if said.get(key) != wanted.extra.get(key)]
    lines: dict[str, str | None] = {key: wanted.extra.get(key) for key in keys}
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


def _aliases(sheet: DividedNote, aliases: tuple[str, ...]) -> str | None:
    if not aliases:
        return None
    margin = " " * sheet.block.column
    pair = sheet.pairs.get("aliases")
    if pair is not None and is_block(pair.value):
        return "\n".join([f"{margin}aliases:", *(f"{margin}  - {scalar(alias)}" for alias in aliases)])
    return f"{margin}aliases: [{', '.join(scalar(alias, flow=True) for alias in aliases)}]"


def _check(sheet: DividedNote, wanted: Wanted) -> None:
    note, side = sheet.note, sheet.side()
    loose: Mapping[str, Any] = {key: value for key, value in side.details.items() if key not in wanted.links}
    same = (
        note.kind is NoteKind.NOTE
        and note.id == wanted.id
        and all(getattr(note, name) == value for name, value in wanted.fields.items())
        and set(note.tags) == set(wanted.tags)
        and set(note.aliases) == set(wanted.aliases)
        and side.links == wanted.links
        and loose == wanted.details
        and side.extra == wanted.extra
        and note.content == wanted.content
    )
    if not same:
        raise Unusual("the merged note would not say what it should")


def _unix(text: str) -> str:
    return text.replace("\r\n", "\n")


class Merged(Struct, frozen=True):
    """The result of a merge. `data`: the merged bytes; None if there are conflicts and `keep_ours` was not given."""

    data: bytes | None
    conflicts: tuple[MergeConflict, ...] = ()
    reasons: tuple[str, ...] = ()
    """A sentence for each choice between two changes, for the commit message."""


def is_lines(path: str) -> bool:
    """Whether a file holds JSON lines with ids, which merge as a set."""
    return path.endswith(".jsonl") and ".ormah" in path.split("/")[:-1]


def merge_file(base: bytes | None, ours: bytes, theirs: bytes, path: str, *, keep_ours: bool = False) -> Merged:
    """Merge a file by its kind: Ormah's JSON lines as sets, all others as note or text.

    A file with a NUL byte that both sides changed is a conflict. A `.jsonl` file outside of `.ormah` is merged as text.
    With `keep_ours` there is always a result: conflicts are resolved in favour of `ours`, and listed.
    """
    one_sided, data = one_side(base, ours, theirs)
    if one_sided:
        return Merged(data)
    if any(b"\0" in data for data in (base or b"", ours, theirs)):
        conflict = MergeConflict(path, None, "text", None, None, None)
        return Merged(ours if keep_ours else None, (conflict,))
    if is_lines(path):
        return Merged(merge_lines(base or b"", ours, theirs))
    return merge_notes(base, ours, theirs, path, keep_ours=keep_ours)


def merge_notes(base: bytes | None, ours: bytes, theirs: bytes, path: str, *, keep_ours: bool = False) -> Merged:
    """Merge two versions of the note at `path`. `base`: their common ancestor; None if both sides added the file.

    Any bytes are accepted. Different ids are a conflict in `id`. `keep_ours`: see `merge_file`.
    """
    merged = _merge_notes(base, ours, theirs, path, keep_ours)
    return replace(merged, data=ours) if keep_ours and merged.data is None else merged


def _merge_notes(base: bytes | None, ours: bytes, theirs: bytes, path: str, keep_ours: bool) -> Merged:
    one_sided, data = one_side(base, ours, theirs)
    if one_sided:
        return Merged(data)
    versions = None if base is None else parse(base, path), parse(ours, path), parse(theirs, path)
    ids = {note.id for note in versions if note is not None and note.id}
    if len(ids) > 1:
        said = [note.id if note else None for note in versions]
        return Merged(None, (MergeConflict(path, None, "id", *said),))
    sheets = _sheets((base, ours, theirs), versions, path)
    if sheets is None:
        return _merge_text(base, ours, theirs, path, next(iter(ids), None))
    try:
        return _merge_sheets(*sheets, keep_ours=keep_ours)
    except (Unusual, FrontmatterError):
        return _merge_text(base, ours, theirs, path, next(iter(ids), None))


def _sheets(
    data: tuple[bytes | None, bytes, bytes], notes: tuple[Note | None, Note, Note], path: str
) -> tuple[DividedNote | None, DividedNote, DividedNote] | None:
    """Return (base, ours, theirs) as divided notes; None if one of them is no note. A version without an id first
    gets the id of the others."""
    known = next((note for note in notes if note is not None and note.kind is NoteKind.NOTE), None)
    if known is None or known.id is None or notes[1].kind is notes[2].kind is NoteKind.BARE:
        return None
    created = next((note.created for note in notes if note is not None and note.created is not None), None)
    sheets: list[DividedNote | None] = []
    for version, note in zip(data, notes, strict=True):
        if version is None or note is None:
            sheets.append(None)
            continue
        if note.kind is NoteKind.BARE and created is not None:
            try:
                version = give_id(version, path, id=known.id, created=note.created or created)
            except InvalidNote:
                return None
            note = parse(version, path)
        if note.kind is not NoteKind.NOTE:
            return None
        sheets.append(DividedNote(version, note))
    first, second, third = sheets
    return None if second is None or third is None else (first, second, third)


def _merge_sheets(base: DividedNote | None, ours: DividedNote, theirs: DividedNote, *, keep_ours: bool) -> Merged:
    merge = FieldMerge(base.side() if base else None, ours.side(), theirs.side())
    wanted = merge.wanted()
    contents = [sheet.note.content if sheet else None for sheet in (base, ours, theirs)]
    one_sided, content = one_side(*contents)
    if not one_sided and contents[0] is not None:
        lines = three_ways(*(str(text).split("\n") for text in contents))
        content = None if lines is None else "\n".join(lines)
        one_sided = content is not None
    if not one_sided:
        merge.conflict("content", *contents)
        content = _with_ours(*contents)
    if merge.conflicts and not keep_ours:
        return Merged(None, tuple(merge.conflicts), tuple(merge.reasons))
    wanted.content = str(content)
    data = write(base, ours, theirs, wanted, three_ways)
    if data is None:
        merge.conflict("text", *(sheet.text if sheet else None for sheet in (base, ours, theirs)))
        return Merged(None, tuple(merge.conflicts), tuple(merge.reasons))
    return Merged(data, tuple(merge.conflicts), tuple(merge.reasons))


def merge_texts(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """Merge two versions by lines, for any files; None if both changed the same lines."""
    lines = three_ways(*(data.splitlines(keepends=True) for data in (base, ours, theirs)))
    return None if lines is None else b"".join(lines)


def _merge_text(base: bytes | None, ours: bytes, theirs: bytes, path: str, node: str | None) -> Merged:
    merged = None if base is None else merge_texts(base, ours, theirs)
    if merged is None or conflict_line(merged.decode(errors="replace")):
        texts = (None if data is None else data.decode(errors="replace") for data in (base, ours, theirs))
        return Merged(None, (MergeConflict(path, node, "text", *texts),))
    return Merged(merged)


def _with_ours(base: str | None, ours: str | None, theirs: str | None) -> str | None:
    """Merge two contents by lines. Where they conflict, the lines of `ours` are used; without a base, all of `ours`."""
    if base is None:
        return ours
    lines = three_ways(*(str(text).split("\n") for text in (base, ours, theirs)), keep_ours=True)
    return "\n".join(lines or ())
