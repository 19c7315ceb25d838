"""Find memories that do not agree: one that replaced another (evolution), two that contradict each other (tension).

Without a judge what the texts show (`text/standing.py`: values that differ, verbs of change, negation, against another subject or scope)
makes proposals for a person. With a judge its verdict is applied, and remembered whatever it was. Which of two is the
newer one their dates say, never the judge.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, cast

from msgspec.structs import replace

from ormahd.errors import BadRequest, Conflict
from ormahd.jobs.conflicts import change as opposing
from ormahd.jobs.conflicts.candidates import NAME, Candidate, Search
from ormahd.jobs.job import Ask, Change, Done, Step, Turn
from ormahd.judge.port import Contrast, JudgeGone
from ormahd.model.node import ProposalType
from ormahd.text.quoting import shortened

if TYPE_CHECKING:
    from ormahd.index.rows import NodeRow
    from ormahd.judge.port import Judge, Pair
    from ormahd.ormah import Ormah
    from ormahd.text.standing import Compared

PROPOSALS = 25
"""New ones in a run: a person reads each."""
BATCH = 20
"""Pairs that a judge is asked about at once."""
FARTHER = 0.15
"""By so much less near than another one that a memory is in conflict with, it speaks of something else."""
LATER = timedelta(days=1)
"""So much later a belief has to be noted for the one before to count as replaced rather than contradicted."""
PREVIEW = 600
"""Characters of each text in a preview."""
CLAIM = 120
"""Characters of a claim in a reason."""

Kind = Literal["evolution", "tension"]
KINDS = frozenset({"evolution", "tension", "none"})
"""What a judge may answer; anything else leaves the question open."""


class ConflictDetector:
    name = NAME

    def plan(self, turn: Turn) -> Iterator[Step]:
        return _ruled(turn) if turn.judge is None else _judged(turn, turn.judge)


def candidates(turn: Turn) -> Iterator[Pair]:
    """Pairs that no judge has been asked about yet, the newest memories first and of those the likeliest."""
    for chunk in Search(turn, judged=True).chunks():
        yield from (candidate.pair for candidate in chunk)


def change_of(ormah: Ormah, payload: Mapping[str, Any]) -> Change:
    """The change of an approved proposal. Raises NotFound, BadRequest, Conflict where it makes no sense any more."""
    reason = str(payload["reason"])
    return _change(
        ormah, str(payload["source_id"]), str(payload["target_id"]), payload["kind"], reason, reason, by_person=True
    )


# ---------------------------------------------------------------- without a judge


def _ruled(turn: Turn) -> Iterator[Step]:
    search = Search(turn, judged=False)
    found = sorted((one for chunk in search.chunks() for one in chunk), key=lambda one: one.rank)
    left = PROPOSALS
    nearest: dict[str, float] = {}
    """Of each memory that is proposed, the cosine of the nearest other one."""
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
        kind: Kind = "evolution" if newer.created - older.created > LATER else "tension"
        evidence = {"cosine": round(candidate.cosine, 3), "replaced": round(by_words.replaced, 3)}
        yield _ask(newer, older, kind, _why(by_words, newer, older), evidence)
        search.settle(candidate, {"kind": kind, "rule": "words"})
        left -= 1


# ---------------------------------------------------------------- with one


def _judged(turn: Turn, judge: Judge) -> Iterator[Step]:
    """The likeliest first, as many as may be asked in a run; a verdict that could not be carried out then comes again."""
    search = Search(turn, judged=True)
    budget = turn.ormah.settings.jobs.judge_questions
    found: list[Candidate] = []
    for chunk in search.chunks():
        found += chunk
        if len(found) > 10 * (budget + BATCH):  # of a large vault only what may have its turn is kept
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


def _asked(judge: Judge, some: Sequence[Candidate]) -> Sequence[Contrast | None] | None:
    """None: nobody answers any more in this run."""
    try:
        return judge.conflicts([candidate.pair for candidate in some])
    except JudgeGone:
        return None


def _answered(turn: Turn, search: Search, candidate: Candidate, answer: Contrast, judge: Judge) -> Iterator[Step]:
    verdict = {"kind": answer.kind, "reason": answer.reason}
    if answer.kind == "none":
        search.settle(candidate, verdict)
        return
    both = search.fresh(candidate)
    if both is None:
        return  # changed, or outdated by what came before
    newer, older = both
    reason = (
        opposing.clean_line(turn.ormah, answer.reason)
        or f"judged to be {'an evolution' if answer.kind == 'evolution' else 'a tension'}"
    )
    body = f"{reason}\n\nJudged by {judge.name}: {answer.kind} (cosine {candidate.cosine:.2f})."
    try:
        change = _change(turn.ormah, newer.id, older.id, answer.kind, reason, body, by_person=False)
    except BadRequest as exc:  # about the user: a person decides
        evidence = {"cosine": round(candidate.cosine, 3), "judge": judge.name, "why": exc.message}
        yield _ask(newer, older, answer.kind, reason, evidence)
        search.settle(candidate, verdict)
    except Conflict as exc:  # another edge says otherwise by now
        search.settle(candidate, verdict | {"dropped": exc.message})
    else:
        yield replace(change, done=partial(search.settle, candidate, verdict))


# ---------------------------------------------------------------- words


def _change(ormah: Ormah, newer: str, older: str, kind: Kind, reason: str, body: str, *, by_person: bool) -> Change:
    if kind == "evolution":
        return opposing.evolution(ormah, newer, older, reason=reason, body=body, by_person=by_person)
    return opposing.tension(ormah, newer, older, reason=reason, body=body)


def _ask(newer: NodeRow, older: NodeRow, kind: Kind, reason: str, evidence: Mapping[str, Any]) -> Ask:
    new, old = opposing.names(newer, older)
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


def _why(found: Compared, newer: NodeRow, older: NodeRow) -> str:
    before, now = (f"“{shortened(_line(row), CLAIM)}”" for row in (older, newer))
    place = f" ({found.old} → {found.new})" if found.old and found.new else ""
    return f"the newer one seems to replace the older one{place}: before {before}, now {now}"


def _line(row: NodeRow) -> str:
    return " ".join(row.content.split())


def _quoted(row: NodeRow) -> str:
    head = f"{row.created:%Y-%m-%d} · {row.type} · {row.space or 'global'} · {row.short_id}"
    title = [row.title] if row.title else []
    return "\n".join([head, *title, shortened(row.content, PREVIEW)])
