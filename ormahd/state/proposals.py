"""Proposals, verdicts on judged texts, and maintenance receipts of this machine.

Decisions on proposals are stored in the vault (`model/decision.py`), so that a rejected proposal does not return when
the state is lost; the status stored here is updated from them. A verdict is stored by the hashes of the texts in
question: a memory whose text changed is judged again, one that was only moved is not. A receipt lists the questions
that an agent was given, as ids and keys of texts; at most one receipt is open at a time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from ormahd.errors import Ambiguous, BadRequest, NotFound
from ormahd.model.node import ProposalType
from ormahd.process import sql
from ormahd.state.state import State, sortable

BORN: Final = "born"
"""Id of a row in the table of receipts that is no receipt: its time is when maintenance was first requested."""
RECEIPTS_KEPT: Final = 200
"""Number of settled receipts that are kept. If an agent uses one of them a second time, the error can say so."""


class Receipt(Struct, frozen=True):
    """A receipt. `issued`: the questions that the agent was given; `settled`: when its results came, or None."""

    id: str
    time: datetime
    expires: datetime
    issued: dict[str, Any]
    settled: datetime | None


class Receipts:
    """Stores the receipts of one vault. Callers pass the present time, so that it comes from the clock of the
    jobs."""

    def __init__(self, state: State) -> None:
        self._state = state

    def born(self, now: datetime) -> None:
        """If this vault never had maintenance, record `now` as the time of its last one: a new vault has nothing to
        judge yet."""
        with self._state.transaction() as db:
            if db.execute("SELECT 1 FROM receipt LIMIT 1").fetchone() is None:
                db.execute("INSERT INTO receipt VALUES (?, ?, ?, '{}', ?)", (BORN, *(sortable(now),) * 3))

    def keep(self, receipt: Receipt) -> None:
        """Store a receipt as the open one. Results for one that was open before still count, until it expires."""
        with self._state.transaction() as db:
            db.execute("DELETE FROM receipt WHERE settled IS NULL AND expires <= ?", (sortable(receipt.time),))
            db.execute(
                "INSERT INTO receipt VALUES (?, ?, ?, ?, NULL)",
                (receipt.id, sortable(receipt.time), sortable(receipt.expires), json.dumps(receipt.issued)),
            )
            db.execute(
                "DELETE FROM receipt WHERE settled < (SELECT settled FROM receipt WHERE settled IS NOT NULL "
                "ORDER BY settled DESC LIMIT 1 OFFSET ?)",
                (RECEIPTS_KEPT,),
            )

    def find(self, receipt_id: str) -> Receipt | None:
        """Return the receipt with this id; None if there is none."""
        with self._state.transaction() as db:
            row = db.execute("SELECT * FROM receipt WHERE id = ? AND id <> ?", (receipt_id, BORN)).fetchone()
        return None if row is None else _receipt(row)

    def open(self, since: datetime) -> Receipt | None:
        """Return the newest receipt that waits for results; None if there is none, or if it was not handed out after
        `since`."""
        with self._state.transaction() as db:
            row = db.execute("SELECT * FROM receipt WHERE settled IS NULL ORDER BY time DESC LIMIT 1").fetchone()
        found = None if row is None else _receipt(row)
        return found if found is not None and found.time > since else None

    def settle(self, receipt_id: str, now: datetime) -> None:
        """Mark a receipt as settled once its results are in, and delete the questions that it lists."""
        with self._state.transaction() as db:
            db.execute("UPDATE receipt SET settled = ?, issued = '{}' WHERE id = ?", (sortable(now), receipt_id))

    def last(self) -> datetime | None:
        """Return when an agent last sent results. If none ever did, return when maintenance was first requested; None
        if it never was."""
        with self._state.transaction() as db:
            row = db.execute("SELECT max(settled) FROM receipt").fetchone()
        return None if row[0] is None else datetime.fromisoformat(row[0])


def _receipt(row: tuple[str, str, str, str, str | None]) -> Receipt:
    """Return the receipt that a row of table `receipt` holds."""
    issued: Mapping[str, Any] = json.loads(row[3])
    settled = None if row[4] is None else datetime.fromisoformat(row[4])
    return Receipt(row[0], datetime.fromisoformat(row[1]), datetime.fromisoformat(row[2]), dict(issued), settled)


CONFLICT = "conflict"
"""The question whether two memories contradict each other, as answered by a judge or an agent."""


def text_key(title: str | None, content: str) -> str:
    """Return the key of a memory's text: a sha256 in hex."""
    return hashlib.sha256(f"{title or ''}\x00{content}".encode("utf-8", "surrogatepass")).hexdigest()


