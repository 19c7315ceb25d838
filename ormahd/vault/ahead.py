"""Commits made ahead: their objects are built and made durable beside what has to come before, the promise and the files.

Nothing names them until the branch is moved to them, so a crash in between leaves nothing but objects that git's own gc
takes away, as it does with those of an abandoned `git add`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path

from msgspec import Struct

from ormahd.errors import OrmahError
from ormahd.git.objects import Objects
from ormahd.git.repository import Git
from ormahd.process.disk import Flusher
from ormahd.vault.build import Builder, Fresh, Told
from ormahd.vault.intents import Intent

log = logging.getLogger(__name__)


class Made(Struct):
    """The commits of ops, one on the other (None: HEAD has all of it), and what the index must say of their paths."""

    head: str | None
    """What the first of them is built on."""
    commits: list[str | None]
    told: Told
    fresh: Fresh
    written: Path | None = None
    """A file that is there as long as the objects are; None: they are not durable yet."""

    @property
    def tip(self) -> str | None:
        return next((commit for commit in reversed(self.commits) if commit is not None), None)


class Ahead:
    """One batch at a time. Callers hold the writer's lock."""

    def __init__(self, git: Git, objects: Objects, builder: Builder, flusher: Flusher) -> None:
        self._git = git
        self._objects = objects
        self._builder = builder
        self._flusher = flusher
        self._begun: tuple[tuple[Intent, ...], Callable[[], Made], Callable[[], Made]] | None = None
        """Ops, and what waits for their commits to be durable, and to be built."""

    def begin(self, intents: Sequence[Intent]) -> None:
        """Begin to make the commits of these ops durable on what HEAD is now. Not of those that join another history: what
        becomes of them is known when they are at hand."""
        wanted = tuple(intents)
        if self._begun is not None and self._begun[0] == wanted:
            return
        self._drop()
        if not any(intent.joins or intent.entries for intent in wanted):
            built: Future[Made] = Future()
            self._begun = wanted, self._flusher.beside(lambda: self._durable(wanted, built)), built.result

    def built(self) -> Callable[[], Made] | None:
        """What gives what was begun, as soon as it is built, if not durable yet; None where nothing is begun."""
        return None if self._begun is None else self._begun[2]

    def take(self, intents: Sequence[Intent], head: str | None) -> Made:
        """The commits of these ops on `head`: as they were begun, where nothing has changed since, else built now."""
        wanted = tuple(intents)
        if self._begun is not None and self._begun[0] == wanted:
            _, wait, _ = self._begun
            self._begun = None
            made = wait()
            if made.head == head:
                return made
        return self._build(wanted, head)

    def write(self, made: Made) -> None:
        """Make the objects durable, if they are not, or were taken away since by somebody's `git gc --prune=now`."""
        if made.written is None or not made.written.exists():
            made.written = self._objects.write(made.fresh)

    def _durable(self, intents: tuple[Intent, ...], built: Future[Made]) -> Made:
        try:
            made = self._build(intents, self._git.head())
        except BaseException as exc:
            built.set_exception(exc)
            raise
        built.set_result(made)
        if made.tip is not None:
            self.write(made)
        return made

    def _build(self, intents: tuple[Intent, ...], head: str | None) -> Made:
        fresh: Fresh = {}
        commits, told = self._builder.build(intents, head, fresh)
        return Made(head, commits, told, fresh)

    def _drop(self) -> None:
        begun, self._begun = self._begun, None
        if begun is not None:
            try:
                begun[1]()
            except (OrmahError, OSError) as exc:  # those ops came to nothing, and were told why
                log.info("objects of ops that came to nothing were not written: %s", exc)
