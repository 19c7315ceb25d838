"""The duplicate merger: two memories that say the same become one (REFERENCE 3.4; seeds, sleep cycle).

Candidates are pairs of one type and one space with a high similarity score. Each memory that was not examined yet is
compared with its nearest neighbours only. Pairs that say the same in the same words (`text.sameness`, a cautious
rule) are merged without a decision. Other similar pairs are decided by a judge. Without a judge, a person decides:
the job makes a proposal with the merged text. A memory is in only one pending proposal at a time, so that five
similar memories do not lead to ten proposals.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from ormahd.actions.views import headline
from ormahd.index.rows import Filter
from ormahd.jobs.duplicates.change import is_event, keeper, meaning, merge, persons, unfit, united, why_apart
from ormahd.jobs.job import Ask, PlannedChange, RunContext, Step
from ormahd.jobs.neighbours import COSINE, PairSimilarity, likeness
from ormahd.judge.port import Duplicate, JudgeGone, Pair, ShownMemory
from ormahd.model.change import Kind
from ormahd.model.node import NodeType, ProposalType
from ormahd.process import sql
from ormahd.state import proposals as book
from ormahd.state.proposals import text_key
from ormahd.text.diff import clip
from ormahd.text.sameness import Same, contrast, same
from ormahd.text.secrets import redact
from ormahd.text.standing import Relation, compare
from ormahd.text.statement import read

if TYPE_CHECKING:
    from ormahd.index.rows import NodeRow
    from ormahd.jobs.job import RunContext
    from ormahd.ormah import Ormah


QUESTION = "duplicate"
"""The name under which `Verdicts` remembers verdicts on pairs: {"same": bool, …}."""
NEIGHBOURS = 6
"""Maximum number of nearest memories of the same type and space that a memory is compared with (REFERENCE 3.4)."""
LEAST_COSINE = 0.25
"""Cosine below which two memories are not compared at all (REFERENCE 3.4)."""
LEAST_LIKENESS = 0.6
"""Minimum similarity score (0.6 cosine + 0.2 titles + 0.2 common words) of a candidate pair (REFERENCE 3.4)."""
READ = 500
"""Number of notes read at once."""

Two = frozenset[str]
"""The ids of a pair."""


class Found(Struct, frozen=True):
    """A pair of memories that may be duplicates. `how`: in what way both have the same words; None if they have
    not."""

    one: NodeRow
    other: NodeRow
    like: PairSimilarity
    how: Same | None

    @property
    def ids(self) -> Two:
        return frozenset({self.one.id, self.other.id})

    @property
    def texts(self) -> list[str]:
        return [text_key(row.title, row.content) for row in (self.one, self.other)]

    @property
    def shown(self) -> Pair:
        return Pair(_shown(self.one), _shown(self.other), self.like.composite)


class DuplicateSearch(Struct):
    """Finds the candidate pairs of one run of the job, and keeps which of them are settled: nothing is left to do or
    to ask about them.

    `under`: the name under which memories are marked as examined. A memory is marked once all its pairs are settled.
    """

    turn: RunContext
    under: str
    _looked: dict[str, str] = field(default_factory=dict)
    _open: dict[Two, Found] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Found]:
        """Yield candidate pairs, chunk by chunk of READ memories, most similar first within a chunk."""
        index = self.turn.ormah.index
        undone = taken_back(self.turn.ormah)
        kinds: dict[str, tuple[NodeType, str | None]] = {}
        texts: dict[str, str] = {}
        ids = [
            node_id for node_id in sorted(index.ids(Filter(writable=True))) if node_id != self.turn.ormah.vault.self_id
        ]
        for some in sql.chunks(ids, READ):
            self.turn.give()
            for row in index.notes(some, connections=False).values():
                kinds[row.id] = row.type, row.space
                texts[row.id] = text_key(row.title, row.content)
        unseen = self.turn.verdicts.unseen(self.under, texts)
        for at, some in enumerate(sql.chunks(unseen, READ)):
            self.turn.progress(at * READ, len(unseen), "memories compared")
            near = list(self._near(some, kinds))
            rows = index.notes(list({node_id for one, other, _ in near for node_id in (one, other)}), connections=False)
            found = [
                pair for one, other, cosine in near
                if one in rows and other in rows and (pair := self._pair(rows[one], rows[other], cosine)) is not None
                and pair.ids not in undone
            ]  # fmt: skip
            self._open |= {pair.ids: pair for pair in found}
            self._looked |= {node_id: texts[node_id] for node_id in some if index.vectors(node_id) is not None}
            yield from sorted(found, key=lambda pair: (-pair.like.composite, sorted(pair.ids)))

    def settle(self, pair: Found) -> None:
        """Mark a pair as settled."""
        self._open.pop(pair.ids, None)

    def close(self) -> None:
        """Mark the memories whose pairs are all settled as examined. Do nothing in a dry run."""
        if not self.turn.dry:
            waiting = {node_id for two in self._open for node_id in two}
            self.turn.verdicts.seen(self.under, [one for one in self._looked.items() if one[0] not in waiting])

    def _near(
        self, ids: Iterable[str], kinds: dict[str, tuple[NodeType, str | None]]
    ) -> Iterator[tuple[str, str, float]]:
        met: set[Two] = set()
        floor = max(LEAST_COSINE, (LEAST_LIKENESS - (1 - COSINE)) / COSINE)
        for node_id in ids:
            self.turn.give()
            kin = [hit for hit in self.turn.near.of(node_id) if kinds.get(hit[0]) == kinds[node_id]]
            for other, cosine in kin[:NEIGHBOURS]:
                two = frozenset({node_id, other})
                if cosine >= floor and two not in met and two not in self._open:
                    met.add(two)
                    yield node_id, other, cosine

    def _pair(self, one: NodeRow, other: NodeRow, cosine: float) -> Found | None:
        like = likeness(one, other, cosine)
        if like.composite < LEAST_LIKENESS:
            return None
        if why_apart(self.turn.ormah, one, other) is not None:
            return None
        how = None if is_event(one, other) else same(one.title, one.content, other.title, other.content)
        return Found(one, other, like, how)


def differ(pair: Found) -> bool:
    """Whether the words of a pair show that it is no duplicate: a changed fact, or a different number, name or
    negation.

    Whether the two contradict each other is left to the conflict detector.
    """
    if pair.how is not None:
        return False
    older, newer = sorted((pair.one, pair.other), key=lambda row: (row.created, row.updated, row.id))
    if contrast(*(f"{row.title or ''}\n{row.content}" for row in (older, newer))) is not None:
        return True
    texts = [read(row.title, row.content, row.type) for row in (older, newer)]
    return compare(texts[0], texts[1], pair.like.cosine).verdict is Relation.REPLACED


def candidates(turn: RunContext) -> Iterator[Pair]:
    """Yield the pairs to ask an agent about: not judged yet, not in a pending proposal, and without a clear
    difference.

    At the end, memories whose pairs are all settled are marked as examined.
    """
    search = DuplicateSearch(turn, "duplicate_merger agent")
    asked = waiting(turn.ormah)
    try:
        for pair in search:
            if turn.verdicts.known(QUESTION, pair.texts) is not None or differ(pair):
                search.settle(pair)
            elif not pair.ids & asked:
                yield pair.shown
    finally:
        search.close()


def waiting(ormah: Ormah) -> set[str]:
    """Return the ids of the memories in pending proposals to merge."""
    rows = book.rows(ormah.state, (book.PENDING,))
    return {node_id for row in rows if row.type == ProposalType.MERGE for node_id in row.nodes}


def taken_back(ormah: Ormah) -> set[Two]:
    """Return the pairs whose merge was undone. They are not merged or proposed again."""
    view = ormah.vault.oplog.view()
    merges = [entry for entry in view.entries if entry.kind == Kind.MERGE and view.undone_by(entry) is not None]
    return {frozenset(entry.nodes[:2]) for entry in merges}


def _shown(row: NodeRow) -> ShownMemory:
    return ShownMemory(row.id, row.type, row.space, row.title, row.content, row.created)


def shown(pairs: Sequence[Found]) -> list[Pair]:
    return [pair.shown for pair in pairs]


MERGE_LIKENESS = 0.85
"""Similarity score from which a judge's yes merges at once; below it, the merge is proposed."""
MAX_PROPOSALS = 50
"""Largest number of new merge proposals of one run: more than a person decides on at a time."""
PROPOSE_LIKENESS = 0.65
"""Minimum similarity score of a pair for a proposal without a judge. Unrelated memories stay below 0.5."""
AT_ONCE = 20
"""Number of pairs in one request to the judge."""
UNASKED = Duplicate(same=True, title=None, content=None, reason="")
"""The verdict that stands for "no judge was asked"."""


