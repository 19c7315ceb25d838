"""The duplicate merger: two memories that say the same become one (REFERENCE 3.4; seeds, sleep cycle).

Candidates are pairs of one type and one space with a high similarity score. Each memory that was not examined yet is
compared with its nearest neighbours only. Pairs that say the same in the same words (`text.sameness`, a cautious
rule) are merged without a decision. Other similar pairs are decided by a judge. Without a judge, a person decides:
the job makes a proposal with the merged text. A memory is in only one pending proposal at a time, so that five
similar memories do not lead to ten proposals.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from functools import partial

from msgspec.structs import asdict, replace

from ormahd.actions.views import headline
from ormahd.index.rows import Filter, NodeRow
from ormahd.jobs.duplicates.change import is_event, keeper, meaning, merge, persons, united, why_apart, why_unfit
from ormahd.jobs.job import Ask, RunContext, Step
from ormahd.jobs.neighbours import COSINE, PairSimilarity, likeness
from ormahd.jobs.questions import Asking, MemoryGroup, PairSearch
from ormahd.judge.model_judge import DUPLICATES
from ormahd.judge.port import AnyVerdict, Duplicate
from ormahd.model.change import Kind
from ormahd.model.node import ProposalType
from ormahd.ormah import Ormah
from ormahd.state import proposals as book
from ormahd.text.sameness import Same, contrast, same
from ormahd.text.standing import Relation, compare
from ormahd.text.statement import read_statement

NEIGHBOURS = 6
"""Maximum number of nearest memories of the same type and space that a memory is compared with (REFERENCE 3.4)."""
LEAST_LIKENESS = 0.6
"""Minimum similarity score (0.6 cosine + 0.2 titles + 0.2 common words) of a candidate pair (REFERENCE 3.4)."""
LEAST_COSINE = max(0.25, (LEAST_LIKENESS - (1 - COSINE)) / COSINE)
"""Cosine below which two memories are not compared at all (REFERENCE 3.4)."""
MERGE_LIKENESS = 0.85
"""Similarity score from which a judge's yes merges at once; below it, the merge is proposed."""
MAX_PROPOSALS = 50
"""Largest number of new merge proposals of one run: more than a person decides on at a time."""
PROPOSE_LIKENESS = 0.65
"""Minimum similarity score of a pair for a proposal without a judge. Unrelated memories stay below 0.5."""


class DuplicatePair(MemoryGroup, frozen=True):
    """A pair of memories that may be duplicates. `how`: in what way both have the same words; None if they have
    not."""

    like: PairSimilarity
    how: Same | None


