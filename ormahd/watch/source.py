"""Receive file events from watchdog's observer for this system (inotify, FSEvents, kqueue), recursively below the
added folders.

Only watchdog's documented interface is used. On Linux it silently skips folders for which the kernel has no watches
left; `add` and `check` detect that by requesting one more watch. Events that the kernel drops are lost, so a full
scan must run now and then.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from watchdog.events import (
    DirCreatedEvent,
    DirDeletedEvent,
    DirModifiedEvent,
    DirMovedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer

KINDS: list[type[FileSystemEvent]] = [
    DirCreatedEvent, DirDeletedEvent, DirModifiedEvent, DirMovedEvent, FileCreatedEvent, FileDeletedEvent, FileModifiedEvent,
    FileMovedEvent,
]  # fmt: skip
"""The events to receive: all except opening, reading and closing a file."""

Told = Callable[[str, bool], None]
"""Called with (absolute path, whether it is a folder)."""


class Source(FileSystemEventHandler):
    """Calls `told` for each change below the added folders, until `stop`."""

    def __init__(self, told: Told) -> None:
        """Raises OSError if the system has no room for a watcher."""
        self._told = told
        self._observer = Observer()
        self._observer.start()
        self._folders: dict[str, tuple[int, int]] = {}
        """{folder: its device and inode when it was added}."""

    def add(self, folder: str) -> None:
        """Watch a folder and everything below it. Raises OSError if it is missing, or the system has no room for so
        many watches."""
        if folder in self._folders:
            return
        identity = _identity(folder)
        self._observer.schedule(self, folder, recursive=True, event_filter=KINDS)
        self._folders[folder] = identity
        self.check()

    def check(self) -> None:
        """Raise OSError if the system has no room for a watch."""
        if not sys.platform.startswith("linux"):
            return
        for folder in self._folders:
            above = os.path.dirname(folder)
            spare = self._observer.schedule(FileSystemEventHandler(), above, event_filter=[DirMovedEvent])
            self._observer.unschedule(spare)

    def stop(self) -> None:
        self._observer.stop()
        self._observer.join()

    @property
    def alive(self) -> bool:
        """Whether events still come, and for the folders that are at these paths now."""
        threads = [self._observer, *self._observer.emitters]
        return all(thread.is_alive() for thread in threads) and not any(map(self._replaced, self._folders))

    def _replaced(self, folder: str) -> bool:
        try:
            return _identity(folder) != self._folders[folder]
        except OSError:
            return False  # missing, and perhaps soon back: a scan reports it

    def on_any_event(self, event: FileSystemEvent) -> None:
        for path in (event.src_path, event.dest_path):
            if path:
                self._told(os.fsdecode(path), event.is_directory)


def _identity(folder: str) -> tuple[int, int]:
    found = os.stat(folder)
    return found.st_dev, found.st_ino
