"""Watches folders outside the vault: tells of files that changed and then rested, and of folders that cannot be read.

Events come from watchdog through `watch.watcher.FolderEvents`. Because events can be lost, all folders are also scanned when they are
first seen, and at an interval. A folder that is missing, moved or unreadable is looked for again with growing pauses.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

from ormahd.errors import OrmahError
from ormahd.ingest.past import unreadable
from ormahd.process import priority
from ormahd.watch.watcher import CHANGES, FolderEvents

log = logging.getLogger("ormahd.ingest")

HEARTBEAT: Final = 5.0
"""Seconds between two checks that the folders are there and watched."""
SCAN_EVERY: Final = 600.0
"""Seconds between two scans of a watched folder."""
POLL_EVERY: Final = 30.0
"""The same where the system has no room for watches."""
RETRY: Final = (2.0, 300.0)
"""Seconds until a folder that could not be read is tried again: after the first time, and at most."""
MOST: Final = 20_000
"""Number of changed files above which all folders are scanned instead."""
NICE: Final = 10
MISSING: Final = "it is not there"


class FolderListener(Protocol):
    """What is done with the files of watched folders. Called in the watching thread."""

    def wants(self, folder: Path, file: Path) -> bool:
        """Return whether a change of this path matters, judged by its name."""

    def changed(self, folder: Path, file: Path) -> None:
        """A file rested after a change. It may be gone."""

    def scan(self, folder: Path) -> None:
        """Look through a whole folder."""

    def troubled(self, wrong: dict[str, str]) -> None:
        """The folders that cannot be watched have changed: {path: reason}."""


class _Watched:
    """What is known of one folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.there = False
        self.scan_at = 0.0
        self.try_at = 0.0
        self.pause = RETRY[0]


class FolderWatch:
    """A thread that watches folders, from `start` to `stop`."""

    def __init__(
        self, name: str, folders: Sequence[Path], listener: FolderListener, *, quiet: float, optional: bool = False
    ) -> None:
        """`quiet`: seconds that a file has to rest. `optional`: it is no trouble if a folder does not exist."""
        self._optional = optional
        self._folders = [_Watched(path) for path in dict.fromkeys(folders)]
        self._listener = listener
        self._quiet = quiet
        self._changed = threading.Condition()
        self._pending: dict[Path, tuple[Path, float]] = {}
        """Changed files, each with its folder and when it last changed (`time.monotonic`)."""
        self._stopping = False
        self._source: FolderEvents | None = None
        self._source_at = 0.0
        self._polls = False
        self._wrong: dict[str, str] = {}
        self._said: dict[str, str] = {}
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def waiting(self) -> int:
        """Number of changed files that do not rest yet."""
        return len(self._pending)

    @property
    def state(self) -> str:
        """What it does, in words: it only scans where the system has no room for watches."""
        return "scanning at an interval" if self._polls else "watching"

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds: float) -> bool:
        """End the thread. False if it still works after `seconds`."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join(seconds)
        return not self._thread.is_alive()

    @property
    def stopping(self) -> bool:
        return self._stopping

    # ------------------------------------------------------------ events, from watchdog's thread

    def _told(self, path: str, is_folder: bool) -> None:
        file = Path(path)
        for one in self._folders:
            if file == one.path or one.path in file.parents:
                break
        else:
            return
        with self._changed:
            if is_folder:  # a folder with files may have been moved here, or away
                one.scan_at = min(one.scan_at, time.monotonic() + self._quiet)
            elif self._listener.wants(one.path, file):
                self._pending[file] = (one.path, time.monotonic())
                if len(self._pending) > MOST:
                    self._pending.clear()
                    for each in self._folders:
                        each.scan_at = 0.0
            else:
                return
            self._changed.notify_all()

    # ------------------------------------------------------------ the thread

    def _run(self) -> None:
        priority.step_back(NICE)
        while not self._stopping:
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
            self._sleep(RETRY[0])

    def _sleep(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._stopping, seconds)

    def _turn(self) -> None:
        self._look()
        for one in self._folders:
            if one.there and one.scan_at <= time.monotonic() and not self._stopping:
                one.scan_at = time.monotonic() + (POLL_EVERY if self._polls else SCAN_EVERY)
                self._guarded(lambda one=one: self._listener.scan(one.path))  # type: ignore[misc]
        for file, folder in self._rested():
            if self._stopping:
                return
            priority.give()
            self._guarded(lambda file=file, folder=folder: self._listener.changed(folder, file))  # type: ignore[misc]

    def _rested(self) -> list[tuple[Path, Path]]:
        """Wait for something to do, at most until the next heartbeat. Return the files that rest by now."""
        with self._changed:
            now = time.monotonic()
            due = [at + self._quiet for _, at in self._pending.values()]
            due += [one.scan_at for one in self._folders if one.there]
            due += [one.try_at for one in self._folders if not one.there]
            wait = min([*due, now + HEARTBEAT]) - now
            if wait > 0 and not self._stopping:
                self._changed.wait(wait)
            now = time.monotonic()
            rested = [(file, folder) for file, (folder, at) in self._pending.items() if at + self._quiet <= now]
            rested.sort(key=lambda one: not one[0].exists())  # what a file was renamed to comes before its former name
            for file, _ in rested:
                del self._pending[file]
            return rested

    def _look(self) -> None:
        """Check all folders, and watch those that have come (back)."""
        now = time.monotonic()
        wrong: dict[str, str] = {}
        for one in self._folders:
            if not one.there and one.try_at > now:
                if str(one.path) in self._wrong:
                    wrong[str(one.path)] = self._wrong[str(one.path)]
                continue
            why = unreadable(one.path) or (None if one.path.is_dir() else MISSING)
            if why is not None:
                one.pause = RETRY[0] if one.there else min(2 * one.pause, RETRY[1])
                one.try_at = now + one.pause
                one.there = False
                if why != MISSING or not self._optional:
                    wrong[str(one.path)] = why
            elif not one.there:
                one.there, one.scan_at, one.pause = True, 0.0, RETRY[0]
        self._watch()
        if wrong != self._wrong:
            for path, why in wrong.items():
                if self._said.get(path) != why:
                    log.warning("%s cannot be watched: %s", path, why)
            self._said |= wrong
            self._wrong = wrong
            self._listener.troubled(wrong)

    def _watch(self) -> None:
        """Have events for all folders that are there. Without room for watches the folders are scanned more often."""
        now = time.monotonic()
        if self._source is not None and not self._source.alive:
            self._source.stop()
            self._source = None
            for one in self._folders:  # what happened meanwhile
                one.scan_at = 0.0
        if self._source is None and self._source_at > now:
            return
        try:
            if self._source is None:
                self._source_at = now + HEARTBEAT
                self._source = FolderEvents(self._told, CHANGES)
            for one in self._folders:
                if one.there:
                    self._source.add(str(one.path))
            self._polls = False
        except FileNotFoundError:
            return  # it went meanwhile; the next look sees that
        except OSError as error:
            if not self._polls:
                log.warning("%s: no room for watches (%s); the folders are scanned instead", self._thread.name, error)
            self._polls = True
            self._source_at = now + RETRY[1]
            if self._source is not None:
                self._source.stop()
                self._source = None


class FolderSource:
    """A source that is fed by a `FolderWatch`, if it is on."""

    on: bool
    _watch: FolderWatch

    def stop(self, seconds: float) -> bool:
        return self._watch.stop(seconds)

    @property
    def state(self) -> str:
        """What it does, in words."""
        return self._watch.state if self.on else "off"

    @property
    def waiting(self) -> int:
        return self._watch.waiting
