"""Reads a file or folder that a person named. Conversations are archived; sections of documents become memories."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ormahd.actions.amend import Caller
from ormahd.api import IngestDocumentParams, IngestedDocument, IngestedFile, IngestPathParams, IngestPathResult
from ormahd.errors import BadRequest
from ormahd.ingest.bring_in import Progress, Propose, look, named, ours, refuse_ours
from ormahd.ingest.documents.copies import copy_document
from ormahd.ingest.documents.finding import CONVERSATION, DOCUMENT, divide
from ormahd.state.sources import SourceLog

if TYPE_CHECKING:
    from ormahd.ingest.bring_in import Touched
    from ormahd.ormah import Ormah


def look_at(
    ormah: Ormah, params: IngestPathParams, caller: Caller, *, progress: Progress, propose: Propose,
    foreseen: Callable[[IngestedFile, Touched], None],
) -> IngestPathResult:  # fmt: skip
    """Return the files at a path that hold conversations or are documents. With `dry_run`, also return what ingesting
    each of them would do. `propose`, `foreseen`: as for `look`.

    Raises:
        BadRequest: there is nothing at this path; or it is in a folder of Ormah itself; or it has conversations while
            archiving is switched off.
    """
    place = named(params.path)
    if params.kind not in {"", CONVERSATION, DOCUMENT}:
        raise BadRequest(f"kind is {params.kind[:60]!r}", hint="conversation or document")
    refuse_ours(ormah, place)
    found = divide(place, params.kind, ours(ormah))
    talks = look(
        ormah,
        params.path,
        dry_run=params.dry_run,
        progress=progress,
        propose=propose,
        foreseen=foreseen,
        files=found.conversations,
    )
    documents: list[IngestedDocument] = []
    for number, file in enumerate(found.documents):
        progress(number, len(found.documents), file.name)
        if not params.dry_run:
            documents.append(IngestedDocument(str(file)))
            continue
        documents.append(
            copy_document(
                ormah, None if params.unnamed else file, caller, read=file, space=params.space, dry_run=True, run=None
            )
        )
    left_out = [str(one) for one in ours(ormah) if place in one.parents and one.exists()]
    return IngestPathResult(talks.files, documents, left_out)


def ingest_document(ormah: Ormah, params: IngestDocumentParams, caller: Caller) -> IngestedDocument:
    """Store the sections of a document as memories.

    Raises:
        BadRequest: there is nothing at this path, or it is in a folder of Ormah itself.
    """
    file = named(params.path)
    refuse_ours(ormah, file)
    out = copy_document(
        ormah, None if params.unnamed else file, caller, read=file, space=params.space, dry_run=False,
        run=params.run,
    )  # fmt: skip
    counted = {"memories": out.added, "failed": int(out.status == "failed")}
    SourceLog(ormah.state).count("ingest", counted)
    return out
