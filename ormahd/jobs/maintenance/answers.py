"""Checks an agent's results, and applies those accepted by the changes of the jobs: one commit per change, and one for
all links.

Each item must answer a question of the receipt, whose memories are unchanged. The results are not trusted (DESIGN section 12). Each item is validated separately. An invalid item is refused with a
reason; the others are accepted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field
from pydantic import ValidationError

from ormahd.actions.amend import Caller, clean
from ormahd.api import RefusedItem
from ormahd.errors import BadRequest, Conflict, InvalidNote, NotFound, OrmahError, fault
from ormahd.index.rows import NodeRow
from ormahd.jobs.job import PlannedChange, apply
from ormahd.jobs.links.change import Draft, EdgeToAdd, count_of
from ormahd.jobs.maintenance.issue import Issued, Question, stale
from ormahd.jobs.maintenance.kinds import (
    CLUSTERS,
    KINDS,
    AgentVerdict,
    AnyItem,
    JudgedConsolidation,
    JudgedMerge,
    QuestionKind,
    conflict,
)
from ormahd.judge.port import NONE
from ormahd.model.node import EdgeType
from ormahd.ormah import Ormah

MAX_ITEMS: Final = 1_000
"""Maximum number of items in one list. A receipt has a few dozen questions."""

REFUSING: Final = (BadRequest, Conflict, NotFound, InvalidNote)
"""Errors that lead to the refusal of one item; the other items are still applied."""
SO_ALREADY: Final = "it is so already"

Asked = tuple[str, Question]
"""(batch, question)."""


class AcceptedItem(Struct, frozen=True):
    """An item of an agent's results that was accepted. `name`: its list and position, such as "edges[3]". `asked`: the
    question that it answers, and `batch` the batch of that question."""

    name: str
    result: Any
    kind: QuestionKind
    asked: Question
    batch: str


class Checked(Struct):
    """The outcome of the check of all lists of results. `no`: number of verdicts "none"."""

    taken: list[AcceptedItem] = field(default_factory=list)
    refused: list[RefusedItem] = field(default_factory=list)
    no: int = 0
    unread: set[str] = field(default_factory=set)
    """Batches whose list of results was invalid as a whole: no list, or too long."""
    open: list[Asked] = field(default_factory=list)
    """The questions whose answer was refused; they are asked again."""
    verdicts: dict[tuple[str, tuple[str, ...]], Mapping[str, Any]] = field(default_factory=dict)
    """{(batch, ids of the question): verdict to remember} of the items that were applied."""

    def refuse(self, name: str, blamed: str, why: str, *asked: Asked) -> None:
        """Record that an item is refused.

        `name`: its list and position. `blamed`: the id of the memory because of which it is refused. `why`: the
        reason. `asked`: questions that stay open because of it.
        """
        self.refused.append(RefusedItem(name, blamed[:100], why[:1_000]))
        self.open += asked


def check(ormah: Ormah, lists: Mapping[str, Any], issued: Issued) -> Checked:
    """Check all items of the results; each is accepted or refused. `lists`: {name of a list: its items, not
    validated}."""
    checked = Checked()
    ids = [node_id for questions in issued.items.values() for one in questions for node_id in one.ids]
    rows = ormah.index.notes(ids)
    for kind in KINDS:
        values = lists.get(kind.results)
        if values is None:
            continue
        if not isinstance(values, list) or len(values) > MAX_ITEMS:
            checked.refuse(kind.results, "", f"it is no list of at most {MAX_ITEMS:,} items")
            checked.unread.add(kind.batch)
            continue
        # An item answers a question of its own batch, or else of another one
        own_first = sorted(issued.items, key=lambda batch: batch != kind.batch)
        asked = [(batch, one) for batch in own_first for one in issued.items[batch]]
        items = {at: item for at, value in enumerate(values) if (item := _read(kind, at, value, asked, checked))}

        # Accept or refuse each
        bad = _circles(kind, items) | _repeated(kind, items)
        for at, item in items.items():
            name = f"{kind.results}[{at}]"
            question = _question(name, item, set(ids), asked, checked)
            if question is None:
                continue
            if (blame := bad.get(at) or _wrong(ormah, item, question[1], rows)) is not None:
                checked.refuse(name, *blame, question)
            elif NONE in item.verdict.values():
                checked.no += 1
            else:
                checked.taken.append(AcceptedItem(name, item, kind, question[1], question[0]))
    _refuse_contradictions(checked)
    return checked


def _read(kind: QuestionKind, at: int, value: Any, asked: Sequence[Asked], checked: Checked) -> AnyItem | None:
    """Return one item of an agent's results. If it is invalid, add it to the refused ones of `checked`, and return
    None."""
    name = f"{kind.results}[{at}]"
    if not isinstance(value, dict):
        checked.refuse(name, "", "it is no map of fields")
        return None
    try:
        return kind.item.model_validate(value)
    except ValidationError as exc:
        # An unreadable answer is no answer, so its question stays open
        given = [value.get(field) for field in ("source_id", "target_id", "keep_id", "remove_id", "node_ids")]
        named = [node_id for ids in given for node_id in (ids if isinstance(ids, list) else [ids])]
        ids = [node_id for node_id in named if isinstance(node_id, str)]
        checked.refuse(name, ids[0] if ids else "", str(fault(exc)), *_about(ids, asked))
        return None


def _about(ids: Sequence[str], asked: Sequence[Asked]) -> list[Asked]:
    """Return the questions that an item about `ids` may answer: those that contain all of its known ids."""
    known = {node_id for _, one in asked for node_id in one.ids}.intersection(ids)
    return [question for question in asked if known and known <= set(question[1].ids)]


def _question(name: str, item: AnyItem, known: set[str], asked: Sequence[Asked], checked: Checked) -> Asked | None:
    """Return the question that `item` answers. If there is none, refuse the item and return None."""
    ids = set(item.ids)
    if unknown := [node_id for node_id in item.ids if node_id not in known]:
        checked.refuse(name, unknown[0], "this id was not issued with this receipt", *_about(item.ids, asked))
        return None
    for batch, question in asked if len(ids) > 1 or len(item.ids) > 2 else ():
        if ids == set(question.ids) or (batch == CLUSTERS and ids <= set(question.ids)):
            return batch, question
    apart = "these two were not issued as a pair"
    if isinstance(item, JudgedConsolidation):
        apart = "these memories are of different clusters"
    checked.refuse(name, item.ids[0], apart if len(ids) > 1 else "the same memory twice")
    return None


def _wrong(ormah: Ormah, item: AnyItem, asked: Question, rows: Mapping[str, NodeRow]) -> tuple[str, str] | None:
    """Return (memory id, reason) if `item`, which answers `asked`, must be refused; else None."""
    if (changed := stale(rows, asked)) is not None:
        return changed
    if isinstance(item, JudgedMerge):
        if item.remove_id == ormah.vault.self_id:
            return item.remove_id, "the self node is never removed"
        if item.content is not None and asked.cut:
            return item.keep_id, "it was shown in part: leave the content out, and the kept memory's own stays"
    if len(set(item.ids)) < len(item.ids):
        return item.ids[0], "a memory is named twice"
    content = getattr(item, "content", None)
    return (item.ids[0], "content: it is empty") if content is not None and not content.strip() else None


def _repeated(kind: QuestionKind, items: Mapping[int, AnyItem]) -> dict[int, tuple[str, str]]:
    """Return `{position: (id, reason)}` of items to refuse because another item of the list is about the same
    memories.

    If both items have the same verdict, only the later one is refused; if the verdicts differ, both are.
    """
    first: dict[frozenset[str], int] = {}
    bad: dict[int, tuple[str, str]] = {}
    for at, item in items.items():
        before = first.setdefault(frozenset(item.ids), at)
        if before != at and item.decision == items[before].decision:
            bad[at] = (item.ids[0], f"{kind.results}[{before}] says the same already")
        elif before != at:
            bad[at] = (item.ids[0], f"{kind.results}[{before}] says otherwise of the same memories")
            bad.setdefault(before, (items[before].ids[0], f"{kind.results}[{at}] says otherwise of the same memories"))
    return bad


def _circles(kind: QuestionKind, items: Mapping[int, AnyItem]) -> dict[int, tuple[str, str]]:
    """Return `{position: (id, reason)}` of items to refuse: merges or evolutions that form a cycle, such as A into
    B, B into A.

    Cycles with edges in the vault, and cycles of links, are detected when the changes are made.
    """
    arrows = {at: item.direction for at, item in items.items() if item.direction is not None}
    bad: dict[int, tuple[str, str]] = {}
    for at, (source, target) in arrows.items():
        reached, frontier = {target}, {target}
        while frontier:
            frontier = {end for start, end in arrows.values() if start in frontier} - reached
            reached |= frontier
        if source != target and source in reached:
            bad[at] = (source, f"with others of {kind.results} this leads round in a circle")
    return bad


def _refuse_contradictions(checked: Checked) -> None:
    """Refuse accepted items of different lists about the same memories. They are not refused if each of them answers a
    question of its own list's batch."""
    about: dict[frozenset[str], list[AcceptedItem]] = {}
    for one in checked.taken:
        about.setdefault(frozenset(one.result.ids), []).append(one)
    for several in about.values():
        if len({one.kind.results for one in several}) < 2 or all(one.kind.batch == one.batch for one in several):
            continue  # all are from one list, or each answers a question of its own batch
        names = " and ".join(one.name for one in several)
        for one in several:
            checked.taken.remove(one)
            why = f"of the same memories {names} say different things"
            checked.refuse(one.name, one.result.ids[0], why, (one.batch, one.asked))


