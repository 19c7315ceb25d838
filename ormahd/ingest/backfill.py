"""The backfill: archives the past sessions of this machine in the background, newest first.

A person can stop it. After a restart of the daemon it continues: the state has the folders to be read, and the archive
knows which of their files were read.
"""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from ormahd import paths
from ormahd.api import BackfillResult, PastFolder, PastParams, PastResult
from ormahd.errors import BadRequest, OrmahError
from ormahd.ingest.bring_in import ReadingStopped, check_archiving, ingest, own_folders, refuse_own_folders
from ormahd.ingest.extraction import Extraction
from ormahd.ingest.sources import session_files, state_of, unreadable
from ormahd.ormah import Ormah
from ormahd.process import priority
from ormahd.state.sources import SourceLog

log = logging.getLogger("ormahd.ingest")

NICE: Final = 10
"""Niceness of the thread: no request waits for it."""
SOURCE: Final = "backfill"
WANTED: Final = "wanted"
ENDED: Final = "ended"
STOPS: Final = 10.0
"""Maximum seconds that a stop waits for the file that is being read."""


class Backfill:
    """Archives, in a thread of its own, the transcripts that are already in some folders, after a client asked for
    it. Thread-safe."""

    def __init__(self, ormah: Ormah, extraction: Extraction) -> None:
        """`extraction` is woken after each file, also if no turns of it were archived."""
        self._ormah = ormah
        self._extraction = extraction
        self._log = SourceLog(ormah.state)
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._current = BackfillResult(False)

    def resume(self) -> None:
        """Continue the backfill that was running when the daemon stopped, if one was."""
        wanted = self._log.value(SOURCE, WANTED)
        if isinstance(wanted, dict) and isinstance(wanted.get("folders"), list):
            self._start_thread([str(folder) for folder in wanted["folders"]], str(wanted.get("begun")))

    def answer(self, action: str, folders: list[str]) -> BackfillResult:
        """Carry out an action (`start`, `stop` or `state`), and return the state of the backfill. `folders`: where
        `start` looks for transcripts; empty: the folders of all known agents.

        Raises:
            BadRequest: the action is unknown, archiving is switched off, or a folder is no absolute path.
        """
        if action == "start":
            self._start(folders)
        elif action == "stop":
            self._stop()
        elif action != "state":
            raise BadRequest(f"action is {action[:60]!r}", hint="start, stop or state")
        return self.state()

    def state(self) -> BackfillResult:
        """Return how far the backfill is."""
        with self._lock:
            return replace(self._current, ended=self._log.value(SOURCE, ENDED))

    def close(self, seconds: float) -> bool:
        """Stop the thread after the file that it is reading; the next start of the daemon continues the backfill.
        Return False if the thread still runs after `seconds`."""
        self._closing.set()
        thread = self._thread
        if thread is not None:
            thread.join(seconds)
        return thread is None or not thread.is_alive()

    def _start(self, folders: list[str]) -> None:
        """Start a backfill, unless one is running. Raises BadRequest for wrong folders, before the backfill counts as
        started."""
        if self.state().running:
            return
        # Raises for wrong folders, before the backfill counts as started.
        past_sessions(self._ormah, PastParams(folders=folders))
        begun = self._ormah.clock().isoformat(timespec="seconds")
        self._log.put(SOURCE, WANTED, {"folders": folders, "begun": begun})
        self._start_thread(folders, begun)

    def _stop(self) -> None:
        """Stop the backfill, and wait up to `STOPS` for the file that it is reading. A restart does not continue it."""
        self._log.unmark(SOURCE, WANTED)
        with self._lock:
            self._current.running = False
            thread = self._thread
        if thread is not None:
            thread.join(STOPS)

    def _start_thread(self, folders: list[str], begun: str) -> None:
        """Start the thread, unless it runs or the daemon stops. `begun`: when the backfill began, as ISO text."""
        with self._lock:
            if self._current.running or self._closing.is_set():
                return
            self._current = BackfillResult(True, folders, begun=begun)
            self._thread = threading.Thread(target=self._run, args=(self._current,), name="backfill", daemon=True)
            self._thread.start()

    def _run(self, mine: BackfillResult) -> None:
        """Archive all files; this is the thread. `mine`: the state of this backfill, in which the files are counted."""
        priority.step_back(NICE)

        def check_running(*_: object) -> None:
            """Raise ReadingStopped if the backfill was stopped. Also serves as the `Progress` of a file."""
            if self._closing.is_set() or not mine.running:
                raise ReadingStopped

        # Archive file by file. A file that raises an error ends the backfill until the next start of the daemon.
        try:
            files = past_sessions(self._ormah, PastParams(folders=mine.folders)).files
            mine.total = len(files)
            for file in files:
                try:
                    check_running()
                    out = ingest(self._ormah, file, progress=check_running, source=SOURCE).out
                    mine.added += out.added
                    mine.failed += out.status == "failed"
                except BadRequest as error:  # the file was deleted in the meantime
                    log.debug("%s: %s", file, error.message)
                self._extraction.wake()
                check_running()
                mine.done += 1
            self._log.unmark(SOURCE, WANTED)
            self._log.put(SOURCE, ENDED, self._ormah.clock().isoformat(timespec="seconds"))
            log.info("past sessions are archived: %d turns of %d files", mine.added, mine.done)
        except ReadingStopped:
            log.info("the backfill was stopped: %d turns of %d files", mine.added, mine.done)
        except OrmahError as error:
            log.warning("the backfill waits for the next start: %s", error.message)
        except Exception:
            log.exception("the backfill broke off; it goes on with the next start")
        finally:
            mine.running = False


def past_sessions(ormah: Ormah, params: PastParams) -> PastResult:
    """Return the transcripts in the folders `params.folders` that are not archived yet, newest first. Without folders:
    those of all known agents.

    Raises BadRequest if archiving is switched off, or a path is not absolute or is in a folder of Ormah itself.
    """
    check_archiving(ormah)
    for named in params.folders:
        if not Path(named).is_absolute():
            raise BadRequest(f"'{named[:200]}' is no absolute path")
        refuse_own_folders(ormah, Path(named))
    places = [Path(named) for named in params.folders] or [place for _, place in paths.transcript_folders()]
    found: list[PastFolder] = []
    fresh: dict[str, tuple[int, int]] = {}
    for folder in places:
        entry = PastFolder(str(folder), exists=folder.exists(), trouble=unreadable(folder))
        found.append(entry)
        for file in session_files(folder, own_folders(ormah)) if entry.exists and not entry.trouble else ():
            try:
                state = state_of(file)
            except OSError:
                continue  # the file was deleted in the meantime
            entry.files += 1
            entry.bytes += state.size
            if str(file) not in fresh and not ormah.sessions.is_read(str(file), state):
                fresh[str(file)] = (-state.mtime_ns, state.size)
                entry.fresh += 1
    return PastResult(found, sorted(fresh, key=lambda file: fresh[file]), sum(size for _, size in fresh.values()))
