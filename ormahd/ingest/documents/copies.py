"""Makes memories of the sections of a document, once: plain copies, which do not follow the file."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

from msgspec import UnsetType

from ormahd.actions import projects
from ormahd.actions.amend import Caller, clean, outcome, transaction
from ormahd.api import IngestDocumentParams, IngestedDocument
from ormahd.ingest.bring_in import existing_path, refuse_own_folders
from ormahd.ingest.documents.reading import Unreadable, read_document
from ormahd.ingest.documents.sections import Section
from ormahd.model.change import Kind
from ormahd.model.node import NodeType, Tier, short_id
from ormahd.note.markdown import normalise
from ormahd.note.values import path_for
from ormahd.note.write import compose
from ormahd.ormah import Ormah
from ormahd.process import priority
from ormahd.state.sources import SourceLog

STEP: Final = 128
"""Number of texts that are embedded at once."""


def ingest_document(ormah: Ormah, params: IngestDocumentParams, caller: Caller) -> IngestedDocument:
    """Store each section of a file as a memory, in one commit, except those that are known. Return the result, which
    also says why the file could not be read.

    Raises:
        BadRequest: there is nothing at this path, or it is in a folder of Ormah itself.
    """
    # Read the document.
    read = existing_path(params.path)
    refuse_own_folders(ormah, read)
    path, space = None if params.unnamed else read, params.space
    out = IngestedDocument(str(path) if path else "-", run=params.run or ormah.new_run())
    name = path.stem if path else "A text"
    redacted: list[str] = []
    try:
        name = clean(ormah, name, redacted) or name
        found = read_document(read, name, lambda text: clean(ormah, text, redacted) or "")
    except Unreadable as error:
        out.status, out.error = "failed", str(error)
        return out
    out.redacted = dict(Counter(redacted))

    # Store the sections that are new in the space of the file's project.
    if isinstance(space, UnsetType):
        space = projects.settle(ormah, Caller("system:files", str(path.parent))) if path is not None else None
    new: dict[str, Section] = {}
    for section in (Section(section.place, section.title, normalise(section.text)) for section in found.sections):
        if section.key in new or ormah.index.find_equal(space, NodeType.FACT, section.title, section.text) is not None:
            out.known += 1
        else:
            new[section.key] = section
    out.sections, out.added = len(found.sections), len(new)
    if new:
        _commit_sections(ormah, path, list(new.values()), caller, space, out)
    SourceLog(ormah.state).brought("ingest", 0)
    return out


def _commit_sections(
    ormah: Ormah, path: Path | None, new: list[Section], caller: Caller, space: str | None, out: IngestedDocument
) -> None:
    """Commit a memory for each of the sections `new`, and set `out.commit`. `path`: the file; None: a text without a
    path."""
    # Embed the texts in batches before the commit, so that the index need not embed them one by one.
    for at in priority.giving(range(0, len(new), STEP)):
        ormah.index.embed_ahead([(section.title, section.text) for section in new[at : at + STEP]], urgent=False)

    # One commit with a note for each section.
    now, taken = ormah.moment(), set[str]()
    subject = f"Ingest {path.name if path else 'a text'}: {len(new)} added"
    body = "\n".join(section.title for section in new[:100])
    with transaction(ormah, subject, kind=Kind.INGEST, caller=caller, body=body, run=out.run) as tx:
        for section in priority.giving(new):
            node_id = ormah.index.new_id(taken)
            taken.add(short_id(node_id))
            data = compose(
                id=node_id,
                type=NodeType.FACT,
                tier=Tier.WORKING,
                space=space,
                title=section.title,
                tags=[],
                source=f"file:{path.name if path else '-'}",
                confidence=1.0,
                created=now,
                updated=now,
                content=section.text,
            )
            place = path_for(
                id=node_id, type=NodeType.FACT, space=space, title=section.title, content=section.text, created=now
            )
            tx.put(place, data, node_id=node_id, expect=None)
    out.commit = outcome(tx).commit
