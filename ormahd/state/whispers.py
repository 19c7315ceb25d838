"""The whisper log: each prompt, with the memories that were considered for it; and the review questions.

Prompts that were answered with silence are logged as well. When a memory is judged, the log says for which prompt it
was considered. Prompts are redacted and kept for some days. A review question asks an agent whether a memory that was
not shown would have been of use. Any judgement on that memory counts as the answer.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
import sqlite3
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ormahd.errors import NotFound, OrmahError
from ormahd.model.judgement import model_name
from ormahd.model.node import short_id
from ormahd.process import sql
from ormahd.state.sessions import is_excluded
from ormahd.state.state import State, sortable
from ormahd.text.quoting import one_line
from ormahd.text.secrets import redact

SPOKEN = "injected"
"""The outcome of a prompt for which memories were whispered. Any other outcome is the reason for silence."""
INJECTED = frozenset({"full", "title", "preference"})
"""The ways in which a memory can be shown that count as injected. `exploring` does not count: it is a review question
(DESIGN section 2)."""
MAX_PROMPT = 2_000
"""Number of characters of a prompt that are kept: enough to recognise it and to embed it again."""
MAX_REDACTED = MAX_PROMPT + 1_000
"""Number of characters of a prompt that are searched for secrets. It is more than are kept, so that a secret across
the end of the kept part is still recognised."""
BEGINNING = 80
"""Number of characters of a prompt that an error shows."""
LOOKED_AT = 500
"""Review questions are chosen from the candidates of the last `LOOKED_AT` prompts, which bounds the time of the
query."""
SLICE = 200
"""Number of prompts that `prune` deletes in one transaction: small, so that a whisper need not wait long."""
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
"""32 characters, so that a random byte modulo 32 is uniform."""
_LAST_WORD = re.compile(r"(?<!\S)\S+\Z")
_EVENT = 12
"""Number of characters of an event's id: 60 random bits, and short enough for an agent to repeat."""

Float = NDArray[np.float32]

log = logging.getLogger("ormah")


class Considered(Struct, frozen=True):
    """A memory considered for a prompt: its relevance before and after the boost from feedback, and `how` it was shown
    (None: not shown)."""

    node_id: str
    relevance: float
    boosted: float
    how: str | None = None


class Logged(Struct, frozen=True):
    """A memory that was considered for a logged prompt. `event`: id of the whisper; `how`: how the memory was shown
    (None: not shown); `vector`: the vector of the prompt, made by `model`."""

    event: str
    node_id: str
    relevance: float
    how: str | None
    time: datetime
    prompt: str
    vector: Float
    model: str
    space: str | None
    session_id: str | None


class Figures(Struct, frozen=True):
    """Statistics of the log since its first prompt (`since`; None: the log is empty). `prompts`: number of prompts;
    `spoken`: number of whispers; `silent`: reason -> number of silences; `told`: number of memories whispered;
    `heeded`: number of those that the agent's reply shows as used."""

    since: datetime | None
    prompts: int
    spoken: int
    silent: dict[str, int]
    median_ms: float | None
    told: int
    heeded: int


def new_event() -> str:
    """Return a random id for a whisper. All its random bytes are drawn in one call, which is faster."""
    return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in secrets.token_bytes(_EVENT))


def record(
    state: State,
    *,
    prompt: str,
    outcome: str,
    milliseconds: float,
    vector: Float | None,
    model: str | None,
    candidates: Iterable[Considered] = (),
    space: str | None = None,
    session_id: str | None = None,
    agent: str = "agent",
    event: str | None = None,
) -> str:
    """Log a prompt with the memories considered for it. Return the id of this whisper (`event`, or a new one), even if
    logging failed.

    `outcome`: `injected`, or the reason for silence. `model`: the name of the embedder that made `vector`.
    `candidates`: the memories. If the prompt was answered with silence, they are logged only with a vector, because
    without it nothing can be learned from them.
    """
    event = event or new_event()
    text = stored_prompt(prompt)
    blob = None if vector is None else np.asarray(vector, np.float32).tobytes()
    memories = [(event, row.node_id, row.relevance, row.boosted, row.how in INJECTED, row.how) for row in candidates]
    name = model and model_name(model)
    if (blob is None or name is None) and outcome != SPOKEN:
        memories = []
    values = (event, sortable(state.clock()), session_id, agent, space, outcome, milliseconds, text, blob, name)
    columns = "event, time, session_id, agent, space, outcome, milliseconds, prompt, vector, model"
    try:
        with state.transaction() as db:
            db.execute(f"INSERT INTO whisper_event ({columns}) VALUES ({sql.marks(values)})", values)
            sql.put(db, "INSERT INTO whisper_log (event, node_id, relevance, boosted, was_injected, shown)", memories)
    except (sqlite3.Error, OrmahError) as exc:  # a failure to log must not fail the whisper
        log.warning("a whisper could not be logged: %s", exc)
    return event


