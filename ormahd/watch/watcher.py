"""Watch folders: scan a folder once something in it has changed. `FolderWatch` does so for the folders of transcripts and of
the person's notes, and `VaultWatcher` with it for the vault.

Events come from watchdog's observer for this system (inotify, FSEvents, kqueue), recursively below the added folders.
Only watchdog's documented interface is used. On Linux watchdog silently skips folders for which the kernel has no
watches left; `add` and `check` detect that by requesting one more watch. An observer that dies is replaced.

The kernel may drop events, so a folder is also scanned at a fixed interval, and more often if the kernel has no watches
left. Scans use at most a fifth of a core.
"""

from __future__ import annotations

import logging
import math
import os
import stat
import sys
import threading
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Final, Protocol

from watchdog import events
from watchdog.observers import Observer

from ormahd.errors import OrmahError
from ormahd.process import priority
from ormahd.settings import VaultSettings
from ormahd.vault.excluded import is_note_name
from ormahd.vault.vault import Vault
from ormahd.watch.reading import FileStat
from ormahd.watch.reconciler import Reconciler, ScanAborted
from ormahd.watch.walk import MAX_NOTE_BYTES

_OF_FOLDERS: Final = (events.DirCreatedEvent, events.DirDeletedEvent, events.DirMovedEvent)
_OF_FILES: Final = (events.FileCreatedEvent, events.FileDeletedEvent, events.FileModifiedEvent, events.FileMovedEvent)
KINDS: Final[list[type[events.FileSystemEvent]]] = [*_OF_FOLDERS, *_OF_FILES]
"""The kinds of events to receive: not the opening, reading and closing of a file, and not the change of a folder in which
a file was created or deleted, because the file has an event of its own."""
HEARTBEAT_S = 5.0
"""Seconds between two checks that all folders exist and are watched."""
SCAN_S = 120.0
"""Seconds between two scans of a folder, because events can be lost."""
POLL_S = 2.0
"""Seconds between two scans of the vault while nothing is watched, so that an edit is found at most 3 s after the file is at
rest."""
RETRY_S = 60.0
"""Seconds after which watches are asked for again where the system allowed no more."""
SHARE = 4
"""The pause between two scans of a folder, as a multiple of what the last one took."""
GAP_S = 2.0
"""The longest such pause in seconds."""
PAUSE_S = (1.0, 10.0)
"""The shortest and the longest pause in seconds after a scan of the vault that failed, or could do nothing because another
git is at work. It doubles each time."""
MANY = 50
"""If more files than this changed at once, the whole folder is scanned, because the kernel may have dropped events."""
NICE: Final = 10
MISSING: Final = "it is not there"

Notify = Callable[[str, bool], None]
"""A function that is called for each event, with (absolute path, whether it is a folder)."""

log = logging.getLogger(__name__)
# watchdog calls it an error that a thread is being stopped while it waits for events
logging.getLogger("watchdog.observers.inotify").addFilter(lambda line: "thread is inactive" not in line.getMessage())


class FolderEvents(events.FileSystemEventHandler):
    """Calls `notify` for each change at or below the added folders, from a thread of its own, until `stop`."""

    def __init__(self, notify: Notify) -> None:
        """Raises OSError if the system's limits allow no further watcher."""
        self._notify = notify
        self._observer = Observer()
        self._observer.start()
        self._folders = set[str]()

    def add(self, folder: str) -> None:
        """Watch a folder and everything below it. Raises OSError if it is missing, or the system's limits do not allow
        so many watches."""
        if folder not in self._folders:
            self._observer.schedule(self, folder, recursive=True, event_filter=KINDS)
            self._folders.add(folder)
            self.check()

    def check(self) -> None:
        """Raise OSError if the system's limits allow no further watch: some folders may then be unwatched (Linux)."""
        if sys.platform.startswith("linux"):
            for folder in self._folders:
                above = os.path.dirname(folder)
                spare = self._observer.schedule(events.FileSystemEventHandler(), above, event_filter=KINDS[:1])
                self._observer.unschedule(spare)

    def stop(self) -> None:
        """End the observer's threads, and wait until they have ended."""
        self._observer.stop()
        self._observer.join()

    @property
    def alive(self) -> bool:
        """Whether all threads of the observer still run."""
        return all(thread.is_alive() for thread in [self._observer, *self._observer.emitters])

    def on_any_event(self, event: events.FileSystemEvent) -> None:
        """Called by watchdog: call `notify` with the event's path, and with the new path of a move."""
        for path in (event.src_path, event.dest_path):
            if path:
                self._notify(os.fsdecode(path), event.is_directory)


