"""Sessions of agents: the last prompts of each (redacted), the memories that its context holds, and the folder in
which it began.

They are stored in the database only, with no copy in memory: a restart loses nothing, and a purge leaves nothing
behind.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import logging
import os
import re
import sqlite3
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from msgspec import Struct

from ormahd import paths
from ormahd.state.state import State, sortable
from ormahd.text.secrets import redact_name

log = logging.getLogger("ormah")

PLAIN_ID: Final = re.compile(r"[!-~]{1,128}")
"""Matches session ids as harnesses give them. Any other id is stored as its digest."""
MAX_SESSIONS: Final = 1_000
"""Maximum number of sessions that are kept. The session whose last prompt is oldest is dropped first."""
MAX_HELD: Final = 500
"""Maximum number of memories stored as held by a session's context. The most recent ones are kept."""


class Spoken(Struct, frozen=True):
    """An earlier prompt. `vector`: bytes of a float32 vector made by `model`, or None."""

    time: datetime
    prompt: str
    vector: bytes | None
    model: str | None
    answered: bool


class AgentSession(Struct, frozen=True):
    """What is stored of a session of an agent."""

    prompts: int
    """Number of prompts, including those answered with silence."""
    last: datetime
    holds: dict[str, str]
    """Key of a memory -> how the session's context holds it."""
    spoken: tuple[Spoken, ...]
    """The last prompts, oldest first."""


def key_of(session_id: str | None) -> str | None:
    """Return the id under which a session is stored; None if the id is blank or None. An id that looks like a secret,
    or is not as harnesses give them, is stored as a hash."""
    if session_id is None or not session_id.strip():
        return None
    if PLAIN_ID.fullmatch(session_id) and not redact_name(session_id).found:
        return session_id
    return "sha256:" + hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest()


def without_secret(session_id: str) -> str:
    """Return a session's id unchanged; if it looks like a secret, return the hash that is stored in its place."""
    return key_of(session_id) or "" if redact_name(session_id).found else session_id