class DuplicateMerger:
    """The job that merges duplicates. It first merges pairs with the same words. The other pairs are decided by
    the judge, or proposed to a person."""

    name = "duplicate_merger"

    def plan(self, turn: RunContext) -> Iterator[Step]:
        search = DuplicateSearch(turn, f"{self.name} {turn.judge.name}" if turn.judge else self.name)
        try:
            found = list(search)
            gone: set[str] = set()
            by_itself = turn.ormah.settings.merging.by_itself
            made = persons(turn.ormah, [row for one in found for row in (one.one, one.other)])
            # If a person created both files, neither is removed without that person's decision
            alone = [one for one in found if one.how is not None and by_itself and not one.ids <= made]
            for pair in alone:
                if change := _alone(turn, pair, gone, partial(search.settle, pair)):
                    yield change
                    gone |= _removed(change, turn)
            others = [one for one in found if one not in alone]
            if turn.judge:
                yield from self._judged(turn, others, search, gone)
            else:
                yield from self._unasked(turn, others, search, gone)
        finally:
            search.close()

    def _unasked(
        self, turn: RunContext, pairs: Sequence[Found], search: DuplicateSearch, gone: set[str]
    ) -> Iterator[Step]:
        """Without a judge: propose the pairs with a high score whose words show that both say the same; settle the
        others.

        `gone`: ids of memories that merges of this run remove.
        """
        proposer = _Proposer(turn, search)
        for pair in sorted(pairs, key=_best_first):
            known = _known(turn, pair)
            answered = known is not None and not known.same  # an agent was asked
            if answered or pair.ids & gone or pair.like.composite < PROPOSE_LIKENESS or not says_the_same(pair):
                search.settle(pair)
            else:
                yield from proposer.propose(pair, UNASKED)

    def _judged(
        self, turn: RunContext, pairs: Sequence[Found], search: DuplicateSearch, gone: set[str]
    ) -> Iterator[Step]:
        """Ask the judge about each pair. If it says that both are the same, merge or propose the pair; otherwise
        settle it.

        A pair is merged if its score is high. It is proposed if the score is lower, if the judge's text is refused,
        or if a person created both files. `gone`: ids of memories that merges of this run remove.
        """
        proposer = _Proposer(turn, search)
        for pair, verdict in _asked(turn, sorted(pairs, key=_best_first)):
            if not verdict.same or pair.ids & gone:
                search.settle(pair)
                continue
            fresh = _fresh(turn, pair)
            if fresh is None:
                continue
            made = persons(turn.ormah, (fresh.one, fresh.other))
            keep, remove = keeper(fresh.one, fresh.other, made)
            bad = unfit(verdict.title, verdict.content, keep, remove, meaning(turn.ormah))
            if bad is None and not fresh.ids <= made and pair.like.composite >= MERGE_LIKENESS:
                change = _merged(turn, fresh, verdict, f"judged to say the same by {_name(turn)}: {verdict.reason}")
                yield replace(change, done=partial(search.settle, pair))
                gone |= _removed(change, turn)
            else:
                yield from proposer.propose(fresh, verdict, bad)


