"""The conflict detector: find pairs of memories of which one replaces the other (evolution), or that contradict each
other (tension), and record this by an edge.

Without a judge, the words of the texts are compared (`text/standing.py`: different values, verbs of change, negation),
and the job makes proposals for a person. With a judge, its verdicts are applied and remembered. Which memory is the
newer one is decided by their dates, never by the judge.

Approved proposals and two-phase maintenance make the same changes. Each is one commit, which one undo reverts.
Nothing is deleted: search no longer finds a replaced memory, but `show`, `history` and `--as-of` do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, cast

from msgspec.structs import replace

from ormahd.actions.amend import clean, see
from ormahd.actions.outdated import CLEARLY, NAME_LENGTH, WEIGHT, check_circle, name, superseded
from ormahd.actions.views import headline, stem
from ormahd.errors import BadRequest, Conflict
from ormahd.git.oplog import one_line
from ormahd.jobs.conflicts.candidates import NAME, ConflictCandidate, ConflictSearch
from ormahd.jobs.job import Ask, Done, Edit, PlannedChange, RunContext, Step
from ormahd.judge.port import Contrast, JudgeGone
from ormahd.model.change import Kind
from ormahd.model.node import EdgeType, ProposalType
from ormahd.note.edit import edit
from ormahd.note.values import NoteLink
from ormahd.text.quoting import shortened

if TYPE_CHECKING:
    from ormahd.actions.amend import SeenNote
    from ormahd.index.rows import NodeRow
    from ormahd.judge.port import Judge, Pair
    from ormahd.ormah import Ormah
    from ormahd.text.standing import Compared


REASON = 500
"""Maximum number of characters of a reason, and of one line of a commit body."""


def evolution(
    ormah: Ormah, newer_id: str, older_id: str, *, reason: str, body: str, by_person: bool = False
) -> PlannedChange:
    """Return the change that marks the older memory as superseded by the newer one.

    The newer memory gets an `evolved_from` edge to the older one. The older one gets `valid_until` (now) and a
    reason. Ids are full ids. `reason` is stored with the edge, `body` in the commit. `by_person`: a person decided.
    Then `newer_id` may be the memory that was created first, and a memory about the user may be replaced by one that
    is not about the user.

    Raises:
        NotFound: an id is unknown.
        BadRequest: both ids are the same, one is the self node, or the change needs `by_person`.
        Conflict: the older memory evolved from the newer one.
    """
    newer, older = _two(ormah, newer_id, older_id)
    reason, body = clean_line(ormah, reason), _clean_lines(ormah, body)
    if not by_person:
        _dated(newer, older)
        _about_self(ormah, newer, older)
    check_circle(ormah, newer.id, older)

    def edits() -> Sequence[Edit]:
        check_circle(ormah, newer.id, older)
        return [
            *_linked(ormah, newer, older, EdgeType.EVOLVED_FROM, reason),
            *_edited(ormah, older, lambda seen: superseded(seen, ormah.moment(), name(newer))),
        ]

    new, old = names(newer, older)
    subject = f"Superseded: {old}, by: {new}"
    return PlannedChange(Kind.CONFLICT, subject, body or reason, edits, _based_on(newer, older))


def tension(ormah: Ormah, a_id: str, b_id: str, *, reason: str, body: str) -> PlannedChange:
    """Return the change that connects two memories by a `contradicts` edge, in the newer one's note. Both stay valid.

    Raises:
        NotFound: an id is unknown. BadRequest: both ids are the same, or one is the self node.
        Conflict: one of them evolved from the other.
    """
    one, two = _two(ormah, a_id, b_id)
    reason, body = clean_line(ormah, reason), _clean_lines(ormah, body)
    source, target = (two, one) if (two.created, two.id) > (one.created, one.id) else (one, two)

    def check() -> bool:
        """Return whether the two memories have a `contradicts` edge already, in either direction. Raise Conflict if
        they have an `evolved_from` edge."""
        between = _between(ormah, source, target)
        if EdgeType.EVOLVED_FROM in between:
            raise Conflict(
                f"{name(source)} and {name(target)} are one belief that changed: they have an evolved_from edge"
            )
        return EdgeType.CONTRADICTS in between

    check()

    def edits() -> Sequence[Edit]:
        return [] if check() else _linked(ormah, source, target, EdgeType.CONTRADICTS, reason)

    subject = f"Contradiction: {' / '.join(names(source, target))}"
    return PlannedChange(Kind.CONFLICT, subject, body or reason, edits, _based_on(source, target))


def _two(ormah: Ormah, one_id: str, other_id: str) -> tuple[NodeRow, NodeRow]:
    one, other = ormah.index.note(one_id), ormah.index.note(other_id)
    if one.id == other.id:
        raise BadRequest(
            "a memory cannot be in conflict with itself", hint="name two different ids", data={"id": one.id}
        )
    if ormah.vault.self_id in (one.id, other.id):
        raise BadRequest("the self node is in conflict with nothing", hint="change it: ormahctl update ID",
                         data={"id": ormah.vault.self_id})  # fmt: skip
    return one, other


def _dated(newer: NodeRow, older: NodeRow) -> None:
    if newer.created < older.created - CLEARLY:
        raise BadRequest(
            f"{name(newer)} is of {newer.created:%Y-%m-%d}, before {name(older)} of {older.created:%Y-%m-%d}: "
            "it cannot have replaced it",
            hint="exchange the two, or call it a tension", data={"id": newer.id},
        )  # fmt: skip


def _about_self(ormah: Ormah, newer: NodeRow, older: NodeRow) -> None:
    if is_identity(ormah, older) and not is_identity(ormah, newer):
        raise BadRequest(
            f"{name(older)} is about the user, and {name(newer)} is not: a person has to say that it was replaced",
            hint=f"ormahctl outdated {older.short_id} --reason …", data={"id": older.id},
        )  # fmt: skip


def is_identity(ormah: Ormah, row: NodeRow) -> bool:
    """Whether the memory describes the user: it has the tag `about_self`, or a `defines` edge from the self node."""
    return row.about_self or any(
        edge.edge is EdgeType.DEFINES and edge.source == ormah.vault.self_id for edge in ormah.index.edges(row.id)[1]
    )


def _between(ormah: Ormah, one: NodeRow, other: NodeRow) -> set[EdgeType]:
    out, into = ormah.index.edges(one.id)
    return {edge.edge for edge in [*out, *into] if other.id in (edge.source, edge.target)}


def _edited(ormah: Ormah, row: NodeRow, change: Callable[[SeenNote], bytes]) -> list[Edit]:
    """Return the edit of one note, with `updated` set; an empty list if `change` leaves the note as it is."""
    seen = see(ormah, row.id)
    data = change(seen)
    if data == seen.data:
        return []
    data = edit(data, seen.path, set={"updated": ormah.moment()})
    return [Edit(seen.id, seen.path, data, seen.digest)]


def _linked(ormah: Ormah, source: NodeRow, target: NodeRow, edge: EdgeType, reason: str) -> list[Edit]:
    """Return the edit that adds an edge to the source's note; an empty list if this edge exists already."""
    if any(known.edge is edge and known.target == target.id for known in ormah.index.edges(source.id)[0]):
        return []
    link = NoteLink(edge, stem(target.path), WEIGHT, ormah.moment(), reason or None)
    return _edited(ormah, source, lambda seen: edit(seen.data, seen.path, link=[link]))


