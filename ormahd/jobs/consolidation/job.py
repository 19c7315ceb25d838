"""Small memories on one thing become one (REFERENCE C 3.6): candidates by meaning, the text by a judge, both checked.

Without a judge nothing is planned: arithmetic cannot write a summary, and an agent may (`ormahctl maintenance`). What a
judge writes is dropped where it lost a number, a name, a path, or would not be found in its sources' place; a cluster that
was answered, refused or done is not asked about again while its texts stay as they are, also when undo took it back.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from ormahd.errors import BadRequest, Conflict, InvalidNote, NotFound
from ormahd.index.rows import Filter
from ormahd.jobs.consolidation.change import FEWEST, MOST, TAG, bases, consolidate, successors
from ormahd.jobs.job import Change, Step, Turn
from ormahd.judge.port import JudgeGone, Shown, Summary
from ormahd.model.node import EdgeType, NodeType, Tier
from ormahd.state.proposals import text_key
from ormahd.text.facts import lost

if TYPE_CHECKING:
    from ormahd.index.rows import NodeRow

log = logging.getLogger("ormahd.jobs")

MAX_CLUSTERS = 10
"""Consolidations that one run plans at most (the seeds')."""
SIMILARITY = 0.6
"""Cosine from which memories of one space are shown to the judge together (the seeds')."""
BATCH = 10
"""Clusters in one question."""
CHARACTERS = 12_000
"""Text of one cluster at most: the judge sees all of it, and some read no more than 8,000 tokens."""
_QUESTION: Final = "consolidate"

Cluster = dict[str, "NodeRow"]


class Consolidator:
    name = "consolidator"

    def __init__(self, max_clusters: int = MAX_CLUSTERS) -> None:
        """`max_clusters`: consolidations that one run plans at most."""
        self._max_clusters = max_clusters

    def plan(self, turn: Turn) -> Iterator[Step]:
        if turn.judge is None:
            return
        work = _Work(turn)
        left = self._max_clusters
        questions = turn.ormah.settings.jobs.judge_questions
        try:
            while batch := work.batch(min(BATCH, left, questions)):
                questions -= len(batch)
                for cluster, summary in work.ask(batch):
                    change = work.change(cluster, summary)
                    if change is not None:
                        left -= 1
                        yield change
        except JudgeGone:
            log.info("consolidator: the judge is gone; the rest waits for another day")


def clusters(turn: Turn) -> Iterator[list[Shown]]:
    """Memories that a judge may make one of, cluster by cluster, none twice: for an agent that judges."""
    work = _Work(turn)
    while batch := work.batch(1):
        work.used |= batch[0].keys()
        yield [_shown(row) for row in batch[0].values()]


class _Work:
    """One run: which memories are still to be looked at, and what was asked."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.texts: dict[str, str] = {}
        """The keys of all texts that may be united, by id."""
        self.used: set[str] = set()
        """What a change of this run is about, or would have been had nobody edited meanwhile."""
        self.met: set[frozenset[str]] = set()
        """Clusters that were asked about in this run, whatever the answer."""
        index = self.turn.ormah.index
        alive = index.ids(Filter(tiers=(Tier.WORKING,), alive_at=self.turn.now, writable=True))
        for at in range(0, len(alive), 500):
            self.turn.give()
            rows = index.notes(alive[at : at + 500], connections=False).values()
            self.texts |= {row.id: text_key(row.title, row.content) for row in rows if self._eligible(row)}
        self.left = self.turn.verdicts.unseen(Consolidator.name, self.texts)[::-1]
        """Whose neighbours were not looked at yet, the oldest first."""

    def _eligible(self, row: NodeRow) -> bool:
        return (
            row.tier is Tier.WORKING and row.valid_until is None and TAG not in row.tags
            and row.id != self.turn.ormah.vault.self_id and len(row.content) < CHARACTERS
        )  # fmt: skip

    # ------------------------------------------------------------ clusters

    def batch(self, most: int) -> list[Cluster]:
        """The next clusters that nobody was asked about, without a memory in common; none: all is done."""
        found: list[Cluster] = []
        taken = set(self.used)
        later: list[str] = []
        total = len(self.texts)
        while self.left and len(found) < most:
            self.turn.give()
            seed = self.left.pop()
            if seed in self.used:
                continue
            if seed in taken:
                later.append(seed)  # it stands in a cluster of this batch; what becomes of that is not known yet
                continue
            self.turn.progress(total - len(self.left), total, "clusters")
            cluster = self._cluster(seed, taken)
            if cluster is None:
                continue
            if len(cluster) < FEWEST:
                if len(self._cluster(seed, self.used) or ()) >= FEWEST:
                    later.append(seed)
                else:
                    self.seen(seed)
            elif self.turn.verdicts.known(_QUESTION, [self.texts[one] for one in cluster]) is not None:
                self.seen(seed)
            elif frozenset(cluster) not in self.met:
                self.met.add(frozenset(cluster))
                found.append(cluster)
                taken |= cluster.keys()
        self.left += later[::-1]
        return found

    def _cluster(self, seed: str, taken: set[str]) -> Cluster | None:
        """The memory and its nearest that may become one with it, itself first; None: not now, look again another day."""
        index = self.turn.ormah.index
        near = [
            other for other, cosine in self.turn.near.of(seed)
            if cosine >= SIMILARITY and other in self.texts and other not in taken
        ]  # fmt: skip
        rows = {one: row for one, row in index.notes([seed, *near], connections=False).items() if self._same(row)}
        first = rows.get(seed)
        barred, replaced = self._barred(list(rows))
        if first is None or seed in barred:
            return None
        cluster, size = {seed: first}, len(first.content)
        for other in near:
            row = rows.get(other)
            if row is None or other in barred or any(frozenset((other, one)) in replaced for one in cluster):
                continue
            if len(cluster) < MOST and size + len(row.content) <= CHARACTERS and _belong(first, row):
                cluster[other] = row
                size += len(row.content)
        return cluster

    def _same(self, row: NodeRow) -> bool:
        """Still what it was when the run began."""
        return self._eligible(row) and self.texts[row.id] == text_key(row.title, row.content)

    def _barred(self, ids: Sequence[str]) -> tuple[set[str], set[frozenset[str]]]:
        """What is part of another memory already, or contradicts one that still holds; and pairs of which one replaced
        the other."""
        index = self.turn.ormah.index
        edges = index.edges_of(ids)
        against = [edge for edge in edges if edge.edge is EdgeType.CONTRADICTS]
        ends = [end for edge in against for end in (edge.source, edge.target)]
        alive = set(index.keep(ends, Filter(alive_at=self.turn.now)))
        barred = set(successors(index, ids, self.turn.now))
        for edge in against:
            if {edge.source, edge.target} <= alive:
                barred |= {edge.source, edge.target}
        return barred, {frozenset((edge.source, edge.target)) for edge in edges if edge.edge is EdgeType.EVOLVED_FROM}

    # ------------------------------------------------------------ verdicts

    def ask(self, batch: Sequence[Cluster]) -> Iterator[tuple[Cluster, Summary]]:
        """The clusters that the judge made one text of. What it denied is remembered; what it left open is not."""
        assert self.turn.judge is not None
        answers = self.turn.judge.summaries([[_shown(row) for row in cluster.values()] for cluster in batch])
        for cluster, answer in zip(batch, answers, strict=True):
            if answer is None:
                continue
            if answer.content is None:
                self.settle(cluster, {"united": False, "reason": answer.reason})
            else:
                yield cluster, answer

    def change(self, cluster: Cluster, summary: Summary) -> Change | None:
        """What is to be committed; None where the summary is refused, or a memory changed while the judge read."""
        assert self.turn.judge is not None and summary.content is not None  # noqa: PT018
        missing = lost(
            [(row.title, row.content) for row in cluster.values()], f"{summary.title or ''}\n{summary.content}"
        )
        if missing:
            self.settle(cluster, {"united": False, "refused": "it lost: " + ", ".join(missing[:10])})
            return None
        try:
            change = consolidate(
                self.turn.ormah, list(cluster), title=summary.title, content=summary.content,
                type=_type(cluster, summary), reason=summary.reason,
                body=f"{summary.reason}\n\nJudge: {self.turn.judge.name}",
            )  # fmt: skip
        except BadRequest as exc:
            self.settle(cluster, {"united": False, "refused": exc.message})
            return None
        except (Conflict, NotFound, InvalidNote) as exc:
            log.info("consolidator: left a cluster for the next run (%s)", exc.code)
            change = None
        self.used |= cluster.keys()
        if change is None or not bases(change, cluster):
            return None
        return replace(change, done=lambda: self.settle(cluster, {"united": True}))

    def settle(self, cluster: Cluster, verdict: Mapping[str, Any]) -> None:
        if not self.turn.dry:
            self.turn.verdicts.remember(_QUESTION, [self.texts[one] for one in cluster], verdict)
        self.seen(next(iter(cluster)))

    def seen(self, node_id: str) -> None:
        if not self.turn.dry:
            self.turn.verdicts.seen(Consolidator.name, [(node_id, self.texts[node_id])])


def _belong(one: NodeRow, other: NodeRow) -> bool:
    """Memories of one space; and standing preferences only with each other, for a whisper looks for them by their type."""
    preferred = NodeType.PREFERENCE
    return one.space == other.space and (one.type is preferred) == (other.type is preferred)


def _type(cluster: Cluster, summary: Summary) -> NodeType:
    """The judge's, but preferences stay one."""
    types = {row.type for row in cluster.values()}
    return NodeType.PREFERENCE if types == {NodeType.PREFERENCE} else summary.type


def _shown(row: NodeRow) -> Shown:
    return Shown(row.id, row.type, row.space, row.title, row.content, row.created)
