"""Keep git's multi-pack-index up to date, so that a new git process does not open the index of every pack.

Each batch of ops leaves a pack. Repacking takes seconds and waits until the daemon is idle (`git_tidy`); writing
this index is fast.
"""

from __future__ import annotations

import logging
import threading

from ormahd.errors import OrmahError
from ormahd.git.repository import Git
from ormahd.process import priority

EVERY = 32
"""The number of packs outside the index from which it is written again."""
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
