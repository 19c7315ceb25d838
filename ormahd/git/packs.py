"""Pack the loose objects and small packs that our commits leave, and keep git's index over all packs up to date.

Each batch of ops leaves a pack. Writing the multi-pack-index is fast, and a new git process then does not open every
pack. Repacking (`tidy`) takes seconds and waits until the daemon is idle.
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
"""Number of packs that are missing in the multi-pack-index, from which it is written again."""
NICE = 5

log = logging.getLogger(__name__)


class PackIndex:
    """Maintains the multi-pack-index of one repository. Thread-safe."""

    def __init__(self, git: Git, lineage: threading.Lock) -> None:
        """`lineage` is held by any code that replaces packs: an index written meanwhile would name deleted packs."""
        self._git = git
        self._lineage = lineage
        self._lock = threading.Lock()
        self._new: int | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def came(self) -> None:
        """Count a new pack. Returns at once; the index may be written in a thread."""
        with self._lock:
            self._new = self._unlisted() if self._new is None else self._new + 1
            if self._new < EVERY or self._closed or (self._thread is not None and self._thread.is_alive()):
                return
            self._new = 0
            self._thread = threading.Thread(target=self._write, name="vault-packs")
            self._thread.start()

    def close(self) -> None:
        """Wait for a running write; no other starts after this."""
        with self._lock:
            self._closed = True
            thread = self._thread
        if thread is not None:
            thread.join()

    def _unlisted(self) -> int:
        """Return how many packs are newer than the multi-pack-index, to count those of an earlier process once."""
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
"""The number of loose objects from which packing is worthwhile (git's own `gc.auto` is 6,700)."""
PACKS = 100
"""Number of packs from which small ones are combined, because git searches packs one after the other."""


def loose_objects(git: Git) -> int:
    """Return the approximate number of loose objects, estimated from one of the 256 folders, as git does."""
    try:
        return 256 * len(os.listdir(git.common / "objects" / "17"))
    except FileNotFoundError:
        return 0


def packs(git: Git) -> int:
    return len(list((git.common / "objects" / "pack").glob("*.pack")))


def tidy(git: Git, *, beyond: int = LOOSE) -> bool:
    """Pack loose objects and small packs if there are many of either. Return whether it was done.

    Safe beside our writer and the person's git: only packed objects are deleted, and unreachable objects stay.
    """
    if loose_objects(git) <= beyond and packs(git) <= PACKS:
        return False
    git.run("repack", "--geometric=2", "-d", "-l", "--write-midx", "--quiet")
    sync_directory(git.common / "objects" / "pack")
    write_graph(git)
    return True


def write_graph(git: Git) -> None:
    """Have git write its commit-graph with changed paths, which makes the history of one note much faster.

    Helps Ormah's queries and the person's `git log`. Only commits since the last call are added.
    """
    git.run("commit-graph", "write", "--reachable", "--changed-paths", "--split", "--no-progress")
