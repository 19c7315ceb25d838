"""Changing a note: only the lines that the change is about, then read again to see that it says what it should."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from ormahd.errors import InvalidNote
from ormahd.model.node import EdgeType, NodeType, Tier
from ormahd.note.body import body_change
from ormahd.note.editor import FIELDS, Editor, detail_of
from ormahd.note.fields import Wrong, as_utc, clean_tag, one_line
from ormahd.note.frontmatter import FrontmatterError
from ormahd.note.markdown import conflict_line, link_target, normalise
from ormahd.note.naming import file_title, folder_says
from ormahd.note.read import parse
from ormahd.note.splice import Unusual
from ormahd.note.values import DEFAULT_SOURCE, Note, NoteKind, NoteLink, edge_key
from ormahd.note.write import clean_link, unfit


def edit(
    data: bytes,
    path: str,
    *,
    set: Mapping[str, Any] = {},  # noqa: A002
    clear: Collection[str] = (),
    link: Sequence[NoteLink] = (),
    unlink: Sequence[tuple[EdgeType, str]] = (),
    content: str | None = None,
) -> bytes:
    """Change fields (FIELDS), edges and text of a note and nothing else; what has its value already stays untouched.

    `clear` takes a key out, so that its default holds; so does `set` with None, unless the default holds already.
    `space: null` is written where the folder would otherwise name a space; a space that is set takes `everywhere`
    (`global: true`) away. `link` adds an edge or replaces its weight, creation and reason; `unlink` takes the
    target as written or a short id, and leaves links in the body alone. `id` is for `doctor --fix` alone.
    Raises InvalidNote when the note is none that can be edited, or would no longer be one.
    """
    note = parse(data, path)
    if note.kind is not NoteKind.NOTE:
        problem = note.problems[0] if note.problems else None
        raise InvalidNote(f"{path} is left alone: {problem or 'it is not adopted yet'}",
                          hint=problem.mend if problem else None,
                          data={"path": path, "line": problem.line if problem else None})  # fmt: skip
    link = [clean_link(one) for one in link]
    wanted = {field: _value(field, value, path) for field, value in {**set, **dict.fromkeys(clear)}.items()}
    if wanted.get("space") is not None:
        wanted["everywhere"] = False
    changed = {field: value for field, value in wanted.items() if getattr(note, field) != value}
    try:
        editor = Editor(note, data.decode())
        for field in FIELDS:
            if field in clear:
                editor.clear(field)
            elif field in changed:
                unset = field == "title" and not set.get(field)  # from now on the file's name is its title
                editor.set(field, None if unset else changed[field])
        if link or unlink:
            editor.edges(link, [edge_key(edge, link_target(target)) for edge, target in unlink])
        if content is not None and normalise(content) != note.content:
            if conflict_line(normalise(content)):
                raise unfit(normalise(content))
            editor.splices.replace(*body_change(editor.block.text, editor.block.body, normalise(content)))
        result = editor.apply().encode()
    except UnicodeEncodeError as exc:
        raise unfit("") from exc
    except (Unusual, Wrong, FrontmatterError) as exc:
        raise _unsafe(path, str(exc)) from exc
    if result != data:
        _check(note, parse(result, path), changed, link, unlink, content)
    return result


def _value(field: str, value: Any, path: str) -> Any:
    """A field's value as `parse` would give it; None is its default."""
    if field not in FIELDS or (field == "id" and value is None):
        raise ValueError(f"{field!r} is no field of a note that can be set")
    if field == "everywhere":
        return bool(value)
    if field == "tags":
        return tuple(tag for tag in dict.fromkeys(clean_tag(tag) for tag in value or ()) if tag)
    if isinstance(value, datetime):
        return as_utc(value)
    if field == "outdated_reason":
        return value if value and value.strip() else None
    if field in {"title", "space", "source"}:
        value = one_line(value) if value else None
        return value or {"source": DEFAULT_SOURCE, "title": file_title(path)}.get(field)
    if value is None:
        defaults = {"type": folder_says(path)[0] or NodeType.FACT, "tier": Tier.WORKING, "confidence": 1.0}
        return defaults.get(field)
    return {"type": NodeType, "tier": Tier, "confidence": float}.get(field, lambda same: same)(value)


def _check(before: Note, after: Note, changed: Mapping[str, Any], link: Sequence[NoteLink],
           unlink: Sequence[tuple[EdgeType, str]], content: str | None) -> None:  # fmt: skip
    """The edit says what it should, and all else is as before; or nothing is changed."""
    if after.kind is not NoteKind.NOTE:
        problem = after.problems[0] if after.problems else None
        raise InvalidNote(f"{before.path} would no longer be a readable note: {problem.what if problem else after.kind}",
                          hint=problem.mend if problem else None, data={"path": before.path})  # fmt: skip
    expected = replace(before, **changed, digest=after.digest, links=after.links, problems=after.problems)
    if content is not None:
        expected = replace(expected, content=normalise(content))
    details = {one.key: detail_of(one) for one in before.links if not one.body}
    for edge, target in unlink:
        details.pop(edge_key(edge, link_target(target)), None)
    details.update((one.key, detail_of(one)) for one in link)
    if after != expected or details != {one.key: detail_of(one) for one in after.links if not one.body}:
        raise _unsafe(before.path, "its frontmatter is written in an unusual way")


def _unsafe(path: str, why: str) -> InvalidNote:
    return InvalidNote(f"{path} cannot be changed safely: {why}", hint="change it by hand", data={"path": path})
