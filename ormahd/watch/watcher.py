"""Watch the vault's folder, wait until a changed file is at rest, and start the reconciler.

Events come from watchdog's observer for this system (inotify, FSEvents, kqueue), recursively below the added folders.
Only watchdog's documented interface is used. On Linux watchdog silently skips folders for which the kernel has no
watches left; `add` and `check` detect that by requesting one more watch. An observer that dies is replaced.

The kernel may drop events, so a full scan also runs at a fixed interval. If the kernel has no watches left, scans run
every few seconds. Scans are spaced so that they use at most a fifth of a core.
"""

from __future__ import annotations

import logging
import math
import os
import sys
import threading
import time
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

from ormahd.errors import OrmahError
from ormahd.settings import VaultSettings
from ormahd.vault.excluded import is_note_name
from ormahd.vault.vault import Vault
from ormahd.watch.reconciler import Reconciler
from ormahd.watch.scan import ScanAborted, ScanResult

KINDS: list[type[FileSystemEvent]] = [
    DirCreatedEvent, DirDeletedEvent, DirModifiedEvent, DirMovedEvent, FileCreatedEvent, FileDeletedEvent, FileModifiedEvent,
    FileMovedEvent,
]  # fmt: skip
"""The kinds of events to receive: all except the opening, reading and closing of a file."""
CHANGES: list[type[FileSystemEvent]] = [kind for kind in KINDS if kind is not DirModifiedEvent]
"""`KINDS` without the event of a folder in which a file was created or deleted: the file has an event of its own."""

Told = Callable[[str, bool], None]
"""A function that is called for each event, with (absolute path, whether it is a folder)."""


class FolderEvents(FileSystemEventHandler):
    """Calls `told` for each change at or below the added folders, from a thread of its own, until `stop`."""

    def __init__(self, told: Told, kinds: list[type[FileSystemEvent]] = KINDS) -> None:
        """`kinds`: the types of events for which `told` is called. Raises OSError if the system's limits allow no
        further watcher."""
        self._told = told
        self._kinds = kinds
        self._observer = Observer()
        self._observer.start()
        self._folders: dict[str, tuple[int, int]] = {}
        """{folder: its device and inode when it was added}."""

    def add(self, folder: str) -> None:
        """Watch a folder and everything below it. Raises OSError if it is missing, or the system's limits do not allow
        so many watches."""
        if folder in self._folders:
            return
        identity = _identity(folder)
        self._observer.schedule(self, folder, recursive=True, event_filter=self._kinds)
        self._folders[folder] = identity
        self.check()

    def check(self) -> None:
        """Raise OSError if the system's limits allow no further watch: some folders may then be unwatched (Linux)."""
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
        """Whether all threads run, and no added folder was replaced by another one at its path."""
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


SCAN_S = 300.0
"""Seconds between two scans of the whole vault, which find changes whose file events were lost."""
POLL_S = 2.0
"""Seconds between scans while nothing is watched, so that an edit is found at most 3 s after the file is at rest."""
RETRY_S = 60.0
"""Least time in seconds between two attempts to create a source of events; until then, scans run every `POLL_S`."""
BACKOFF_S = (1.0, 60.0)
"""The shortest and the longest pause in seconds after a failed scan. It doubles with each failure in a row."""

log = logging.getLogger(__name__)
# watchdog calls it an error that a thread is being stopped while it waits for events
logging.getLogger("watchdog.observers.inotify").addFilter(lambda line: "thread is inactive" not in line.getMessage())


class Watches:
    """Creates, checks and replaces the source of events (`FolderEvents`) for one vault. Only the watcher's thread
    calls its methods."""

    def __init__(self, vault: Vault, told: Told, make: Callable[[Told], FolderEvents]) -> None:
        self._root = os.fspath(vault.root)
        self._make = make
        self._told = told
        self._source: FolderEvents | None = None
        self._retry_at = 0.0
        self.why_none: str | None = None
        """Why the folder is not watched and scans run every `POLL_S` instead; None while it is watched."""

    @property
    def state(self) -> str:
        if self.why_none is not None:
            return f"polling every {POLL_S:g} s: {self.why_none}"
        return "starting" if self._source is None else "watching"

    def unwell(self) -> bool:
        """Whether it is time to call `mend`: the source died, or there is none and the delay before the next try is
        over."""
        return self._retry_at <= time.monotonic() if self._source is None else not self._source.alive

    def mend(self) -> bool:
        """Create the source if there is none, or replace it if it died. Return whether a new one was created.

        If the system's limits do not allow one, `why_none` says so, and a later call tries again.
        """
        now = time.monotonic()
        if self._source is not None:
            if self._source.alive:
                return False
            log.warning("the watcher of the vault is renewed: it died, or the folder is another one")
            self.end()
            self.why_none = "it died"
        if self._retry_at > now:
            return False
        self._retry_at = now + RETRY_S
        try:
            self._source = self._make(self._told)
            self._source.add(self._root)
        except OSError as exc:
            self._give_up(exc)
            return False
        self.why_none = None
        return True

    def check(self) -> None:
        """Stop watching and poll instead if the system's limits may have left a new folder unwatched."""
        try:
            if self._source is not None:
                self._source.check()
        except OSError as exc:
            self._give_up(exc)

    def _give_up(self, error: OSError) -> None:
        """Stop the source, because the system's limits do not allow enough watches, and poll until the next try."""
        self.end()
        why = error.strerror or str(error)
        if why != self.why_none:
            log.warning("no watcher (%s): the vault is scanned every %g s instead", why, POLL_S)
        self.why_none = why
        self._retry_at = time.monotonic() + RETRY_S

    def end(self) -> None:
        """Stop the source, if there is one."""
        source, self._source = self._source, None
        if source is not None:
            source.stop()