def clean_line(ormah: Ormah, text: str) -> str:
    """Return `text`, such as a judge's reason, as one line of at most REASON characters, without secrets."""
    line = one_line(clean(ormah, text, []) or "")
    return shortened(line, REASON)


def _clean_lines(ormah: Ormah, text: str) -> str:
    return "\n".join(clean_line(ormah, line) for line in text.splitlines()).strip()


def names(one: NodeRow, other: NodeRow) -> tuple[str, str]:
    """Return a name for each of the two memories: its title, or the beginning of its text if both titles are equal."""
    both = _name(one), _name(other)
    if both[0] == both[1]:
        both = (
            headline(None, one.content, NAME_LENGTH).rstrip("."),
            headline(None, other.content, NAME_LENGTH).rstrip("."),
        )
    return both


def _name(row: NodeRow) -> str:
    return headline(row.title, row.content, NAME_LENGTH).rstrip(".")


def _based_on(*rows: NodeRow) -> dict[str, str]:
    return {row.id: row.digest for row in rows}


PROPOSALS = 25
"""Maximum number of new proposals per run, because a person must read each."""
BATCH = 20
"""Number of pairs in one request to the judge."""
FARTHER = 0.15
"""A pair is not proposed if one of its memories is in a proposed pair whose cosine is larger by more than this."""
LATER = timedelta(days=1)
"""Without a judge: if more time than this lies between the creation of two memories, the older one counts as replaced;
otherwise the two count as contradicting each other."""
PREVIEW = 600
"""Maximum number of characters of each text in a preview."""
CLAIM = 120
"""Maximum number of characters of each text that a reason quotes."""

