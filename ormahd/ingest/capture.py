"""Archives sessions while they are going on: hooks report that a transcript has grown, and a thread reads it. The watcher
finds the sessions that no hook reports.

A hook may be called before the harness has written the answer to the file: it is then archived as the hook reported it,
until the file has it. A file that ends with an incomplete answer, or with a prompt, is read again after a while.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from msgspec import Struct

from ormahd import paths
from ormahd.errors import OrmahError
from ormahd.ingest.bring_in import REST, archive, own_folders
from ormahd.ingest.extraction import Extraction
from ormahd.ingest.sources import display_path, is_session_file, session_files
from ormahd.ormah import Ormah
from ormahd.process import priority
from ormahd.state.sources import SourceLog
from ormahd.watch.watcher import FolderWatch, is_rested

log = logging.getLogger("ormahd.ingest")

SOURCE: Final = "watcher"
LOOKBACK_S: Final = 72 * 3600.0
"""Age in seconds of the transcripts that are read at the start. `ormahctl ingest --backfill` reads older ones."""
NICE: Final = 5
"""Niceness of the thread: it may read whole transcripts while agents wait for answers of the daemon."""


class _Request(Struct, frozen=True):
    """A request to read a transcript. `source`: which source made it, `hook` or `watcher`."""

    source: str
    ending: str = ""
    """The agent's last answer as reported by the hook; "" if it reported none."""


