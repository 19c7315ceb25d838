"""Where events come from: one kernel watch a folder on Linux, the system's own recursive observer elsewhere.

watchdog's `Observer` on Linux starts a thread for each watch and, when recursive, watches every folder below `.git` and
passes over reaching the kernel's limit in silence. Its inotify reader alone (`InotifyFD`, watchdog 7.1) has none of this:
one descriptor, one thread, the folders that we name, and an OSError when the limit is reached.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer

with contextlib.suppress(ImportError):
    from watchdog.observers.inotify_c import CallbackId, InotifyConstants, InotifyEvent, InotifyFD, Mask

    class _Reader(InotifyFD):
        """Reads what has gathered, not event by event."""

        def run(self) -> None:
            while self.should_keep_running():
                events = self.read_events()
                for event in events:
                    self.handle_event(event)
                if len(events) < FEW:
                    self.stopped_event.wait(GATHER_S)


GATHER_S = 0.05
"""Seconds that the reader rests after it has read a few events, so that what comes meanwhile is read in one go: a commit of ours makes
twenty, one by one, and each woke the reader and took the interpreter from whoever was at work."""
FEW = 300
"""Events from which on it does not rest: a fifth of what one reading takes, and a fiftieth of what the kernel keeps for us."""

Told = Callable[[str, bool, bool], None]
"""(absolute path, it is a folder, it came into being there)"""
Lost = Callable[[str], None]
"""Events were lost, or will be; why."""


class Source(Protocol):
    """Tells of changes from `add` to `stop`. `recursive`: one `add` of the root is enough."""

    recursive: bool

    def add(self, folder: str) -> None:
        """Watch a folder. Raises OSError: FileNotFoundError when it is gone, else because a limit is reached."""

    def folders(self) -> set[str]: ...

    def drop(self, folder: str) -> None:
        """Stop watching a folder and all below it."""

    def stop(self) -> None: ...

    @property
    def alive(self) -> bool: ...


def native(told: Told, lost: Lost) -> Source:
    """The best that this system has. Raises OSError when it has no room for us."""
    if sys.platform.startswith("linux") and "_Reader" in globals():
        return Folders(told, lost)
    return Tree(told, lost)


class Folders:
    """inotify, folder by folder."""

    recursive = False

    def __init__(self, told: Told, lost: Lost) -> None:
        self._told = told
        self._lost = lost
        self._reader = _Reader()
        self._watched: dict[str, tuple[Any, Any]] = {}
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._stopping = False
        self._mask = Mask(
            InotifyConstants.IN_MODIFY | InotifyConstants.IN_ATTRIB | InotifyConstants.IN_CLOSE_WRITE
            | InotifyConstants.IN_MOVED_FROM | InotifyConstants.IN_MOVED_TO | InotifyConstants.IN_CREATE
            | InotifyConstants.IN_DELETE | InotifyConstants.IN_DELETE_SELF | InotifyConstants.IN_MOVE_SELF
            | InotifyConstants.IN_ONLYDIR | InotifyConstants.IN_DONT_FOLLOW
        )  # fmt: skip
        self._reader.start()

    def add(self, folder: str) -> None:
        with self._lock:
            if folder in self._watched:
                return
        if not os.access(folder, os.R_OK):
            os.lstat(folder)  # gone: FileNotFoundError; unreadable: the scan names it
            return
        number = CallbackId(next(self._numbers))
        wd = self._reader.add_callback(os.fsencode(folder), self._mask, _Folder(self, folder), number)
        with self._lock:
            self._watched[folder] = (wd, number)

    def folders(self) -> set[str]:
        with self._lock:
            return set(self._watched)

    def drop(self, folder: str) -> None:
        with self._lock:
            below = [path for path in self._watched if path == folder or path.startswith(folder + "/")]
            gone = [self._watched.pop(path) for path in below]
        self._reader.remove_callbacks(gone)

    def stop(self) -> None:
        self._stopping = True
        self._reader.stop()
        self._reader.join()

    @property
    def alive(self) -> bool:
        return self._reader.is_alive()

    # What the reader's thread calls

    def event(self, folder: str, event: InotifyEvent) -> None:
        if event.is_ignored or not event.name:
            if event.is_move_self:
                self.drop(folder)
            return
        path = os.path.join(folder, os.fsdecode(event.name))
        if event.is_directory and (event.is_moved_from or event.is_delete):
            self.drop(path)
        self._told(path, event.is_directory, event.is_create or event.is_moved_to)

    def gone(self, folder: str, wd: object) -> None:
        with self._lock:
            if self._watched.get(folder, (None, None))[0] == wd:
                del self._watched[folder]

    def overflow(self) -> None:
        if not self._stopping:
            self._lost("the kernel's queue of events overflowed")


class _Folder:
    """What the reader calls for one folder."""

    def __init__(self, owner: Folders, path: str) -> None:
        self._owner = owner
        self._path = path

    def on_event(self, event: InotifyEvent) -> None:
        self._owner.event(self._path, event)

    def on_watch_deleted(self, wd: object) -> None:
        self._owner.gone(self._path, wd)

    def on_queue_overflow(self) -> None:
        self._owner.overflow()


class Tree(FileSystemEventHandler):
    """watchdog's Observer, recursive (FSEvents on macOS)."""

    recursive = True

    def __init__(self, told: Told, lost: Lost) -> None:
        self._told = told
        self._lost = lost
        self._observer = Observer()
        self._observer.start()
        self._watches: dict[str, Any] = {}

    def add(self, folder: str) -> None:
        if folder not in self._watches:
            if not Path(folder).is_dir():
                raise FileNotFoundError(folder)
            self._watches[folder] = self._observer.schedule(self, folder, recursive=True)

    def folders(self) -> set[str]:
        return set(self._watches)

    def drop(self, folder: str) -> None:
        watch = self._watches.pop(folder, None)
        if watch is not None:
            self._observer.unschedule(watch)

    def stop(self) -> None:
        self._observer.stop()
        self._observer.join()

    @property
    def alive(self) -> bool:
        return self._observer.is_alive() and all(emitter.is_alive() for emitter in self._observer.emitters)

    def on_any_event(self, event: FileSystemEvent) -> None:
        if event.event_type in {"opened", "closed_no_write"}:
            return
        for path, appeared in ((event.src_path, event.event_type == "created"), (event.dest_path, True)):
            if path:
                self._told(os.fsdecode(path), event.is_directory, appeared)