ConflictKind = Literal["evolution", "tension"]
KINDS = frozenset({"evolution", "tension", "none"})
"""The valid verdicts of a judge; any other answer leaves the question open."""


class ConflictDetector:
    """The job that finds conflicts. With a judge, it asks the judge about pairs; without one, it compares their
    words."""

    name = NAME

    def plan(self, turn: RunContext) -> Iterator[Step]:
        return _ruled(turn) if turn.judge is None else _judged(turn, turn.judge)


def candidates(turn: RunContext) -> Iterator[Pair]:
    """Yield the pairs that no judge or agent has decided yet, newest memories first.

    Within each chunk of memories, the pairs that are most likely in conflict come first.
    """
    for chunk in ConflictSearch(turn, judged=True).chunks():
        yield from (candidate.pair for candidate in chunk)


def change_of(ormah: Ormah, payload: Mapping[str, Any]) -> PlannedChange:
    """Return the change of an approved proposal. Raises NotFound, BadRequest or Conflict if it is no longer
    possible."""
    reason = str(payload["reason"])
    return _change(
        ormah, str(payload["source_id"]), str(payload["target_id"]), payload["kind"], reason, reason, by_person=True
    )


# ---------------------------------------------------------------- without a judge


def _ruled(turn: RunContext) -> Iterator[Step]:
    search = ConflictSearch(turn, judged=False)
    found = sorted((one for chunk in search.chunks() for one in chunk), key=lambda one: one.rank)
    left = PROPOSALS
    nearest: dict[str, float] = {}
    """{id of a memory in a proposed pair: highest cosine of its proposed pairs}."""
    for candidate in found:
        by_words = candidate.by_words
        both = search.fresh(candidate)
        if by_words is None or both is None:
            continue
        if search.series(candidate):
            search.settle(candidate, {"kind": "none", "rule": "series"})
            continue
        if any(candidate.cosine < nearest.get(node_id, 0.0) - FARTHER for node_id in (both[0].id, both[1].id)):
            search.settle(candidate, {"kind": "none", "rule": "farther"})
            continue
        nearest |= {row.id: max(candidate.cosine, nearest.get(row.id, 0.0)) for row in both}
        if not left:
            yield Done(more=True)
            return
        newer, older = both
        kind: ConflictKind = "evolution" if newer.created - older.created > LATER else "tension"
        evidence = {"cosine": round(candidate.cosine, 3), "replaced": round(by_words.replaced, 3)}
        yield _ask(newer, older, kind, _why(by_words, newer, older, kind), evidence)
        search.settle(candidate, {"kind": kind, "rule": "words"})
        left -= 1


# ---------------------------------------------------------------- with a judge


def _judged(turn: RunContext, judge: Judge) -> Iterator[Step]:
    """Ask the judge about the pairs that are most likely in conflict, and yield the changes that follow from its
    verdicts.

    Verdicts of earlier runs that were not applied come first. The number of questions is limited (`turn.questions`).
    """
    search = ConflictSearch(turn, judged=True)
    budget = turn.questions
    found: list[ConflictCandidate] = []
    for chunk in search.chunks():
        found += chunk
        if len(found) > 10 * (budget + BATCH):  # to limit RAM, keep only pairs that this run may ask about
            found = sorted(found, key=lambda one: one.rank)[: budget + BATCH]
    found.sort(key=lambda one: one.rank)
    for candidate in [one for one in found if one.judged is not None]:
        verdict = cast("Mapping[str, Any]", candidate.judged)
        yield from _answered(turn, search, candidate, Contrast(verdict["kind"], verdict["reason"]), judge)
    questions = [one for one in found if one.judged is None]
    more = len(questions) > budget
    questions = questions[:budget]
    for at in range(0, len(questions), BATCH):
        turn.progress(at, len(questions), "asking the judge")
        some = questions[at : at + BATCH]
        answers = _asked(judge, some)
        if answers is None:
            return
        usable = [
            (one, said) for one, said in zip(some, answers, strict=False) if said is not None and said.kind in KINDS
        ]
        for candidate, answer in usable:
            search.answered(candidate, {"kind": answer.kind, "reason": answer.reason})
        for candidate, answer in usable:
            turn.give()
            yield from _answered(turn, search, candidate, answer, judge)
    if more:
        yield Done(more=True)


