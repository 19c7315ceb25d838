"""The part of `ormahctl ingest` that is about documents: text, markdown and PDF files, whose sections become memories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import UNSET, UnsetType

from ormahctl import render
from ormahctl.render import Bar
from ormahctl.session import Session
from ormahd.api import IngestDocumentParams, IngestedDocument
from ormahd.rpc.wire import BadRequest

LONG_SECONDS = 3600.0
SHOWN = 10
CHANGES = {
    "added": ("added", "would be added"),
    "updated": ("updated", "would be updated"),
    "archived": ("archived: gone from the file", "would be archived: gone from the file"),
    "restored": ("restored: back in the file", "would be restored: back in the file"),
    "moved": ("kept: the file was renamed", "would be kept: the file was renamed"),
}
REST = {
    "same": "unchanged",
    "kept": "not followed, because you edited the memory",
    "forgotten": "not added, because you took this text away before",
    "known": "known already",
}
COUNTS = (*CHANGES, *REST)


def ingested(
    session: Session,
    files: Sequence[IngestedDocument],
    bar: Bar,
    *,
    unnamed: bool,
    space: str | UnsetType | None = UNSET,
) -> Iterator[IngestedDocument]:
    """Ingest documents one after the other, as one run, and yield what became of each."""
    run: str | None = None
    for number, file in enumerate(files):
        bar.set(number, len(files), Path(file.path).name)
        params = IngestDocumentParams(path=file.path, unnamed=unnamed, space=space, run=run)
        try:
            done = session.client.call("ingest.file", params, IngestedDocument, timeout=LONG_SECONDS)
        except BadRequest as error:
            if Path(file.path).exists():
                raise
            done = IngestedDocument(file.path, "failed", error=error.message)
        run = done.run or run
        yield done


def sums(files: Sequence[IngestedDocument]) -> dict[str, int]:
    return {name: sum(getattr(file, name) for file in files) for name in ("sections", *COUNTS)}


def report(files: Sequence[IngestedDocument], *, dry_run: bool) -> None:
    """Print what became of the sections of documents, or would."""
    counted = sums(files)
    read = [file for file in files if file.status == "read"]
    if read:
        render.out(f"{render.count(counted['sections'], 'section')} of {render.count(len(read), 'document')}")
    for name, said in CHANGES.items():
        if counted[name]:
            render.out(f"  {render.count(counted[name], 'memory', 'memories')} {said[dry_run]}")
    for name, why in REST.items():
        if counted[name]:
            render.out(f"  {render.count(counted[name], 'section')} {why}")
    notes(files)
    runs = {file.run for file in files if file.op}
    if not dry_run and len(runs) == 1:
        (only,) = [file for file in files if file.op][:1]
        many = sum(file.op is not None for file in files) > 1
        back = f"ormahctl undo --run {only.run}" if many else f"ormahctl undo {(only.commit or only.op or '')[:8]}"
        render.out(f"  to take it back: {back}")


def notes(files: Sequence[IngestedDocument]) -> None:
    """Print what a person has to know: redacted secrets, memories that no longer follow, files that failed."""
    redacted: Counter[str] = Counter()
    for file in files:
        redacted.update(file.redacted)
    if redacted:
        listed = ", ".join(f"{render.line(kind)} ({number:,})" for kind, number in sorted(redacted.items()))
        render.note(f"taken out before anything was kept: {listed}", label="secret", colour="red")
    for title in [title for file in files for title in file.kept_titles][:SHOWN]:
        render.note(
            f"“{render.line(title)}” stays as you edited it; forget it, and its section comes anew once it changes"
        )
    bad = [file for file in files if file.status == "failed"]
    for file in bad[:SHOWN]:
        render.note(render.line(file.error or "it could not be read"), label=render.line(file.path), colour="red")
    if len(bad) > SHOWN:
        render.note(f"and {len(bad) - SHOWN:,} more; all of them: ormahctl --json ingest …")