def stored_prompt(prompt: str) -> str:
    """Return the part of a prompt that is stored: its first `MAX_PROMPT` characters, with secrets redacted."""
    text = prompt[:MAX_REDACTED]
    if len(prompt) > MAX_REDACTED and not prompt[MAX_REDACTED].isspace():
        text = _LAST_WORD.sub("", text)  # the last word may be half a secret, which would not be recognised
    return redact(text).text[:MAX_PROMPT]


_LOGGED = (
    "SELECT e.event, ?, ifnull(l.relevance, 0.0), l.shown, e.time, e.prompt, e.vector, e.model, e.space, e.session_id "
    "FROM whisper_event e LEFT JOIN whisper_log l ON l.event = e.event AND l.node_id = ? "
    "WHERE e.vector IS NOT NULL AND "
)


def considered(state: State, event: str, node_id: str) -> Logged | None:
    """Return the log's entry for one memory in one whisper. Its relevance is 0 if the memory was not considered.

    None if there is no such whisper, or if nothing can be learned from its prompt.
    """
    with state.transaction() as db:
        row = db.execute(_LOGGED + "e.event = ?", (node_id, node_id, event)).fetchone()
    return None if row is None else _entry(row)


def latest(state: State, node_id: str, *, session_id: str | None, space: str | None, agent: str) -> Logged:
    """Return the log's entry for a memory in the last whisper of the caller's session that considered it.

    The caller's session is `session_id`. If no prompt of it is logged, it is the session of the last prompt in the
    project `space`, or the last prompt that `agent` asked outside of a session.

    Raises NotFound if no prompt of that session considered the memory. The error names the events to choose from.
    """
    # The last prompt of the session, or of the project or agent.
    last = "SELECT event, session_id, prompt FROM whisper_event WHERE vector IS NOT NULL AND ({}) ORDER BY rowid DESC LIMIT 1"
    found = _LOGGED + "l.node_id IS NOT NULL AND ({}) ORDER BY l.id DESC LIMIT 1"
    with state.transaction() as db:
        newest = db.execute(last.format("session_id = ?"), (session_id,)).fetchone()
        if newest is None:
            mine = "space IS ? OR (session_id IS NULL AND agent = ?)"
            newest = db.execute(last.format(mine), (space, agent)).fetchone()

        # The memory's entry for a prompt of that session; if there is none, its newest entry, for the error.
        event, session, prompt = newest or (None, None, "")
        ids = (node_id, node_id)
        row = db.execute(found.format("e.event = ? OR e.session_id = ?"), (*ids, event, session)).fetchone()
        other = None if row else db.execute(found.format("1"), ids).fetchone()
    if row is not None:
        return _entry(row)
    events = [] if event is None else [f"{event} is “{one_line(prompt, BEGINNING)}”"]
    events += [] if other is None else [f"{other[0]}, which considered it, is “{one_line(other[5], BEGINNING)}”"]
    hint = f"name its event (--event): {'; '.join(events)}" if events else "`ormahctl whisper` lists the last prompts"
    message = f"the last prompt here, and its session, are logged without the memory {short_id(node_id)}, which was too unlikely for them: which prompt is judged?"
    raise NotFound(message, hint=hint, data={"id": node_id})


