"""The questions of jobs: which memories they are about, who answers them, and what is remembered of the answers.

A job finds candidates, pairs or clusters of memories. `Asking.answers` is the one place that chooses who answers: the
judge of the run, or without a judge the job's rule. In two-phase maintenance an agent answers what `Asking.unanswered`
yields. A person answers by approving a proposal.

Every answer, even "no", is remembered under the texts that it is about, so no question is asked twice while the texts
stay the same. While its change is not made yet, an answer is remembered as open, and the next run makes the change.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ormahd.index.rows import EdgeRow, Filter, NodeRow
from ormahd.jobs.job import RunContext
from ormahd.jobs.neighbours import AHEAD
from ormahd.judge.port import AnyVerdict, Judge, JudgeGone, ShownMemory, Task
from ormahd.process import sql
from ormahd.state.proposals import text_key
from ormahd.text.quoting import harmless, one_line
from ormahd.text.secrets import redact

BATCH: Final = 20
"""Maximum number of questions in one request to the judge."""
REASON: Final = 500
"""Maximum number of characters of a verdict's reason, which is shown in a commit, an edge or a proposal."""
READ: Final = 500
"""Number of memories whose neighbours are read at once."""


def key_of(row: NodeRow) -> str:
    """Return the key of a memory's text, which changes with its title or content."""
    return text_key(row.title, row.content)


class MemoryGroup(Struct, frozen=True):
    """Memories that a question is about, as they were when they were found. `score`: the similarity of a pair; 0 for a
    cluster."""

    rows: tuple[NodeRow, ...]
    score: float

    @property
    def ids(self) -> frozenset[str]:
        """Return the ids of the memories."""
        return frozenset(row.id for row in self.rows)

    @property
    def keys(self) -> dict[str, str]:
        """`{id of each memory: key of its text}`."""
        return {row.id: key_of(row) for row in self.rows}

    @property
    def texts(self) -> list[str]:
        """Return the keys of the memories' texts."""
        return list(self.keys.values())

    @property
    def memories(self) -> list[ShownMemory]:
        """Return the memories as a judge sees them."""
        return [ShownMemory(row.id, row.type, row.space, row.title, row.content, row.created) for row in self.rows]

    def now(self, context: RunContext) -> tuple[NodeRow, ...] | None:
        """Return the current rows of the memories; None if one of them is gone or has another text."""
        rows = context.ormah.index.notes([row.id for row in self.rows])
        same = len(rows) == len(self.rows) and [key_of(row) for row in rows.values()] == self.texts
        return tuple(rows.values()) if same else None


