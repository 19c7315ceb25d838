"""The judge's costs per day, and its problems.

All of it survives restarts of the daemon, because the budget holds for a whole day.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from msgspec import Struct

from ormahd.state.state import State

DAYS_KEPT: Final = 31
"""Number of days whose costs are kept."""


class LoggedTrouble(Struct, frozen=True):
    """A problem of the judge. `kind`: "down" (it does not answer), "rude" (its answers cannot be used) or "budget".
    `times`: how often it happened since `since`; `last`: when it last happened."""

    kind: str
    since: datetime
    last: datetime
    reason: str
    times: int


class JudgeLog:
    """Stores the costs and the problems of one vault's judge on this machine. Thread-safe."""

    def __init__(self, state: State) -> None:
        self._state = state

    def spent(self, day: str) -> tuple[int, int]:
        """Return (calls, tokens) of a day (ISO date, UTC)."""
        with self._state.transaction() as db:
            row = db.execute("SELECT calls, tokens FROM judge_day WHERE day = ?", (day,)).fetchone()
        return (0, 0) if row is None else (row[0], row[1])

    def spend(self, day: str, calls: int, tokens: int) -> None:
        """Add to the calls and tokens of a day. Negative numbers correct what was reserved for a call."""
        with self._state.transaction() as db:
            db.execute(
                "INSERT INTO judge_day (day, calls, tokens) VALUES (?, max(0, ?), max(0, ?)) ON CONFLICT (day) DO UPDATE SET "
                "calls = max(0, calls + ?), tokens = max(0, tokens + ?)",
                (day, calls, tokens, calls, tokens),
            )
            db.execute(
                "DELETE FROM judge_day WHERE day < (SELECT day FROM judge_day ORDER BY day DESC LIMIT 1 OFFSET ?)",
                (DAYS_KEPT,),
            )

    def set_judge(self, who: str) -> None:
        """Record that the settings now name the judge `who`. If that is another judge than before, the problems are
        deleted. The costs are kept, because all judges share one budget."""
        with self._state.transaction() as db:
            row = db.execute("SELECT value FROM judge_mark WHERE name = 'who'").fetchone()
            if row is not None and row[0] == who:
                return
            db.execute("DELETE FROM judge_trouble")
            db.execute("DELETE FROM judge_mark")
            db.execute("INSERT INTO judge_mark (name, value) VALUES ('who', ?)", (who,))

    def trouble(self, kind: str, reason: str) -> None:
        """Record a problem of this kind. If it happened before, its count rises and its `since` is kept."""
        now = self._state.clock().isoformat()
        with self._state.transaction() as db:
            db.execute(
                "INSERT INTO judge_trouble (kind, since, last, reason, times) VALUES (?, ?, ?, ?, 1) ON CONFLICT (kind) DO UPDATE SET "
                "last = excluded.last, reason = excluded.reason, times = times + 1",
                (kind, now, now, reason),
            )

    def fine(self, *kinds: str) -> None:
        """Record that these kinds of problems are over. If "down" is among them, the judge has just answered, and the
        time is recorded."""
        with self._state.transaction() as db:
            db.executemany("DELETE FROM judge_trouble WHERE kind = ?", [(kind,) for kind in kinds])
            if "down" in kinds:
                answered = ("answered", self._state.clock().isoformat())
                db.execute("INSERT OR REPLACE INTO judge_mark (name, value) VALUES (?, ?)", answered)

    def troubles(self) -> list[LoggedTrouble]:
        """Return the problems that are not over, the one that began first first."""
        with self._state.transaction() as db:
            rows = db.execute("SELECT kind, since, last, reason, times FROM judge_trouble ORDER BY since").fetchall()
        return [
            LoggedTrouble(kind, datetime.fromisoformat(since), datetime.fromisoformat(last), reason, times)
            for kind, since, last, reason, times in rows
        ]

    def answered(self) -> datetime | None:
        """Return when the judge last gave a usable answer; None if it never did."""
        with self._state.transaction() as db:
            row = db.execute("SELECT value FROM judge_mark WHERE name = 'answered'").fetchone()
        return None if row is None else datetime.fromisoformat(row[0])
