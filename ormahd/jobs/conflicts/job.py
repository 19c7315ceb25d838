"""The conflict detector: find pairs of memories of which one replaces the other (evolution), or that contradict each
other (tension), and record this by an edge.

Without a judge, the words of the texts are compared (`text/standing.py`: different values, verbs of change, negation),
and the job makes proposals for a person. With a judge, its verdicts are applied and remembered. Which memory is the
newer one is decided by their dates, never by the judge. The changes are in `change.py`.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from msgspec.structs import replace

from ormahd.errors import BadRequest, Conflict
from ormahd.index.rows import Filter, NodeRow
from ormahd.jobs.conflicts.change import conflict_change, names
from ormahd.jobs.job import Ask, Done, RunContext, Step
from ormahd.jobs.questions import BATCH, Asking, MemoryGroup, PairSearch
from ormahd.judge.model_judge import CONFLICTS
from ormahd.judge.port import AnyVerdict, Contrast
from ormahd.model.node import EdgeType, ProposalType
from ormahd.text.quoting import one_line, shortened
from ormahd.text.standing import Compared, Relation, comparable, compare
from ormahd.text.statement import Statement, read_statement

NEIGHBOURS = 15
"""Number of nearest neighbours that a memory is compared with (REFERENCE C 3.3)."""
ALIKE = 0.4
"""Minimum cosine of a pair that a judge is asked about (REFERENCE C 3.3)."""
FAR = 0.2
"""Minimum cosine of a pair whose words are compared. It is lower than ALIKE, because short texts that differ only
in a name have a low cosine."""
SETTLED = frozenset({EdgeType.CONTRADICTS, EdgeType.EVOLVED_FROM, EdgeType.DERIVED_FROM})
"""Types of edges that already state how two memories relate, so the pair is not examined."""
SERIES = 3
"""If the words suggest a replacement in this many pairs of a memory, the memory counts as one of a series, such
as one note per server. Then its pairs are no conflicts."""
MAX_PROPOSALS = 25
"""Maximum number of new proposals per run, because a person must read each."""
FARTHER = 0.15
"""A pair is not proposed if one of its memories is in a proposed pair whose cosine is larger by more than this."""
LATER = timedelta(days=1)
"""Without a judge: if more time than this lies between the creation of two memories, the older one counts as replaced;
otherwise the two count as contradicting each other."""
PREVIEW = 600
"""Maximum number of characters of each text in a preview."""
CLAIM = 120
"""Maximum number of characters of a text that a proposal's reason quotes."""


class ConflictPair(MemoryGroup, frozen=True):
    """A newer and an older memory that may be in conflict. `by_words`: the comparison of their words, if it says that
    the newer one replaced the older one."""

    by_words: Compared | None

    @property
    def rank(self) -> tuple[object, ...]:
        """The sort key, best first: by how clearly the words suggest a replacement, then by cosine."""
        return -(self.by_words.replaced if self.by_words is not None else 0.0), -self.score, sorted(self.ids)


class ConflictDetector:
    """The job that records conflicts, or proposes to."""

    name = "conflict_detector"

    def plan(self, context: RunContext) -> Iterator[Step]:
        """Yield a change for each conflict that the judge found, or without a judge a proposal for each that the words
        show.

        Pairs of highest similarity come first.
        """
        search = _search(context)
        asking: Asking[ConflictPair] = Asking(context, CONFLICTS, search, rules=True)
        with contextlib.closing(search):
            found: list[ConflictPair] = []
            for pairs in _pairs(search):
                found += pairs
                if context.judge is not None and len(found) > 10 * (context.questions + BATCH):
                    # To limit RAM, keep only pairs that this run may ask about
                    found = sorted(found, key=lambda pair: pair.rank)[: context.questions + BATCH]
            found.sort(key=lambda pair: pair.rank)
            remaining = MAX_PROPOSALS
            for pair, verdict in asking.answers(found, partial(_by_words, found)):
                assert isinstance(verdict, Contrast)
                if not verdict.yes:
                    asking.settle(pair, verdict)
                elif (rows := pair.now(context)) is None or not _can_conflict(context, *rows):
                    continue  # a memory was changed or outdated since the search, perhaps by this run
                elif context.judge is not None:
                    yield from _steps(context, asking, pair, verdict)
                elif remaining:
                    assert pair.by_words is not None
                    evidence = {"cosine": round(pair.score, 3), "replaced": round(pair.by_words.replaced, 3)}
                    yield _proposal(pair, verdict.kind, verdict.reason, evidence)
                    asking.settle(pair, verdict)
                    remaining -= 1
                else:
                    asking.more = True
                    break
            if asking.more:
                yield Done(more=True)


def candidates(context: RunContext) -> Iterator[ConflictPair]:
    """Yield the pairs that no judge or agent has decided yet, newest memories first.

    Within each chunk of memories, the pairs that are most likely in conflict come first.
    """
    search = _search(context)
    with contextlib.closing(search):
        asking: Asking[ConflictPair] = Asking(context, CONFLICTS, search)
        for pairs in _pairs(search):
            yield from asking.unanswered(pairs)


# ---------------------------------------------------------------- pairs


def _search(context: RunContext) -> PairSearch:
    """Return the search for pairs of current memories that a job may write to."""
    part = Filter(alive_at=context.now, writable=True)
    return PairSearch(context, part, name=ConflictDetector.name, reach=NEIGHBOURS, floor=FAR)