class DuplicateMerger:
    """The job that merges duplicates. It first merges pairs with the same words. The other pairs are decided by
    the judge, or proposed to a person."""

    name = "duplicate_merger"

    def plan(self, context: RunContext) -> Iterator[Step]:
        """Yield merges of pairs with the same words, then merges that the judge is sure of, and proposals for the
        others."""
        ormah, dry, search = context.ormah, context.dry, _search(context)
        asking: Asking[DuplicatePair] = Asking(context, DUPLICATES, search)
        with contextlib.closing(search):
            found = sorted(_pairs(search), key=_best_first)
            removed: set[str] = set()
            """Ids of memories that merges of a dry run would remove: they are still in the index."""

            # Pairs with the same words. If a person created both files, neither is removed without that person's decision
            made = persons(ormah, [row for pair in found for row in pair.rows])
            by_itself = ormah.settings.merging.by_itself
            alone = [pair for pair in found if pair.how is not None and by_itself and not pair.ids <= made]
            for pair in alone:
                known = asking.known(pair)
                if pair.ids & removed or (known is not None and not known.get("same")):
                    asking.settle(pair)
                    continue
                ids = [row.id for row in pair.rows]
                both = list(ormah.index.notes(ids).values())  # another change may have edited or removed one
                if len(both) < 2 or why_apart(ormah, *both) is not None:
                    continue
                how = same(*_title_and_content(both[0]), *_title_and_content(both[1]))
                if how is not None:
                    keep, remove = keeper(both[0], both[1], persons(ormah, both))
                    body = f"They say the same: {how}.\n{pair.like}"
                    change = merge(ormah, keep, remove, title=None, content=None, body=body, across=False)
                    yield replace(change, done=partial(asking.settle, pair))
                    removed |= {remove.id} if dry else set()

            # The others, with the verdict of the judge or of the words. `asked`: memories in a pending proposal
            asked, remaining = waiting(ormah), MAX_PROPOSALS
            others = (pair for pair in found if pair.how is None or not by_itself or pair.ids <= made)
            for pair, verdict in asking.answers(others, _by_words):
                assert isinstance(verdict, Duplicate)
                if not verdict.same or pair.ids & removed:
                    asking.settle(pair, verdict)
                    continue
                rows = pair.now(context)
                if rows is None or why_apart(ormah, *rows) is not None:
                    continue

                # Merge them if the judge is sure and its text is fine, else ask a person
                theirs = persons(ormah, rows)
                keep, remove = keeper(rows[0], rows[1], theirs)
                bad = why_unfit(verdict.title, verdict.content, keep, remove, meaning(ormah)) if context.judge else None
                sure = pair.like.composite >= MERGE_LIKENESS and not pair.ids <= theirs
                if context.judge is not None and sure and bad is None:
                    title, content = verdict.title, verdict.content
                    if content is not None and not dry:
                        ormah.index.embed_ahead([(title or keep.title, content)], urgent=False)
                    body = f"judged to say the same by the judge ({context.judge.name}): {verdict.reason}\n{pair.like}"
                    change = merge(ormah, keep, remove, title=title, content=content, body=body, across=False)
                    yield replace(change, done=partial(asking.settle, pair, verdict))
                    removed |= {remove.id} if dry else set()
                elif not pair.ids & asked and remaining > 0:  # else it stays open for a later run
                    yield _proposal(context, pair, keep, remove, verdict, bad)
                    asking.settle(pair, verdict)
                    asked |= pair.ids
                    remaining -= 1


def candidates(context: RunContext) -> Iterator[DuplicatePair]:
    """Yield the pairs to ask an agent about: not judged yet, not in a pending proposal, and without a clear
    difference."""
    search, asked = _search(context), waiting(context.ormah)
    asking: Asking[DuplicatePair] = Asking(context, DUPLICATES, search)
    with contextlib.closing(search):
        for pair in asking.unanswered(_pairs(search)):
            # Words that show no duplicate: a changed fact, or a different number, name or negation. Whether the two
            # contradict each other is left to the conflict detector
            if pair.how is None and (_contrast(pair) is not None or _relation(pair) is Relation.REPLACED):
                asking.settle(pair)
            elif not pair.ids & asked:
                yield pair


def waiting(ormah: Ormah) -> set[str]:
    """Return the ids of the memories in pending proposals to merge."""
    rows = book.rows(ormah.state, (book.PENDING,))
    return {node_id for row in rows if row.type == ProposalType.MERGE for node_id in row.nodes}


def taken_back(ormah: Ormah) -> set[frozenset[str]]:
    """Return the pairs whose merge was undone. They are not merged or proposed again."""
    merges = ormah.history.ops(kinds=[Kind.MERGE], limit=None)
    return {frozenset(op.nodes[:2]) for op in merges if op.undone_by is not None}


# ---------------------------------------------------------------- pairs


def _search(context: RunContext) -> PairSearch:
    """Return the search for pairs of memories near in meaning that a job may write to."""
    name, part = DuplicateMerger.name, Filter(writable=True)
    return PairSearch(context, part, name=name, reach=NEIGHBOURS, floor=LEAST_COSINE, kin=True)


