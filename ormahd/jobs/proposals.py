"""Proposals: changes that a job would make, but that a person has to decide on.

A person approves a proposal as it is, with the text of the newer or the older memory, or with a text of their own.
The decision is written to the vault in the same commit as the change, so undoing that commit makes the proposal
pending again. A proposal becomes stale when the text of one of its memories changes. Changes of tags, edges and
tiers, which other jobs make, do not matter.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import asdict, replace

from ormahd.actions.amend import Caller, Outcome, amending, clean, outcome, transaction
from ormahd.actions.views import of_row
from ormahd.api import ProposalNode, ProposalRow, ProposalsResult, ResolveProposalResult
from ormahd.errors import BadRequest, Conflict, NotFound, OrmahError
from ormahd.index.rows import NodeRow
from ormahd.jobs.job import Ask, Edit, PlannedChange, apply
from ormahd.model import decision
from ormahd.model.change import Kind
from ormahd.model.decision import ProposalDecision, Verdict, line_id
from ormahd.model.node import MAX_CONTENT, MAX_TITLE, ProposalType, short_id
from ormahd.note.edit import edit as edit_note
from ormahd.note.markdown import normalise
from ormahd.note.read import digest
from ormahd.ormah import Ormah
from ormahd.state import proposals as book
from ormahd.state.feedback import LineFiles
from ormahd.state.proposals import APPROVED, PENDING, REJECTED, STALE, STATUSES, Status, StoredProposal, text_key

ChangeOf = Callable[[Ormah, Mapping[str, Any]], PlannedChange]
"""A function that makes the change of an approved proposal from its payload."""
PAIRED: Final = (ProposalType.MERGE, ProposalType.CONFLICT)
"""Types of proposals about two memories, where the person may choose which one stays."""


class Approval(Struct, frozen=True):
    """How a person approves a proposal. None in a field means: as proposed.

    `keep`: which memory's text stays, "newer" or "older"; "both" keeps both memories, which rejects the proposal.
    `title`, `content`: a text of the person's own for the memory that stays.
    """

    keep: str | None = None
    content: str | None = None
    title: str | None = None

    def check(self) -> None:
        """Raise BadRequest if the choice is invalid, whatever the proposal is."""
        if self.keep not in (None, "newer", "older", "both"):
            raise BadRequest(f"keep is {self.keep[:60]!r}", hint="newer, older or both")
        if self.keep == "both" and (self.content is not None or self.title is not None):
            raise BadRequest("where both memories are kept there is no text to choose", hint="leave the text out")
        if self.content is not None and not normalise(self.content):
            raise BadRequest("the text is empty", hint="to do nothing: reject it")
        if len(self.content or "") > MAX_CONTENT or len(self.title or "") > MAX_TITLE:
            raise BadRequest(f"a text has at most {MAX_CONTENT:,} characters, and a title {MAX_TITLE:,}")


def chosen_change(ormah: Ormah, row: StoredProposal, choice: Approval, change_of: ChangeOf) -> PlannedChange:
    """Return the change of a proposal that a person approved with `choice`. `change_of`: makes the change from the
    payload.

    Raises:
        BadRequest: the choice does not fit the proposal.
        BadRequest, NotFound, Conflict: from `change_of`.
    """
    if choice == Approval():
        return change_of(ormah, row.payload)
    wording = {"title": clean(ormah, choice.title, []), "content": clean(ormah, choice.content, [])}
    given = {name: text for name, text in wording.items() if text is not None}
    if row.type is ProposalType.MEMORY and choice.keep is None:
        return change_of(ormah, row.payload | given)
    if row.type not in PAIRED or len(row.nodes) != 2:
        hint = "approve or reject it as it is"
        raise BadRequest(f"of a proposal of the type {row.type} nothing can be chosen", hint=hint)
    nodes = ormah.index.notes(row.nodes).values()
    kept, removed = sorted(nodes, key=lambda node: (node.created, node.id), reverse=choice.keep != "older")
    override: dict[str, Any] = {}
    if row.type is ProposalType.MERGE:
        if choice.keep is not None:
            override = {"keep_id": kept.id, "remove_id": removed.id, "title": kept.title, "content": kept.content}
        return change_of(ormah, row.payload | override | given)
    if choice.keep is not None:
        override = {"kind": "evolution", "source_id": kept.id, "target_id": removed.id}
    payload = row.payload | override
    change, node_id = change_of(ormah, payload), str(payload["source_id"])
    return change if choice.content is None else replace(change, edits=partial(_rewritten, change, node_id, given))


def _rewritten(change: PlannedChange, node_id: str, given: Mapping[str, str]) -> Sequence[Edit]:
    """Return the edits of `change` with another title and text for the memory `node_id`. `given`: the title and the
    text, as far as the person changed them."""
    edits = list(change.edits())
    for at, one in enumerate(edits):
        if one.node_id == node_id and one.data is not None:
            title = {name: text for name, text in given.items() if name == "title"}
            data = edit_note(one.data, one.path, set=title, content=normalise(given["content"]))
            edits[at] = replace(one, data=data)
            return edits
    raise BadRequest("the memory that stays is not changed by it", hint=f"edit it: ormahctl edit {node_id[:8]}")


def text_of(row: StoredProposal, nodes: Sequence[NodeRow]) -> tuple[str | None, str | None]:
    """Return the (title, text) that the remaining or new memory would have after an approval, for a person to edit.

    (None, None): the proposal is about neither two memories nor a new one, or one of its memories no longer exists.
    """
    title, content = row.payload.get("title"), row.payload.get("content")
    if row.type is ProposalType.MEMORY:
        return title, str(content)
    if row.type not in PAIRED or len(nodes) != 2:
        return None, None
    merged = row.type is ProposalType.MERGE
    kept_id = row.payload.get("keep_id" if merged else "source_id")
    kept = next((node for node in nodes if node.id == kept_id), nodes[0])
    if not merged:
        return kept.title, kept.content
    return title or kept.title, kept.content if content is None else content


log = logging.getLogger("ormahd.jobs")

MAX_PROPOSALS = 200
"""Maximum number of pending proposals that a person sees at a time. Others are shown when some of these are
decided."""
BEHIND = 10
"""Maximum number of stored pending proposals, as a multiple of the number that a person sees. At that number,
jobs that propose stop."""
MAX_LISTED: Final = 1_000
"""Maximum number of proposals in one reply."""
NAMED = 120
"""Maximum number of characters of a proposal's action that an error quotes."""
VERDICTS: Mapping[str, Verdict] = {"approve": "approved", "reject": "rejected"}
"""{what a person asks for: the decision}; the decision itself may be given too."""