class Verdicts:
    """Stores the verdicts of one vault, and which memories each job has examined. `question` is one of "duplicate",
    "link", "conflict", "consolidate"."""

    def __init__(self, state: State) -> None:
        self._state = state

    def known(self, question: str, texts: Sequence[str]) -> dict[str, Any] | None:
        """Return the verdict on these texts (keys, in any order); None if there is none."""
        with self._state.transaction() as db:
            select = "SELECT verdict FROM verdict WHERE question = ? AND texts = ?"
            row = db.execute(select, (question, _key(texts))).fetchone()
        return None if row is None else dict(json.loads(row[0]))

    def remember(self, question: str, texts: Sequence[str], verdict: Mapping[str, Any]) -> None:
        """Store the verdict on these texts (keys, in any order)."""
        with self._state.transaction() as db:
            db.execute(
                "INSERT OR REPLACE INTO verdict (question, texts, verdict, time) VALUES (?, ?, ?, ?)",
                (question, _key(texts), json.dumps(verdict), self._state.clock().isoformat()),
            )

    def forget(self, question: str, texts: Sequence[str]) -> None:
        """Delete a verdict, so that the question is asked again. Called if its effect was undone or failed."""
        with self._state.transaction() as db:
            db.execute("DELETE FROM verdict WHERE question = ? AND texts = ?", (question, _key(texts)))

    def unexamined(self, job: str, texts: Mapping[str, str]) -> list[str]:
        """Return the ids of the nodes whose text the job has not examined yet, in the order of `texts` (node id -> key
        of its text)."""
        seen: dict[str, str] = {}
        ids = list(texts)
        with self._state.transaction() as db:
            for chunk in sql.chunks(ids):
                rest = f"FROM looked WHERE job = ? AND node_id IN ({sql.marks(chunk)})"
                seen |= {row[0]: row[1] for row in sql.table(db, ("node_id", "text"), rest, (job, *chunk))}
        return [node_id for node_id in ids if seen.get(node_id) != texts[node_id]]

    def mark_examined(self, job: str, texts: Iterable[tuple[str, str]]) -> None:
        """Record that the job has examined these nodes, given as (id, key of the text). Called once all results are
        stored."""
        with self._state.transaction() as db:
            rows = [(job, node_id, text) for node_id, text in texts]
            sql.put(db, "INSERT OR REPLACE INTO looked (job, node_id, text)", rows)


def _key(texts: Sequence[str]) -> str:
    """Return one key for several texts, given by their keys, in any order."""
    return " ".join(sorted(texts))


PENDING, APPROVED, REJECTED = "pending", "approved", "rejected"
STALE = "stale"
"""Status of a proposal of which a memory has changed or is gone. A job may make the proposal again."""
STATUSES = (PENDING, APPROVED, REJECTED, STALE)
MAX_SETTLED = 300
"""Number of proposals that are kept after they were decided or became stale. The decisions are in the vault."""
MIN_PREFIX = 4
AMBIGUOUS_IDS = 20
"""Maximum number of ids that an error lists."""
_ALPHABET = frozenset("0123456789abcdef-")


class StoredProposal(Struct, frozen=True):
    """A proposal as stored. `key`: see `model.decision.key_of`. `nodes`: full ids; `op`: id of the op that applied it, if
    known."""

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
    resolved: datetime | None = None
    op: str | None = None


class Status(Struct, frozen=True):
    """The current status of a proposal."""

    id: str
    status: str
    resolved: datetime | None


_COLUMNS = "id, type, status, key, source_nodes, proposed_action, reason, preview, evidence, payload, run, created, resolved, op"
_JSON = ("nodes", "evidence", "payload")


def keep(state: State, proposal: StoredProposal) -> None:
    """Store a pending proposal, in place of any with the same `key`."""
    row = asdict(proposal) | {name: json.dumps(getattr(proposal, name)) for name in _JSON}
    row["created"] = sortable(proposal.created)
    with state.transaction() as db:
        db.execute("DELETE FROM proposal WHERE key = ?", (proposal.key,))
        db.execute(f"INSERT INTO proposal ({_COLUMNS}) VALUES ({sql.marks(row)})", tuple(row.values()))  # noqa: S608
        db.execute(
            "DELETE FROM proposal WHERE id IN (SELECT id FROM proposal WHERE status <> 'pending' "
            "ORDER BY coalesce(resolved, created) DESC LIMIT -1 OFFSET ?)",
            (MAX_SETTLED,),
        )


