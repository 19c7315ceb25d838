"""Remove what is stored about a memory outside of the history: files below `.ormah`, the index, the state, the log."""

from __future__ import annotations

import base64
import logging
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ormahd.api import PurgeLeft

if TYPE_CHECKING:
    from ormahd.note.forgetting import Forgotten
    from ormahd.ormah import Ormah

BESIDE = (".ormah/conflicts/", ".ormah/tmp/", ".ormah/intent/")
"""Folders of the vault that git does not track: versions that were set aside, temporary files, intents."""
LARGEST = 50_000_000
"""Maximum number of bytes of a file that is searched."""
_BASE64 = re.compile(rb"[A-Za-z0-9+/]{16,}={0,2}")

log = logging.getLogger("ormah")


def everywhere(ormah: Ormah, forgotten: Forgotten) -> list[PurgeLeft]:
    """Return all files below the vault that name the memory or contain a line of it, except git's objects (checked
    separately)."""
    found = []
    for path, file in _files(ormah.vault.root):
        try:
            if file.stat().st_size > LARGEST:
                continue
            data = file.read_bytes()
        except OSError as exc:
            found.append(PurgeLeft(path, f"cannot be read: {exc.strerror}"))
            continue
        if forgotten.mentions(data) or forgotten.mentions(os.fsencode(path)):
            found.append(PurgeLeft(path, "names it; it is not in the history, and is left alone"))
        elif forgotten.echoes(data):
            found.append(PurgeLeft(path, "has a line of it; it is another memory or file", echo=True))
    return found


def _files(root: Path) -> Iterator[tuple[str, Path]]:
    for folder, names, files in os.walk(root):
        here = Path(folder)
        inside = here.relative_to(root).as_posix()
        if inside == ".git":
            names[:] = [name for name in names if name not in {"objects", "ormah-purge", "modules", "lfs"}]
        for name in files:
            file = here / name
            if file.is_file() and not file.is_symlink():
                yield file.relative_to(root).as_posix(), file


def clean_beside(ormah: Ormah, forgotten: Forgotten) -> None:
    """Clean the files in `BESIDE`: delete versions of the note, and overwrite mentions of the memory in other files."""
    root = ormah.vault.root
    for place in BESIDE:
        for file in sorted((root / place).rglob("*")):
            if not file.is_file() or file.is_symlink():
                continue
            path, data = file.relative_to(root).as_posix(), file.read_bytes()
            if forgotten.mentions(os.fsencode(path)) or forgotten.is_note(data, path) or _promises(forgotten, data):
                file.unlink()
                log.info("a version that was set aside was purged with its memory")
            elif forgotten.mentions(data):
                file.write_bytes(forgotten.without(path, data))


def _promises(forgotten: Forgotten, data: bytes) -> bool:
    """Whether an intent, damaged or not, mentions the memory; intents hold bytes in base64."""
    if b'"steps"' not in data:
        return False
    pieces = (piece[: len(piece) // 4 * 4] for piece in _BASE64.findall(data))
    return any(forgotten.mentions(base64.b64decode(piece, validate=False)) for piece in pieces)


def clean_derived(ormah: Ormah, forgotten: Forgotten) -> None:
    """Clean the index, the state and the log, including pages that SQLite has freed."""

    def holds(data: bytes) -> bool:
        return (
            forgotten.mentions(data) > 0
            or forgotten.echoes(data)
            or (len(data) < LARGEST and forgotten.quoted(data.decode("utf-8", "replace")))
        )

    ormah.pasts.drop()
    ormah.state.scour(holds)
    ormah.index.scour()
    ormah.warnings = [text for text in ormah.warnings if not holds(text.encode("utf-8", "replace"))]
    for file in ormah.state.path.parent.glob("ormahd.log*"):
        _mask(file, holds)


def _mask(file: Path, holds: Callable[[bytes], bool]) -> None:
    """Overwrite lines of a log in place, because the log handler has the file open and appends at its end."""
    with open(file, "r+b") as opened:
        at = 0
        for line in opened.read().splitlines(keepends=True):
            if holds(line):
                words = line.rstrip(b"\r\n")
                opened.seek(at)
                opened.write(b"(purged)".ljust(len(words))[: len(words)])
            at += len(line)
