"""The watcher: watches the folders of transcripts, to archive sessions that no hook reports."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ormahd import paths
from ormahd.ingest.bring_in import ours
from ormahd.ingest.sources import is_session_file, walk
from ormahd.ormah import Ormah
from ormahd.state.sources import SourceLog
from ormahd.watch.watcher import FolderWatch, resting

SOURCE: Final = "watcher"
LOOKBACK_S: Final = 72 * 3600.0
"""Age in seconds of the transcripts that are read at the start. `ormahctl ingest --backfill` reads older ones."""


class SessionWatcher:
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
        self._quiet = chosen.quiet_seconds
        self._watch = FolderWatch("session-watcher", self.folders, self, quiet=self._quiet, optional=not named)

    def start(self) -> None:
        if self.on:
            self._watch.start()
        else:
            self._log.troubled(SOURCE, {})

    def stop(self, seconds: float) -> bool:
        return self._watch.stop(seconds)

    def wants(self, folder: Path, path: Path, is_folder: bool = False) -> bool:
        wanted = is_folder or is_session_file(path.relative_to(folder))
        return wanted and not any(one == path or one in path.parents for one in self._without)

    def scan(self, folder: Path) -> float | None:
        written = False
        for file in reversed(walk(folder, self._without)):  # newest first
            if self._watch.stopping:
                return None
            try:
                changed = file.stat().st_mtime
            except OSError:
                continue  # the file was deleted in the meantime
            if changed < self._since or not self.wants(folder, file):
                continue
            if resting(changed, self._quiet):
                self._read(file)
            else:
                written = True
        return self._quiet if written else None

    def troubled(self, wrong: dict[str, str]) -> None:
        self._log.troubled(SOURCE, wrong)