def _asked(judge: Judge, some: Sequence[ConflictCandidate]) -> Sequence[Contrast | None] | None:
    """Return the judge's answer for each of `some` (None: no answer). Return None if the judge became
    unavailable for this run."""
    try:
        return judge.conflicts([candidate.pair for candidate in some])
    except JudgeGone:
        return None


def _answered(
    turn: RunContext, search: ConflictSearch, candidate: ConflictCandidate, answer: Contrast, judge: Judge
) -> Iterator[Step]:
    verdict = {"kind": answer.kind, "reason": answer.reason}
    if answer.kind == "none":
        search.settle(candidate, verdict)
        return
    both = search.fresh(candidate)
    if both is None:
        return  # a memory was changed or outdated since the search, perhaps by this run
    newer, older = both
    reason = (
        clean_line(turn.ormah, answer.reason)
        or f"judged to be {'an evolution' if answer.kind == 'evolution' else 'a tension'}"
    )
    body = f"{reason}\n\nJudged by {judge.name}: {answer.kind} (cosine {candidate.cosine:.2f})."
    try:
        change = _change(turn.ormah, newer.id, older.id, answer.kind, reason, body, by_person=False)
    except BadRequest as exc:  # the judge may not decide this, for example about the user: ask a person
        evidence = {"cosine": round(candidate.cosine, 3), "judge": judge.name, "why": exc.message}
        yield _ask(newer, older, answer.kind, reason, evidence)
        search.settle(candidate, verdict)
    except Conflict as exc:  # an edge that exists by now contradicts the verdict
        search.settle(candidate, verdict | {"dropped": exc.message})
    else:
        yield replace(change, done=partial(search.settle, candidate, verdict))


# ---------------------------------------------------------------- changes and proposals


def _change(
    ormah: Ormah, newer: str, older: str, kind: ConflictKind, reason: str, body: str, *, by_person: bool
) -> PlannedChange:
    if kind == "evolution":
        return evolution(ormah, newer, older, reason=reason, body=body, by_person=by_person)
    return tension(ormah, newer, older, reason=reason, body=body)


def _ask(newer: NodeRow, older: NodeRow, kind: ConflictKind, reason: str, evidence: Mapping[str, Any]) -> Ask:
    new, old = names(newer, older)
    if kind == "evolution":
        action = f"Mark “{old}” as superseded by “{new}”"
    else:
        action = f"Connect “{new}” and “{old}” as contradicting each other"
    return Ask(
        ProposalType.CONFLICT, (newer.id, older.id), action, reason,
        {"kind": kind, "source_id": newer.id, "target_id": older.id, "reason": reason},
        {newer.id: newer.digest, older.id: older.digest},
        f"{_quoted(newer)}\n\n{_quoted(older)}", evidence,
    )  # fmt: skip


def _why(found: Compared, newer: NodeRow, older: NodeRow, kind: ConflictKind) -> str:
    before, now = (f"“{shortened(one_line(row.content), CLAIM)}”" for row in (older, newer))
    place = f" ({found.old} → {found.new})" if found.old and found.new else ""
    if kind == "tension":
        return f"they were stored on one day and seem to contradict each other{place}: {before} and {now}"
    return f"the newer one seems to replace the older one{place}: before {before}, now {now}"


def _quoted(row: NodeRow) -> str:
    head = f"{row.created:%Y-%m-%d} · {row.type} · {row.space or 'global'} · {row.short_id}"
    title = [row.title] if row.title else []
    return "\n".join([head, *title, shortened(row.content, PREVIEW)])
