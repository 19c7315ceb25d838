"""What a merged note should say: every field three ways, before a byte is written.

Where only one side changed a field, that side's value holds. Where both changed it differently:

- `updated`: the later; `created` and `valid_until`: the earlier;
- `tier`: the higher (core, working, archival): a memory too many in reach is mended easier than one that is missed;
- `tags`, `aliases`, edges: sets, an item changed on one side only follows that side;
- an edge's weight: the larger, its date: the earlier;
- anything else (type, title, space, an edge's reason, a key of the person's, …): a conflict.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from ormahd.model.line_merge import one_side
from ormahd.model.node import Tier
from ormahd.note.values import Note, NoteLink

FIELDS = ("type", "tier", "space", "title", "source", "confidence", "created", "updated", "valid_until",
          "outdated_reason")  # fmt: skip
_HEIGHT = {Tier.CORE: 2, Tier.WORKING: 1, Tier.ARCHIVAL: 0}
_T = TypeVar("_T", bound=Hashable)


class MergeConflict(Struct, frozen=True):
    """One thing that both sides changed, each in its own way. The three versions as text; None: absent there."""

    path: str
    node: str | None
    """The note's id, where it has one."""
    field: str
    """A key of the frontmatter, `supports:1a2b3c4d` for an edge, `content`, `id`, or `text` for a file that is no note."""
    base: str | None
    ours: str | None
    theirs: str | None

    def __str__(self) -> str:
        return f"{self.path}: {self.field} was changed on both sides"


class Side(Struct, frozen=True):
    """A note with what `Note` leaves out: other keys and unused lines of `edges`, both as written."""

    note: Note
    extra: Mapping[str, str]
    """Keys that are not ours: their lines, with `\\n` line ends."""
    details: Mapping[str, Any]
    """What `edges` says, by edge key, also of edges that the frontmatter does not have."""

    @property
    def links(self) -> dict[str, NoteLink]:
        return {link.key: link for link in self.note.links if not link.body}


class Wanted(Struct):
    """The merged note's values."""

    id: str
    fields: dict[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    links: dict[str, NoteLink] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)
    """Of edges that are not in `links` (links in the body): key to what `edges` should say."""
    extra: dict[str, str] = field(default_factory=dict)
    content: str = ""


class _Absent:
    """The value of everything in a base that there is none of."""


_ABSENT = _Absent()


class FieldMerge:
    """Merges the sides field by field; `conflicts` and `reasons` gather what is to be said about it."""

    def __init__(self, base: Side | None, ours: Side, theirs: Side) -> None:
        self.base, self.ours, self.theirs = base, ours, theirs
        self.conflicts: list[MergeConflict] = []
        self.reasons: list[str] = []

    def wanted(self) -> Wanted:
        """Everything but the content; meaningful when `conflicts` is empty."""
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
                # Two stems with one short id are one note under two names: either resolves.
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
    """Ours, without what they removed and with what they added."""
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