def of_key(state: State, key: str) -> StoredProposal | None:
    """Return the proposal with this key; None if there is none."""
    return next(iter(_select(state, "key = ?", key)), None)


def rows(state: State, statuses: Collection[str] = STATUSES) -> list[StoredProposal]:
    """Return the proposals with one of these statuses, oldest first."""
    return _select(state, f"status IN ({sql.marks(statuses)}) ORDER BY created, rowid", *statuses)


def get(state: State, proposal_id: str) -> StoredProposal:
    """Return the proposal with this full id.

    Raises NotFound if there is none, or it is no longer kept.
    """
    found = _select(state, "id = ?", proposal_id)
    if not found:
        raise NotFound(f"there is no proposal {proposal_id}", hint="see: ormahctl review")
    return found[0]


def find(state: State, prefix: str) -> StoredProposal:
    """Return the one proposal whose id begins with `prefix`.

    Raises BadRequest (not a valid prefix), NotFound, or Ambiguous (several ids begin with it).
    """
    wanted = prefix.strip().casefold()
    if len(wanted) < MIN_PREFIX or not _ALPHABET.issuperset(wanted):
        hint = f"give the id, or at least its first {MIN_PREFIX} characters; see: ormahctl review"
        raise BadRequest(f"{prefix[:60]!r} is no proposal's id", hint=hint)
    found = _select(state, "id >= ? AND id < ? ORDER BY id LIMIT ?", wanted, wanted + "g", AMBIGUOUS_IDS + 1)
    if not found:
        raise NotFound(f"there is no proposal {wanted[:60]}", hint="see: ormahctl review", data={"id": wanted})
    if len(found) > 1 and found[0].id != wanted:
        ids = [proposal.id for proposal in found[:AMBIGUOUS_IDS]]
        several = f"{wanted!r} is the beginning of {len(found)} proposals: {', '.join(ids)}"
        raise Ambiguous(several, hint="give more characters of the id", data={"ids": ids})
    return found[0]


def _select(state: State, where: str, *values: object) -> list[StoredProposal]:
    """Return the proposals that match a condition in SQL, which may end with an order and a limit."""
    with state.transaction() as db:
        found = db.execute(f"SELECT {_COLUMNS} FROM proposal WHERE {where}", values).fetchall()  # noqa: S608 - our words
    fields = [dict(zip(StoredProposal.__struct_fields__, row, strict=True)) for row in found]
    return [msgspec.convert(row | {name: json.loads(row[name]) for name in _JSON}, StoredProposal) for row in fields]


def settle(state: State, statuses: Iterable[Status]) -> None:
    """Store the new status of each of these proposals. A proposal that becomes pending again loses its `resolved`
    time."""
    # The op that applied a proposal is kept only while the proposal counts as approved.
    with state.transaction() as db:
        for new in statuses:
            db.execute(
                "UPDATE proposal SET status = ?1, resolved = ?2, op = CASE ?1 WHEN 'approved' THEN op END WHERE id = ?3",
                (new.status, None if new.resolved is None else sortable(new.resolved), new.id),
            )


def drop(state: State, proposal_ids: Iterable[str]) -> None:
    """Delete proposals, because what they are about was taken back."""
    with state.transaction() as db:
        db.executemany("DELETE FROM proposal WHERE id = ?", [(proposal_id,) for proposal_id in proposal_ids])


def done(state: State, proposal_id: str, status: str, op: str | None) -> None:
    """Store a person's decision on a proposal: its new `status`. `op`: id of the op that applied it, or None."""
    with state.transaction() as db:
        db.execute(
            "UPDATE proposal SET status = ?, resolved = ?, op = ? WHERE id = ?",
            (status, sortable(state.clock()), op, proposal_id),
        )


def counts(state: State) -> dict[str, int]:
    """Return {status: number of the proposals that have it}."""
    with state.transaction() as db:
        return dict(db.execute("SELECT status, count(*) FROM proposal GROUP BY status"))