class PairSearch:
    """Finds the pairs of near memories of one run, from each memory that was not examined yet, newest first.

    A pair is open until it is settled. A memory counts as examined, and the next run passes over it, once all its pairs
    are settled.
    """

    def __init__(
        self, context: RunContext, part: Filter, *, name: str, reach: int, floor: float, kin: bool = False
    ) -> None:
        """`part`: the memories that pairs are made of, without the self node. `name`: the job, under whose name examined
        memories are remembered. `reach`: maximum number of neighbours of a memory. `floor`: minimum cosine. `kin`:
        only memories of one type and space are paired."""
        self.context = context
        self._mark, self._reach, self._floor = f"{name}: {context.who}", reach, floor
        self._texts: dict[str, str] = {}
        self._kin: dict[str, Any] = {}
        self._examined: list[tuple[str, str]] = []
        self._open: set[frozenset[str]] = set()
        index = context.ormah.index
        for chunk in sql.chunks(index.newest(part, max(1, index.count(part))), READ):
            context.give()
            for row in index.notes(chunk).values():
                if row.id != context.ormah.vault.self_id:
                    self._texts[row.id] = key_of(row)
                    self._kin[row.id] = (row.type, row.space) if kin else ()

    def chunks(self) -> Iterator[list[MemoryGroup]]:
        """Yield lists of pairs, one list for each chunk of examined memories. A pair is an examined memory and a
        neighbour of it, with the cosine as score. No pair is yielded twice."""
        index, near = self.context.ormah.index, self.context.near
        unseen = self.context.verdicts.unexamined(self._mark, self._texts)
        for at, chunk in enumerate(sql.chunks(unseen, READ)):
            self.context.progress(at * READ, len(unseen), "memories compared")
            hits: list[tuple[str, str, float]] = []
            for number, node_id in enumerate(chunk):
                self.context.give()
                if not number % AHEAD:
                    near.prefetch(chunk[number : number + AHEAD])
                kin = [hit for hit in near.of(node_id) if self._kin.get(hit[0]) == self._kin[node_id]]
                hits += [(node_id, other, cosine) for other, cosine in kin[: self._reach] if cosine >= self._floor]
            rows = index.notes(list({node_id for hit in hits for node_id in hit[:2]}))
            pairs: list[MemoryGroup] = []
            for one, other, cosine in hits:
                ids = frozenset((one, other))
                if ids not in self._open and one in rows and other in rows:
                    self._open.add(ids)
                    pairs.append(MemoryGroup((rows[one], rows[other]), cosine))
            yield pairs
            self._examined += [(one, self._texts[one]) for one in chunk if index.vectors(one) is not None]

    def between(self, pairs: Iterable[MemoryGroup]) -> dict[frozenset[str], list[EdgeRow]]:
        """Return `{ids of two memories: edges between them}` for pairs that this search found. Pairs without edges are
        left out."""
        found: dict[frozenset[str], list[EdgeRow]] = {}
        for edge in self.context.ormah.index.edges_of(list(dict.fromkeys(pair.rows[0].id for pair in pairs))):
            found.setdefault(frozenset((edge.source, edge.target)), []).append(edge)
        return found

    def settle(self, pair: MemoryGroup) -> None:
        """Mark a pair as settled: nothing is left to do or to ask about it."""
        self._open.discard(pair.ids)

    def near(self, one: str, other: str) -> bool:
        """Return whether `one` is among the nearest neighbours of `other` that pairs are made of."""
        hits = [hit for hit, _ in self.context.near.of(other) if hit in self._kin]
        return one in hits[: self._reach]

    def close(self) -> None:
        """Record the memories whose pairs are all settled as examined. Does nothing in a dry run."""
        if not self.context.dry:
            waiting = frozenset(itertools.chain.from_iterable(self._open))
            self.context.verdicts.mark_examined(self._mark, [one for one in self._examined if one[0] not in waiting])


C = TypeVar("C", bound=MemoryGroup)
Rule = Callable[[Iterable[C]], Iterator[tuple[C, AnyVerdict]]]
"""Answers questions without a judge. It may leave out questions, which stay open."""


