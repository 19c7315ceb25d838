"""Makes rows of the index of a file in a folder of the person: a note for each of its sections. Nothing is written."""

from __future__ import annotations

import uuid
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Final

from ormahd.errors import Ambiguous
from ormahd.index.index import Index
from ormahd.ingest.documents.reading import Cleaned, read_document
from ormahd.ingest.documents.sections import Section
from ormahd.model.node import ABOUT_SELF, MAX_TAGS, MAX_TITLE, EdgeType, short_id
from ormahd.note.markdown import body_links, body_tags, normalise
from ormahd.note.read import parse
from ormahd.note.values import Note, NoteKind, NoteLink

IDS: Final = uuid.UUID("6f726d61-6820-4b69-a463-650000000002")
"""UUID namespace of the ids of sections."""
SHORT: Final = 1_000
"""Maximum number of characters of a note that is one section, whatever headings it has."""


def read_in_place(
    file: Path, *, source: str, space: str | None, changed: datetime, origin: str, index: Index, cleaned: Cleaned
) -> tuple[str, dict[str, Note]]:
    """Read a file, and return (sha256 of its bytes, path of a row (`SourceRow.path`) -> note for a section). A template
    or a drawing has no notes.

    `source`, `space`: values of the notes; `changed`: the file's time of modification; `origin`: the path of which the
    ids are made; `index`: has the other memories; `cleaned`: see `read_document`.

    Raises Unreadable.
    """
    found = read_document(file, "", cleaned)  # no place has the file's name, so that ids survive a new one
    stem = cleaned(file.stem)
    whole = parse(found.text.encode(), f"{stem}.md")
    if whole.kind is NoteKind.APART:
        return found.digest, {}

    # A short note is one section, whatever headings it has.
    name = (whole.title or stem)[:MAX_TITLE]
    sections = found.sections
    if found.kind == "markdown" and len(whole.content) <= SHORT:
        sections = [Section("", name, whole.content)]

    # A note for each section. Its title has the file's title and the section's heading, unless one contains the other.
    notes: dict[str, Note] = {}
    for number, section in enumerate(sections):
        text = normalise(section.text)
        heading = section.title.lstrip(", ")  # of a page of a PDF without a title
        same = name.casefold() in heading.casefold() or heading.casefold() in name.casefold()
        title = max(name, heading, key=len) if same else f"{name}: {heading}"
        path = f"{file}:{section.line}"
        path += f".{number + 1}" if path in notes else ""
        tags = [tag for tag in (*whole.tags, *body_tags(text)) if tag != ABOUT_SELF]
        links = [NoteLink(EdgeType.RELATED_TO, target, body=True) for target in body_links(text)]
        aliases = (stem, *whole.aliases) if number == 0 else ()
        notes[path] = Note(
            path=path,
            kind=NoteKind.SOURCE,
            digest=section.key,
            id=_section_id(index, origin, section.place),
            space=space,
            title=title[:MAX_TITLE],
            tags=tuple(dict.fromkeys(tags))[:MAX_TAGS],
            source=source,
            created=whole.created,
            updated=changed,
            aliases=tuple(dict.fromkeys(aliases)),
            links=tuple(links),
            content=text,
            everywhere=space is None,
        )
    return found.digest, notes


def _section_id(index: Index, origin: str, place: str) -> str:
    """Return the id of the section with these headings (`place`), made of `origin`. Its short id is never that of
    another memory."""
    for attempt in count():
        made = str(uuid.uuid5(IDS, f"{origin}\0{place}" + (f"\0{attempt}" if attempt else "")))
        try:
            if index.find_short(short_id(made)) in {None, made}:
                return made
        except Ambiguous:
            continue
    raise AssertionError("the loop has no end")