GAP_S = (0.2, 2.0)
"""The shortest and the longest time in seconds from the start of a scan to the earliest start of the next. Between
these limits it is four times what the last scan of its kind (of some paths, or of everything) took."""
HEARTBEAT_S = 5.0
"""The longest time in seconds between two checks whether the source of events is alive."""
PATIENCE_S = 10.0
"""The longest time in seconds between two scans while files wait for another git to end."""
STARVED_S = 30.0
"""Seconds after the first event in the git directory at which the repository is checked, even if events go on."""
MANY = 5000
"""The number of changed paths above which everything is scanned, because that is faster."""


class Watcher:
    """A thread that watches and scans the vault, from `start` to `stop`. `alive` and `state` are for health reports."""

    def __init__(
        self,
        vault: Vault,
        reconciler: Reconciler,
        settings: VaultSettings,
        *,
        source: Callable[[Told], FolderEvents] = FolderEvents,
        scan_s: float = SCAN_S,
    ) -> None:
        self._vault = vault
        self._reconciler = reconciler
        self._settings = settings
        self._scan_s = scan_s
        self._root = os.fspath(vault.root)
        self._watches = Watches(vault, self._told, source)
        self._wake = threading.Condition()
        self._pending: dict[str, float] = {}
        self._git_event: tuple[float, float] | None = None
        self._full_at = 0.0
        self._wakes_at = 0.0
        self._scanning = False
        self._stopping = False
        self._failures = 0
        self._patience = 1.0
        # Whether files wait for another git: an event in `.git` then starts a scan even if HEAD is the same.
        self._held = False
        self._trouble: str | None = None
        self._began = -math.inf
        self._took = {False: 0.0, True: 0.0}
        self._thread: threading.Thread | None = None
        self.scans = 0
        """The number of scans since `start`."""

    # Called from other threads

    def start(self) -> None:
        """Start the thread, which begins with a full scan once the folders are watched. Returns at once."""
        self._thread = threading.Thread(target=self._run, name="vault-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread and its source of events, and wait for it. A running scan aborts at its next file."""
        with self._wake:
            self._stopping = True
            self._wake.notify_all()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def poke(self) -> None:
        """Request a full scan as soon as possible."""
        with self._wake:
            self._full_at = 0.0
            self._wake.notify_all()

    def wait_idle(self, timeout: float) -> bool:
        """Wait until nothing is pending and no scan runs. False after `timeout` seconds."""
        with self._wake:
            return self._wake.wait_for(self._idle, timeout)

    def _idle(self) -> bool:
        return not (self._pending or self._git_event or self._scanning) and self._full_at > time.monotonic()

    @property
    def alive(self) -> bool:
        """Whether edits are found soon after they happen, by watching or by polling."""
        thread = self._thread
        return thread is not None and thread.is_alive() and self._trouble is None

    @property
    def polling(self) -> str | None:
        """Why the folder is scanned every few seconds instead of being watched; None while it is watched."""
        return self._watches.why_none

    @property
    def state(self) -> str:
        thread = self._thread
        if thread is None or not thread.is_alive():
            return "stopped"
        return self._watches.state if self._trouble is None else f"trouble: {self._trouble}"

    # Events: called from the source's thread, and short

    def _told(self, path: str, is_folder: bool) -> None:
        now = time.monotonic()
        quiet = self._settings.quiet_seconds
        with self._wake:
            if path.startswith(self._root + "/.git/"):
                if "/objects/" in path:
                    return  # an event for the ref that names them follows
                self._git_event = (now, self._git_event[1] if self._git_event else now)
            elif not path.startswith(self._root + "/"):
                return
            else:
                relative = path[len(self._root) + 1 :]
                name = relative.rpartition("/")[2]
                if name == ".gitignore":
                    self._full_at = min(self._full_at, now + quiet)
                elif any(part.startswith(".") for part in relative.split("/")) or not (is_folder or is_note_name(name)):
                    return
                else:
                    self._pending[relative] = now
            if now + quiet < self._wakes_at:
                self._wakes_at = now + quiet
                self._wake.notify_all()

    # The thread

    def _run(self) -> None:
        try:
            while not self._stopping:
                try:
                    self._turn()
                except ScanAborted:
                    return
                except (OrmahError, OSError) as exc:
                    self._failed(str(exc))
                except Exception as exc:
                    log.exception("the watcher met a fault; it goes on")
                    self._failed(repr(exc))
        finally:
            self._watches.end()
            with self._wake:
                self._scanning = False
                self._wake.notify_all()

    def _turn(self) -> None:
        """Repair the source of events if needed, wait until a scan is due, and run it."""
        if self._watches.mend():
            self.poke()
        if self._watches.why_none:
            with self._wake:
                self._full_at = min(self._full_at, time.monotonic() + POLL_S)
        due = self._next()
        if due is None:
            return
        paths, everything, moved = due
        if moved or everything:
            self._vault.look_after()
        if moved and not everything and (self._held or self._reconciler.behind()):
            everything = True
            with self._wake:
                self._full_at = self._scans_again()
        if everything or paths:
            result = self._reconciler.scan(paths=None if everything else paths, stopping=lambda: self._stopping)
            self._took[everything] = time.monotonic() - self._began
            self.scans += 1
            self._trouble = None
            self._failures = 0
            self._come_back(result)
        if everything:
            self._watches.check()

    def _next(self) -> tuple[list[str], bool, bool] | None:
        """Wait until something is due. Return (paths to scan, whether to scan everything, whether to check the
        repository because of events in the git directory).

        None: the caller has to stop, or to repair the source of events first.
        """
        quiet = self._settings.quiet_seconds
        with self._wake:
            self._scanning = False
            self._wake.notify_all()
            while True:
                now = time.monotonic()
                if self._stopping:
                    return None
                some, all_of_it = self._due(quiet)
                due = min(some, all_of_it)
                if due <= now:
                    break
                self._wakes_at = min(due, now + HEARTBEAT_S)
                self._wake.wait(self._wakes_at - now)
                if self._watches.unwell():
                    return None
            self._scanning = True
            self._began = now
            paths = [path for path, last in self._pending.items() if last + quiet <= now]
            large = all_of_it <= now
            everything = (large and self._full_at <= now) or len(paths) > MANY
            moved = large and self._git_event is not None and self._git_due(self._git_event, quiet) <= now
            if moved:
                self._git_event = None
                self._patience = 1.0
            for path in paths:
                del self._pending[path]
            if everything:
                self._full_at = self._scans_again()
        return paths, everything, moved

    def _scans_again(self) -> float:
        """Return when (`time.monotonic`) the next full scan is due if there is no event."""
        return time.monotonic() + (POLL_S if self._watches.why_none else self._scan_s)

    def _due(self, quiet: float) -> tuple[float, float]:
        """Return (when a scan of some paths is due, when a full scan or a check of the repository is due).

        Times are those of `time.monotonic`; infinity: never."""
        some = min((last + quiet for last in self._pending.values()), default=math.inf)
        moved = math.inf if self._git_event is None else self._git_due(self._git_event, quiet)
        return max(some, self._may(False)), max(min(self._full_at, moved), self._may(True))

    def _may(self, everything: bool) -> float:
        """Return the earliest time of the next scan of some paths or, with `everything`, of all."""
        return self._began + max(GAP_S[0], min(GAP_S[1], 4 * self._took[everything]))

    @staticmethod
    def _git_due(event: tuple[float, float], quiet: float) -> float:
        return min(event[0] + quiet, event[1] + STARVED_S)

    def _come_back(self, result: ScanResult) -> None:
        """Schedule a scan for the files that waited in this one: not at rest yet, or another git was at work."""
        if result.waiting_until is None:
            self._held, self._patience = False, 1.0
            return
        done = result.indexed + result.edited + result.removed
        self._held = self._vault.busy() is not None
        busy = self._held and done == 0
        until = time.monotonic() + self._patience if busy else result.waiting_until
        self._patience = min(PATIENCE_S, 2 * self._patience) if busy else 1.0
        with self._wake:
            for path in result.waiting:
                if path:
                    self._pending.setdefault(path, until - self._settings.quiet_seconds)
                else:
                    self._full_at = min(self._full_at, until)

    def _failed(self, why: str) -> None:
        """Wait after a failed scan, longer each time in a row; then a full scan is due. Log the reason if it is new."""
        if why != self._trouble:
            log.warning("the vault cannot be followed at the moment: %s", why)
        self._trouble = why
        wait = min(BACKOFF_S[1], BACKOFF_S[0] * 2**self._failures)
        self._failures = min(self._failures + 1, 10)
        with self._wake:
            self._scanning = False
            self._wake.notify_all()
            self._full_at = 0.0
            self._wake.wait_for(lambda: self._stopping, wait)
