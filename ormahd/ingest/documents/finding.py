"""Finds the files at a path, and decides which of them hold conversations and which are documents."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from msgspec import Struct

from ormahd import paths
from ormahd.ingest.documents.reading import DOCUMENTS, MARKDOWN, PDF_MARK
from ormahd.ingest.readers import plain
from ormahd.ingest.readers.formats import format_of
from ormahd.ingest.sources import documents, walk

CONVERSATION: Final = "conversation"
DOCUMENT: Final = "document"
NOT_HERE: Final = frozenset({"node_modules", "__MACOSX", "__pycache__", "venv"})
"""Names of folders in which no documents are looked for. Folders whose names begin with a dot are skipped as well."""
HEAD: Final = 65_536


class FoundFiles(Struct, frozen=True):
    conversations: list[Path]
    documents: list[Path]


def divide(place: Path, kind: str, without: tuple[Path, ...]) -> FoundFiles:
    """Return the files at a path, divided into conversations and documents. `kind`: `conversation` or `document` if
    all files are of this kind, "" to decide by the content of each file. `without`: folders to leave out."""
    if not place.is_dir():
        kind = kind or kind_of(place)
        return FoundFiles([place] if kind == CONVERSATION else [], [place] if kind == DOCUMENT else [])
    talks = [] if kind == DOCUMENT else walk(place, without)
    texts = [] if kind == CONVERSATION or _of_agent(place) else list(walk_documents(place, without))
    if kind:
        return FoundFiles(talks, texts)
    both = {file: kind_of(file) for file in {*talks, *texts} if file.name.endswith(".txt") or file in texts}
    return FoundFiles(
        [file for file in talks if both.get(file) != DOCUMENT]
        + [file for file in texts if both[file] == CONVERSATION and file not in talks],
        [file for file in texts if both[file] == DOCUMENT],
    )


def walk_documents(folder: Path, without: Iterable[Path] = (), endings: tuple[str, ...] = DOCUMENTS) -> list[Path]:
    """Return the files in a folder that may be documents, judged by their names and sorted by path."""
    left_out = set(without)
    found = []
    for place, folders, names in os.walk(folder):
        here = Path(place)
        folders[:] = [name for name in folders if not hidden(name) and here / name not in left_out]
        for name in names:
            file = here / name
            if name.lower().endswith(endings) and not hidden(name) and not file.is_symlink() and file.is_file():
                found.append(file)
    return sorted(found)


def hidden(name: str) -> bool:
    return name.startswith(".") or name in NOT_HERE


def kind_of(file: Path) -> str:
    """Return `CONVERSATION` if a reader of transcripts knows the structure of a file, else `DOCUMENT`.

    JSON and zip files are always conversations. A markdown file is one only if it begins with a speaker such as
    `User:`. If a file cannot be opened, the ending of its name decides; its later readers get the error.
    """
    try:
        with documents(file) as found:
            for one in found:
                if one.member:
                    return CONVERSATION  # the file is a zip, thus an export
                head = one.stream.read(HEAD)
                one.stream.seek(0)
                if head.startswith(PDF_MARK):
                    return DOCUMENT
                name = format_of(one.stream)
                if name is None:
                    return CONVERSATION if _is_json(file, head) else DOCUMENT
                if name == plain.NAME and file.name.lower().endswith(MARKDOWN) and not _begins_with_speaker(head):
                    return DOCUMENT
                return CONVERSATION
    except OSError:
        return CONVERSATION if file.name.endswith((".zip", ".zst", ".jsonl", ".json")) else DOCUMENT
    return CONVERSATION


def _is_json(file: Path, head: bytes) -> bool:
    return file.name.endswith((".json", ".jsonl")) or head.lstrip()[:2] in {b'{"', b"[{"}


def _begins_with_speaker(head: bytes) -> bool:
    lines = head.decode("utf-8", "replace").splitlines()
    first = next((line for line in lines if line.strip() and not line.startswith("#")), "")
    return any(plain.SPEAKER.match(line) for line in (first, next((line for line in lines if line.strip()), "")))


def _of_agent(folder: Path) -> bool:
    """Return whether a folder is one in which an agent stores its transcripts, or is inside one. Text files in such a
    folder are no documents."""
    homes = [place for _, place in paths.transcript_folders()]
    return any(folder == home or home in folder.parents for home in homes)