def never_shown(
    state: State, since: datetime, space: str | None, limit: int, *, least: float = 0.0
) -> list[tuple[str, str]]:
    """Return the memories that were considered for prompts but never shown, as (event, node id), most relevant first.
    The event is that of the prompt for which the memory was most relevant.

    Only prompts of agents' sessions since `since` count, and only the last `LOOKED_AT` of them. A memory must be
    considered for a prompt of this space (None: without a space) with a relevance of at least `least`.
    """
    # The last prompts of sessions, with the memories considered for each, grouped by memory. The score of a memory is its
    # highest relevance for a prompt of this space. A group in which the memory was ever shown is left out.
    with state.transaction() as db:
        keys, _ = sql.scored(
            db,
            # The key has the event of the row with that highest relevance: if max() is the only aggregate of such a kind,
            # SQLite takes the other columns from the row that has the maximum.
            "SELECT l.event || ':' || l.node_id AS key, "
            "max(CASE WHEN l.shown IS NULL AND e.space IS ? AND l.relevance >= ? THEN l.relevance END) AS score "
            "FROM (SELECT event, space FROM whisper_event WHERE time >= ? AND session_id IS NOT NULL ORDER BY time DESC LIMIT ?) e "
            "CROSS JOIN whisper_log l USING (event) "
            "GROUP BY l.node_id HAVING count(l.shown) = 0 AND score IS NOT NULL ORDER BY score DESC, l.id DESC LIMIT ?",
            (space, least, sortable(since), LOOKED_AT, limit),
        )
    return [(event, node_id) for event, _, node_id in (key.partition(":") for key in keys)]


def claim_use(state: State, event: str, node_id: str) -> bool:
    """Mark a memory of a whisper (`event`) as used. Return False if it was marked before, so that no use counts
    twice."""
    with state.transaction() as db:
        db.execute(
            "INSERT INTO whisper_log (event, node_id, relevance, boosted, was_injected) SELECT ?1, ?2, 0, 0, 0 "
            "WHERE NOT EXISTS (SELECT 1 FROM whisper_log WHERE event = ?1 AND node_id = ?2)",
            (event, node_id),
        )
        done = db.execute(
            "UPDATE whisper_log SET used = 1 WHERE event = ? AND node_id = ? AND used = 0", (event, node_id)
        )
        return done.rowcount > 0


def prompt_texts(state: State, events: Iterable[str]) -> dict[str, str]:
    """Return {event: text of its prompt} for those of `events` that are still logged."""
    found: dict[str, str] = {}
    with state.transaction() as db:
        for event in events:
            row = db.execute("SELECT prompt FROM whisper_event WHERE event = ?", (event,)).fetchone()
            if row is not None:
                found[event] = row[0]
    return found