def says_the_same(pair: Found) -> bool:
    """Whether the words of a pair show that both say the same. That no difference is found is not enough.

    A difference is a number, name, word of code or negation that only one of them has, or one word in place of
    another.
    """
    older, newer = sorted((pair.one, pair.other), key=lambda row: (row.created, row.updated, row.id))
    if same(older.title, older.content, newer.title, newer.content) is not None:
        return True
    if contrast(_text(older), _text(newer)) is not None:
        return False
    texts = [read(row.title, row.content, row.type) for row in (older, newer)]
    return compare(texts[0], texts[1], pair.like.cosine).verdict is Relation.SAME


class _Proposer:
    """Makes the proposals of one run: a limited number, and none for a memory that is in a pending proposal."""

    def __init__(self, turn: RunContext, search: DuplicateSearch) -> None:
        self._turn, self._search = turn, search
        self._asked = waiting(turn.ormah)
        self._left = MAX_PROPOSALS

    def propose(self, pair: Found, verdict: Duplicate, bad: str | None = None) -> Iterator[Ask]:
        if pair.ids & self._asked or self._left <= 0:
            return  # the pair stays open for a later run
        fresh = _fresh(self._turn, pair)
        if fresh is None:
            return
        yield _ask(self._turn, fresh, verdict, bad)
        self._asked |= pair.ids
        self._left -= 1
        self._search.settle(pair)


