"""Archives sessions while they go on: hooks tell that a transcript has grown, and a thread of its own reads it.

A hook may fire before the harness has written the answer. So the file is looked at again for up to two seconds; then the answer counts as
the hook told it. A file whose last answer is still open is looked at again once the agent has stopped writing it.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ormahd.errors import OrmahError
from ormahd.ingest.bring_in import REST, Touched, record, settling
from ormahd.ingest.sources import state_of
from ormahd.paths import known_home
from ormahd.process import priority

if TYPE_CHECKING:
    from ormahd.ormah import Ormah

log = logging.getLogger("ormahd.ingest")

SETTLES: Final = 2.0
"""Seconds for which a harness may be late with writing an answer."""
NICE: Final = 5
"""Niceness of the thread: it reads whole transcripts, while agents ask."""
LOOK: Final = 0.1
"""Seconds between two looks at the file."""
_ID: Final = re.compile(r"[0-9a-fA-F-]{8,64}")


class _Wish(Struct, frozen=True):
    """Why a file is to be read. `source`: `hook` or `watcher`."""

    source: str
    ending: str = ""
    """The answer that a hook told."""


class Capture:
    """Reads the transcripts that hooks and the watcher name, one at a time. Thread-safe; `hear` returns at once."""

    def __init__(
        self, ormah: Ormah, first: Callable[[], None] = lambda: None, archived: Callable[[], None] = lambda: None
    ) -> None:
        """`first` is called in the thread before anything else: it brings what hooks left while no daemon ran. `archived` is called
        after each file."""
        self._ormah = ormah
        self._first = first
        self._archived = archived
        self._waiting: dict[Path, _Wish] = {}
        """Files to read."""
        self._later: dict[Path, tuple[float, _Wish]] = {}
        """Files that ended with an open answer: when to look again, in seconds of `time.monotonic`."""
        self._changed = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="capture", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds: float) -> bool:
        """End the thread after the file that it reads. False if that takes longer than `seconds`."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def hear(self, harness: str, session: str | None, path: str | None, ending: str) -> None:
        """Note that a transcript has grown. `path` None: it is looked for by the session's id."""
        if not self._ormah.settings.sessions.keep:
            return
        file = Path(path) if path else _of_session(harness, session)
        if file is None or not file.is_absolute():
            return
        with self._changed:
            before = self._waiting.get(file)
            self._waiting[file] = _Wish("hook", ending or (before.ending if before else ""))
            self._later.pop(file, None)
            self._changed.notify_all()

    def read(self, file: Path) -> None:
        """Note that the watcher saw a transcript change."""
        with self._changed:
            self._waiting.setdefault(file, _Wish("watcher"))
            self._later.pop(file, None)
            self._changed.notify_all()

    def waiting(self, source: str) -> int:
        """Return the number of files that a source named and that wait to be read."""
        with self._changed:
            return sum(wish.source == source for wish in self._waiting.values())

    def settle(self) -> None:
        """Read all files that wait now."""
        while (one := self._next(wait=False)) is not None:
            self._read(*one)

    def _run(self) -> None:
        priority.step_back(NICE)
        self._guarded(self._first)
        self._guarded(self._expire)
        while (one := self._next(wait=True)) is not None:
            file, wish = one
            self._guarded(self._expire)
            self._guarded(lambda file=file, wish=wish: self._read(file, wish))  # type: ignore[misc]

    def _expire(self) -> None:
        """Delete what was kept long enough; the archive itself sees that this happens once an hour."""
        self._ormah.sessions.expire()

    def _guarded(self, act: Callable[[], None]) -> None:
        try:
            self._ormah.mended(act)
        except OrmahError as error:
            log.warning("a session could not be archived: %s", error.message)
        except Exception:
            log.exception("a session could not be archived")

    def _next(self, *, wait: bool) -> tuple[Path, _Wish] | None:
        with self._changed:
            while not self._stopping:
                now = time.monotonic()
                due = next((file for file, (at, _) in self._later.items() if at <= now), None)
                if due is not None:
                    self._waiting.setdefault(due, self._later.pop(due)[1])
                if self._waiting:
                    file = next(iter(self._waiting))
                    return file, self._waiting.pop(file)
                if not wait:
                    return None
                self._changed.wait(min(at for at, _ in self._later.values()) - now if self._later else None)
        return None

    def _read(self, file: Path, wish: _Wish) -> None:
        """Archive what a file has. Wait for its last answer where a hook told it, but not for long."""
        ending = wish.ending
        least = self._ormah.settings.sessions.min_turns if wish.source == "watcher" else 1
        end = time.monotonic() + SETTLES
        seen, touched = None, Touched()
        while True:
            try:
                now = state_of(file)
            except OSError as error:
                log.debug("no transcript at %s: %s", file, error)
                return  # a session without any, or of a harness that deletes its own
            if now != seen:
                seen = now
                out, settled = settling(self._ormah, file, least=least, touched=touched)
                if settled or not ending or out.status == "failed":
                    break
            if self._stopping or time.monotonic() >= end:
                out, settled = settling(self._ormah, file, ending=ending, touched=touched)
                break
            time.sleep(LOOK)
        record(self._ormah, wish.source, out, touched)
        self._archived()
        if out.status == "failed":
            log.warning("a transcript could not be read: %s: %s", file, out.error)
        elif not settled:
            with self._changed:
                self._later[file] = time.monotonic() + REST + 1.0, _Wish(wish.source)


def _of_session(harness: str, session: str | None) -> Path | None:
    """Return the transcript of a session of Codex, which may tell no path; None if there is none."""
    home = known_home()
    if harness != "codex" or session is None or home is None or not _ID.fullmatch(session):
        return None
    found = (home / ".codex" / "sessions").glob(f"*/*/*/rollout-*-{session}.jsonl")
    return next(iter(sorted(found, reverse=True)), None)