class FolderListener(Protocol):
    """What `FolderWatch` needs from its listener. `wants` is called in watchdog's thread, the other methods in the
    watch's own."""

    def wants(self, folder: Path, path: Path, is_folder: bool) -> bool:
        """Return whether the folder is to be scanned when this file or folder in it changes. Decides by the path alone."""

    def scan(self, folder: Path) -> float | None:
        """Called when something in a folder may have changed. Returns after how many seconds the folder is to be scanned
        again, because a file is still being written; None: after the next event."""

    def troubled(self, wrong: dict[str, str]) -> None:
        """Called when the set of folders that cannot be watched, or one of the reasons, has changed. `wrong`: all
        these folders now, path -> reason."""


class _Watched:
    """The state of one watched folder. `real`: its path without links; `identity`: its device and inode, None if it cannot
    be read. Times are of `time.monotonic`: `changed_at`: when to scan because of events; `full_at`: when to scan in any
    case; `rests_until`: when the next scan may begin."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.real = os.path.realpath(path)
        self.identity: tuple[int, int] | None = None
        self.changed_at = math.inf
        self.full_at = 0.0
        self.rests_until = 0.0

    @property
    def due(self) -> float:
        """When to scan the folder next."""
        return max(min(self.changed_at, self.full_at), self.rests_until)


class FolderWatch:
    """Watches folders in a thread, from `start` to `stop`, and has its listener scan those in which something changed."""

    def __init__(
        self,
        name: str,
        folders: Sequence[Path],
        listener: FolderListener,
        *,
        quiet: float,
        optional: bool = False,
        poll: float | None = None,
    ) -> None:
        """`name`: the name of the thread. `quiet`: seconds between a change and the scan of its folder. `optional`: a
        folder that does not exist is not reported to the listener. `poll`: seconds between two full scans while the
        system sends no events; None: as many as otherwise, and the thread runs at low priority."""
        self._optional = optional
        self._folders = [_Watched(path) for path in dict.fromkeys(folders)]
        self._listener = listener
        self._quiet = quiet
        self._poll = poll
        self._changed = threading.Condition()
        self._source: FolderEvents | None = None
        self._retry_at = 0.0
        self._unwatchable: dict[str, str] = {}
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.stopping = False
        self.is_full_scan = False
        """Whether this scan is not because of an event alone: some may have been lost."""
        self.unwatched: str | None = None
        """Why the system sends no events; None while it does."""

    def start(self) -> None:
        """Start the thread."""
        self.thread.start()

    def stop(self, seconds: float | None = None) -> bool:
        """Stop the thread. Return False if it still runs after `seconds`."""
        with self._changed:
            self.stopping = True
            self._changed.notify_all()
        if self.thread.ident is not None:
            self.thread.join(seconds)
        return not self.thread.is_alive()

    def scan_all(self) -> None:
        """Have all folders scanned now, by the thread."""
        with self._changed:
            for folder in self._folders:
                folder.full_at = 0.0
            self._changed.notify_all()

    def _on_event(self, path: str, is_folder: bool) -> None:
        """Called for each event, in watchdog's thread: schedule a scan of the watched folder that contains `path`, if
        the listener wants one."""
        folder = next((folder for folder in self._folders if path.startswith(f"{folder.real}/")), None)
        if folder is None:
            return
        if self._listener.wants(folder.path, folder.path / path[len(folder.real) + 1 :], is_folder):
            with self._changed:
                if folder.changed_at == math.inf:
                    folder.changed_at = time.monotonic() + self._quiet
                    self._changed.notify_all()

    # The thread

    def _run(self) -> None:
        """Check and scan the folders until `stop`; this is the thread. An error is logged, and does not end the
        thread."""
        if self._poll is None:
            priority.step_back(NICE)
        while not self.stopping:
            try:
                self._check_folders()
                for folder in self._folders:
                    if folder.identity and folder.due <= time.monotonic() and not self.stopping:
                        self._scan(folder)
                with self._changed:
                    now = time.monotonic()
                    if not self.stopping:
                        due = [folder.due for folder in self._folders if folder.identity]
                        self._changed.wait(max(0.0, min([*due, now + HEARTBEAT_S]) - now))
            except OrmahError as error:
                log.warning("%s: %s", self.thread.name, error.message)
            except Exception:
                log.exception("%s met a fault; it goes on", self.thread.name)
                with self._changed:
                    self._changed.wait_for(lambda: self.stopping, HEARTBEAT_S)
        self._stop_events()

    def _scan(self, folder: _Watched) -> None:
        """Have the listener scan one folder, and schedule the folder's next scan."""
        began = time.monotonic()
        self.is_full_scan = folder.full_at <= began
        with self._changed:
            folder.changed_at = math.inf
            if self.is_full_scan:
                folder.full_at = began + (SCAN_S if self.unwatched is None or self._poll is None else self._poll)
        again = self._listener.scan(folder.path)
        now = time.monotonic()
        folder.rests_until = now + min(GAP_S, SHARE * (now - began))
        if again is not None:
            with self._changed:
                folder.changed_at = min(folder.changed_at, now + again)
        try:  # the system's limits may have left a new folder unwatched
            if self._source is not None:
                self._source.check()
        except OSError as error:
            self._suspend_events(error)

    def _check_folders(self) -> None:
        """Check whether each folder exists and can be read, and watch those that can. Tell the listener if the set of
        folders that cannot be watched, or a reason, has changed."""
        wrong: dict[str, str] = {}
        for folder in self._folders:
            identity, why = None, None
            try:
                with os.scandir(folder.path) as entries:
                    next(entries, None)
                found = folder.path.stat()
                identity = found.st_dev, found.st_ino
            except FileNotFoundError:
                why = None if self._optional else MISSING
            except OSError as error:
                why = error.strerror or str(error)
            if why is not None:
                wrong[str(folder.path)] = why
            # At the path is another folder than before, or it is there for the first time: scan it.
            if identity != folder.identity:
                if folder.identity is not None:  # the watches are on a folder that is not at this path any more
                    self._stop_events()
                folder.identity, folder.real, folder.full_at = identity, os.path.realpath(folder.path), 0.0
        self._request_events()
        if wrong != self._unwatchable:
            for path in wrong.keys() - self._unwatchable.keys():
                log.warning("%s cannot be watched: %s", path, wrong[path])
            self._unwatchable = wrong
            self._listener.troubled(wrong)

    def _request_events(self) -> None:
        """Have the system send events for all folders that exist."""
        if self._source is not None and not self._source.alive:
            log.warning("%s: the watches are renewed, because they died", self.thread.name)
            self._stop_events()
        if self._source is None and self._retry_at > time.monotonic():
            return
        try:
            if self._source is None:
                self._source = FolderEvents(self._on_event)
                for folder in self._folders:  # scan all, because events were lost while nothing watched
                    folder.full_at = 0.0
            for folder in self._folders:
                if folder.identity:
                    self._source.add(folder.real)
            self.unwatched = None
        except FileNotFoundError:
            return  # a folder was deleted in the meantime; the next `_check_folders` notices that
        except OSError as error:
            self._suspend_events(error)

    def _suspend_events(self, error: OSError) -> None:
        """Watch nothing until the next try, because the system's limits do not allow it."""
        why = error.strerror or str(error)
        if why != self.unwatched:
            log.warning("%s: no watches (%s); folders are scanned more often instead", self.thread.name, why)
        self.unwatched = why
        self._retry_at = time.monotonic() + RETRY_S
        for folder in self._folders:
            folder.full_at = 0.0
        self._stop_events()

    def _stop_events(self) -> None:
        """Stop receiving events."""
        source, self._source = self._source, None
        if source is not None:
            source.stop()


