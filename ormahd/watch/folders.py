"""Maintain a source of file events: create it again when it dies, and fall back to polling when the system has no
room for one."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable

from ormahd.vault.vault import Vault
from ormahd.watch.source import Source, Told

POLL_S = 2.0
"""Seconds between scans without a watcher, so that an edit is still found within 3 s of rest."""
BACKOFF_S = (1.0, 60.0)
"""Seconds until a dead source is created again: after the first time, and at most. A source that lived longer than
the second value resets the delay."""

log = logging.getLogger(__name__)


class Watches:
    """The source of events for one vault. Called from the watcher's thread."""

    def __init__(self, vault: Vault, told: Told, make: Callable[[Told], Source]) -> None:
        self._root = os.fspath(vault.root)
        self._make = make
        self._told = told
        self._source: Source | None = None
        self._retry_at = 0.0
        self._made_at = 0.0
        self._wait = BACKOFF_S[0]
        self.git_dirs = {os.fspath(vault.git.git_dir), os.fspath(vault.git.common)}
        self.why_none: str | None = None
        """Why there is no source, so that scans run instead; None while there is one."""

    @property
    def state(self) -> str:
        if self.why_none is not None:
            return f"polling every {POLL_S:g} s: {self.why_none}"
        return "starting" if self._source is None else "watching"

    def unwell(self) -> bool:
        """Whether `mend` has something to do."""
        if self._source is None:
            return self._retry_at <= time.monotonic()
        return not self._source.alive

    def mend(self) -> bool:
        """Create the source, or replace one that died. True if a new one was created.

        If the system has no room for one, `why_none` says so, and a later call tries again.
        """
        now = time.monotonic()
        if self._source is not None:
            if self._source.alive:
                return False
            log.warning("the watcher of the vault is renewed: it died, or the folder is another one")
            self.end()
            self._wait = BACKOFF_S[0] if now - self._made_at > BACKOFF_S[1] else min(2 * self._wait, BACKOFF_S[1])
            self._retry_at = max(self._retry_at, self._made_at + self._wait)
            if self._retry_at > now:
                self.why_none = "it died"
        if self._retry_at > now:
            return False
        try:
            self._source = self._make(self._told)
            self._made_at = time.monotonic()
            self._source.add(self._root)
            for folder in self.git_dirs:
                if not folder.startswith(self._root + "/"):
                    self._source.add(folder)
        except OSError as exc:
            self._give_up(exc)
            return False
        self.why_none = None
        return True

    def check(self) -> None:
        """Switch to polling if the system had no room to watch a new folder."""
        try:
            if self._source is not None:
                self._source.check()
        except OSError as exc:
            self._give_up(exc)

    def _give_up(self, error: OSError) -> None:
        """Stop the source and poll for a while, because the system has no room for watches."""
        self.end()
        why = error.strerror or str(error)
        if why != self.why_none:
            log.warning("no watcher (%s): the vault is scanned every %g s instead", why, POLL_S)
        self.why_none = why
        self._retry_at = time.monotonic() + BACKOFF_S[1]

    def end(self) -> None:
        """Stop the source, if there is one."""
        source, self._source = self._source, None
        if source is not None:
            source.stop()
