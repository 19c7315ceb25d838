"""Where events come from: watchdog's observer of this system (inotify, FSEvents, kqueue), recursive from the folders that are named.

Only watchdog's documented interface is used. It says nothing of two things that matter here: on Linux it passes over folders for
which the kernel has no room, so `add` and `check` ask for one watch more; and events that the kernel drops are lost, so a scan
of everything has to come now and then.
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
"""Events that are asked for: all but that a file is opened, read and closed."""

Told = Callable[[str, bool], None]
"""(absolute path, whether it is a folder)"""


class Source(FileSystemEventHandler):
    """Calls `told` for what changes below the folders that were added, until `stop`."""

    def __init__(self, told: Told) -> None:
        """Raises OSError when the system has no room for a watcher."""
        self._told = told
        self._observer = Observer()
        self._observer.start()
        self._folders: dict[str, tuple[int, int]] = {}
        """Device and inode of each folder when it was added."""

    def add(self, folder: str) -> None:
        """Watch a folder and all below it. Raises OSError when it is gone, or the system has no room for that many folders."""
        if folder in self._folders:
            return
        identity = _identity(folder)
        self._observer.schedule(self, folder, recursive=True, event_filter=KINDS)
        self._folders[folder] = identity
        self.check()

    def check(self) -> None:
        """Raise OSError where the system had no room for a folder that was to be watched."""
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
        """Whether events still come, and from the folders that stand at these paths today."""
        threads = [self._observer, *self._observer.emitters]
        return all(thread.is_alive() for thread in threads) and not any(map(self._replaced, self._folders))

    def _replaced(self, folder: str) -> bool:
        try:
            return _identity(folder) != self._folders[folder]
        except OSError:
            return False  # away, and perhaps soon back: a scan says so

    def on_any_event(self, event: FileSystemEvent) -> None:
        for path in (event.src_path, event.dest_path):
            if path:
                self._told(os.fsdecode(path), event.is_directory)


def _identity(folder: str) -> tuple[int, int]:
    found = os.stat(folder)
    return found.st_dev, found.st_ino
