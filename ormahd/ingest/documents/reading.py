"""Reads a document, and returns its sections. The content of the file decides whether it is a PDF or text."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from ormahd.ingest.documents.sections import MAX_SECTIONS, Section, make_sections, plain_heading, sections
from ormahd.ingest.documents.web_page import is_page, markdown_of
from ormahd.note.markdown import conflict_line
from ormahd.process.own_files import open_regular
from ormahd.text.harness import strip

LARGEST: Final = 10_000_000
"""Maximum size of a text document in bytes."""
LARGEST_PDF: Final = 100_000_000
PDF_SECONDS: Final = 120.0
PDF_MARK: Final = b"%PDF-"
DOCUMENTS: Final = (".md", ".markdown", ".txt", ".pdf")
"""Endings of the files in a folder that may be documents. A file that a person names may have any ending."""
MARKDOWN: Final = (".md", ".markdown")
_STRANGE: Final = 0.01
"""Largest share of undecodable characters with which a file still counts as text."""


class Unreadable(Exception):
    """Raised if a file cannot be read as a document. The message says why, in words for people."""


class OpenedDocument(Struct, frozen=True):
    """A document that was read. `kind`: `markdown` (any text) or `pdf`; `digest`: sha256 of its bytes; `text`: all of a
    text, cleaned."""

    kind: str
    sections: list[Section]
    digest: str
    text: str = ""


Cleaned = Callable[[str], str]
"""A function that returns a text with secrets redacted. It is called with the text as it is in the file: once marks of
markdown are removed, a secret might no longer be recognised."""


def read_document(path: Path, name: str, cleaned: Cleaned = str) -> OpenedDocument:
    """Read a file, and return its sections. `name`: the title to use if the document has none. `cleaned`: redacts
    secrets in a text.

    Raises:
        Unreadable: the file cannot be read, or is no document.
    """
    data = read_bytes(path)
    digest = hashlib.sha256(data).hexdigest()
    if data.startswith(PDF_MARK):
        found = OpenedDocument("pdf", _pdf_sections(path, name, cleaned), digest)
    else:
        text, title = _decoded_text(data), ""
        if is_page(text):
            text, title = markdown_of(text)
        text = cleaned(strip(text))
        found = OpenedDocument("markdown", sections(text, cleaned(title) or name), digest, text)
    if not found.sections:
        raise Unreadable("it is empty" if not data.strip() else "it has no section with text")
    if len(found.sections) > MAX_SECTIONS:
        raise Unreadable(f"it has {len(found.sections):,} sections; a document has at most {MAX_SECTIONS:,}")
    return found


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a regular file. Raises Unreadable, also if it is too large for a document."""
    try:
        with open_regular(path) as opened:
            begin = opened.read(len(PDF_MARK))
            limit = LARGEST_PDF if begin == PDF_MARK else LARGEST
            size = os.fstat(opened.fileno()).st_size
            if size > limit:
                raise Unreadable(f"it has {size / 1e6:,.0f} MB; a document has at most {limit // 1_000_000}")
            return begin + opened.read(limit)
    except OSError as error:
        raise Unreadable(error.strerror or str(error)) from error


def _decoded_text(data: bytes) -> str:
    """Decode a text in UTF-8 or UTF-16. Raises Unreadable if it is none, or has conflict markers of git."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        text = data.decode("utf-16", "replace")
    elif b"\0" in data[:65_536]:
        raise Unreadable("it is no text; text, markdown, HTML, PDF and sessions of agents are read")
    else:
        text = data.decode("utf-8", "replace")
    text = text.replace("\0", "")
    if text.count("\ufffd") > _STRANGE * max(len(text), 1):
        raise Unreadable("it is no text in UTF-8")
    if conflict_line(text):
        raise Unreadable("it has git's conflict markers")
    return text


def _pdf_sections(path: Path, name: str, cleaned: Cleaned) -> list[Section]:
    """Return the sections of a PDF: one for each entry of its outline if it has several, else one for each page."""
    found = _pdf_content(path)
    pages = [cleaned(page) for page in found["pages"]]
    title = plain_heading(cleaned(found["title"])) or name
    outline = [(page, str(heading)) for heading, page in found["outline"] if isinstance(page, int)]
    begins = sorted({(page, plain_heading(cleaned(heading))) for page, heading in outline if 0 <= page < len(pages)})
    if len(begins) < 2:
        many = len(pages) > 1
        titles = [f"{title}, page {number}" if many else title for number in range(1, len(pages) + 1)]
        return make_sections([((titles[at],), page, at + 1) for at, page in enumerate(pages)])
    parts: list[tuple[tuple[str, ...], str, int]] = [((title,), "\n\n".join(pages[: begins[0][0]]), 1)]
    for at, (page, heading) in enumerate(begins):
        end = begins[at + 1][0] if at + 1 < len(begins) else len(pages)
        parts.append(((title, heading or f"page {page + 1}"), "\n\n".join(pages[page : max(end, page + 1)]), page + 1))
    return make_sections(parts)


def _pdf_content(path: Path) -> dict[str, Any]:
    """Return what `pdf_text.py` found in a PDF: its pages, outline and title. Raises Unreadable."""
    command = [sys.executable, "-P", str(Path(__file__).with_name("pdf_text.py")), str(path)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=PDF_SECONDS, check=False, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired as error:
        raise Unreadable(f"it could not be read within {PDF_SECONDS:.0f} s") from error
    try:
        found: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        raise Unreadable(f"it cannot be read as a PDF (the reader ended with status {done.returncode})") from None
    if "error" in found:
        raise Unreadable(str(found["error"]))
    return found