class VerdictApplier:
    """Applies the accepted verdicts of one phase two, as one run. The source of the commits is `caller`, the agent
    that judged."""

    def __init__(self, ormah: Ormah, caller: Caller, run: str, checked: Checked) -> None:
        self._ormah, self._caller, self._checked = ormah, caller, checked
        self.run = run
        self.counts = {kind.results: 0 for kind in KINDS}
        self.commits: list[str] = []

    def apply(self) -> None:
        """Apply all accepted items. If a change is not possible, add its item to the refused ones.

        All edges are written in one commit; but a `contradicts` edge is written like a conflict, in one of its own.

        Raises:
            VaultBusy: another process holds git, and a change could not be queued.
        """
        draft = Draft(self._ormah)
        drawn: list[AcceptedItem] = []
        for accepted in sorted(self._checked.taken, key=lambda accepted: accepted.kind.change is not None):
            change, item, asked = accepted.kind.change, accepted.result, accepted.asked
            if drawn and change is not None:
                self._commit(drawn, self._links(draft))
                drawn = []
            reason = " ".join((clean(self._ormah, item.reason, []) or "").split())
            try:
                if (changed := stale(self._ormah.index.notes(list(asked.ids)), asked)) is not None:
                    raise Conflict(changed[1], data={"id": changed[0]})
                if change is None and item.edge_type == EdgeType.CONTRADICTS:
                    change = conflict
                if change is not None:
                    verdict = AgentVerdict(item, reason, self._caller.source)
                    self._commit([accepted], change(self._ormah, verdict))
                    continue
                weight = item.weight or asked.score or 0.5
                if draft.add(EdgeToAdd(item.source_id, item.target_id, EdgeType(item.edge_type), weight, reason)):
                    drawn.append(accepted)
                else:
                    self._checked.refuse(accepted.name, asked.ids[0], SO_ALREADY)
            except REFUSING as exc:
                self._refuse(accepted, exc)
        if drawn:
            self._commit(drawn, self._links(draft))

    def _commit(self, items: Sequence[AcceptedItem], change: PlannedChange) -> None:
        """Commit the change of these items, or refuse them."""
        try:
            done = apply(self._ormah, change, self._caller, run=self.run)
        except REFUSING as exc:
            for accepted in items:
                self._refuse(accepted, exc)
            return
        for accepted in items:
            if done is None:
                self._checked.refuse(accepted.name, accepted.asked.ids[0], SO_ALREADY)
                continue
            self.counts[accepted.kind.results] += 1
            if accepted.kind.batch == accepted.batch:
                self._checked.verdicts[accepted.batch, accepted.asked.ids] = accepted.result.verdict
        if done is not None and done.commit is not None:
            self.commits.append(done.commit)

    def _links(self, draft: Draft) -> PlannedChange:
        """Return the change that adds all edges of the draft."""
        body = "\n".join([f"Judged by {self._caller.source}.", "", *(draft.sentence(wish) for wish in draft.made)])
        return draft.change(subject=f"Link {count_of(len(draft.made))} of memories", body=body)

    def _refuse(self, accepted: AcceptedItem, error: OrmahError) -> None:
        """Record that an accepted item could not be applied because of `error`."""
        why = error.message if error.hint is None else f"{error.message} ({error.hint})"
        blamed = str(error.data.get("id") or accepted.asked.ids[0])
        self._checked.refuse(accepted.name, blamed, why, (accepted.batch, accepted.asked))