def _alone(turn: RunContext, pair: Found, gone: set[str], done: Any) -> PlannedChange | None:
    """Return the change that merges a pair with the same words; None if it must not be merged, or not in this run.

    `gone`: ids of memories that merges of this run remove. `done`: settles the pair; called after the commit, or at
    once if the pair needs no merge.
    """
    known = _known(turn, pair)
    if pair.ids & gone or (known is not None and not known.same):
        done()
        return None
    fresh = _fresh(turn, pair, texts=False)
    if fresh is None:
        return None
    how = same(fresh.one.title, fresh.one.content, fresh.other.title, fresh.other.content)
    if how is None:
        return None
    change = _merged(turn, fresh, UNASKED, f"They say the same: {how}.")
    return replace(change, done=done)


def _merged(turn: RunContext, pair: Found, verdict: Duplicate, why: str) -> PlannedChange:
    keep, remove = keeper(pair.one, pair.other, persons(turn.ormah, (pair.one, pair.other)))
    if verdict.content is not None and not turn.dry:
        turn.ormah.index.embed_ahead([(verdict.title or keep.title, verdict.content)], urgent=False)
    return merge(
        turn.ormah, keep.id, remove.id, title=verdict.title, content=verdict.content, reason=why, body=f"{pair.like}"
    )


def _ask(turn: RunContext, pair: Found, verdict: Duplicate, bad: str | None) -> Ask:
    keep, remove = keeper(pair.one, pair.other, persons(turn.ormah, (pair.one, pair.other)))
    judged = verdict is not UNASKED
    title = verdict.title if judged and bad is None else None
    content = verdict.content if judged and bad is None else united(keep, remove, meaning(turn.ormah))
    reason = f"{_name(turn)} says that they are the same: {verdict.reason}" if judged else "They are much alike."
    if bad is not None:
        reason += f" Its text was not taken: {bad}."
    title = title or keep.title or remove.title
    tags = list(dict.fromkeys([*keep.tags, *remove.tags]))
    head = [title or "", f"tags: {', '.join(tags)}" if tags else "", ""]
    text = keep.content if content is None else content
    preview = "\n".join([*(line for line in head[:2] if line), "", text] if any(head) else [text])
    name, other = (headline(row.title, row.content, 60) for row in (keep, remove))
    action = f"Merge two memories of “{name}”" if name == other else f"Merge “{other}” into “{name}”"
    return Ask(
        ProposalType.MERGE, (keep.id, remove.id), action, reason,
        payload={"keep_id": keep.id, "remove_id": remove.id, "title": title, "content": content,
                 "reason": reason, "body": f"{pair.like}"},
        based_on={keep.id: keep.digest, remove.id: remove.digest}, preview=preview,
        evidence={"composite": round(pair.like.composite, 3), "cosine": round(pair.like.cosine, 3),
                  "title": round(pair.like.title, 3), "words": round(pair.like.words, 3)},
    )  # fmt: skip


