"""The whisper log: each prompt, also those answered with silence, with the memories that were considered; and the reviews.

A judgement names a memory, and the log knows for which prompt it was considered. Prompts are redacted and kept for some days. Any
judgement on a reviewed memory counts as the answer to its review.
"""

from __future__ import annotations

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

from ormahd.errors import Ambiguous, BegunAnew, NotFound
from ormahd.model.judgement import model_name
from ormahd.process import sql
from ormahd.state.state import State
from ormahd.text.secrets import redact

SPOKEN = "injected"
"""The outcome of a prompt for which memories were whispered; any other is a silence's reason."""
INJECTED = frozenset({"full", "title", "preference"})
"""How a memory stands in a whisper that counts as injected. `exploring` does not: it is a question (DESIGN section 2)."""
KEPT = 2_000
"""Characters of a prompt that are kept: enough to embed it anew (a model reads some hundred words) and to recognise it."""
REDACTED = KEPT + 1_000
"""Characters that are looked through for secrets: more than are kept, so that none is cut in two, and no more, because that
takes half a microsecond a character."""
SHOWN = 10
"""Ids that an error lists."""
LOOKED_AT = 500
"""Prompts in which what was held back is looked for: 10 ms, where 20,000 of them took 0.3 s and every other whisper waited."""
SLICE = 200
"""Prompts that are pruned at a time: a whisper does not wait for more than that."""
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
"""32 letters, so that each is drawn equally often."""
_LAST_WORD = re.compile(r"(?<!\S)\S+\Z")
_EVENT = 12
"""Characters of an event's id: 60 random bits, and short enough for an agent to repeat."""

Float = NDArray[np.float32]

log = logging.getLogger("ormah")


class Considered(Struct, frozen=True):
    """A memory that was considered: its relevance before and after feedback's boost, and how it was shown (None: held
    back)."""

    node_id: str
    relevance: float
    boosted: float
    shown: str | None = None


class Logged(Struct, frozen=True):
    """A memory as it was considered for a prompt. `model` names whose `vector` it is."""

    event: str
    node_id: str
    relevance: float
    shown: str | None
    time: datetime
    prompt: str
    vector: Float
    model: str
    space: str | None
    session_id: str | None


class Figures(Struct, frozen=True):
    """How often something was whispered, and why else not, since `since` (None: nothing is logged)."""

    since: datetime | None
    prompts: int
    spoken: int
    silent: dict[str, int]
    median_ms: float | None


def new_event() -> str:
    """An id that nobody can guess. Drawn at once: letter by letter the interpreter was given away 17 times."""
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
    """Log a prompt, and the memories that were considered for it: 0.5 ms with thirty of them, a third of it the search for
    secrets. Returns the event's id (`event`, where the caller needed one before), also where the log could not be written.

    `outcome`: `injected`, or why nothing was. Candidates are logged only with a session and a vector (`model`: the
    embedder's name): without them nothing can be learned from them.
    """
    event = event or new_event()
    text = kept(prompt)
    blob = None if vector is None else np.asarray(vector, np.float32).tobytes()
    rows = [(event, one.node_id, one.relevance, one.boosted, one.shown in INJECTED, one.shown) for one in candidates]
    name = model and model_name(model)
    values = (event, _iso(state.clock()), session_id, agent, space, outcome, milliseconds, text, blob, name)
    try:
        _write(state, values, rows if session_id is not None and blob is not None and name is not None else [])
    except (sqlite3.Error, BegunAnew) as exc:  # a full disk, a broken file: a whisper does not fail for its log
        log.warning("a whisper could not be logged: %s", exc)
    return event


def _write(state: State, event: Sequence[Any], candidates: Sequence[Sequence[Any]]) -> None:
    with state.transaction() as db:
        db.execute(
            "INSERT INTO whisper_event (event, time, session_id, agent, space, outcome, milliseconds, prompt, vector, model) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            event,
        )
        sql.put(db, "INSERT INTO whisper_log (event, node_id, relevance, boosted, was_injected, shown)", candidates)


def kept(prompt: str) -> str:
    """What is kept of a prompt: its beginning, without secrets."""
    text = prompt[:REDACTED]
    if len(prompt) > REDACTED and not prompt[REDACTED].isspace():
        text = _LAST_WORD.sub("", text)  # half a token is no token to those who look for tokens
    return redact(text).text[:KEPT]


_LOGGED = (
    "SELECT l.event, l.node_id, l.relevance, l.shown, e.time, e.prompt, e.vector, e.model, e.space, e.session_id "
    "FROM whisper_log l JOIN whisper_event e USING (event) "
)


