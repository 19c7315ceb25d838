"""Counts per day what each source of sessions and documents brought, and stores its problems and its unknown lines.

A source is a way in: `hook`, `watcher`, `backfill` or `ingest` (a file or folder that a person named). The numbers are telemetry: nothing is decided by them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from msgspec import Struct

from ormahd.state.state import State

SOURCES: Final = ("hook", "watcher", "backfill", "ingest")
DAYS_KEPT: Final = 400
KINDS_KEPT: Final = 200
"""Maximum number of unknown kinds of lines that are kept: a transcript may have any number of them."""
LAST: Final = "last"
REFUSED: Final = "refused: "
"""Prefix of the names under which refused candidates are counted; the reason follows."""
TROUBLE: Final = "trouble: "
"""Prefix of the name of a mark that says why a path cannot be read; the path follows."""


class UnknownKind(Struct, frozen=True):
    format: str
    kind: str
    number: int


class SourceMark(Struct, frozen=True):
    """A mark on a source: that its path `path` cannot be read. `since`: ISO time."""

    path: str
    why: str
    since: str


class SourceLog:
    """Stores what each source brought, and its problems, for one vault on this machine. Thread-safe. `source` is a
    way in: "hook", "watcher", "backfill" or "ingest"."""

    def __init__(self, state: State) -> None:
        self._state = state

    def count(self, source: str, numbers: Mapping[str, int], *, came: bool = True) -> None:
        """Add `numbers` (what -> number) to today's counts of a source. `came`: also store the present time as the
        one when something last came from this source."""
        now = self._state.clock()
        day = now.date().isoformat()
        with self._state.transaction() as db:
            db.executemany(
                "INSERT INTO source_day (source, day, what, number) VALUES (?, ?, ?, ?) "
                "ON CONFLICT (source, day, what) DO UPDATE SET number = number + excluded.number",
                [(source, day, what, number) for what, number in numbers.items() if number],
            )
            old = (now - timedelta(days=DAYS_KEPT)).date().isoformat()
            db.execute("DELETE FROM source_day WHERE day < ?", (old,))
        if came:
            self.mark(source, LAST, "")

    def grew(self, source: str, sessions: Iterable[str]) -> None:
        """Record that the newest turns of these archived sessions, named by their files, came from this source."""
        with self._state.transaction() as db:
            rows = [(session, source) for session in sessions]
            db.executemany("INSERT OR REPLACE INTO session_source (session, source) VALUES (?, ?)", rows)

    def learned(self, session: str, memories: int, refused: Mapping[str, int]) -> None:
        """Count the memories made from a session, and the candidates refused, for the source that last brought turns
        of it. `refused`: reason in words -> number."""
        with self._state.transaction() as db:
            row = db.execute("SELECT source FROM session_source WHERE session = ?", (session,)).fetchone()
        if row is not None:
            why = {f"{REFUSED}{reason}": number for reason, number in refused.items()}
            self.count(row[0], {"memories": memories, **why}, came=False)

    def numbers(self, since: str = "") -> dict[str, dict[str, int]]:
        """Return source -> what -> number, summed over the days from `since` (ISO date) on."""
        select = "SELECT source, what, sum(number) FROM source_day WHERE day >= ? GROUP BY source, what"
        found: dict[str, dict[str, int]] = {}
        with self._state.transaction() as db:
            for source, what, number in db.execute(select, (since,)):
                found.setdefault(source, {})[what] = number
        return found

    def mark(self, source: str, name: str, value: str) -> None:
        """Store the present value that a source has for `name`, with the time since when it has it. The name `last`
        always gets the present time."""
        now = self._state.clock().isoformat(timespec="seconds")
        with self._state.transaction() as db:
            db.execute(
                "INSERT INTO source_mark (source, name, value, time) VALUES (?, ?, ?, ?) ON CONFLICT (source, name) DO UPDATE SET "
                "value = excluded.value, time = excluded.time WHERE excluded.value <> value OR name = ?",
                (source, name, value, now, LAST),
            )

    def put(self, source: str, name: str, value: Any) -> None:
        """Store a value of a source as JSON under a name. The method `value` reads it."""
        self.mark(source, name, json.dumps(value))

    def unmark(self, source: str, name: str) -> None:
        with self._state.transaction() as db:
            db.execute("DELETE FROM source_mark WHERE source = ? AND name = ?", (source, name))

    def value(self, source: str, name: str) -> Any:
        """Return a value that `put` stored; None if there is none, or if it is no JSON."""
        with self._state.transaction() as db:
            row = db.execute("SELECT value FROM source_mark WHERE source = ? AND name = ?", (source, name)).fetchone()
        try:
            return None if row is None else json.loads(row[0])
        except ValueError:
            return None

    def last(self) -> dict[str, str]:
        """Return source -> ISO time when something last came from it."""
        with self._state.transaction() as db:
            return dict(db.execute("SELECT source, time FROM source_mark WHERE name = ?", (LAST,)))

    def troubled(self, source: str, wrong: Mapping[str, str]) -> None:
        """Store which paths of a source cannot be read now (path -> reason). This replaces what was stored."""
        with self._state.transaction() as db:
            known = [
                name
                for (name,) in db.execute(
                    "SELECT name FROM source_mark WHERE source = ? AND name LIKE 'trouble: %'", (source,)
                )
            ]
        for name in known:
            if name.removeprefix(TROUBLE) not in wrong:
                self.unmark(source, name)
        for path, why in wrong.items():
            self.mark(source, TROUBLE + path, why)

    def troubles(self) -> dict[str, list[SourceMark]]:
        """Return source -> its paths that cannot be read."""
        found: dict[str, list[SourceMark]] = {}
        with self._state.transaction() as db:
            select = "SELECT source, name, value, time FROM source_mark WHERE name LIKE 'trouble: %' ORDER BY name"
            for source, name, why, time in db.execute(select):
                found.setdefault(source, []).append(SourceMark(name.removeprefix(TROUBLE), why, time))
        return found

    def unknown(self, formats: Sequence[str], kinds: Mapping[str, int]) -> None:
        """Store the kinds of lines and parts that no reader of transcripts knows (kind -> number in one file). Of
        several files, the largest number is kept."""
        now = self._state.clock().isoformat(timespec="seconds")
        name = ", ".join(formats) or "?"
        with self._state.transaction() as db:
            db.executemany(
                "INSERT INTO unknown_kind (format, kind, number, last) VALUES (?, ?, ?, ?) ON CONFLICT (format, kind) DO UPDATE SET "
                "number = max(number, excluded.number), last = excluded.last",
                [(name, kind[:100], number, now) for kind, number in kinds.items()],
            )
            db.execute(
                "DELETE FROM unknown_kind WHERE (format, kind) NOT IN "
                "(SELECT format, kind FROM unknown_kind ORDER BY last DESC, number DESC LIMIT ?)",
                (KINDS_KEPT,),
            )

    def unknown_kinds(self) -> list[UnknownKind]:
        """Return the kinds of lines and parts that no reader knows, the most frequent first."""
        with self._state.transaction() as db:
            rows = db.execute("SELECT format, kind, number FROM unknown_kind ORDER BY number DESC, format, kind")
            return [UnknownKind(*row) for row in rows]