def _asked(turn: RunContext, pairs: Sequence[Found]) -> Iterator[tuple[Found, Duplicate]]:
    """Yield the pairs with the judge's verdicts, including remembered ones. A pair without an answer is omitted,
    and stays open."""
    left = turn.questions
    there = True
    for at in range(0, len(pairs), AT_ONCE):
        some = pairs[at : at + AT_ONCE]
        verdicts = [_known(turn, pair) for pair in some]
        new = [pair for pair, known in zip(some, verdicts, strict=True) if known is None][: max(0, left)]
        answers: dict[frozenset[str], Duplicate] = {}
        if new and there and turn.judge is not None:
            left -= len(new)
            turn.give()
            try:
                said = turn.judge.duplicates(shown(new))
            except JudgeGone:
                there, said = False, []
            for pair, answer in zip(new, said, strict=False):
                if answer is not None:
                    answers[pair.ids] = replace(answer, reason=clip(redact(answer.reason).text))
                    _remember(turn, pair, answers[pair.ids])
        for pair, known in zip(some, verdicts, strict=True):
            verdict = known or answers.get(pair.ids)
            if verdict is not None:
                yield pair, verdict


def _remember(turn: RunContext, pair: Found, said: Duplicate) -> None:
    """Remember a verdict, unless its text contains a secret; then the judge is asked again."""
    if not turn.dry and not redact(f"{said.title}\n{said.content}").found:
        turn.verdicts.remember(
            QUESTION, pair.texts,
            {"same": said.same, "title": said.title, "content": said.content, "reason": said.reason},
        )  # fmt: skip


def _known(turn: RunContext, pair: Found) -> Duplicate | None:
    known = turn.verdicts.known(QUESTION, pair.texts)
    if known is None:
        return None
    said = [known.get(name) if isinstance(known.get(name), str) else None for name in ("title", "content", "reason")]
    return Duplicate(known.get("same") is True, said[0], said[1], said[2] or "")


def _fresh(turn: RunContext, pair: Found, *, texts: bool = True) -> Found | None:
    """Return the pair with its current rows; None if a memory is gone or the two cannot be merged.

    `texts`: return None also if one of the texts changed.
    """
    rows = turn.ormah.index.notes([pair.one.id, pair.other.id], connections=False)
    if len(rows) < 2:
        return None
    now = replace(pair, one=rows[pair.one.id], other=rows[pair.other.id])
    if why_apart(turn.ormah, now.one, now.other) is not None or (texts and now.texts != pair.texts):
        return None
    return now


def _removed(change: PlannedChange, turn: RunContext) -> set[str]:
    """Return the id of the memory that the merge `change` removes, as a set, in a dry run; otherwise an empty set.

    In a dry run the memory stays in the index, so it must be left out when further changes are planned.
    """
    return {list(change.based_on)[1]} if turn.dry else set()


def _best_first(pair: Found) -> tuple[float, list[str]]:
    return -pair.like.composite, sorted(pair.ids)


def _text(row: NodeRow) -> str:
    return f"{row.title}\n{row.content}" if row.title else row.content


def _name(turn: RunContext) -> str:
    return f"the judge ({turn.judge.name})" if turn.judge else "nobody"
