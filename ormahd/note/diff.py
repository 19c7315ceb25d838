"""The readable difference of two versions of a note: fields, edges, then text. No I/O.

    tier: working -> core
    tags: +languages -todo
    + supports -> Chose Vite, weight 0.8, reason: the build needs it
    content:
    @@ -1,2 +1,2 @@
    -The user prefers TypeScript.
    +The user prefers TypeScript over JavaScript.

A new or removed note has `+` or `-` on every line. A file that is no readable note is compared as text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from ormahd.note.fields import LISTS, SINGLE
from ormahd.note.frontmatter import FrontmatterError, Unusual
from ormahd.note.merge import NoteVersion
from ormahd.note.read import parse
from ormahd.note.values import Note, NoteKind, NoteLink
from ormahd.text.diff import LINES, clip, text_diff

_DEFAULTS = {"tier": "working", "confidence": 1.0}
"""Default values, not shown for a new or removed note."""

Version = tuple[str, bytes]
"""A file in one state: its path (posix, relative to the vault) and its bytes."""
Name = Callable[[str], str | None]
"""Called with the target of a wikilink. Returns the title to show for it; None: the target itself is shown."""


class NoteDiff(Struct, frozen=True):
    """The difference of two versions of a note. `text`: its lines, without a final newline; empty if the versions
    have equal bytes. `cut`: whether lines were left out; the last line then says how many."""

    text: str
    cut: bool = False


def note_diff(
    before: Version | None, after: Version | None, *, name: Name = lambda _: None, lines: int = LINES
) -> NoteDiff:
    """Return the difference of two versions of a note. A version is None if the file does not exist in it. At most
    `lines` lines are about the note's text."""
    if before is not None and after is not None and before[1] == after[1]:
        return NoteDiff("")
    notes = [None if version is None else parse(version[1], version[0]) for version in (before, after)]
    if any(note is not None and note.kind is not NoteKind.NOTE for note in notes):
        return _as_text(before, after, lines)
    old, new = notes
    head = [*_field_lines(old, new), *_key_lines(_extra(old, before), _extra(new, after)), *_edge_lines(old, new, name)]
    body, cut = text_diff(old.content if old else None, new.content if new else None, lines)
    if body:
        head += ["content:", *body]
    if not head and before is not None and after is not None:
        changed = f"updated: {_display(old and old.updated)} -> {_display(new and new.updated)}"
        return NoteDiff(changed) if old and new and old.updated != new.updated else _as_text(before, after, lines)
    return NoteDiff("\n".join(head), cut)


def _as_text(before: Version | None, after: Version | None, lines: int) -> NoteDiff:
    """Return the difference of two versions as that of plain texts; if one holds a NUL byte, only their sizes."""
    data = [None if version is None else version[1] for version in (before, after)]
    if any(item is not None and b"\0" in item for item in data):
        sizes = ["nothing" if item is None else f"{len(item):,} bytes" for item in data]
        return NoteDiff(f"no text: {sizes[0]} -> {sizes[1]}")
    texts = [None if item is None else item.decode("utf-8", "replace") for item in data]
    found, cut = text_diff(texts[0], texts[1], lines)
    return NoteDiff("\n".join(found or ["only line ends or blank space changed"]), cut)


def _field_lines(old: Note | None, new: Note | None) -> Iterator[str]:
    """Yield a line for each changed field. `updated` is left out, because it changes whenever another field does. For a
    new or removed note, fields with their default value are left out too."""
    for field in dict.fromkeys(("title", *SINGLE)):
        was, now = (None if note is None else getattr(note, field) for note in (old, new))
        value = now if old is None else was
        if was == now or field == "updated":
            continue
        if old is not None and new is not None:
            yield f"{field}: {_display(was)} -> {_display(now)}"
        elif value != _DEFAULTS.get(field):
            yield f"{'+' if old is None else '-'} {field}: {_display(value)}"
    for field in LISTS:
        before, after = (() if note is None else getattr(note, field) for note in (old, new))
        changed = [f"+{clip(item)}" for item in after if item not in before]
        changed += [f"-{clip(item)}" for item in before if item not in after]
        if changed:
            yield f"{field}: {' '.join(changed)}"


def _key_lines(was: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each changed frontmatter key that is not Ormah's. `was`, `now`: see `_extra`."""
    for key in dict.fromkeys([*was, *now]):
        item, other = was.get(key), now.get(key)
        if item == other:
            continue
        if item is not None and other is not None:
            yield f"{key}: {_key_value(key, item)} -> {_key_value(key, other)}"
        else:
            yield f"{'-' if other is None else '+'} {key}: {_key_value(key, item or other or '')}"


def _extra(note: Note | None, version: Version | None) -> dict[str, str]:
    """Return `{frontmatter key that is not Ormah's: its lines}` of a version of a note."""
    if note is None or version is None:
        return {}
    try:
        parts = NoteVersion(note, version[1].decode()).parts
        return {name: lines for (kind, name), lines in parts.items() if kind == "key"}
    except (Unusual, FrontmatterError):
        return {}  # YAML that cannot be divided into keys; the other differences are still shown


def _key_value(key: str, lines: str) -> str:
    """Return the value of a frontmatter key on one line. `lines`: the lines of the key in the file, with the key
    itself."""
    stripped = lines.strip()
    for start in (key, f'"{key}"', f"'{key}'"):
        if stripped.startswith(start):
            stripped = stripped[len(start) :].lstrip().removeprefix(":").strip()
            break
    return clip(stripped) or "(empty)"


def _edge_lines(old: Note | None, new: Note | None, name: Name) -> Iterator[str]:
    """Yield a line for each changed edge of the frontmatter. Links in the body appear in the text's difference."""
    was, now = ({} if note is None else note.edges for note in (old, new))
    for key in dict.fromkeys([*now, *was]):
        item, other = was.get(key), now.get(key)
        if item is None and other is not None:
            reason = f", reason: {clip(other.reason)}" if other.reason else ""
            yield f"+ {_edge_text(other, name)}, weight {other.weight:g}{reason}"
        elif other is None and item is not None:
            yield f"- {_edge_text(item, name)}"
        elif item is not None and other is not None:
            parts = [(part, getattr(item, part), getattr(other, part)) for part in ("weight", "created", "reason")]
            changed = [f"{part}: {_display(a)} -> {_display(b)}" for part, a, b in parts if a != b]
            if item.target != other.target:
                changed.append(f"written as {clip(item.target)} -> {clip(other.target)}")
            if changed:
                yield f"{_edge_text(other, name)}: {', '.join(changed)}"


def _edge_text(link: NoteLink, name: Name) -> str:
    """Return the line that names an edge: its type, and the title of its target."""
    return f"{link.edge.value} -> {clip(name(link.target) or link.target)}"


def _display(value: Any) -> str:
    """Return the value of a field on one line."""
    if value is None:
        return "(none)"
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return f"{value:g}" if isinstance(value, float) else clip(str(value)) or "(empty)"