def _pairs(search: PairSearch) -> Iterator[DuplicatePair]:
    """Yield the pairs that are similar enough and may be merged. Within a chunk of memories the most similar pairs come
    first."""
    ormah = search.context.ormah
    undone = taken_back(ormah)
    for chunk in search.chunks():
        found = []
        for pair in chunk:
            one, other = pair.rows
            like = likeness(one, other, pair.score)
            if like.composite < LEAST_LIKENESS or pair.ids in undone or why_apart(ormah, one, other) is not None:
                search.settle(pair)
                continue
            how = None if is_event(one, other) else same(*_title_and_content(one), *_title_and_content(other))
            found.append(DuplicatePair(pair.rows, like.composite, like, how))
        yield from sorted(found, key=_best_first)


def _best_first(pair: DuplicatePair) -> tuple[float, list[str]]:
    """Return the sort key of a pair: highest score first, then by ids."""
    return -pair.score, sorted(pair.ids)


def _title_and_content(row: NodeRow) -> tuple[str | None, str]:
    """Return title and content."""
    return row.title, row.content


# ---------------------------------------------------------------- without a judge


def _by_words(pairs: Iterable[DuplicatePair]) -> Iterator[tuple[DuplicatePair, AnyVerdict]]:
    """Yield each pair with the verdict whether both memories say the same. It is yes if their score is high and their
    words show it.

    Words that are merely similar do not show it: a number, name, word of code or negation that only one memory has is a
    difference, and so is one word in place of another.
    """
    for pair in pairs:
        older, newer = _oldest_first(pair)
        yes = pair.score >= PROPOSE_LIKENESS and (
            same(*_title_and_content(older), *_title_and_content(newer)) is not None
            or (_contrast(pair) is None and _relation(pair) is Relation.SAME)
        )
        yield pair, Duplicate(yes, None, None, "They are much alike.")


def _contrast(pair: DuplicatePair) -> object:
    """Return how the words of the older memory contradict those of the newer one, or None if they do not."""
    return contrast(*(f"{row.title}\n{row.content}" if row.title else row.content for row in _oldest_first(pair)))


def _relation(pair: DuplicatePair) -> Relation:
    """Return how the newer memory is related to the older one, as the rules of words decide."""
    older, newer = (read_statement(row.title, row.content, row.type) for row in _oldest_first(pair))
    return compare(older, newer, pair.like.cosine).verdict


def _oldest_first(pair: DuplicatePair) -> list[NodeRow]:
    """Return both memories, the older first."""
    return sorted(pair.rows, key=lambda row: (row.created, row.updated, row.id))


# ---------------------------------------------------------------- changes and proposals


def _proposal(
    context: RunContext, pair: DuplicatePair, keep: NodeRow, remove: NodeRow, verdict: Duplicate, bad: str | None
) -> Ask:
    """Return the proposal to merge two memories. `bad`: why the judge's text is refused, or None."""
    reason, title, content = verdict.reason, verdict.title, verdict.content
    if context.judge is not None:
        reason = f"the judge ({context.judge.name}) says that they are the same: {reason}"
    if bad is not None:
        reason += f" Its text was not taken: {bad}."
    if context.judge is None or bad is not None:
        title, content = None, united(keep, remove, meaning(context.ormah))
    title = title or keep.title or remove.title
    tags = ", ".join(dict.fromkeys([*keep.tags, *remove.tags]))
    head = "\n".join(line for line in (title, f"tags: {tags}" if tags else None) if line)
    text = keep.content if content is None else content
    name, other = (headline(row.title, row.content, 60) for row in (keep, remove))
    parts, like = {"keep_id": keep.id, "remove_id": remove.id}, pair.like
    return Ask(
        type=ProposalType.MERGE,
        nodes=(keep.id, remove.id),
        action=f"Merge two memories of “{name}”" if name == other else f"Merge “{other}” into “{name}”",
        reason=reason,
        payload=parts | {"title": title, "content": content, "reason": reason, "body": f"{like}"},
        preview=f"{head}\n\n{text}" if head else text,
        evidence={name: round(value, 3) for name, value in {"composite": like.composite, **asdict(like)}.items()},
    )
