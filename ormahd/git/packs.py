"""One index over many packs: git's own multi-pack-index, written anew whenever enough packs have come.

Each batch of ops leaves a pack, and every git that starts opens the index of each of them: beside a thousand packs, which
32 writers leave in a minute and a half, moving the branch took 19 ms instead of 4. Putting the packs together costs seconds
and waits for quiet (`git_tidy`); listing what is in them takes a twentieth of a second.
"""

from __future__ import annotations

import logging
import threading

from ormahd.errors import OrmahError
from ormahd.git.repository import Git
from ormahd.process import priority

EVERY = 32
"""Packs that may stand beside the index."""
NICE = 5

log = logging.getLogger(__name__)


class PackIndex:
    """Of one repository. Safe from any thread."""

    def __init__(self, git: Git, lineage: threading.Lock) -> None:
        """`lineage` is held by whoever replaces packs: an index that is written meanwhile would name what is gone."""
        self._git = git
        self._lineage = lineage
        self._lock = threading.Lock()
        self._new: int | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def came(self) -> None:
        """A pack of ours was written. Returns at once; what it may begin goes on beside the caller."""
        with self._lock:
            self._new = self._unlisted() if self._new is None else self._new + 1
            if self._new < EVERY or self._closed or (self._thread is not None and self._thread.is_alive()):
                return
            self._new = 0
            self._thread = threading.Thread(target=self._write, name="vault-packs")
            self._thread.start()

    def close(self) -> None:
        """Wait for what was begun; nothing begins from here on."""
        with self._lock:
            self._closed = True
            thread = self._thread
        if thread is not None:
            thread.join()

    def _unlisted(self) -> int:
        """Packs that no index has, as far as their number tells: those of an earlier life are counted once."""
        folder = self._git.common / "objects" / "pack"
        listed = folder / "multi-pack-index"
        since = listed.stat().st_mtime_ns if listed.exists() else 0
        return sum(1 for pack in folder.glob("*.pack") if pack.stat().st_mtime_ns > since)

    def _write(self) -> None:
        priority.step_back(NICE)
        if not self._lineage.acquire(blocking=False):
            return  # it will be written when as many more have come
        try:
            self._git.run("multi-pack-index", "write", "--no-progress")
        except OrmahError as exc:  # only slower; a person's own gc may have taken a pack from under it
            log.info("the packs were not listed in one index: %s", exc.message)
        finally:
            self._lineage.release()