def latest(state: State, prefix: str) -> Logged:
    """The last time that a memory was considered. `prefix`: its id, or a beginning of it that no other logged one has.

    Raises:
        Ambiguous: several were considered whose ids begin so. NotFound: none was.
    """
    with state.transaction() as db:
        ids = _ids(db.execute("SELECT DISTINCT node_id FROM whisper_log WHERE node_id >= ? AND node_id < ? LIMIT ?",
                              (prefix, prefix + "g", SHOWN + 1)))  # fmt: skip
        node_id = _one(prefix, ids, "for any prompt that is logged")
        row = db.execute(_LOGGED + "WHERE l.node_id = ? ORDER BY l.id DESC LIMIT 1", (node_id,)).fetchone()
    return _logged(row)


def considered(state: State, event: str, prefix: str) -> Logged:
    """A memory as it was considered in one whisper.

    Raises:
        NotFound: there was no such whisper, or it did not consider that memory. Ambiguous: it considered several.
    """
    candidates = candidates_of(state, event)
    if not candidates and not _known(state, event):
        raise NotFound(
            f"no whisper has the event {event[:40]!r}",
            hint="leave the event out: then the last whisper that considered the memory is judged",
        )
    ids = [one.node_id for one in candidates if one.node_id.startswith(prefix)]
    node_id = _one(prefix, ids, f"by the whisper {event}")
    return next(one for one in candidates if one.node_id == node_id)


def candidates_of(state: State, event: str) -> list[Logged]:
    """What a whisper considered, in the order in which it was logged; empty where it is not known."""
    with state.transaction() as db:
        return [_logged(row) for row in db.execute(_LOGGED + "WHERE l.event = ? ORDER BY l.id", (event,))]


def held_back(
    state: State, since: datetime, space: str | None, limit: int, *, least: float = 0.0
) -> list[tuple[int, str]]:
    """Memories that were considered since then, for prompts of this space (None: without one), at a relevance of at least `least`, and
    never shown: (row of the log in which it was most relevant, memory), most relevant first. Of the last `LOOKED_AT` prompts at
    most."""
    with state.transaction() as db:
        keys, _ = sql.scored(
            db,
            # with one max() the other columns are those of its row
            "SELECT l.id || ':' || l.node_id AS key, "
            "max(CASE WHEN l.shown IS NULL AND e.space IS ? AND l.relevance >= ? THEN l.relevance END) AS score "
            "FROM (SELECT event, space FROM whisper_event WHERE time >= ? ORDER BY time DESC LIMIT ?) e "
            "CROSS JOIN whisper_log l USING (event) "
            "GROUP BY l.node_id HAVING count(l.shown) = 0 AND score IS NOT NULL ORDER BY score DESC, l.id DESC LIMIT ?",
            (space, least, _iso(since), LOOKED_AT, limit),
        )
    rows = (key.split(":", 1) for key in keys)
    return [(int(number), node_id) for number, node_id in rows]


def row(state: State, number: int) -> Logged | None:
    """A row of the log; None where it was forgotten."""
    with state.transaction() as db:
        found = db.execute(_LOGGED + "WHERE l.id = ?", (number,)).fetchone()
    return None if found is None else _logged(found)


def claim_use(state: State, event: str, node_id: str) -> bool:
    """Whether a judgement is the first to say that this memory was used in this whisper; asked again, it is not."""
    with state.transaction() as db:
        done = db.execute(
            "UPDATE whisper_log SET used = 1 WHERE event = ? AND node_id = ? AND used = 0", (event, node_id)
        )
        return done.rowcount > 0


def prompt_texts(state: State, events: Iterable[str]) -> dict[str, str]:
    """The texts of prompts that are still known, by event."""
    found: dict[str, str] = {}
    with state.transaction() as db:
        for event in events:
            row = db.execute("SELECT prompt FROM whisper_event WHERE event = ?", (event,)).fetchone()
            if row is not None:
                found[event] = row[0]
    return found


