"""What agents were asked to judge, and what became of it: the review loop's own book (seeds/affinity, "Review Loop").

An answer is any judgement on the memory, said outright or inferred: the question asks for an inferred one, so a loop that
waits for the other kind never closes.
"""

from __future__ import annotations

from datetime import datetime

from ormahd.process import sql
from ormahd.state.state import State


def surfaced(state: State, node_id: str, *, event: str, surfaced_in: str) -> None:
    """The whisper `surfaced_in` asked about a memory that the whisper `event` had held back. For when it went out."""
    with state.transaction() as db:
        db.execute(
            "INSERT INTO review_log (node_id, event, surfaced_in, time) VALUES (?, ?, ?, ?)",
            (node_id, event, surfaced_in, _iso(state.clock())),
        )


def answer(state: State, node_id: str) -> bool:
    """The newest question about this memory that is still open is answered; False: none was open."""
    with state.transaction() as db:
        done = db.execute(
            "UPDATE review_log SET answered = ? WHERE id = (SELECT id FROM review_log WHERE node_id = ? AND answered IS NULL "
            "ORDER BY id DESC LIMIT 1)",
            (_iso(state.clock()), node_id),
        )
        return done.rowcount > 0


def resting(state: State, *, since: datetime, unanswered: int) -> set[str]:
    """Memories that are not to be asked about now: somebody was asked since then, or in vain that often."""
    with state.transaction() as db:
        select = "SELECT node_id FROM review_log GROUP BY node_id HAVING max(time) >= ? OR sum(answered IS NULL) >= ?"
        return set(sql.columns(db, ("node_id",), f"FROM ({select})", (_iso(since), unanswered))[0])


def counts(state: State) -> tuple[int, int]:
    """(asked, answered)."""
    with state.transaction() as db:
        asked, answered = db.execute("SELECT count(*), count(answered) FROM review_log").fetchone()
    return int(asked), int(answered)


def _iso(time: datetime) -> str:
    """Always with microseconds, so that times sort as texts."""
    return time.isoformat(timespec="microseconds")
