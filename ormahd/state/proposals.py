"""Proposals, judged pairs and maintenance receipts of this machine.

Decisions live in the vault (`model/decision.py`), so a rejected proposal does not return when the state is lost; a status here only
follows them. Verdicts are kept by the hash of the texts a question was about: a changed memory is a new question, a moved one is not.
A receipt lists what an agent was asked to judge, as ids and keys of texts; at most one is open at a time.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from ormahd.errors import Ambiguous, BadRequest, NotFound
from ormahd.model.node import ProposalType
from ormahd.process import sql
from ormahd.state.state import State

BORN: Final = "born"
"""The receipt that nobody got: since when this vault knows of maintenance."""
RECEIPTS_KEPT: Final = 200
"""Settled receipts that are remembered, so that who uses one twice is told so."""


class Receipt(Struct, frozen=True):
    id: str
    time: datetime
    expires: datetime
    issued: dict[str, Any]
    settled: datetime | None


class Receipts:
    """Of one vault. Times are given, so that they are of the clock that jobs go by."""

    def __init__(self, state: State) -> None:
        self._state = state

    def born(self, now: datetime) -> None:
        """A fresh vault has nothing to judge yet: its first day counts as settled."""
        with self._state.transaction() as db:
            if db.execute("SELECT 1 FROM receipt LIMIT 1").fetchone() is None:
                db.execute("INSERT INTO receipt VALUES (?, ?, ?, '{}', ?)", (BORN, *(_iso(now),) * 3))

    def keep(self, receipt: Receipt) -> None:
        """An open receipt in the place of whatever was open before."""
        with self._state.transaction() as db:
            db.execute("DELETE FROM receipt WHERE settled IS NULL")
            db.execute(
                "INSERT INTO receipt VALUES (?, ?, ?, ?, NULL)",
                (receipt.id, _iso(receipt.time), _iso(receipt.expires), json.dumps(receipt.issued)),
            )
            db.execute(
                "DELETE FROM receipt WHERE settled < (SELECT settled FROM receipt WHERE settled IS NOT NULL "
                "ORDER BY settled DESC LIMIT 1 OFFSET ?)",
                (RECEIPTS_KEPT,),
            )

    def find(self, receipt_id: str) -> Receipt | None:
        with self._state.transaction() as db:
            row = db.execute("SELECT * FROM receipt WHERE id = ? AND id <> ?", (receipt_id, BORN)).fetchone()
        return None if row is None else _receipt(row)

    def open(self, now: datetime) -> Receipt | None:
        """The one whose results are waited for; None: there is none, or it has expired."""
        with self._state.transaction() as db:
            row = db.execute("SELECT * FROM receipt WHERE settled IS NULL ORDER BY time DESC LIMIT 1").fetchone()
        found = None if row is None else _receipt(row)
        return found if found is not None and found.expires > now else None

    def settle(self, receipt_id: str, now: datetime) -> None:
        """Its results are in; what was issued need not be known any more."""
        with self._state.transaction() as db:
            db.execute("UPDATE receipt SET settled = ?, issued = '{}' WHERE id = ?", (_iso(now), receipt_id))

    def last(self) -> datetime | None:
        """When results came last, or else when the vault was first asked."""
        with self._state.transaction() as db:
            row = db.execute("SELECT max(settled) FROM receipt").fetchone()
        return None if row[0] is None else datetime.fromisoformat(row[0])


def _receipt(row: tuple[str, str, str, str, str | None]) -> Receipt:
    issued: Mapping[str, Any] = json.loads(row[3])
    settled = None if row[4] is None else datetime.fromisoformat(row[4])
    return Receipt(row[0], datetime.fromisoformat(row[1]), datetime.fromisoformat(row[2]), dict(issued), settled)


def _iso(time: datetime) -> str:
    return time.isoformat(timespec="microseconds")


CONFLICT = "conflict"
"""The question whether two memories cannot both hold, as a judge or an agent answered it."""


def text_key(title: str | None, content: str) -> str:
    """The key of a memory's text, hex."""
    return hashlib.sha256(f"{title or ''}\x00{content}".encode("utf-8", "surrogatepass")).hexdigest()


class Verdicts:
    """Of one vault. `question` is what was asked: "duplicate", "link", "conflict", "consolidate"."""

    def __init__(self, state: State) -> None:
        self._state = state

    def known(self, question: str, texts: Sequence[str]) -> dict[str, Any] | None:
        """The verdict on these texts (keys, in any order), or None where nobody was asked."""
        with self._state.transaction() as db:
            row = db.execute(
                "SELECT verdict FROM verdict WHERE question = ? AND texts = ?", (question, _key(texts))
            ).fetchone()
        return None if row is None else dict(json.loads(row[0]))

    def remember(self, question: str, texts: Sequence[str], verdict: Mapping[str, Any]) -> None:
        with self._state.transaction() as db:
            db.execute(
                "INSERT OR REPLACE INTO verdict (question, texts, verdict, time) VALUES (?, ?, ?, ?)",
                (question, _key(texts), json.dumps(verdict), self._state.clock().isoformat()),
            )

    def forget(self, question: str, texts: Sequence[str]) -> None:
        """Ask again: what the verdict led to was taken back, or could not be done."""
        with self._state.transaction() as db:
            db.execute("DELETE FROM verdict WHERE question = ? AND texts = ?", (question, _key(texts)))

    def unseen(self, job: str, texts: Mapping[str, str]) -> list[str]:
        """Those of the nodes (id to text key) whose text the job has not looked at yet, in their order."""
        seen: dict[str, str] = {}
        ids = list(texts)
        with self._state.transaction() as db:
            for some in sql.chunks(ids):
                rest = f"FROM looked WHERE job = ? AND node_id IN ({sql.marks(some)})"
                seen |= {row[0]: row[1] for row in sql.table(db, ("node_id", "text"), rest, (job, *some))}
        return [node_id for node_id in ids if seen.get(node_id) != texts[node_id]]

    def seen(self, job: str, texts: Iterable[tuple[str, str]]) -> None:
        """The job has looked for partners of these nodes (id, text key): all that came of it is committed or remembered."""
        with self._state.transaction() as db:
            rows = [(job, node_id, text) for node_id, text in texts]
            sql.put(db, "INSERT OR REPLACE INTO looked (job, node_id, text)", rows)


def _key(texts: Sequence[str]) -> str:
    return " ".join(sorted(texts))


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