class Asking(Generic[C]):
    """Has the questions of one run of a job answered, and remembers the answers. `search` None: there are no pairs.

    `rules`: whether the answers of a rule are remembered too, because they depend on the other pairs of the run.
    `more`: whether questions stay open for the next run.
    """

    def __init__(
        self, context: RunContext, task: Task, search: PairSearch | None, *, rules: bool = False, batch: int = BATCH
    ) -> None:
        self._context, self._task, self._search, self._batch = context, task, search, batch
        self._rules = rules and context.judge is None
        self.remaining = context.questions
        self.more = False

    def answers(self, candidates: Iterable[C], rule: Rule[C] | None = None) -> Iterator[tuple[C, AnyVerdict]]:
        """Yield candidates with their verdicts. These are remembered verdicts that are still open, and new ones of the
        judge, or of `rule` if the run has no judge.

        Candidates that were decided before are settled. Those that get no answer are left out, and stay open.
        """
        fresh = self._fresh(candidates)
        if self._context.judge is None:
            yield from rule(group for group, _ in fresh) if rule is not None else ()
            return
        while batch := list(itertools.islice(fresh, self._batch)):
            new = [group for group, verdict in batch if verdict is None]
            answered = self._asked(self._context.judge, new[: self.remaining])
            self.more = self.more or len(new) > self.remaining
            self.remaining = max(0, self.remaining - len(new))
            for group, verdict in batch:
                if (found := verdict or answered.get(group.ids)) is not None:
                    yield group, found
            if self.more:
                return

    def unanswered(self, candidates: Iterable[C]) -> Iterator[C]:
        """Yield the candidates without a remembered verdict, for an agent; settle the others."""
        for group in candidates:
            if self.known(group) is None:
                yield group
            else:
                self.settle(group)

    def known(self, group: MemoryGroup) -> Mapping[str, Any] | None:
        """Return the remembered verdict of a judge or an agent, as stored, or None."""
        return self._context.verdicts.known(self._task.name, group.texts)

    def settle(self, group: MemoryGroup, verdict: AnyVerdict | None = None) -> None:
        """Settle a candidate: its change was made or proposed, or the answer is no. `verdict`: remember it, without the
        texts in it.

        The verdict of a rule counts only as long as no judge or agent decides.
        """
        remembered = self._rules or self._context.judge is not None
        if verdict is not None and remembered and not self._context.dry:
            stored = {name: value for name, value in _as_plain(verdict).items() if name not in ("title", "content")}
            name = f"{self._task.name} by rule" if self._rules else self._task.name
            self._context.verdicts.remember(name, group.texts, stored)
        if self._search is not None:
            self._search.settle(group)

    def _fresh(self, candidates: Iterable[C]) -> Iterator[tuple[C, AnyVerdict | None]]:
        """Yield the candidates that are not decided, each with its open verdict or None. Settle the others."""
        for group in candidates:
            known = self.known(group)
            if self._rules and (known is None or "open" in known):
                known = self._context.verdicts.known(f"{self._task.name} by rule", group.texts)
            if known is None or ("open" in known and self._context.judge is None):
                yield group, None
            elif "open" in known:
                stored = {name: value for name, value in known.items() if name != "open"}
                yield group, msgspec.convert(stored, self._task.answer)
            else:
                self.settle(group)

    def _asked(self, judge: Judge, batch: Sequence[C]) -> dict[frozenset[str], AnyVerdict]:
        """Ask the judge, and remember each usable answer as open. Return `{ids of a candidate: verdict}`."""
        if not batch:
            return {}
        context = self._context
        context.give()
        context.progress(0, 0, "asking the judge")

        # Ask
        context.asked.asked += len(batch)
        context.asked.open += len(batch)
        try:
            verdicts = judge.answer(self._task, [group.memories for group in batch])
            if len(verdicts) != len(batch):
                raise JudgeGone(f"{len(verdicts)} answers to {len(batch)} questions")
        except JudgeGone as exc:
            context.asked.reason = str(exc)
            self.more = True
            return {}

        # Remember what was answered; an entry of another type is no answer
        answered: dict[frozenset[str], AnyVerdict] = {}
        for group, verdict in zip(batch, verdicts, strict=True):
            if not isinstance(verdict, self._task.answer):
                continue
            reason = redact(harmless(verdict.reason[: 4 * REASON])).text
            verdict = replace(verdict, q=0, reason=one_line(reason, REASON))
            answered[group.ids] = verdict
            texts = f"{getattr(verdict, 'title', '')}\n{getattr(verdict, 'content', '')}" if self._task.rewrites else ""
            if not context.dry and not redact(texts).found:  # with a secret in its text, the judge is asked again
                context.verdicts.remember(self._task.name, group.texts, _as_plain(verdict) | {"open": True})
        context.asked.open -= len(answered)
        return answered


def _as_plain(verdict: AnyVerdict) -> dict[str, Any]:
    """Return a verdict as plain values, as it is stored."""
    found: dict[str, Any] = msgspec.to_builtins(verdict)
    return found