class Capture:
    """Archives the transcripts that hooks or the watcher name, one at a time, in a thread of its own. Thread-safe;
    `report` and `read` return at once."""

    def __init__(
        self, ormah: Ormah, first: Callable[[], None] = lambda: None, extraction: Extraction | None = None
    ) -> None:
        """`first` is called in the thread before any transcript is read; it delivers the reports that hooks stored on
        disk while no daemon was running. `extraction` is woken after each transcript."""
        self._ormah = ormah
        self._deliver_stored = first
        self._extraction = extraction or Extraction(ormah)
        self._waiting: dict[Path, _Request] = {}
        """File -> the request to read it, for the files to be read now."""
        self._later: dict[Path, tuple[float, _Request]] = {}
        """File -> (`time.monotonic` at which to read it, request), for files that lack an answer."""
        self._changed = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="capture", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, seconds: float) -> bool:
        """Stop the thread after the transcript that it is reading. Return False if the thread still runs after
        `seconds`."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def report(self, path: str | None, ending: str = "", later: bool = False) -> None:
        """Queue the transcript of a session, because a hook reported that it has grown. `path`: the transcript; None:
        the session has none. `ending`: the agent's last answer; "" if the hook did not report it. `later`: the hook
        reported a prompt, so the transcript is read after `REST`, unless the answer is reported before."""
        file = Path(path or "")
        if not self._ormah.settings.sessions.keep or not file.is_absolute():
            return
        with self._changed:
            if later:
                self._later.setdefault(file, (time.monotonic() + REST, _Request("hook")))
                self._changed.notify_all()
                return
            before = self._waiting.get(file)
            self._waiting[file] = _Request("hook", ending or (before.ending if before else ""))
            self._later.pop(file, None)
            self._changed.notify_all()

    def read(self, file: Path) -> None:
        """Queue a transcript that the watcher has seen change."""
        with self._changed:
            self._waiting.setdefault(file, _Request("watcher"))
            self._later.pop(file, None)
            self._changed.notify_all()

    def waiting(self, source: str) -> int:
        """Return the number of files in the queue that this source (`hook` or `watcher`) requested."""
        with self._changed:
            return sum(wish.source == source for wish in self._waiting.values())

    def read_queued(self) -> None:
        """Read all files that are in the queue now, in the calling thread."""
        while (request := self._next_request(wait=False)) is not None:
            self._archive(*request)

    def _run(self) -> None:
        """Read the queued transcripts until `stop`; this is the thread."""
        priority.step_back(NICE)
        with self._logging_errors():
            self._deliver_stored()
        with self._logging_errors():
            self._ormah.sessions.expire()
        while (request := self._next_request(wait=True)) is not None:
            with self._logging_errors():
                self._ormah.sessions.expire()
            with self._logging_errors():
                self._archive(*request)

    @contextmanager
    def _logging_errors(self) -> Iterator[None]:
        """Context manager: an error in the block is logged, and ends only the block."""
        try:
            yield
        except OrmahError as error:
            log.warning("a session could not be archived: %s", error.message)
        except Exception:
            log.exception("a session could not be archived")

    def _next_request(self, *, wait: bool) -> tuple[Path, _Request] | None:
        """Take the next file to read out of the queue. Return (file, request); None if the thread is to stop, or,
        without `wait`, if no file is due."""
        with self._changed:
            while not self._stopping:
                now = time.monotonic()
                due = next((file for file, (at, _) in self._later.items() if at <= now), None)
                if due is not None:
                    self._waiting.setdefault(due, self._later.pop(due)[1])
                if self._waiting:
                    file = next(iter(self._waiting))
                    return file, self._waiting.pop(file)
                if not wait:
                    return None
                self._changed.wait(min(at for at, _ in self._later.values()) - now if self._later else None)
        return None

    def _archive(self, file: Path, wish: _Request) -> None:
        """Archive the sessions of a transcript. Queue it for later if it does not end with a complete answer."""
        if not file.exists():
            log.debug("no transcript at %s", file)
            return  # the session has no transcript, or the harness has deleted it
        found = archive(self._ormah, file, ending=wish.ending)
        if found.out.status != "unchanged":
            SourceLog(self._ormah.state).brought(wish.source, found.out.added)
        self._extraction.wake()
        if found.out.status == "failed":
            log.warning("a transcript could not be read: %s: %s", display_path(file), found.out.error)
        elif not found.settled:
            with self._changed:
                self._later[file] = time.monotonic() + REST + 1.0, _Request(wish.source)


class SessionWatcher:
    """Watches the folders of transcripts, if the setting `sessions.watch` is on, and queues changed transcripts for
    `Capture`."""

    def __init__(self, ormah: Ormah, capture: Capture) -> None:
        chosen = ormah.settings.sessions
        self._ormah = ormah
        self._capture = capture
        self._log = SourceLog(ormah.state)
        self.on = chosen.watch and chosen.keep
        named = [paths.expand(Path(folder)) for folder in chosen.folders]
        self.folders = named or [folder for _, folder in paths.transcript_folders()]
        self._since = time.time() - LOOKBACK_S
        self._without = own_folders(ormah)
        self._quiet = chosen.quiet_seconds
        self._watch = FolderWatch("session-watcher", self.folders, self, quiet=self._quiet, optional=not named)

    def start(self) -> None:
        """Start watching, or, if the watcher is off, forget its troubles."""
        if self.on:
            self._watch.start()
        else:
            self._log.troubled(SOURCE, {})

    def stop(self, seconds: float) -> bool:
        """Stop the thread. Return False if it still runs after `seconds`."""
        return self._watch.stop(seconds)

    def wants(self, folder: Path, path: Path, is_folder: bool = False) -> bool:
        """Return whether a path may be a transcript, or a folder of transcripts, and is in none of Ormah's own
        folders."""
        wanted = is_folder or is_session_file(path.relative_to(folder))
        return wanted and not any(folder == path or folder in path.parents for folder in self._without)

    def scan(self, folder: Path) -> float | None:
        """Queue the transcripts in a folder that changed recently, newest first. Return after how many seconds to scan
        again if one is still being written; else None."""
        written = False
        for file in reversed(session_files(folder, self._without)):  # newest first
            if self._watch.stopping:
                return None
            try:
                changed = file.stat().st_mtime
            except OSError:
                continue  # the file was deleted in the meantime
            if changed < self._since or not self.wants(folder, file):
                continue
            if is_rested(changed, self._quiet):
                self._capture.read(file)
            else:
                written = True
        return self._quiet if written else None

    def troubled(self, wrong: dict[str, str]) -> None:
        """Called by `FolderWatch`: record which folders cannot be watched, and why."""
        self._log.troubled(SOURCE, wrong)
