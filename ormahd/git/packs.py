"""Combine the loose objects and small packs that Ormah's commits leave, and keep git's multi-pack-index up to date.

Each batch of ops leaves a pack. With a multi-pack-index a new git process need not open every pack, and writing it is
fast. Repacking (`tidy`) takes seconds, and is done when the daemon is idle.
"""

from __future__ import annotations

import logging
import os
import threading

from ormahd.errors import OrmahError
from ormahd.git.repository import Git
from ormahd.process import priority
from ormahd.process.disk import sync_directory

EVERY = 32
"""Number of packs missing from the multi-pack-index at which it is written again."""
NICE = 5

log = logging.getLogger(__name__)


class PackIndex:
    """Keeps the multi-pack-index (git's one index for all packs) of one repository up to date. Thread-safe."""

    def __init__(self, git: Git, lineage: threading.Lock) -> None:
        """`lineage`: a lock that is held by any code that replaces packs. It is also held to write the
        multi-pack-index, which would otherwise name deleted packs."""
        self._git = git
        self._lineage = lineage
        self._lock = threading.Lock()
        self._new: int | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def came(self) -> None:
        """Count a new pack; after every `EVERY` new packs write the multi-pack-index, in a thread. Returns at
        once."""
        with self._lock:
            self._new = self._unlisted() if self._new is None else self._new + 1
            if self._new < EVERY or self._closed or (self._thread is not None and self._thread.is_alive()):
                return
            self._new = 0
            self._thread = threading.Thread(target=self._write, name="vault-packs")
            self._thread.start()

    def close(self) -> None:
        """Wait until a running write of the multi-pack-index has ended, and start no other from now on."""
        with self._lock:
            self._closed = True
            thread = self._thread
        if thread is not None:
            thread.join()

    def _unlisted(self) -> int:
        """Return the number of packs newer than the multi-pack-index: those that earlier processes left."""
        folder = self._git.common / "objects" / "pack"
        listed = folder / "multi-pack-index"
        since = listed.stat().st_mtime_ns if listed.exists() else 0
        return sum(1 for pack in folder.glob("*.pack") if pack.stat().st_mtime_ns > since)

    def _write(self) -> None:
        priority.step_back(NICE)
        if not self._lineage.acquire(blocking=False):
            return  # try again after as many more packs
        try:
            self._git.run("multi-pack-index", "write", "--no-progress")
        except OrmahError as exc:  # without the index git is only slower; a person's own gc may have deleted a pack
            log.info("the packs were not listed in one index: %s", exc.message)
        finally:
            self._lineage.release()


LOOSE = 6000
"""The number of loose objects above which `tidy` packs them (git's own `gc.auto` is 6,700)."""
PACKS = 100
"""The number of packs above which `tidy` combines small ones, because git searches packs one after the other."""


def loose_objects(git: Git) -> int:
    """Return about how many loose objects there are: 256 times the number in one of their 256 folders, as git does."""
    try:
        return 256 * len(os.listdir(git.common / "objects" / "17"))
    except FileNotFoundError:
        return 0


def packs(git: Git) -> int:
    return len(list((git.common / "objects" / "pack").glob("*.pack")))


def tidy(git: Git, *, beyond: int = LOOSE) -> bool:
    """If there are more than `beyond` loose objects, or more than `PACKS` packs, pack loose objects and small packs.
    Return whether that was done.

    Safe while Ormah or the person's git writes: no object is lost, not even an unreachable one.
    """
    if loose_objects(git) <= beyond and packs(git) <= PACKS:
        return False
    git.run("repack", "--geometric=2", "-d", "-l", "--write-midx", "--quiet")
    sync_directory(git.common / "objects" / "pack")
    write_graph(git)
    return True


def write_graph(git: Git) -> None:
    """Add the commits since the last call to git's commit-graph, with the paths that they changed.

    This makes the history of one note much faster, for Ormah and for the person's `git log PATH`.
    """
    git.run("commit-graph", "write", "--reachable", "--changed-paths", "--split", "--no-progress")
