"""Consolidate small memories about one subject (REFERENCE C 3.6): clusters of near memories, whose summary a judge writes.

Without a judge the job plans nothing; an agent can write summaries in two-phase maintenance (`ormahctl maintenance`). A
summary is refused if it lost a number, a name or a path, or if search would not find it in place of its sources. The judge
is not asked again about a cluster that was decided, refused or consolidated, while its texts stay the same, even after an undo.
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
"""Maximum number of consolidations that one run plans."""
SIMILARITY = 0.6
"""Minimum cosine for two memories of one space to be in one cluster."""
BATCH = 10
"""Maximum number of clusters in one request to the judge."""
CHARACTERS = 12_000
"""Maximum number of characters of one cluster. The judge gets the whole text, and some models read only 8,000 tokens."""
_QUESTION: Final = "consolidate"

Cluster = dict[str, "NodeRow"]


class Consolidator:
    """The job. It needs a judge."""

    name = "consolidator"

    def __init__(self, max_clusters: int = MAX_CLUSTERS) -> None:
        """`max_clusters`: maximum number of consolidations that one run plans."""
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
    """Yield the clusters that an agent may consolidate in two-phase maintenance. No memory is in two clusters."""
    work = _Work(turn)
    while batch := work.batch(1):
        work.used |= batch[0].keys()
        yield [_shown(row) for row in batch[0].values()]


class _Work:
    """The state of one run: which memories are still to be examined, and which clusters the judge was asked about."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.texts: dict[str, str] = {}
        """{id: key of the text} for all memories that may be consolidated."""
        self.used: set[str] = set()
        """Ids of the memories in changes of this run, also in those dropped because a note was edited meanwhile."""
        self.met: set[frozenset[str]] = set()
        """Clusters that the judge was asked about in this run."""
        index = self.turn.ormah.index
        alive = index.ids(Filter(tiers=(Tier.WORKING,), alive_at=self.turn.now, writable=True))
        for at in range(0, len(alive), 500):
            self.turn.give()
            rows = index.notes(alive[at : at + 500], connections=False).values()
            self.texts |= {row.id: text_key(row.title, row.content) for row in rows if self._eligible(row)}
        self.left = self.turn.verdicts.unseen(Consolidator.name, self.texts)[::-1]
        """Ids of the memories whose neighbours are not examined yet; the next one is at the end."""

    def _eligible(self, row: NodeRow) -> bool:
        return (
            row.tier is Tier.WORKING and row.valid_until is None and TAG not in row.tags
            and row.id != self.turn.ormah.vault.self_id and len(row.content) < CHARACTERS
        )  # fmt: skip

    # ------------------------------------------------------------ clusters

    def batch(self, most: int) -> list[Cluster]:
        """Return up to `most` further clusters that no judge decided yet, without common memories; empty if none are left."""
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
                later.append(seed)  # it is in a cluster of this batch, whose result is not known yet
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
        """Return the seed and its nearest memories that may be merged with it, the seed first.

        None: the seed cannot be merged in this run, but may be in a later one.
        """
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
        """Whether the memory is eligible and its text is as it was when the run began."""
        return self._eligible(row) and self.texts[row.id] == text_key(row.title, row.content)

    def _barred(self, ids: Sequence[str]) -> tuple[set[str], set[frozenset[str]]]:
        """Return the ids that must not be consolidated, and the pairs of which one replaced the other.

        Not to be consolidated: memories that are already part of a summary, or that contradict a memory that is still valid.
        """
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
        """Ask the judge, and yield the clusters for which it wrote a summary.

        A refusal is remembered; a cluster without an answer is not.
        """
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
        """Return the change for a summary; None if the summary is refused, or a memory changed while the judge worked."""
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
    """Whether two memories may be in one cluster: both in one space, and both or neither a preference.

    Preferences are kept apart because whispers search for them by type.
    """
    preferred = NodeType.PREFERENCE
    return one.space == other.space and (one.type is preferred) == (other.type is preferred)


def _type(cluster: Cluster, summary: Summary) -> NodeType:
    """Return the type of the summary: the judge's choice, unless all sources are preferences."""
    types = {row.type for row in cluster.values()}
    return NodeType.PREFERENCE if types == {NodeType.PREFERENCE} else summary.type


def _shown(row: NodeRow) -> Shown:
    return Shown(row.id, row.type, row.space, row.title, row.content, row.created)
