"""Where sessions began, in the state: the folder that each of them first told, whatever folders its agent changes into.

A state that cannot be read or written is one line in the log: then the folder that was told now counts.
"""

from __future__ import annotations

import logging
import sqlite3
from datetime import datetime, timedelta

from ormahd.journal.state import State

log = logging.getLogger("ormah")


def began(state: State, session_id: str) -> str | None:
    """The folder that a session began in; None where it is not known."""
    try:
        with state.transaction() as db:
            row = db.execute("SELECT folder FROM session_place WHERE session_id = ?", (session_id,)).fetchone()
    except sqlite3.Error as exc:
        log.warning("where a session began could not be read: %s", exc)
        return None
    return None if row is None else str(row[0])


def begin(state: State, session_id: str, folder: str, now: datetime, *, anew: bool = False) -> str:
    """The folder that a session began in: this one, where it is not known yet or the session begins `anew`."""
    known = began(state, session_id)
    if known is not None and (known == folder or not anew):
        return known
    try:
        with state.transaction() as db:
            db.execute("INSERT OR REPLACE INTO session_place VALUES (?, ?, ?)", (session_id, folder, now.isoformat()))
    except sqlite3.Error as exc:
        log.warning("where a session began could not be remembered: %s", exc)
    return folder


def prune(state: State, *, now: datetime, days: float) -> int:
    """Forget sessions that began so many days ago and are not remembered otherwise. Returns how many."""
    with state.transaction() as db:
        return db.execute(
            "DELETE FROM session_place WHERE time < ? AND session_id NOT IN (SELECT session_id FROM session)",
            ((now - timedelta(days=days)).isoformat(),),
        ).rowcount