def _pairs(search: PairSearch) -> Iterator[list[ConflictPair]]:
    """Yield lists of pairs that may be in conflict, one list for each chunk of memories, best first. For a judge or an
    agent these are all near pairs, otherwise only those whose words suggest a replacement."""
    for chunk in search.chunks():
        edges = search.between(chunk)
        statements: dict[str, Statement] = {}
        found: list[ConflictPair] = []
        for pair in chunk:
            search.context.give()
            newer, older = sorted(pair.rows, key=lambda row: (row.created, row.updated, row.id), reverse=True)
            related = any(edge.edge in SETTLED for edge in edges.get(pair.ids, ()))
            by_words = None if related else _compare(newer, older, pair.score, statements)
            far = by_words is None and (search.context.who == "rules" or pair.score < ALIKE)
            if related or far or not _can_conflict(search.context, newer, older):
                search.settle(pair)
            else:
                found.append(ConflictPair((newer, older), pair.score, by_words))
        yield sorted(found, key=lambda pair: pair.rank)


def _can_conflict(context: RunContext, one: NodeRow, other: NodeRow) -> bool:
    """Whether the two can be in conflict: both are valid now, and they share a space or one is global."""
    spaces = {one.space, other.space}
    return not one.expired(context.now) and not other.expired(context.now) and (len(spaces) == 1 or None in spaces)


def _compare(newer: NodeRow, older: NodeRow, cosine: float, statements: dict[str, Statement]) -> Compared | None:
    """Return the comparison of the words of two memories if it says that the newer one replaced the older one, else
    None. `statements`: a cache."""
    if not comparable(newer.type, newer.space, older.type, older.space):
        return None
    for row in (newer, older):
        if row.id not in statements:
            statements[row.id] = read_statement(row.title, row.content, row.type)
    found = compare(statements[older.id], statements[newer.id], cosine)
    return found if found.verdict is Relation.REPLACED else None


# ---------------------------------------------------------------- without a judge


def _by_words(
    found: Sequence[ConflictPair], pairs: Iterable[ConflictPair]
) -> Iterator[tuple[ConflictPair, AnyVerdict]]:
    """Yield the pairs with the verdict of the comparison of their words. `pairs` are among `found`, all pairs of this
    run.

    The verdict is no for the pairs of a series, and for pairs that are less similar than others of the same memory.
    """
    pairs_of = Counter(node_id for pair in found for node_id in pair.ids)
    nearest: dict[str, float] = {}
    """{id of a memory in a pair in conflict: highest cosine of these pairs}."""
    for pair in pairs:
        newer, older = pair.rows
        if pair.by_words is None or max(pairs_of[node_id] for node_id in pair.ids) >= SERIES:
            yield pair, Contrast("none", "series")
        elif any(pair.score < nearest.get(node_id, 0.0) - FARTHER for node_id in pair.ids):
            yield pair, Contrast("none", "farther")
        else:
            nearest |= {node_id: max(pair.score, nearest.get(node_id, 0.0)) for node_id in pair.ids}
            before, now = (f"“{one_line(row.content, CLAIM)}”" for row in (older, newer))
            words = pair.by_words
            place = f" ({words.old} → {words.new})" if words.old and words.new else ""
            if newer.created - older.created > LATER:
                reason = f"the newer one seems to replace the older one{place}: before {before}, now {now}"
                yield pair, Contrast("evolution", reason)
            else:
                reason = f"they were stored on one day and seem to contradict each other{place}: {before} and {now}"
                yield pair, Contrast("tension", reason)


# ---------------------------------------------------------------- with a judge


def _steps(context: RunContext, asking: Asking[ConflictPair], pair: ConflictPair, verdict: Contrast) -> Iterator[Step]:
    """Yield the change that records the judge's verdict. If only a person may decide that, yield a proposal instead."""
    assert context.judge is not None
    newer, older = pair.rows
    reason = verdict.reason or f"judged to be {'an evolution' if verdict.kind == 'evolution' else 'a tension'}"
    body = f"{reason}\n\nJudged by {context.judge.name}: {verdict.kind} (cosine {pair.score:.2f})."
    try:
        change = conflict_change(context.ormah, newer.id, older.id, verdict.kind, reason=reason, body=body)
    except BadRequest as exc:  # the judge may not decide this, for example about the user: ask a person
        evidence = {"cosine": round(pair.score, 3), "judge": context.judge.name, "why": exc.message}
        yield _proposal(pair, verdict.kind, reason, evidence)
        asking.settle(pair, verdict)
    except Conflict:  # an edge that exists by now contradicts the verdict
        asking.settle(pair, verdict)
    else:
        yield replace(change, done=partial(asking.settle, pair, verdict))


def _proposal(pair: ConflictPair, kind: str, reason: str, evidence: dict[str, Any]) -> Ask:
    """Return the proposal to record the conflict. `kind`: "evolution" or "tension"."""
    newer, older = pair.rows
    new, old = names(newer, older)
    if kind == "evolution":
        action = f"Mark “{old}” as superseded by “{new}”"
    else:
        action = f"Connect “{new}” and “{old}” as contradicting each other"
    return Ask(
        type=ProposalType.CONFLICT,
        nodes=(newer.id, older.id),
        action=action,
        reason=reason,
        payload={"kind": kind, "source_id": newer.id, "target_id": older.id, "reason": reason},
        preview=f"{_preview_of(newer)}\n\n{_preview_of(older)}",
        evidence=evidence,
    )


def _preview_of(row: NodeRow) -> str:
    """Return a memory for a preview: date, type, space and id, then its title and the beginning of its text."""
    head = f"{row.created:%Y-%m-%d} · {row.type} · {row.space or 'global'} · {row.short_id}"
    return "\n".join([head, *([row.title] if row.title else []), shortened(row.content, PREVIEW)])
