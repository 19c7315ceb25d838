"""Makes rows of the index of a file in a folder of the person: a note for each of its sections. Nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Final

from msgspec import Struct

from ormahd.ingest.documents.reading import Cleaned, read_document
from ormahd.ingest.documents.sections import Section
from ormahd.model.node import ABOUT_SELF, MAX_TAGS, MAX_TITLE, EdgeType
from ormahd.note.markdown import body_links, body_tags, normalise
from ormahd.note.read import parse
from ormahd.note.values import Note, NoteKind, NoteLink

SHORT: Final = 1_000
"""Maximum number of characters of a note that is one section, whatever headings it has."""


class ReadInPlace(Struct, frozen=True):
    """A file as it was read. `digest`: sha256 of its bytes; `notes`: path of a row (`SourceRow.path`) -> its note."""

    digest: str
    notes: dict[str, Note]


def read_in_place(
    file: Path, *, source: str, space: str | None, changed: datetime, id_of: Callable[[str], str], cleaned: Cleaned
) -> ReadInPlace:
    """Read a file and return a note for each section. A template or a drawing has none.

    `source`, `space`: of the notes; `changed`: the file's time of modification, which dates notes without a date;
    `id_of`: returns the id for a place (`Section.place`); `cleaned`: see `read_document`.

    Raises Unreadable.
    """
    found = read_document(file, "", cleaned)  # no place has the file's name, so that ids survive a new one
    stem = cleaned(file.stem)
    whole = parse(found.text.encode(), f"{stem}.md")
    if whole.kind is NoteKind.APART:
        return ReadInPlace(found.digest, {})
    name = (whole.title or stem)[:MAX_TITLE]
    sections = found.sections
    if found.kind == "markdown" and len(whole.content) <= SHORT:
        sections = [Section("", name, whole.content)]
    notes: dict[str, Note] = {}
    for number, one in enumerate(sections):
        text = normalise(one.text)
        heading = one.title.lstrip(", ")  # of a page of a PDF without a title
        same = name.casefold() in heading.casefold() or heading.casefold() in name.casefold()
        title = max(name, heading, key=len) if same else f"{name}: {heading}"
        path = f"{file}:{one.line}" if f"{file}:{one.line}" not in notes else f"{file}:{one.line}.{number + 1}"
        tags = [tag for tag in (*whole.tags, *body_tags(text)) if tag != ABOUT_SELF]
        links = [NoteLink(EdgeType.RELATED_TO, target, body=True) for target in body_links(text)]
        aliases = (stem, *whole.aliases) if number == 0 else ()
        notes[path] = Note(
            path, NoteKind.SOURCE, one.key, id=id_of(one.place), space=space, title=title[:MAX_TITLE],
            tags=tuple(dict.fromkeys(tags))[:MAX_TAGS], source=source, created=whole.created, updated=changed,
            aliases=tuple(dict.fromkeys(aliases)), links=tuple(links), content=text, everywhere=space is None,
        )  # fmt: skip
    return ReadInPlace(found.digest, notes)