class StoreOutcome(Enum):
    """The result of storing a proposal."""

    NEW = "new"
    KNOWN = "known"
    """Not stored: the proposal is already pending or decided, or one of its memories no longer exists."""
    FULL = "full"
    """Not stored: too many proposals are pending."""


class Proposals:
    """Stores the proposals of one vault, lists them, and carries out the decisions on them. Thread-safe.

    `changes_of`: {type of proposal: function that makes the change of an approved proposal from its payload}.
    `at_a_time`: maximum number of proposals listed at once.
    """

    def __init__(
        self, ormah: Ormah, changes_of: Mapping[ProposalType, ChangeOf], at_a_time: int = MAX_PROPOSALS
    ) -> None:
        self._ormah = ormah
        self._at_a_time = at_a_time
        self._changes_of = changes_of
        self._files = LineFiles(ormah.vault.root, decision.FILES, self._read)
        self._lock = threading.Lock()
        self._decided: dict[str, ProposalDecision] = {}
        self._version = -1

    # ------------------------------------------------------------ for the runner

    def store(self, ask: Ask, run: str, *, dry: bool) -> StoreOutcome:
        """Store a proposal, unless one about the same memories with the same texts is pending or was ever decided.

        With `dry`, only return what would happen.
        """
        key = self._key(ask, self._rows_of([ask.nodes]))
        if key is None or line_id(key) in self._decisions():
            return StoreOutcome.KNOWN
        before = book.of_key(self._ormah.state, key)
        if before is not None and before.status == PENDING:
            return StoreOutcome.KNOWN
        if book.counts(self._ormah.state).get(PENDING, 0) >= BEHIND * self._at_a_time:
            return StoreOutcome.FULL
        if not dry:
            row: dict[str, Any] = {"id": str(uuid.uuid4()), "status": PENDING, "key": key, "run": run, **asdict(ask)}
            stored = StoredProposal(created=self._ormah.state.clock(), **row)
            book.keep(self._ormah.state, stored)
        return StoreOutcome.NEW

    def pending(self) -> int:
        """Return the number of pending proposals, as of the last call of `follow`."""
        return book.counts(self._ormah.state).get(PENDING, 0)

    def bad_lines(self) -> list[tuple[str, int, str]]:
        """Return the unreadable lines in the files of decisions: (path, line number from 1, reason)."""
        self._decisions()
        return self._files.bad()

    # ------------------------------------------------------------ for people

    def list(self, *, status: str = PENDING, type: str | None = None, limit: int = 200) -> ProposalsResult:  # noqa: A002
        """Return the proposals of a status ("all": any status) and a type, newest first.

        Raises:
            BadRequest: there is no such status or type, or `limit` is out of range.
        """
        if not 1 <= limit <= MAX_LISTED:
            raise BadRequest(f"limit is {limit}", hint=f"1 to {MAX_LISTED}")
        if status not in (*STATUSES, "all"):
            raise BadRequest(f"status is {status[:60]!r}", hint=f"one of {', '.join(STATUSES)}, all")
        if type is not None and type not in set(ProposalType):
            raise BadRequest(f"type is {type[:60]!r}", hint="merge, conflict, decay or memory")
        self.follow()
        rows = book.rows(self._ormah.state, STATUSES if status == "all" else (status,))
        waiting = [row.id for row in rows if row.status == PENDING]
        not_shown = set(waiting[self._at_a_time :])
        listed = [row for row in reversed(rows) if row.id not in not_shown and type in (None, row.type)][:limit]
        notes, decided = self._rows_of([row.nodes for row in listed]), self._decisions()
        pending = len(waiting) if status in (PENDING, "all") else self.pending()
        proposals = []
        for row in listed:
            nodes = [notes[node_id] for node_id in row.nodes if node_id in notes]
            title, content = text_of(row, nodes)
            fields: dict[str, Any] = {"proposed_action": row.action, "reason": row.reason or None}
            fields |= {"nodes": [of_row(ProposalNode, node) for node in nodes], "source_nodes": list(row.nodes)}
            fields |= {"short_id": short_id(row.id), "resolved_by": _decided_by(decided.get(line_id(row.key)))}
            proposals.append(of_row(ProposalRow, row, **fields, title=title, content=content))
        return ProposalsResult(proposals=proposals, pending=pending, behind=len(not_shown))

    def resolve(
        self, proposal_id: str, action: str, caller: Caller, choice: Approval | None = None
    ) -> ResolveProposalResult:
        """Decide on the proposal whose id begins with `proposal_id`, and return the answer.

        `action`: "approved" makes the change. "rejected" changes no memory, and the same change is not proposed again.
        Both make one commit, which can be undone. `choice`: how a proposal is approved.

        Raises:
            BadRequest: the action, the id or the choice is invalid.
            NotFound, Ambiguous: no proposal has this id, or several do.
            Conflict: it was decided before, is stale, or its change is no longer possible; nothing was changed.
            VaultBusy: another process holds git; nothing was changed.
        """
        asked = action.strip().casefold()
        verdict = VERDICTS.get(asked) or next((one for one in VERDICTS.values() if one == asked), None)
        if verdict is None:
            raise BadRequest(f"action is {action[:60]!r}", hint="approved or rejected")
        chosen = choice or Approval()
        chosen.check()
        if verdict == REJECTED and chosen != Approval():
            raise BadRequest("what is rejected is not chosen from", hint="keep and a text belong to: approved")
        row = book.find(self._ormah.state, proposal_id)
        return amending(self._ormah, lambda: self._resolve(row.id, verdict, caller, chosen))

    # ------------------------------------------------------------ deciding

    def _resolve(self, proposal_id: str, verdict: Verdict, caller: Caller, choice: Approval) -> ResolveProposalResult:
        """Carry out a person's decision on a pending proposal, and return the answer."""
        row = self._pending(proposal_id)
        if choice.keep == "both":
            verdict, text = "rejected", "both hold; neither a merge nor a conflict of the two is proposed again"
            done = self._commit_decision(row, verdict, caller, f"Both hold: {row.action}", types=PAIRED)
        elif verdict == REJECTED:
            text = "rejected; it is not proposed again"
            done = self._commit_decision(row, verdict, caller, f"Rejected: {row.action}")
        else:
            done, text = self._approve(row, caller, choice)
        book.done(self._ormah.state, row.id, verdict, done.op)
        fields: dict[str, Any] = {"text": f"{row.action}: {text}", "proposal_id": row.id, "status": verdict}
        degraded = self._ormah.degraded()
        return of_row(ResolveProposalResult, row, **fields, op=done.op, commit=done.commit, degraded=degraded)

    def _pending(self, proposal_id: str) -> StoredProposal:
        """Return the proposal with this id.

        Raises:
            Conflict: it is not pending, or the text of one of its memories changed.
        """
        self._update_statuses([book.get(self._ormah.state, proposal_id)])
        row = book.get(self._ormah.state, proposal_id)
        name = f"the proposal {short_id(row.id)} ({row.action[:NAMED]})"
        data = {"id": row.id, "status": row.status}
        if row.status in (APPROVED, REJECTED):
            by = _decided_by(self._decisions().get(line_id(row.key)))
            when = "" if row.resolved is None else f" on {row.resolved:%Y-%m-%d}"
            hint = "to decide anew, undo that: ormahctl undo " + (row.op[:12] if row.op else "OP")
            raise Conflict(f"{name} was {row.status}{when}" + (f" by {by}" if by else ""), hint=hint, data=data)
        if row.status == STALE:
            notes = self._rows_of([row.nodes])
            missing = " and ".join(short_id(node_id) for node_id in row.nodes if node_id not in notes)
            why = f"{missing} is not there any more" if missing else "one of its memories says something else by now"
            hint = "nothing was changed; what is still worth a proposal the next run of the job proposes anew"
            raise Conflict(f"{name} is stale: {why}", hint=hint, data=data)
        return row

    def _approve(self, row: StoredProposal, caller: Caller, choice: Approval) -> tuple[Outcome, str]:
        """Make the proposed change and record the approval in one commit. Return the outcome, and the end of a sentence
        for people.

        Raises:
            Conflict: the change is no longer possible.
        """
        change_of = self._changes_of.get(row.type)
        if change_of is None:
            hint = "nothing was changed; reject it, if you do not want to see it again"
            raise Conflict(f"no job of this version makes a {row.type} that was approved", hint=hint)
        try:
            change = chosen_change(self._ormah, row, choice, change_of)
            body = f"{change.body.rstrip()}\n\nProposed in the run {row.run}, and approved by {caller.source}.".lstrip()
            change = replace(change, body=body)
            done = apply(self._ormah, change, caller, run=None, decision=[self._line(row, "approved", caller)])
        except (BadRequest, NotFound) as exc:
            what = f"“{row.action}” cannot be done any more: {exc.message}"
            hint = "nothing was changed; reject it, or mend what it says"
            raise Conflict(what, hint=hint, data={"id": row.id}) from exc
        if done is None:
            return self._commit_decision(row, "approved", caller, f"Approved: {row.action}"), "it is so already"
        change.done()
        return done, "approved"

    def _commit_decision(
        self, row: StoredProposal, verdict: Verdict, caller: Caller, subject: str, types: Sequence[ProposalType] = ()
    ) -> Outcome:
        """Commit a decision that changes no memory.

        `types`: the decision counts for proposals of these types about the same memories; default: the type of `row`.
        """
        body, line = f"{row.reason}\n\nProposed in the run {row.run}.".lstrip(), self._line(row, verdict, caller, types)
        with transaction(self._ormah, subject, kind=Kind.FEEDBACK, caller=caller, body=body) as tx:
            tx.put(line.path, line.data or b"", node_id=next(iter(row.nodes), None), expect=line.expect)
        return outcome(tx)

    def _line(self, row: StoredProposal, verdict: Verdict, caller: Caller, types: Sequence[ProposalType] = ()) -> Edit:
        """Return the edit that adds the decision to this month's file, as a line for each of `types` (default: the type
        of `row`)."""
        now = self._ormah.clock()
        path = decision.FILES.path(now)
        data = self._ormah.vault.read(path)
        texts, new = tuple(_texts(row, self._rows_of([row.nodes]))), data or b""
        for kind in types or (row.type,):
            new = decision.FILES.put(new, ProposalDecision(kind, row.nodes, texts, verdict, caller.source, now))
        return Edit(None, path, new, None if data is None else digest(data))

    # ------------------------------------------------------------ statuses from the vault

    def follow(self) -> None:
        """Update the statuses of all proposals from the decisions and the notes in the vault.

        A sync may have brought a decision, or a person may have undone one. The text of a memory may have changed, or
        changed back.
        """
        self._update_statuses(book.rows(self._ormah.state))

    def _update_statuses(self, rows: Sequence[StoredProposal]) -> None:
        """Set the status of each proposal from the decisions in the vault. One whose memories were changed becomes
        stale."""
        if self._ormah.vault.busy():
            return  # a decision made just now may not be in its file yet
        notes = self._rows_of([row.nodes for row in rows])
        decided, now = self._decisions(), self._ormah.clock()  # read last: notes must not be newer than the decisions
        found: list[Status] = []
        for row in rows:
            made = decided.get(line_id(row.key))
            if made is not None:
                status = Status(row.id, made.verdict, made.decided_at)
            elif self._key(row, notes) == row.key:
                status = Status(row.id, PENDING, None)
            else:
                status = Status(row.id, STALE, now)
            if status.status != row.status:
                found.append(status)
        if found:
            book.settle(self._ormah.state, found)

    def _decisions(self) -> dict[str, ProposalDecision]:
        """Return all decisions in the vault as {line id: decision}."""
        with self._lock:
            try:
                self._files.refresh()
            except OSError as exc:
                log.warning("the decisions in %s cannot be read: %s", decision.FOLDER, exc.strerror)
            if self._version != self._files.version:
                self._decided, self._version = self._files.by_id(), self._files.version
            return self._decided

    def _read(self, path: str) -> bytes | None:
        """Return the content of a file of decisions, or None if it is missing or unreadable."""
        try:
            return self._ormah.vault.read(path)
        except OrmahError as exc:
            log.warning("the decisions in %s cannot be read: %s", path, exc.message)
            return None

    def _rows_of(self, groups: Iterable[Sequence[str]]) -> dict[str, NodeRow]:
        """Return {id: memory} for all ids in the groups."""
        return self._ormah.index.notes(list({node_id for ids in groups for node_id in ids}))

    @staticmethod
    def _key(one: Ask | StoredProposal, notes: Mapping[str, NodeRow]) -> str | None:
        """Return the key of a proposal, made from the present texts of its memories; None if a memory no longer exists."""
        if any(node not in notes for node in one.nodes) or bool(one.nodes) is (one.type is ProposalType.MEMORY):
            return None
        return decision.key_of(one.type, one.nodes, _texts(one, notes))


def _texts(one: Ask | StoredProposal, notes: Mapping[str, NodeRow]) -> list[str]:
    """Return the `text_key` of each memory that a proposal is about, or of the proposed new memory."""
    if one.type is ProposalType.MEMORY:
        return [text_key(one.payload.get("title"), str(one.payload.get("content")))]
    return [text_key(notes[node].title, notes[node].content) for node in one.nodes]


def _decided_by(made: ProposalDecision | None) -> str | None:
    """Return who made the decision, or None if there is none."""
    return None if made is None else made.by