def figures(state: State) -> Figures:
    """Return statistics of the log."""
    with state.transaction() as db:
        outcomes = dict(db.execute("SELECT outcome, count(*) FROM whisper_event GROUP BY 1 ORDER BY 2 DESC, 1"))
        (since,) = db.execute("SELECT min(time) FROM whisper_event").fetchone()
        whispered, heeded = db.execute("SELECT count(shown), total(heeded) FROM whisper_log").fetchone()
        prompts = sum(outcomes.values())
        select = "SELECT milliseconds FROM whisper_event ORDER BY 1 LIMIT 1 OFFSET ?"
        middle = db.execute(select, (prompts // 2,)).fetchone()
    spoken = outcomes.pop(SPOKEN, 0)
    moment = None if since is None else datetime.fromisoformat(since)
    return Figures(
        since=moment,
        prompts=prompts,
        spoken=spoken,
        silent=outcomes,
        median_ms=None if middle is None else round(middle[0], 1),
        told=whispered,
        heeded=int(heeded),
    )


def daily(state: State, since: datetime) -> dict[str, tuple[int, int]]:
    """Return {day of this machine's time zone: (whispers, silences)} of the log since `since`."""
    select = "SELECT date(time, 'localtime'), sum(outcome = ?), sum(outcome <> ?) FROM whisper_event WHERE time >= ? GROUP BY 1"
    with state.transaction() as db:
        found = db.execute(select, (SPOKEN, SPOKEN, sortable(since))).fetchall()
    return {day: (spoken, silent) for day, spoken, silent in found}


def prune(state: State, days: float) -> int:
    """Delete prompts older than `days`, with the memories considered for them, `SLICE` prompts in each transaction.
    Return the number of prompts deleted."""
    before, count = sortable(state.clock() - timedelta(days=days)), 0
    while True:
        with state.transaction() as db:
            found = db.execute(
                "DELETE FROM whisper_event WHERE event IN (SELECT event FROM whisper_event WHERE time < ? LIMIT ?)",
                (before, SLICE),
            )
        count += found.rowcount
        if found.rowcount < SLICE:
            return count


def delete_excluded(state: State, patterns: Sequence[str]) -> int:
    """Delete the prompts of sessions that began in a folder that one of `patterns` excludes, and return their number.
    Such prompts exist if the folder was excluded only later.

    The time and outcome of each whisper are kept, for the statistics.
    """
    count = 0
    with state.transaction() as db:
        places = db.execute("SELECT session_id, folder FROM session_place").fetchall()
        for session_id in [session_id for session_id, folder in places if is_excluded(folder, patterns)]:
            mine = (session_id,)
            logged = "SELECT event FROM whisper_event WHERE session_id = ? AND prompt != ''"
            db.execute(f"DELETE FROM whisper_log WHERE event IN ({logged})", mine)
            count += db.execute("DELETE FROM session_prompt WHERE session_id = ?", mine).rowcount
            count += db.execute(
                "UPDATE whisper_event SET prompt = '', vector = NULL WHERE session_id = ? AND prompt != ''", mine
            ).rowcount
    if count:
        state.wipe()
    return count


def _entry(row: Sequence[Any]) -> Logged:
    """Return the entry that a row of `_LOGGED` holds."""
    event, node_id, relevance, how, time, prompt, vector, *rest = row
    at, floats = datetime.fromisoformat(time), np.frombuffer(vector, np.float32)
    return Logged(event, node_id, relevance, how, at, prompt, floats, *rest)


GLOBAL: Final = "global"


class LoggedPrompt(Struct, frozen=True):
    """A prompt in the log. `outcome`: `injected`, or the reason for silence."""

    event: str
    time: datetime
    agent: str
    session_id: str | None
    space: str | None
    outcome: str
    milliseconds: float
    prompt: str


class LoggedMemory(Struct, frozen=True):
    """A memory that was shown in a whisper. `heeded`: whether the agent's reply shows that it was used."""

    node_id: str
    shown: str
    relevance: float
    heeded: bool


def prompts(
    state: State,
    *,
    limit: int,
    since: datetime | None = None,
    before: datetime | None = None,
    space: str | None = None,
    outcome: str | None = None,
    node_id: str | None = None,
    session_id: str | None = None,
) -> list[LoggedPrompt]:
    """Return the prompts between two times, newest first, at most `limit`.

    `space`: only prompts of this space; "global": only prompts without a space. `outcome`: only prompts with this
    outcome. `node_id`: only prompts for which this memory was shown. `session_id`: only prompts of this session for
    which memories were searched. None is no condition.
    """
    conditions, values = ["1"], list[Any]()
    for sign, bound in ((">=", since), ("<=", before)):
        if bound is not None:
            conditions.append(f"time {sign} ?")
            values.append(sortable(bound))
    if space is not None:
        conditions.append("space IS ?")
        values.append(None if space.casefold() == GLOBAL else space)
    if outcome is not None:
        conditions.append("outcome = ?")
        values.append(outcome)
    if node_id is not None:
        conditions.append("event IN (SELECT event FROM whisper_log WHERE node_id = ? AND shown IS NOT NULL)")
        values.append(node_id)
    if session_id is not None:
        conditions.append("session_id = ? AND vector IS NOT NULL")
        values.append(session_id)
    select = (
        "SELECT event, time, agent, session_id, space, outcome, milliseconds, prompt FROM whisper_event "
        f"WHERE {' AND '.join(conditions)} ORDER BY time DESC, rowid DESC LIMIT ?"
    )
    with state.transaction() as db:
        rows = db.execute(select, (*values, limit)).fetchall()
    return [LoggedPrompt(row[0], datetime.fromisoformat(row[1]), *row[2:]) for row in rows]


def shown_memories(state: State, events: Sequence[str]) -> dict[str, list[LoggedMemory]]:
    """Return {event: memories shown in that whisper, in the order shown}. Events without any are left out."""
    found: dict[str, list[LoggedMemory]] = {}
    with state.transaction() as db:
        for chunk in sql.sets(events):
            select = (
                "SELECT event, node_id, shown, boosted, heeded FROM whisper_log "
                f"WHERE shown IS NOT NULL AND event IN ({sql.marks(chunk)}) ORDER BY id"
            )
            for event, node_id, how, relevance, heeded in db.execute(select, chunk):
                found.setdefault(event, []).append(LoggedMemory(node_id, how, relevance, bool(heeded)))
    return found


def last_of_session(state: State, session_id: str) -> LoggedPrompt | None:
    """Return the last prompt of a session for which memories were searched; None if none were whispered for it."""
    found = next(iter(prompts(state, limit=1, session_id=session_id)), None)
    return found if found is not None and found.outcome == SPOKEN else None


def mark_heeded(state: State, event: str, node_ids: Sequence[str]) -> None:
    """Record that the agent's reply to the prompt of a whisper (`event`) shows that it used these memories."""
    with state.transaction() as db:
        db.execute(
            f"UPDATE whisper_log SET heeded = 1 WHERE event = ? AND node_id IN ({sql.marks(node_ids)})",
            (event, *node_ids),
        )


def last(state: State, *, spoken: str) -> LoggedPrompt | None:
    """Return the last prompt for which memories were whispered (`spoken`: the name of that outcome)."""
    return next(iter(prompts(state, limit=1, outcome=spoken)), None)


def record_review(state: State, node_id: str, *, event: str, surfaced_in: str) -> None:
    """Record a review question: the whisper `surfaced_in` asked about a memory that the earlier whisper `event`
    considered but did not show."""
    with state.transaction() as db:
        db.execute(
            "INSERT INTO review_log (node_id, event, surfaced_in, time) VALUES (?, ?, ?, ?)",
            (node_id, event, surfaced_in, sortable(state.clock())),
        )


def mark_answered(state: State, node_id: str) -> bool:
    """Mark the newest open review question about this memory as answered. Return False if none was open."""
    with state.transaction() as db:
        done = db.execute(
            "UPDATE review_log SET answered = ? WHERE id = (SELECT id FROM review_log WHERE node_id = ? AND answered IS NULL "
            "ORDER BY id DESC LIMIT 1)",
            (sortable(state.clock()), node_id),
        )
        return done.rowcount > 0


def not_to_ask(state: State, *, since: datetime, unanswered: int) -> set[str]:
    """Return the ids of the memories that no review question should ask about now: a question about them was asked
    since `since`, or at least `unanswered` questions about them got no answer."""
    with state.transaction() as db:
        select = "SELECT node_id FROM review_log GROUP BY node_id HAVING max(time) >= ? OR sum(answered IS NULL) >= ?"
        return set(sql.columns(db, ("node_id",), f"FROM ({select})", (sortable(since), unanswered))[0])


def counts(state: State) -> tuple[int, int]:
    """Return the number of review questions: (asked, answered)."""
    with state.transaction() as db:
        asked, answered = db.execute("SELECT count(*), count(answered) FROM review_log").fetchone()
    return int(asked), int(answered)


def shown_in_session(state: State, session_id: str) -> set[str]:
    """Return the ids of the memories that an agent got in a session: those whispered, and those that its context is
    recorded to hold. Older ones may be missing, because old entries are deleted."""
    with state.transaction() as db:
        rows = db.execute(
            "SELECT DISTINCT l.node_id FROM whisper_event e JOIN whisper_log l USING (event) "
            "WHERE e.session_id = ? AND l.shown IS NOT NULL",
            (session_id,),
        ).fetchall()
        held = db.execute("SELECT holds FROM session WHERE session_id = ?", (session_id,)).fetchone()
    return {str(node_id) for (node_id,) in rows} | set(json.loads(held[0]) if held is not None else ())
