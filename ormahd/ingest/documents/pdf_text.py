"""`python -P pdf_text.py FILE`: print the text of a PDF as JSON. A process of its own, because a
PDF may be hostile.

It prints `{"pages": [text, ...], "outline": [[title, page from 0], ...], "title": ...}`, or `{"error": why}`.
"""

from __future__ import annotations

import contextlib
import json
import logging
import resource
import sys
from typing import Any, Final

MEMORY: Final = 2 << 30
"""Maximum address space of the process in bytes."""
PAGES: Final = 5_000


def read(file: str) -> dict[str, Any]:
    """Read a PDF. Return the object that this program prints as JSON: the pages, outline and title, or an error."""
    from pypdf import PdfReader
    from pypdf.errors import PyPdfError

    # Read the pages, the outline and the title.
    logging.disable(logging.CRITICAL)  # the library logs every fault of a file
    try:
        reader = PdfReader(file, strict=False)
        if reader.is_encrypted and not reader.decrypt(""):
            return {"error": "it is encrypted: save a copy without a password"}
        pages = [page.extract_text() or "" for page in reader.pages[:PAGES]]
        outline: list[list[Any]] = []
        with contextlib.suppress(Exception):  # the outline is optional, and often broken
            outline = [
                [entry.title, reader.get_destination_page_number(entry)]
                for entry in reader.outline
                if not isinstance(entry, list)
            ]
        title = (reader.metadata.title if reader.metadata else None) or ""
    except MemoryError:
        return {"error": "it needs too much memory"}
    except (
        PyPdfError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        IndexError,
        OSError,
        RecursionError,
        NotImplementedError,
    ) as error:
        return {"error": f"it cannot be read as a PDF: {' '.join(str(error).split())[:200] or type(error).__name__}"}

    # A scan has pages without text.
    if not any(page.strip() for page in pages):
        return {"error": "it has no text: it may be a scan, which needs text recognition first"}
    return {"pages": pages, "outline": outline, "title": title if isinstance(title, str) else ""}


if __name__ == "__main__":
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    json.dump(read(sys.argv[1]), sys.stdout)
