"""The watcher: watches the folders of transcripts, to archive sessions that no hook reports."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ormahd import paths
from ormahd.ingest.bring_in import ours
from ormahd.ingest.folders import FolderSource, FolderWatch
from ormahd.ingest.sources import is_session_file, walk
from ormahd.state.sources import SourceLog

if TYPE_CHECKING:
    from ormahd.ormah import Ormah

SOURCE: Final = "watcher"
LOOKBACK_S: Final = 72 * 3600.0
"""Age in seconds of the transcripts that are read at the start. `ormahctl ingest --backfill` reads older ones."""


class SessionWatcher(FolderSource):
    """Watches the folders of transcripts, if the setting `sessions.watch` is on, and has changed transcripts read."""

    def __init__(self, ormah: Ormah, read: Callable[[Path], None]) -> None:
        """`read` (`Capture.read`) is called with each transcript that is to be read, and only queues it."""
        chosen = ormah.settings.sessions
        self._ormah = ormah
        self._read = read
        self._log = SourceLog(ormah.state)
        self.on = chosen.watch and chosen.keep
        named = [paths.expand(Path(one)) for one in chosen.folders]
        self.folders = named or [folder for _, folder in paths.transcript_folders()]
        self._since = time.time() - LOOKBACK_S
        self._without = ours(ormah)
        self._watch = FolderWatch("session-watcher", self.folders, self, quiet=chosen.quiet_seconds, optional=not named)

    def start(self) -> None:
        if self.on:
            self._watch.start()
        else:
            self._log.troubled(SOURCE, {})

    def wants(self, folder: Path, file: Path) -> bool:
        return is_session_file(file.relative_to(folder)) and not any(
            one == file or one in file.parents for one in self._without
        )

    def changed(self, folder: Path, file: Path) -> None:  # noqa: ARG002 - a folder of documents needs it
        if file.is_file() and not file.is_symlink():
            self._read(file)

    def scan(self, folder: Path) -> None:
        for file in reversed(walk(folder, self._without)):  # newest first
            if self._watch.stopping:
                return
            try:
                recent = file.stat().st_mtime >= self._since
            except OSError:
                continue  # the file was deleted in the meantime
            if recent and self.wants(folder, file):
                self._read(file)

    def troubled(self, wrong: dict[str, str]) -> None:
        self._log.troubled(SOURCE, wrong)
