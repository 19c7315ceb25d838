"""Finds the files at a path, and decides which of them hold conversations and which are documents."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Final

from ormahd import paths
from ormahd.api import IngestPathParams, IngestPathResult
from ormahd.errors import BadRequest
from ormahd.ingest.bring_in import check_archiving, existing_path, own_folders, refuse_own_folders
from ormahd.ingest.documents.reading import DOCUMENTS, PDF_MARK, Unreadable, read_bytes
from ormahd.ingest.readers.formats import format_of
from ormahd.ingest.sources import ENDINGS, display_path, documents, session_files
from ormahd.ormah import Ormah
from ormahd.vault.excluded import conflicted_copy, json_setting

CONVERSATION: Final = "conversation"
DOCUMENT: Final = "document"
TEXT: Final = ".txt"
"""The ending of files of which the content decides what they are."""
NO_DOCUMENTS: Final = frozenset({"node_modules", "__MACOSX", "__pycache__", "venv"})
"""Names of folders in which no documents are looked for. Folders whose names begin with a dot are skipped as well."""
_COPY: Final = re.compile(
    r"(.+?)(?: ?\(\d{1,2}\)|(?: [-–])? \(?(?:copy|kopie|copie|copia)\)?(?: \(?\d{1,2}\)?)?)"
    r"|(?:copy of|kopie von|copie de|copia de) (.+)",
    re.IGNORECASE,
)
"""Matches the names that file managers give to copies."""
_NUMBERED: Final = re.compile(r"(.+?) \d{1,2}")


def find_files(ormah: Ormah, params: IngestPathParams) -> IngestPathResult:
    """Return the files at a path that hold conversations or are documents.

    Raises:
        BadRequest: there is nothing at this path; or it is in a folder of Ormah itself; or it has conversations while
            archiving is switched off.
    """
    place, kind, without = existing_path(params.path), params.kind, own_folders(ormah)
    if kind not in {"", CONVERSATION, DOCUMENT}:
        raise BadRequest(f"kind is {kind[:60]!r}", hint="conversation or document")
    refuse_own_folders(ormah, place)
    # All files that may be conversations (`talks`) or documents (`texts`).
    talks, texts = [place], [place]
    if place.is_dir():  # text files in a folder where an agent stores its transcripts are no documents
        of_agent = any(home in (place, *place.parents) for _, home in paths.transcript_folders())
        talks = [] if kind == DOCUMENT else session_files(place, without)
        texts = [] if kind == CONVERSATION or of_agent else walk_documents(place, without)

    # The kind decides which of the two a file is.
    if not kind or not place.is_dir():
        talks = [file for file in talks if (kind or kind_of(file)) == CONVERSATION]
        texts = [file for file in texts if (kind or kind_of(file)) == DOCUMENT]
    if talks:
        check_archiving(ormah)
    left_out = [str(folder) for folder in without if place in folder.parents and folder.exists()]
    left_out += [name for file in (*talks, *texts) if (name := display_path(file)) != str(file)]
    talks, texts = ([file for file in files if display_path(file) == str(file)] for files in (talks, texts))
    return IngestPathResult([str(file) for file in talks], [str(file) for file in texts], left_out)


def walk_documents(folder: Path, without: tuple[Path, ...]) -> list[Path]:
    """Return the files in a folder that may be documents, sorted by path: no links, no copies of other files, and none
    that the person excluded in Obsidian."""
    vault, excluded = _excluded_in_obsidian(folder)
    found: list[Path] = []
    for place, folders, names in os.walk(folder):
        parent = Path(place)
        folders[:] = [name for name in folders if not is_hidden(name) and parent / name not in without]
        files = [parent / name for name in names if name.lower().endswith(DOCUMENTS) and not is_hidden(name)]
        files = [file for file in files if not file.is_symlink() and file.is_file() and not _is_copy(file, names)]
        in_vault = {file: file.relative_to(vault).as_posix() for file in files}
        found += [file for file in files if not any(pattern.search(in_vault[file]) for pattern in excluded)]
    return sorted(found)


def _excluded_in_obsidian(folder: Path) -> tuple[Path, list[re.Pattern[str]]]:
    """Return (the Obsidian vault that a folder is or lies in, patterns of the paths that the vault's settings exclude).
    A setting is the beginning of a path, or a pattern between slashes. Without a vault: (the folder itself, no
    patterns)."""
    vault = next((place for place in (folder, *folder.parents) if (place / ".obsidian").is_dir()), folder)
    listed = json_setting(vault / ".obsidian/app.json", "userIgnoreFilters")
    patterns = []
    for rule in filter(None, map(str, listed if isinstance(listed, list) else ())):
        with suppress(re.error):
            pattern = rule[1:-1] if len(rule) > 2 and rule[0] == rule[-1] == "/" else f"^{re.escape(rule)}"
            patterns.append(re.compile(pattern, re.IGNORECASE))
    return vault, patterns


def _is_copy(file: Path, beside: Collection[str]) -> bool:
    """Return whether a file is a copy of a file in `beside`, judged by its name. A name with a number only, as in `Note
    2.md`, counts if most of the text is the same too."""
    original = conflicted_copy(file.name)
    if original is None and (found := _COPY.fullmatch(file.stem)) is not None:
        original = next(name for name in found.groups() if name) + file.suffix
    if original is not None or (numbered := _NUMBERED.fullmatch(file.stem)) is None:
        return original in beside
    original = numbered[1] + file.suffix
    try:
        texts = [read_bytes(path).splitlines() for path in (file, file.with_name(original))]
    except Unreadable:
        return False
    # The first line is the same, and so are more than half of the file's lines.
    same = texts[0][:1] == texts[1][:1] and len({*texts[0]} & {*texts[1]}) * 2 > len({*texts[0]})
    return original in beside and same


def is_hidden(name: str) -> bool:
    """Return whether a file or folder with this name is left out."""
    return name.startswith(".") or name in NO_DOCUMENTS


def kind_of(file: Path) -> str:
    """Return `CONVERSATION` or `DOCUMENT`, judged by the ending of the file's name. The content decides for a text and
    for any other ending: it is a conversation if a reader knows its format, or if it is JSON."""
    name = file.name.lower()
    if name.endswith((*DOCUMENTS, *ENDINGS)) and not name.endswith(TEXT):
        return DOCUMENT if name.endswith(DOCUMENTS) else CONVERSATION
    try:
        with documents(file) as found:
            document = next(found, None)
            if document is None or document.member:
                return CONVERSATION  # a zip, thus an export
            head = document.stream.read(100).lstrip()
            document.stream.seek(0)
            known = not head.startswith(PDF_MARK) and format_of(document.stream) is not None
            return CONVERSATION if known or head[:2] in {b'{"', b"[{"} else DOCUMENT
    except OSError:
        return DOCUMENT  # its reader says why it cannot be read