def is_rested(changed: float, quiet: float) -> bool:
    """Return whether a file was last written at least `quiet` seconds ago, or has a time in the future. `changed`: when
    it was written, in seconds since 1970."""
    return not 0.0 <= time.time() - changed < quiet


class VaultWatcher:
    """Watches the vault, and has the reconciler scan it when a changed file is at rest."""

    def __init__(self, vault: Vault, reconciler: Reconciler, settings: VaultSettings) -> None:
        self._vault = vault
        self._reconciler = reconciler
        self._quiet = settings.quiet_seconds
        self._lock = threading.Lock()
        self._touched: dict[str, float] = {}
        """{path: time of its last event}. ".git": anything in the repository."""
        self._waiting: Collection[str] = {""}
        """Paths that the last scan left to the next one; with "" the whole folder."""
        self._pause = PAUSE_S[0]
        self._trouble: str | None = None
        self.watch = FolderWatch("vault-watch", [vault.root], self, quiet=self._quiet, poll=POLL_S)

    @property
    def alive(self) -> bool:
        """Whether edits are found soon after they happen, by watching or by polling."""
        return self.watch.thread.is_alive() and self._trouble is None

    @property
    def state(self) -> str:
        """The watcher's state in words for people."""
        if not self.watch.thread.is_alive():
            return "stopped"
        if self._trouble is not None:
            return f"trouble: {self._trouble}"
        why = self.watch.unwatched
        return "watching" if why is None else f"polling every {POLL_S:g} s: {why}"

    # What `FolderWatch` calls

    def wants(self, folder: Path, path: Path, is_folder: bool) -> bool:
        """Record the event of a path in the vault, and return whether it makes a scan necessary: it may concern a note,
        a folder, an ignore file or the repository."""
        parts = path.relative_to(folder).parts
        if parts[0] == ".git":
            wanted = parts[1:2] != ("objects",)  # an event for the ref that names them follows
            parts = parts[:1]
        else:
            dotted = any(part.startswith(".") for part in parts)
            wanted = parts[-1] == ".gitignore" or ((is_folder or is_note_name(path.name)) and not dotted)
        if wanted:
            with self._lock:
                self._touched["/".join(parts)] = time.monotonic()
        return wanted

    def troubled(self, wrong: dict[str, str]) -> None:
        """Called by `FolderWatch`: record why the vault cannot be watched, or that it can."""
        self._trouble = next(iter(wrong.values()), None)

    def scan(self, folder: Path) -> float | None:
        """Have the reconciler scan what changed. Return after how many seconds to scan again; None: after the next
        event."""
        # Find out what changed. Until the scan has succeeded, the whole folder waits for the next one.
        rested_since = time.monotonic() - self._quiet
        with self._lock:
            touched, self._touched = self._touched, {}
        try:
            changed = None if self.watch.is_full_scan else self._changed_files(folder, touched)
            if changed is not None and not changed:
                return None
            self._waiting = {""}
            self._vault.keep_lock()
            rested = [path for path, last in touched.items() if last <= rested_since]
            result = self._reconciler.scan(rested=rested, only=changed)
        except ScanAborted:
            return None
        except (OrmahError, OSError) as exc:
            return self._record_failure(str(exc))
        except Exception as exc:
            log.exception("the watcher met a fault; it goes on")
            return self._record_failure(repr(exc))
        self._trouble = None
        self._waiting = result.waiting
        done = result.indexed + result.edited + result.removed
        if result.waiting_until is not None and not done and self._vault.busy():
            return self._next_pause()
        self._pause = PAUSE_S[0]
        return None if result.waiting_until is None else max(0.0, result.waiting_until - time.monotonic())

    def _changed_files(self, folder: Path, touched: Collection[str]) -> set[str] | None:
        """Return the touched and waiting files that differ from what the index has; empty after commits of Ormah's own.
        None: the whole folder must be scanned, for example because a file is new to the index."""
        if len(touched) > MANY or (".git" in touched and self._reconciler.lacks_head()):
            return None
        rows = self._reconciler.index.known_files()
        changed: set[str] = set()
        for path in {*touched, *self._waiting} - {".git"}:
            # Deleted files, new ones, folders and links need a scan of the whole folder.
            row = rows.get(path)
            try:
                found = os.lstat(folder / path)
            except OSError:
                if row is not None or path in self._waiting or not is_note_name(path):
                    return None
                continue
            if row is None or not stat.S_ISREG(found.st_mode) or found.st_size > MAX_NOTE_BYTES:
                return None
            if path in self._waiting or FileStat.of(path, found).differs(row):
                changed.add(path)
        return changed

    def _record_failure(self, why: str) -> float:
        """Record that a scan failed because of `why`, which is logged if it is new. Return the pause before the next
        scan."""
        if why != self._trouble:
            log.warning("the vault cannot be followed at the moment: %s", why)
        self._trouble = why
        return self._next_pause()

    def _next_pause(self) -> float:
        """Return the pause in seconds before the next scan, and double the pause for the time after that."""
        pause, self._pause = self._pause, min(PAUSE_S[1], 2 * self._pause)
        return pause
