"""The whisper log as people read it: prompts of some time, newest first, with the memories that were shown."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from ormahd.process import sql
from ormahd.state.state import State

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