def find(state: State, session_id: str) -> AgentSession | None:
    """Return what is stored of a session; None if there is nothing."""
    with state.transaction() as db:
        row = db.execute("SELECT prompts, last, holds FROM session WHERE session_id = ?", (session_id,)).fetchone()
        if row is None:
            return None
        select = "SELECT time, prompt, vector, model, answered FROM session_prompt WHERE session_id = ? ORDER BY id"
        spoken = db.execute(select, (session_id,)).fetchall()
    return AgentSession(
        prompts=row[0],
        last=datetime.fromisoformat(row[1]),
        holds=json.loads(row[2]),
        spoken=tuple(
            Spoken(
                time=datetime.fromisoformat(time), prompt=prompt, vector=vector, model=model, answered=bool(answered)
            )
            for time, prompt, vector, model, answered in spoken
        ),
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
    """Store a prompt of a session, and which memories its context now holds. Return whether the session is new.

    `spoken`: the prompt, or None to store no text; the last `keep` prompts are kept. `counted`: whether to count it as
    a prompt. `holds`: key of a memory -> how it came into the context. `lasting`: values of `holds` that are not
    replaced when the memory is shown again in another way.
    """
    with state.transaction() as db:
        # The memories that the context holds.
        row = db.execute("SELECT holds FROM session WHERE session_id = ?", (session_id,)).fetchone()
        held: dict[str, str] = json.loads(row[0]) if row is not None else {}
        for key, how in holds.items():
            before = held.pop(key, how)  # move it to the end: the memories shown first are dropped first
            held[key] = before if before in lasting else how
        newest = dict(list(held.items())[-MAX_HELD:])
        db.execute(
            "INSERT INTO session (session_id, prompts, last, holds) VALUES (?, ?, ?, ?) ON CONFLICT (session_id) "
            "DO UPDATE SET prompts = prompts + excluded.prompts, last = excluded.last, holds = excluded.holds",
            (session_id, int(counted), sortable(now), json.dumps(newest, separators=(",", ":"))),
        )

        # The prompt.
        if spoken is not None:
            db.execute(
                "INSERT INTO session_prompt (session_id, time, prompt, vector, model, answered) VALUES (?, ?, ?, ?, ?, ?)",
                (session_id, sortable(spoken.time), spoken.prompt, spoken.vector, spoken.model, spoken.answered),
            )
            db.execute(
                "DELETE FROM session_prompt WHERE session_id = ? AND id NOT IN "
                "(SELECT id FROM session_prompt WHERE session_id = ? ORDER BY id DESC LIMIT ?)",
                (session_id, session_id, keep),
            )
    return row is None


def clear_held(state: State, session_id: str) -> None:
    """Delete the record of the memories that a session's context holds."""
    with state.transaction() as db:
        db.execute("UPDATE session SET holds = '{}' WHERE session_id = ?", (session_id,))


def delete_prompts(state: State, session_id: str) -> None:
    """Delete the stored prompts of a session."""
    with state.transaction() as db:
        db.execute("DELETE FROM session_prompt WHERE session_id = ?", (session_id,))


def began(state: State, session_id: str) -> str | None:
    """Return the folder in which a session began; None if it is unknown, or if the state cannot be read."""
    try:
        with state.transaction() as db:
            return _stored_folder(db, session_id)
    except sqlite3.Error as exc:
        log.warning("where a session began could not be read: %s", exc)
        return None


def begin(state: State, session_id: str, folder: str, now: datetime, *, anew: bool = False) -> str:
    """Return the folder in which a session began, which may differ from `folder`, where its agent works now.

    If none is stored yet, or if the session begins `anew`, store `folder` and return it. If the state cannot be read or
    written, log that and return `folder`.
    """
    try:
        with state.transaction() as db:
            known = _stored_folder(db, session_id)
            if known is not None and (known == folder or not anew):
                return known
            db.execute("INSERT OR REPLACE INTO session_place VALUES (?, ?, ?)", (session_id, folder, now.isoformat()))
    except sqlite3.Error as exc:
        log.warning("where a session began could not be remembered: %s", exc)
    return folder


def _stored_folder(db: sqlite3.Connection, session_id: str) -> str | None:
    """Return the folder that is stored for a session; None if there is none."""
    row = db.execute("SELECT folder FROM session_place WHERE session_id = ?", (session_id,)).fetchone()
    return None if row is None else str(row[0])


def is_excluded(folder: str, patterns: Iterable[str]) -> bool:
    """Return whether one of `patterns` (those of `sessions.exclude`) matches `folder` or a folder above it. Symbolic
    links are followed. Nothing of sessions in such a folder is stored."""
    folders = {folder, os.path.realpath(folder)}
    return any(
        fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(name, f"{pattern}/*")
        for given in (str(paths.expand(Path(written))) for written in patterns)
        for pattern in {given.rstrip("/"), os.path.realpath(given)}
        for name in folders
    )


def was_told(state: State, mark: str, folder: str, since: datetime) -> bool:
    """Return whether the context of a session that began in `folder` or below it holds `mark`. Only sessions with a
    prompt since the time `since` count."""
    # `holds` is JSON: an object whose keys are memories and such marks.
    with state.transaction() as db:
        found = db.execute(
            "SELECT 1 FROM session JOIN session_place USING (session_id) WHERE last >= ? AND instr(holds, ?) "
            "AND (folder = ? OR substr(folder, 1, length(?) + 1) = ? || '/') LIMIT 1",
            (sortable(since), json.dumps(mark) + ":", folder, folder, folder),
        ).fetchone()
    return found is not None


def prune(state: State, *, now: datetime, days: float) -> int:
    """Delete sessions that had no prompt for `days`, and the oldest ones beyond `MAX_SESSIONS`. Also delete folders
    that were stored more than `days` ago for sessions that are not kept. Return the number of sessions deleted."""
    with state.transaction() as db:
        old = db.execute("DELETE FROM session WHERE last < ?", (sortable(now - timedelta(days=days)),)).rowcount
        many = db.execute(
            "DELETE FROM session WHERE session_id IN (SELECT session_id FROM session ORDER BY last DESC LIMIT -1 OFFSET ?)",
            (MAX_SESSIONS,),
        ).rowcount
        db.execute(
            "DELETE FROM session_place WHERE time < ? AND session_id NOT IN (SELECT session_id FROM session)",
            ((now - timedelta(days=days)).isoformat(),),
        )
    return old + many
