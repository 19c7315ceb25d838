"""Which folders are watched, and what becomes of a source of events that dies or has no room."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Collection, Iterable

from ormahd.vault.vault import Vault
from ormahd.watch.source import Lost, Source, Told

POLL_S = 2.0
"""Seconds between scans while there is no watcher, so that an edit is still found within 3 s of rest."""
BACKOFF_S = (1.0, 60.0)
"""Seconds until a source of events is made again: after the first death, and at most. One that lived longer than the
second figure begins anew."""

log = logging.getLogger(__name__)


class Watches:
    """Keeps one source of events alive and pointed at the folders that matter. Called from the watcher's thread."""

    def __init__(
        self,
        vault: Vault,
        told: Told,
        lost: Lost,
        make: Callable[[Told, Lost], Source],
        homes: Callable[[], Collection[str]],
    ) -> None:
        """`homes`: folders (relative to the root) with files that HEAD has: git is not asked whether it ignores those."""
        self._vault = vault
        self._homes = homes
        self._root = os.fspath(vault.root)
        self._make = make
        self._told = told
        self._lost = lost
        self._source: Source | None = None
        self._retry_at = 0.0
        self._made_at = 0.0
        self._wait = BACKOFF_S[0]
        self.git_dirs = {os.fspath(vault.git.git_dir), os.fspath(vault.git.common)}
        self.why_none: str | None = None
        """Why there is no source and scans must do; None while there is one."""

    @property
    def state(self) -> str:
        if self.why_none is not None:
            return f"polling every {POLL_S:g} s: {self.why_none}"
        source = self._source
        return "starting" if source is None else f"watching {len(source.folders())} folders"

    def unwell(self) -> bool:
        """Whether `mend` has something to do."""
        if self._source is None:
            return self._retry_at <= time.monotonic()
        return not self._source.alive

    def mend(self, lost: str | None) -> bool:
        """Make the source, or renew one that died or lost events (`lost`: why); True when a new one stands. Where the
        system has no room for one, `why_none` says so and it is tried again later."""
        now = time.monotonic()
        if self._source is not None:
            if self._source.alive and lost is None:
                return False
            log.warning("the watcher of the vault is renewed: %s", lost or "its thread died")
            self.end()
            self._wait = BACKOFF_S[0] if now - self._made_at > BACKOFF_S[1] else min(2 * self._wait, BACKOFF_S[1])
            self._retry_at = max(self._retry_at, self._made_at + self._wait)
            if self._retry_at > now:
                self.why_none = lost or "its thread died"
        if self._retry_at > now:
            return False
        try:
            self._source = self._make(self._told, self._lost)
            self._made_at = time.monotonic()
            self.all()
        except OSError as exc:
            self.give_up(exc)
            return False
        self.why_none = None
        return True

    def give_up(self, error: OSError) -> None:
        """There is no room for a watcher: poll for a while."""
        self.end()
        why = error.strerror or str(error)
        if why != self.why_none:
            log.warning("no watcher (%s): the vault is scanned every %g s instead", why, POLL_S)
        self.why_none = why
        self._retry_at = time.monotonic() + BACKOFF_S[1]

    def end(self) -> None:
        source, self._source = self._source, None
        if source is not None:
            source.stop()

    def all(self) -> None:
        """Watches on every folder that holds notes or may, and on what moves in the repository when HEAD does.
        Raises OSError when the system has no room for that many."""
        source = self._source
        if source is None:
            return
        if source.recursive:
            source.add(self._root)
            for folder in self.git_dirs:
                if not folder.startswith(self._root + "/"):
                    source.add(folder)
            return
        source.add(self._root)
        wanted = {*self._notes(source, [self._root], self._homes()), *self._vault.git.ref_files.watched()}
        for folder in source.folders() - wanted:
            source.drop(folder)
        for folder in wanted:
            self._add(source, folder)

    def follow(self, appeared: Iterable[str]) -> list[str]:
        """New folders: watch them and all below. Returns those that must be looked at, because something may have come
        into them before their watch stood."""
        source = self._source
        if source is None or source.recursive:
            return list(appeared)
        tops = self._allowed(appeared)
        try:
            self._notes(source, tops)
        except OSError as exc:
            self.give_up(exc)
        return tops

    @staticmethod
    def _add(source: Source, folder: str) -> None:
        try:
            source.add(folder)
        except (FileNotFoundError, NotADirectoryError):
            return  # gone again

    def _notes(self, source: Source, tops: Iterable[str], homes: Collection[str] = ()) -> list[str]:
        """Watch these folders and those below that may hold notes, level by level: git is asked once a level what it
        ignores, but not of `homes`. Each is watched before it is listed, so that no folder that comes into it in between is missed."""
        found: list[str] = []
        level = list(tops)
        while level:
            below: list[str] = []
            for folder in level:
                self._add(source, folder)
                try:
                    with os.scandir(folder) as entries:
                        below += [
                            e.path for e in entries if not e.name.startswith(".") and e.is_dir(follow_symlinks=False)
                        ]
                except OSError:
                    continue  # gone or unreadable: the scan says so
            found += level
            level = self._allowed(below, homes)
        return found

    def _allowed(self, folders: Iterable[str], homes: Collection[str] = ()) -> list[str]:
        cut = len(self._root) + 1
        own = [folder for folder in folders if not os.path.lexists(folder + "/.git") and not os.path.islink(folder)]
        ignored = self._vault.is_ignored(name for folder in own if (name := folder[cut:]) not in homes)
        return [folder for folder in own if folder[cut:] not in ignored]
