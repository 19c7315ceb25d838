"""Watches folders outside the vault: has a folder scanned when something in it has changed, and reports unreadable ones.

Events come from watchdog through `watch.watcher.FolderEvents`. Because events can be lost, each folder is also
scanned when it is first found, and at intervals. A folder that is missing, moved or unreadable is looked for again.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

from ormahd.errors import OrmahError
from ormahd.ingest.sources import unreadable
from ormahd.process import priority
from ormahd.watch.watcher import CHANGES, FolderEvents

log = logging.getLogger("ormahd.ingest")

HEARTBEAT: Final = 5.0
"""Seconds between two checks that all folders exist and are watched."""
SCAN_EVERY: Final = 120.0
"""Seconds between two scans of a watched folder: events can be lost, and the system may allow no more watches."""
AGAIN: Final = 300.0
"""Seconds after which watches are asked for again where the system allowed no more."""
NICE: Final = 10
MISSING: Final = "it is not there"


class FolderListener(Protocol):
    """What `FolderWatch` needs from its listener: methods that it calls, in its own thread, when something has
    changed."""

    def wants(self, folder: Path, file: Path) -> bool:
        """Return whether the folder is to be scanned when this file changes. Decides by the path alone."""

    def scan(self, folder: Path) -> bool:
        """Called when something in a folder may have changed. Returns whether the folder is to be scanned again soon,
        because a file is still being written (`resting`)."""

    def troubled(self, wrong: dict[str, str]) -> None:
        """Called when the set of folders that cannot be watched, or one of the reasons, has changed. `wrong`: all
        these folders now, path -> reason."""


class _Watched:
    """The state of one watched folder. `real`: its path without links; `there`: whether it exists and can be read. `scan_at`: `time.monotonic` of its
    next scan."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.real = os.path.realpath(path)
        self.there = False
        self.scan_at = 0.0


class FolderWatch:
    """Watches folders in a thread, from `start` to `stop`, and tells a listener which files changed."""

    def __init__(
        self, name: str, folders: Sequence[Path], listener: FolderListener, *, quiet: float, optional: bool = False
    ) -> None:
        """`name`: the name of the thread. `quiet`: seconds between a change and the scan of its folder. `optional`: a
        folder that does not exist is no trouble of which the listener is told."""
        self._optional = optional
        self._folders = [_Watched(path) for path in dict.fromkeys(folders)]
        self._listener = listener
        self._quiet = quiet
        self._changed = threading.Condition()
        self.stopping = False
        self._source: FolderEvents | None = None
        self._source_at = 0.0
        self._wrong: dict[str, str] = {}
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds: float) -> bool:
        """Stop the thread. Return False if it still runs after `seconds`."""
        with self._changed:
            self.stopping = True
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def scan_all(self) -> None:
        """Have all folders scanned now, by the thread."""
        with self._changed:
            for one in self._folders:
                one.scan_at = 0.0
            self._changed.notify_all()

    # ------------------------------------------------------------ events, from watchdog's thread

    def _told(self, path: str, is_folder: bool) -> None:
        one = next((one for one in self._folders if f"{path}/".startswith(f"{one.real}/")), None)
        if one is not None and (is_folder or self._listener.wants(one.path, one.path / path[len(one.real) + 1 :])):
            with self._changed:
                one.scan_at = min(one.scan_at, time.monotonic() + self._quiet)
                self._changed.notify_all()

    # ------------------------------------------------------------ the thread

    def _run(self) -> None:
        priority.step_back(NICE)
        while not self.stopping:
            self._guarded(self._turn)
        if self._source is not None:
            self._source.stop()

    def _guarded(self, act: Callable[[], None]) -> None:
        try:
            act()
        except OrmahError as error:
            log.warning("%s: %s", self._thread.name, error.message)
        except Exception:
            log.exception("%s met a fault; it goes on", self._thread.name)
            with self._changed:
                self._changed.wait_for(lambda: self.stopping, HEARTBEAT)

    def _turn(self) -> None:
        self._look()
        for one in self._folders:
            if one.there and one.scan_at <= time.monotonic() and not self.stopping:
                one.scan_at = time.monotonic() + SCAN_EVERY
                self._guarded(lambda one=one: self._scan(one))  # type: ignore[misc]
        with self._changed:
            now = time.monotonic()
            if not self.stopping:
                due = [one.scan_at for one in self._folders if one.there]
                self._changed.wait(max(0.0, min([*due, now + HEARTBEAT]) - now))

    def _scan(self, one: _Watched) -> None:
        if self._listener.scan(one.path):
            one.scan_at = min(one.scan_at, time.monotonic() + self._quiet)

    def _look(self) -> None:
        """Check whether each folder exists and can be read, and watch those that can. If other folders than before
        cannot be watched, tell the listener."""
        wrong: dict[str, str] = {}
        for one in self._folders:
            why = unreadable(one.path) or (None if one.path.is_dir() else MISSING)
            real = os.path.realpath(one.path)
            if why is None and not (one.there and real == one.real):
                one.scan_at = 0.0
            one.there, one.real = why is None, real
            if why is not None and not (self._optional and why == MISSING):
                wrong[str(one.path)] = why
        self._watch()
        if wrong != self._wrong:
            for path in wrong.keys() - self._wrong.keys():
                log.warning("%s cannot be watched: %s", path, wrong[path])
            self._wrong = wrong
            self._listener.troubled(wrong)

    def _watch(self) -> None:
        """Have the system send events for all folders that exist."""
        if self._source is not None and not self._source.alive:
            self._source.stop()
            self._source = None
            for one in self._folders:  # scan all, because events were lost while nothing watched
                one.scan_at = 0.0
        if self._source is None and self._source_at > time.monotonic():
            return
        try:
            self._source = self._source or FolderEvents(self._told, CHANGES)
            for one in self._folders:
                if one.there:
                    self._source.add(one.real)
        except FileNotFoundError:
            return  # a folder was deleted in the meantime; the next `_look` notices that
        except OSError as error:
            log.warning("%s: no room for watches (%s); the folders are scanned instead", self._thread.name, error)
            self._source_at = time.monotonic() + AGAIN
            if self._source is not None:
                self._source.stop()
                self._source = None


def resting(changed: float, quiet: float) -> bool:
    """Return whether a file that was last written at `changed` (seconds since 1970) was left alone for `quiet`
    seconds."""
    return not 0.0 <= time.time() - changed < quiet
