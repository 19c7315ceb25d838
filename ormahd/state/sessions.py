"""What sessions said and hold, in the state: the last prompts (redacted) and the ids that a context has; and where each began.

Kept in the database alone and not in memory besides: a read takes 0.1 ms, a restart forgets nothing, and what a purge
takes out is gone.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import sqlite3
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec import Struct

from ormahd.state.state import State

log = logging.getLogger("ormah")

PLAIN_ID: Final = re.compile(r"[!-~]{1,128}")
"""Session ids as harnesses give them; any other one is remembered by its digest."""
MOST_SESSIONS: Final = 1_000
"""Sessions that are remembered; the one that was silent for longest goes first."""
MOST_HELD: Final = 500
"""Memories that a session is remembered to hold, the last ones: more than any context has room for."""


class Spoken(Struct, frozen=True):
    """An earlier prompt. `vector`: float32 bytes of the model that `model` names, or None."""

    time: datetime
    prompt: str
    vector: bytes | None
    model: str | None
    answered: bool


class Session(Struct, frozen=True):
    prompts: int
    """So many, silent ones too."""
    last: datetime
    holds: dict[str, str]
    """Key of a memory: how the session's context holds it."""
    spoken: tuple[Spoken, ...]
    """The last prompts, oldest first."""


def key_of(session_id: str | None) -> str | None:
    """The id under which a session is remembered; None where an id is empty or None: that is no session."""
    if session_id is None or not session_id.strip():
        return None
    if PLAIN_ID.fullmatch(session_id):
        return session_id
    return "sha256:" + hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest()


def find(state: State, session_id: str) -> Session | None:
    with state.transaction() as db:
        row = db.execute("SELECT prompts, last, holds FROM session WHERE session_id = ?", (session_id,)).fetchone()
        if row is None:
            return None
        spoken = db.execute(
            "SELECT time, prompt, vector, model, answered FROM session_prompt WHERE session_id = ? ORDER BY id",
            (session_id,),
        ).fetchall()
    return Session(
        prompts=row[0],
        last=datetime.fromisoformat(row[1]),
        holds=json.loads(row[2]),
        spoken=tuple(Spoken(datetime.fromisoformat(one[0]), one[1], one[2], one[3], bool(one[4])) for one in spoken),
    )


def add(
    state: State,
    session_id: str,
    spoken: Spoken | None,
    *,
    now: datetime,
    holds: Mapping[str, str],
    lasting: Collection[str],
    keep: int,
    counted: bool = True,
) -> bool:
    """Count a prompt (unless it is none: `counted`), remember it (unless it is None) as one of the last `keep`, and what
    the context holds from now on.

    A memory that is held in one of the `lasting` ways stays so when it comes again in another. True for a new session.
    """
    with state.transaction() as db:
        row = db.execute("SELECT holds FROM session WHERE session_id = ?", (session_id,)).fetchone()
        held: dict[str, str] = json.loads(row[0]) if row is not None else {}
        for key, how in holds.items():
            before = held.pop(key, how)  # to the end: what was shown last is forgotten last
            held[key] = before if before in lasting else how
        kept = dict(list(held.items())[-MOST_HELD:])
        db.execute(
            "INSERT INTO session (session_id, prompts, last, holds) VALUES (?, ?, ?, ?) ON CONFLICT (session_id) "
            "DO UPDATE SET prompts = prompts + excluded.prompts, last = excluded.last, holds = excluded.holds",
            (session_id, int(counted), _iso(now), json.dumps(kept, separators=(",", ":"))),
        )
        if spoken is not None:
            db.execute(
                "INSERT INTO session_prompt (session_id, time, prompt, vector, model, answered) VALUES (?, ?, ?, ?, ?, ?)",
                (session_id, _iso(spoken.time), spoken.prompt, spoken.vector, spoken.model, spoken.answered),
            )
            db.execute(
                "DELETE FROM session_prompt WHERE session_id = ? AND id NOT IN "
                "(SELECT id FROM session_prompt WHERE session_id = ? ORDER BY id DESC LIMIT ?)",
                (session_id, session_id, keep),
            )
    return row is None


def let_go(state: State, session_id: str) -> None:
    """Forget what the context of a session holds."""
    with state.transaction() as db:
        db.execute("UPDATE session SET holds = '{}' WHERE session_id = ?", (session_id,))


def hush(state: State, session_id: str) -> None:
    """Forget what a session said."""
    with state.transaction() as db:
        db.execute("DELETE FROM session_prompt WHERE session_id = ?", (session_id,))


def began(state: State, session_id: str) -> str | None:
    """The folder that a session began in; None where it is not known. A state that cannot be read is one line in the log."""
    try:
        with state.transaction() as db:
            return _began(db, session_id)
    except sqlite3.Error as exc:
        log.warning("where a session began could not be read: %s", exc)
        return None


def begin(state: State, session_id: str, folder: str, now: datetime, *, anew: bool = False) -> str:
    """The folder that a session began in, whatever folders its agent changes into: this one, where it is not known yet or the session
    begins `anew`. A state that cannot be read or written is one line in the log: then this one counts."""
    try:
        with state.transaction() as db:
            known = _began(db, session_id)
            if known is not None and (known == folder or not anew):
                return known
            db.execute("INSERT OR REPLACE INTO session_place VALUES (?, ?, ?)", (session_id, folder, now.isoformat()))
    except sqlite3.Error as exc:
        log.warning("where a session began could not be remembered: %s", exc)
    return folder


def _began(db: sqlite3.Connection, session_id: str) -> str | None:
    row = db.execute("SELECT folder FROM session_place WHERE session_id = ?", (session_id,)).fetchone()
    return None if row is None else str(row[0])


def prune(state: State, *, now: datetime, days: float) -> int:
    """Forget sessions that were silent for so many days, the oldest beyond `MOST_SESSIONS`, and where those began so many days ago that
    are not remembered otherwise. Returns how many sessions."""
    with state.transaction() as db:
        old = db.execute("DELETE FROM session WHERE last < ?", (_iso(now - timedelta(days=days)),)).rowcount
        many = db.execute(
            "DELETE FROM session WHERE session_id IN (SELECT session_id FROM session ORDER BY last DESC LIMIT -1 OFFSET ?)",
            (MOST_SESSIONS,),
        ).rowcount
        db.execute(
            "DELETE FROM session_place WHERE time < ? AND session_id NOT IN (SELECT session_id FROM session)",
            ((now - timedelta(days=days)).isoformat(),),
        )
    return old + many


def _iso(time: datetime) -> str:
    """UTC with all six decimals, so that texts compare as times do."""
    return time.astimezone(UTC).isoformat(timespec="microseconds")
