"""Stores for each source of sessions and documents when it last brought something, and what of it cannot be read.

A source is a way in: `hook`, `watcher`, `backfill`, `ingest` (a file or folder that a person named), or `sources`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from ormahd.state.state import State

SOURCES: Final = ("hook", "watcher", "backfill", "ingest")
CAME: Final = "came"
TROUBLES: Final = "troubles"


class SourceMark(Struct, frozen=True):
    """A mark on a source: that its path `path` cannot be read. `since`: ISO time."""

    path: str
    why: str
    since: str


class SourceLog:
    """Stores values of sources for one vault on this machine. Thread-safe."""

    def __init__(self, state: State) -> None:
        self._state = state

    def brought(self, source: str, turns: int) -> None:
        """Record that something came from a source now. `turns`: the number of new turns in it."""
        _, before = self.came(source)
        self.put(source, CAME, [self._now(), before + turns])

    def came(self, source: str) -> tuple[str | None, int]:
        """Return (ISO time when something last came from a source, or None; the number of turns that came so far)."""
        time, turns = self.value(source, CAME) or (None, 0)
        return time, turns

    def troubled(self, source: str, wrong: Mapping[str, str]) -> None:
        """Store which paths of a source cannot be read now, in place of what was stored. `wrong`: path -> reason."""
        known = {mark.path: mark for mark in self.troubles(source)}
        marks = [
            known[path] if path in known and known[path].why == why else SourceMark(path, why, self._now())
            for path, why in sorted(wrong.items())
        ]
        self.put(source, TROUBLES, [[mark.path, mark.why, mark.since] for mark in marks])

    def troubles(self, source: str) -> list[SourceMark]:
        """Return the paths of a source that cannot be read."""
        return [SourceMark(*row) for row in self.value(source, TROUBLES) or ()]

    def put(self, source: str, name: str, value: Any) -> None:
        """Store a value of a source under a name: anything that is JSON."""
        with self._state.transaction() as db:
            db.execute("INSERT OR REPLACE INTO source_mark VALUES (?, ?, ?)", (source, name, json.dumps(value)))

    def unmark(self, source: str, name: str) -> None:
        """Delete a value of a source."""
        with self._state.transaction() as db:
            db.execute("DELETE FROM source_mark WHERE source = ? AND name = ?", (source, name))

    def value(self, source: str, name: str) -> Any:
        """Return a value that `put` stored; None if there is none."""
        with self._state.transaction() as db:
            row = db.execute("SELECT value FROM source_mark WHERE source = ? AND name = ?", (source, name)).fetchone()
        return None if row is None else json.loads(row[0])

    def _now(self) -> str:
        """Return the present as ISO text with seconds."""
        return self._state.clock().isoformat(timespec="seconds")
