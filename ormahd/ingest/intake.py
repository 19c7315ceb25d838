"""Builds and connects all sources by which memories come in by themselves, and reports their state for `status`.

The sources are hooks, the watcher of transcripts, the backfill, and folders of the person that are found in place.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from ormahd.api import Finding, SourceHealth, SourceTrouble
from ormahd.ingest.backfill import Backfill
from ormahd.ingest.bring_in import KINDS
from ormahd.ingest.capture import Capture, SessionWatcher
from ormahd.ingest.extraction import Extraction
from ormahd.ingest.readers.formats import READERS, unknown_kinds
from ormahd.ingest.source_folders import SourceFolders
from ormahd.ormah import Ormah
from ormahd.state.sources import SOURCES, SourceLog


class Intake:
    """Starts and stops all sources of one vault. `start` starts the archiving that hooks ask for, `watch` starts the
    other sources, `stop` stops them all."""

    def __init__(
        self, ormah: Ormah, first: Callable[[], None] = lambda: None, extraction: Extraction | None = None
    ) -> None:
        """`first`: see `Capture`. `extraction`: finds memories in sessions; None: one without a judge is made."""
        self._ormah = ormah
        self._log = SourceLog(ormah.state)
        self.extraction = extraction or Extraction(ormah)
        self.capture = Capture(ormah, first, self.extraction)
        self.backfill = Backfill(ormah, self.extraction)
        self.watcher = SessionWatcher(ormah, self.capture)
        self.sources = SourceFolders(ormah)
        self._stopping = threading.Event()

    def start(self) -> None:
        """Start archiving the sessions that hooks report."""
        self.capture.start()

    def watch(self) -> None:
        """Start all sources except the hooks. To be called once the daemon is ready, because none of these sources is
        urgent."""
        if not self._stopping.is_set():
            self.watcher.start()
            self.sources.start()
            self.backfill.resume()
            self.extraction.start()

    def stop(self, seconds: float) -> bool:
        """Stop all sources, and wait up to `seconds` for each. Return False if one of them still runs after that."""
        self._stopping.set()
        parts = (self.extraction.stop, self.backfill.close, self.sources.stop, self.watcher.stop, self.capture.stop)
        stopped = [stop(seconds) for stop in parts]
        return all(stopped)

    # ------------------------------------------------------------ what people see

    def health(self) -> list[SourceHealth]:
        """Return the state of each source that is switched on, brought something, or has trouble."""
        found = []
        for source in SOURCES:
            on, state, waiting = self._state(source)
            last, turns = self._log.came(source)
            wrong = [SourceTrouble(trouble.path, trouble.why, trouble.since) for trouble in self._log.troubles(source)]
            if on or last or wrong:
                found.append(SourceHealth(source, on, state, last, turns, waiting, wrong))
        return found

    def _state(self, source: str) -> tuple[bool, str, int]:
        """Return (whether a source is on, what it does in words, number of files that wait to be read)."""
        keeps = self._ormah.settings.sessions.keep
        if source == "hook":
            return keeps, "listening" if keeps else "off: sessions.keep", self.capture.waiting("hook")
        if source == "watcher":
            return self.watcher.on, "watching" if self.watcher.on else "off", self.capture.waiting("watcher")
        if source == "backfill":
            now = self.backfill.state()
            return now.running, "at work" if now.running else "done", max(0, now.total - now.done)
        return False, "on request", 0

    def findings(self) -> list[Finding]:
        """Return what `status` should tell the person: which folders cannot be read, which kinds of records no reader
        knows, and that a judge should read sessions but is not configured."""
        found = []
        for trouble in [trouble for source in (*SOURCES, "sources") for trouble in self._log.troubles(source)]:
            what = f"{trouble.path} cannot be watched since {trouble.since[:16]}: {trouble.why}"
            mend = "make it readable, or take it out of the settings; it is tried again by itself"
            found.append(Finding("warning", what, mend=mend))
        for program in READERS:
            if new := unknown_kinds(program, self._log.value(program, KINDS) or ()):
                what = f"{program} writes records of kinds that this version does not know: {', '.join(new)}"
                mend = "words of yours in them are not archived; update Ormah, or report these names"
                found.append(Finding("info", what, mend=mend))
        learning = self.extraction.health()
        if learning.why is not None and self._ormah.settings.extraction.by == "judge":
            mend = "set jobs.judge to command or openai, or extraction.by to auto; then: ormahctl restart"
            found.append(Finding("warning", f"no session is read for memories: {learning.why}", mend=mend))
        return found
