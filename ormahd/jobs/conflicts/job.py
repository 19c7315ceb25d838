"""Find memories in conflict: one replaced the other (evolution), or the two contradict each other (tension).

Without a judge, the words of the texts are compared (`text/standing.py`: different values, verbs of change, negation), and the
job makes proposals for a person. With a judge, its verdicts are applied and remembered. Which memory is the newer one is
decided by their dates, never by the judge.
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
"""Maximum number of new proposals per run, because a person must read each."""
BATCH = 20
"""Number of pairs in one request to the judge."""
FARTHER = 0.15
"""A pair is dropped if one of its memories is in a proposed pair whose cosine is higher by more than this."""
LATER = timedelta(days=1)
"""Without a judge, a memory counts as replaced if the other one was created more than this later, else as contradicted."""
PREVIEW = 600
"""Maximum number of characters of each text in a preview."""
CLAIM = 120
"""Maximum number of characters of each text that a reason quotes."""

Kind = Literal["evolution", "tension"]
KINDS = frozenset({"evolution", "tension", "none"})
"""The valid verdicts of a judge; any other answer leaves the question open."""


class ConflictDetector:
    """The job. It compares words without a judge, and asks the judge if there is one."""

    name = NAME

    def plan(self, turn: Turn) -> Iterator[Step]:
        return _ruled(turn) if turn.judge is None else _judged(turn, turn.judge)


def candidates(turn: Turn) -> Iterator[Pair]:
    """Yield pairs that no judge has decided yet: newest memories first, and within a chunk the likeliest pairs first."""
    for chunk in Search(turn, judged=True).chunks():
        yield from (candidate.pair for candidate in chunk)


def change_of(ormah: Ormah, payload: Mapping[str, Any]) -> Change:
    """Return the change of an approved proposal. Raises NotFound, BadRequest or Conflict if it is no longer possible."""
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
        kind: Kind = "evolution" if newer.created - older.created > LATER else "tension"
        evidence = {"cosine": round(candidate.cosine, 3), "replaced": round(by_words.replaced, 3)}
        yield _ask(newer, older, kind, _why(by_words, newer, older), evidence)
        search.settle(candidate, {"kind": kind, "rule": "words"})
        left -= 1


# ---------------------------------------------------------------- with a judge


def _judged(turn: Turn, judge: Judge) -> Iterator[Step]:
    """Ask the judge about the likeliest pairs, up to the limit of a run, and plan the changes that its verdicts ask for.

    Verdicts of earlier runs that were not applied come first.
    """
    search = Search(turn, judged=True)
    budget = turn.ormah.settings.jobs.judge_questions
    found: list[Candidate] = []
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


def _asked(judge: Judge, some: Sequence[Candidate]) -> Sequence[Contrast | None] | None:
    """Return the judge's answers; None if the judge became unavailable for this run."""
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
        return  # a memory was changed or outdated since the search, perhaps by this run
    newer, older = both
    reason = (
        opposing.clean_line(turn.ormah, answer.reason)
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
