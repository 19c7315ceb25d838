"""Watches folders of markdown files outside the vault, and keeps the memories made from these files up to date.

Nothing is ever written into such a folder.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pathspec

from ormahd import paths
from ormahd.actions.amend import Caller
from ormahd.ingest.bring_in import ours
from ormahd.ingest.documents.finding import hidden, walk_documents
from ormahd.ingest.documents.follow import cursor, follow, gone_from, let_go
from ormahd.ingest.documents.reading import MARKDOWN
from ormahd.ingest.folders import FolderSource, FolderWatch
from ormahd.ingest.sources import state_of
from ormahd.process import priority
from ormahd.state.sources import SourceLog

if TYPE_CHECKING:
    from ormahd.api import IngestedDocument
    from ormahd.ormah import Ormah

log = logging.getLogger("ormahd.ingest")

SOURCE: Final = "folder"
CALLER: Final = Caller("system:hippocampus")
EMPTIED: Final = "all its files are gone; their memories stay as they are"
OURS: Final = "it holds what Ormah writes, and is not watched"


class Hippocampus(FolderSource):
    """Watches the markdown files in the folders of the setting `hippocampus.folders`, and makes memories from their
    sections."""

    def __init__(self, ormah: Ormah) -> None:
        chosen = ormah.settings.hippocampus
        self._ormah = ormah
        self._log = SourceLog(ormah.state)
        self._ignored = pathspec.GitIgnoreSpec.from_lines(chosen.ignore)
        self._without = ours(ormah)
        named = [paths.expand(Path(one)).absolute() for one in chosen.folders]
        self._ours = [folder for folder in named if any(one in (folder, *folder.parents) for one in self._without)]
        self.folders = [folder for folder in named if folder not in self._ours]
        self.on = bool(named)
        self._missing: dict[str, str] = {}
        self._wrong: dict[str, str] = {}
        """Path of a file that cannot be read, or of a folder that lost all its files -> the reason, in words."""
        self._watch = FolderWatch("hippocampus", self.folders, self, quiet=chosen.quiet_seconds)

    def start(self) -> None:
        self._tell()
        if self.folders:
            self._watch.start()

    # ------------------------------------------------------------ the listener

    def wants(self, folder: Path, file: Path) -> bool:
        relative = file.relative_to(folder)
        return (
            file.name.lower().endswith(MARKDOWN)
            and not any(hidden(part) for part in relative.parts)
            and not self._ignored.match_file(relative.as_posix())
            and not any(one in file.parents for one in self._without)
        )

    def changed(self, folder: Path, file: Path) -> None:
        if not folder.is_dir():
            return  # the folder is gone, which the next check of the `FolderWatch` reports
        if file.is_file() and not file.is_symlink():
            self._read(file)
        else:
            self._gone(folder, [file])
        self._tell()

    def scan(self, folder: Path) -> None:
        files = [file for file in walk_documents(folder, self._without, MARKDOWN) if self.wants(folder, file)]
        for file in files:
            if self._watch.stopping:
                return
            priority.give()
            self._read(file)
        self._gone(folder, gone_from(self._ormah, folder, files), emptied=not files)
        self._tell()

    def troubled(self, wrong: dict[str, str]) -> None:
        self._missing = wrong
        self._tell()

    # ------------------------------------------------------------ files

    def _read(self, file: Path) -> None:
        """Change the memories made from a file so that they match it, unless the file has not changed since it was
        last read."""
        try:
            state = state_of(file)
        except OSError:
            return  # the file was deleted in the meantime
        if self._ormah.sessions.is_read(cursor(file), state):
            return
        out = follow(self._ormah, file, CALLER, read=file, dry_run=False, run=None)
        self._wrong.pop(str(file), None)
        if out.status == "failed" and out.error not in {"it is empty", "it has no section with text"}:
            self._wrong[str(file)] = out.error or "it cannot be read"
        elif out.status == "failed":  # the file has no text any more
            out = let_go(self._ormah, file, CALLER, run=None)
        self._count(out)
        self._ormah.sessions.have_read(cursor(file), state)

    def _gone(self, folder: Path, files: list[Path], *, emptied: bool = False) -> None:
        """Move the memories that were made from deleted files to the archive.

        Only files that this machine has read count, because other files may be on another machine of the person. If a
        folder has lost all its files at once (`emptied`), it may belong to a disk that is not mounted; the memories
        then stay as they are.
        """
        known = [file for file in files if not file.exists() and self._ormah.sessions.was_read(cursor(file))]
        self._wrong.pop(str(folder), None)
        if known and emptied and len(known) > 1:
            self._wrong[str(folder)] = EMPTIED
            return
        for file in known:
            self._wrong.pop(str(file), None)
            self._count(let_go(self._ormah, file, CALLER, run=None))
            self._ormah.sessions.forget_read(cursor(file))

    def _count(self, out: IngestedDocument) -> None:
        if out.op is None and out.status != "failed":
            return
        refused = {"refused: forgotten here": out.forgotten, "refused: edited here": out.kept}
        self._log.count(SOURCE, {"memories": out.added, "failed": int(out.status == "failed"), **refused})
        if out.op is not None:
            log.info("%s: %d memories added, %d updated, %d archived", out.path, out.added, out.updated, out.archived)

    def _tell(self) -> None:
        self._log.troubled(SOURCE, {**{str(folder): OURS for folder in self._ours}, **self._missing, **self._wrong})