def figures(state: State) -> Figures:
    """What is logged, counted."""
    with state.transaction() as db:
        outcomes = dict(db.execute("SELECT outcome, count(*) FROM whisper_event GROUP BY 1 ORDER BY 2 DESC, 1"))
        (since,) = db.execute("SELECT min(time) FROM whisper_event").fetchone()
        prompts = sum(outcomes.values())
        middle = db.execute(
            "SELECT milliseconds FROM whisper_event ORDER BY 1 LIMIT 1 OFFSET ?", (prompts // 2,)
        ).fetchone()
    spoken = outcomes.pop(SPOKEN, 0)
    moment = None if since is None else datetime.fromisoformat(since)
    return Figures(moment, prompts, spoken, outcomes, None if middle is None else round(middle[0], 1))


def prune(state: State, days: float) -> int:
    """Forget prompts that are older, with their candidates, some at a time. Returns how many."""
    before, gone = _iso(state.clock() - timedelta(days=days)), 0
    while True:
        with state.transaction() as db:
            found = db.execute(
                "DELETE FROM whisper_event WHERE event IN (SELECT event FROM whisper_event WHERE time < ? LIMIT ?)",
                (before, SLICE),
            )
        gone += found.rowcount
        if found.rowcount < SLICE:
            return gone


def _known(state: State, event: str) -> bool:
    with state.transaction() as db:
        return db.execute("SELECT 1 FROM whisper_event WHERE event = ?", (event,)).fetchone() is not None


def _ids(rows: Iterable[Sequence[Any]]) -> list[str]:
    return [row[0] for row in rows]


def _one(prefix: str, ids: Sequence[str], where: str) -> str:
    if prefix in ids:
        return prefix
    if not ids:
        raise NotFound(
            f"no memory {prefix!r} was considered {where}",
            hint="feedback is learned from whispered candidates: whisper a prompt that it belongs to, then judge it",
        )
    if len(ids) > 1:
        raise Ambiguous(
            f"{prefix!r} is the beginning of {'more than ' if len(ids) > SHOWN else ''}{min(len(ids), SHOWN)} memories that "
            f"were considered: {', '.join(ids[:SHOWN])}",
            hint="give more characters of the id", data={"ids": list(ids[:SHOWN])},
        )  # fmt: skip
    return ids[0]


def _logged(row: Sequence[Any]) -> Logged:
    event, node_id, relevance, shown, time, prompt, vector, model, space, session_id = row
    return Logged(
        event, node_id, relevance, shown, datetime.fromisoformat(time), prompt, np.frombuffer(vector, np.float32), model,
        space, session_id,
    )  # fmt: skip


def _iso(time: datetime) -> str:
    """Always with microseconds, so that times sort as texts."""
    return time.isoformat(timespec="microseconds")


GLOBAL: Final = "global"


class LoggedPrompt(Struct, frozen=True):
    event: str
    time: datetime
    agent: str
    session_id: str | None
    space: str | None
    outcome: str
    milliseconds: float
    prompt: str


class LoggedMemory(Struct, frozen=True):
    """A memory that stood in a whisper."""

    node_id: str
    shown: str
    relevance: float


def prompts(state: State, *, since: datetime | None, before: datetime | None, space: str | None, limit: int) -> list[LoggedPrompt]:  # fmt: skip
    """Prompts between the two times, newest first. `space`: "global" stands for prompts from no space."""
    conditions, values = ["1"], list[Any]()
    for sign, bound in ((">=", since), ("<=", before)):
        if bound is not None:
            conditions.append(f"time {sign} ?")
            values.append(bound.isoformat(timespec="microseconds"))
    if space is not None:
        conditions.append("space IS ?")
        values.append(None if space.casefold() == GLOBAL else space)
    select = (
        "SELECT event, time, agent, session_id, space, outcome, milliseconds, prompt FROM whisper_event "
        f"WHERE {' AND '.join(conditions)} ORDER BY time DESC, event LIMIT ?"
    )
    with state.transaction() as db:
        rows = db.execute(select, (*values, limit)).fetchall()
    return [LoggedPrompt(row[0], datetime.fromisoformat(row[1]), *row[2:]) for row in rows]


def shown(state: State, events: Sequence[str]) -> dict[str, list[LoggedMemory]]:
    """By event, the memories that stood in its whisper, in the order in which they were said."""
    found: dict[str, list[LoggedMemory]] = {}
    with state.transaction() as db:
        for some in sql.sets(events):
            select = (
                "SELECT event, node_id, shown, boosted FROM whisper_log "
                f"WHERE shown IS NOT NULL AND event IN ({sql.marks(some)}) ORDER BY id"
            )
            for event, node_id, how, relevance in db.execute(select, some):
                found.setdefault(event, []).append(LoggedMemory(node_id, how, relevance))
    return found


def last(state: State, *, spoken: str) -> LoggedPrompt | None:
    """The last prompt for which something was said (`spoken`: that outcome's name)."""
    select = (
        "SELECT event, time, agent, session_id, space, outcome, milliseconds, prompt FROM whisper_event "
        "WHERE outcome = ? ORDER BY time DESC LIMIT 1"
    )
    with state.transaction() as db:
        row = db.execute(select, (spoken,)).fetchone()
    return None if row is None else LoggedPrompt(row[0], datetime.fromisoformat(row[1]), *row[2:])


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
