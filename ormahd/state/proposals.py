"""Proposals: what jobs would like to do and a person has to decide on (seeds/data-model, "Proposal").

They are of this machine. What was decided stands in the vault (`model/decision.py`), so that a rejected proposal is not made
again after the state was lost, nor on another machine; a status here only follows it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from ormahd.errors import Ambiguous, BadRequest, NotFound
from ormahd.model.node import ProposalType
from ormahd.process import sql
from ormahd.state.state import State

PENDING, APPROVED, REJECTED = "pending", "approved", "rejected"
STALE = "stale"
"""A memory that it is about says something else by now, or is gone. It may be made anew."""
STATUSES = (PENDING, APPROVED, REJECTED, STALE)
KEPT = 300
"""Proposals that are not pending and are still told of; the vault knows the decisions without them."""
MIN_PREFIX = 4
SHOWN = 20
"""Ids that an error lists."""
_ALPHABET = frozenset("0123456789abcdef-")


class StoredProposal(Struct, frozen=True):
    """A proposal as it is kept. `nodes`: full ids; `op`: of the commit that came of it, where that is known."""

    id: str
    type: ProposalType
    status: str
    key: str
    nodes: tuple[str, ...]
    action: str
    reason: str
    preview: str
    evidence: dict[str, Any]
    payload: dict[str, Any]
    run: str
    created: datetime
    resolved: datetime | None
    op: str | None


class Status(Struct, frozen=True):
    """What a proposal has come to."""

    id: str
    status: str
    resolved: datetime | None


_COLUMNS = "id, type, status, key, source_nodes, proposed_action, reason, preview, evidence, payload, run, created, resolved, op"


def keep(
    state: State, *, id: str, type: str, key: str, nodes: Sequence[str], action: str, reason: str,  # noqa: A002
    preview: str, evidence: Mapping[str, Any], payload: Mapping[str, Any], based_on: Mapping[str, str], run: str,
) -> None:  # fmt: skip
    """Store a pending proposal, in place of one with the same `key`."""
    with state.transaction() as db:
        db.execute("DELETE FROM proposal WHERE key = ?", (key,))
        db.execute(
            "INSERT INTO proposal (id, type, status, key, source_nodes, proposed_action, reason, preview, "
            "evidence, payload, based_on, run, created) VALUES (?, ?, 'pending', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                id, type, key, json.dumps(list(nodes)), action, reason, preview, json.dumps(dict(evidence)),
                json.dumps(dict(payload)), json.dumps(dict(based_on)), run, _iso(state.clock()),
            ),
        )  # fmt: skip
        db.execute(
            "DELETE FROM proposal WHERE id IN (SELECT id FROM proposal WHERE status <> 'pending' "
            "ORDER BY coalesce(resolved, created) DESC LIMIT -1 OFFSET ?)",
            (KEPT,),
        )


def of_key(state: State, key: str) -> StoredProposal | None:
    with state.transaction() as db:
        row = db.execute(f"SELECT {_COLUMNS} FROM proposal WHERE key = ?", (key,)).fetchone()  # noqa: S608 - our columns
    return None if row is None else _row(row)


def rows(state: State, statuses: Collection[str] = STATUSES) -> list[StoredProposal]:
    """Oldest first; of one moment in the order in which they were made."""
    query = f"SELECT {_COLUMNS} FROM proposal WHERE status IN ({sql.marks(statuses)}) ORDER BY created, id"  # noqa: S608 - marks
    with state.transaction() as db:
        return [_row(row) for row in db.execute(query, tuple(statuses))]


def get(state: State, proposal_id: str) -> StoredProposal:
    """The proposal with this full id.

    Raises:
        NotFound: it is not kept (any more).
    """
    with state.transaction() as db:
        row = db.execute(f"SELECT {_COLUMNS} FROM proposal WHERE id = ?", (proposal_id,)).fetchone()  # noqa: S608
    if row is None:
        raise NotFound(f"there is no proposal {proposal_id}", hint="see: ormahctl proposals --all")
    return _row(row)


def find(state: State, prefix: str) -> StoredProposal:
    """The one proposal whose id begins so.

    Raises:
        BadRequest: it is no beginning of an id. NotFound, Ambiguous: none begins so, or several do.
    """
    wanted = prefix.strip().casefold()
    if len(wanted) < MIN_PREFIX or not _ALPHABET.issuperset(wanted):
        raise BadRequest(
            f"{prefix[:60]!r} is no proposal's id",
            hint=f"give the id, or at least its first {MIN_PREFIX} characters; see: ormahctl proposals",
        )
    with state.transaction() as db:
        found = db.execute(
            f"SELECT {_COLUMNS} FROM proposal WHERE id >= ? AND id < ? ORDER BY id LIMIT ?",  # noqa: S608 - our columns
            (wanted, wanted + "g", SHOWN + 1),
        ).fetchall()
    if not found:
        raise NotFound(f"there is no proposal {wanted[:60]}", hint="see: ormahctl proposals --all", data={"id": wanted})
    if len(found) > 1 and found[0][0] != wanted:
        ids = [row[0] for row in found[:SHOWN]]
        raise Ambiguous(
            f"{wanted!r} is the beginning of {len(found)} proposals: {', '.join(ids)}",
            hint="give more characters of the id", data={"ids": ids},
        )  # fmt: skip
    return _row(found[0])


def settle(state: State, statuses: Iterable[Status]) -> None:
    """Write down what these have come to. What is pending again is not resolved."""
    with state.transaction() as db:
        db.executemany(
            "UPDATE proposal SET status = ?, resolved = ?, op = CASE ? WHEN 'approved' THEN op END WHERE id = ?",
            [
                (one.status, None if one.resolved is None else _iso(one.resolved), one.status, one.id)
                for one in statuses
            ],
        )


def done(state: State, proposal_id: str, status: str, op: str | None) -> None:
    """A person has decided; `op`: of the commit that it came to."""
    with state.transaction() as db:
        db.execute(
            "UPDATE proposal SET status = ?, resolved = ?, op = ? WHERE id = ?",
            (status, _iso(state.clock()), op, proposal_id),
        )


def counts(state: State) -> dict[str, int]:
    """How many there are, by status, as last written down."""
    with state.transaction() as db:
        return dict(db.execute("SELECT status, count(*) FROM proposal GROUP BY status"))


def _row(row: sqlite3.Row | Sequence[Any]) -> StoredProposal:
    (proposal, kind, status, key, nodes, action, reason, preview, evidence, payload, run, created, resolved, op) = row
    return StoredProposal(
        proposal, ProposalType(kind), status, key, tuple(json.loads(nodes)), action, reason, preview, json.loads(evidence),
        json.loads(payload), run, datetime.fromisoformat(created),
        None if resolved is None else datetime.fromisoformat(resolved), op,
    )  # fmt: skip


def _iso(time: datetime) -> str:
    """Always with microseconds, so that times sort as texts."""
    return time.isoformat(timespec="microseconds")
