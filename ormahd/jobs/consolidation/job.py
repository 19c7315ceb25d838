"""The consolidator: unite small memories about one subject into a summary (REFERENCE C 3.6).

A judge writes the summary of a cluster: a few memories that are near in meaning, the sources of the summary. Without
a judge the job plans nothing; an agent can write summaries in two-phase maintenance (`ormahctl maintenance`). While the
texts of a cluster stay the same, the judge is asked about it only once, even if the consolidation is undone.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from functools import partial

from msgspec.structs import replace

from ormahd.errors import BadRequest, Conflict, InvalidNote, NotFound
from ormahd.index.rows import Filter, NodeRow
from ormahd.jobs.consolidation.change import FEWEST, LARGEST, TAG, consolidate, successors
from ormahd.jobs.job import PlannedChange, RunContext, Step
from ormahd.jobs.questions import Asking, MemoryGroup, key_of
from ormahd.judge.model_judge import SUMMARIES
from ormahd.judge.port import Summary
from ormahd.model.node import EdgeType, NodeType, Tier
from ormahd.process import sql
from ormahd.text.facts import lost_facts

log = logging.getLogger("ormahd.jobs")

MAX_CLUSTERS = 10
"""Maximum number of consolidations that one run plans, and of clusters in one request to the judge."""
SIMILARITY = 0.6
"""Minimum cosine for two memories of one space to be in one cluster."""
CHARACTERS = 12_000
"""Maximum number of characters of one cluster. The judge gets the whole text, and some models read only 8,000
tokens."""


class Consolidator:
    """The job that unites small memories into summaries. Without a judge it plans nothing."""

    name = "consolidator"

    def plan(self, context: RunContext) -> Iterator[Step]:
        """Yield one change for each cluster of which the judge made a good summary. Without a judge yield nothing."""
        if context.judge is None:
            return
        search, remaining = ClusterSearch(context), MAX_CLUSTERS
        asking: Asking[MemoryGroup] = Asking(context, SUMMARIES, None, batch=MAX_CLUSTERS)
        while not asking.more and (batch := search.batch(min(remaining, asking.remaining))):
            for cluster, verdict in asking.answers(batch):
                assert isinstance(verdict, Summary)
                change = _change(context, cluster, verdict)
                if isinstance(change, str):
                    asking.settle(cluster, Summary(None, None, verdict.type, change))
                    search.mark_examined(cluster)
                    continue
                search.used |= cluster.ids
                if change is not None:
                    remaining -= 1
                    yield replace(change, done=partial(asking.settle, cluster, verdict))


def candidates(context: RunContext) -> Iterator[MemoryGroup]:
    """Yield the clusters that an agent is asked about in two-phase maintenance. No memory is in two clusters."""
    search = ClusterSearch(context)
    while batch := search.batch(1):
        search.used |= batch[0].ids
        yield batch[0]


class ClusterSearch:
    """Chooses the clusters of one run, each around a memory that was not examined yet."""

    def __init__(self, context: RunContext) -> None:
        self.context = context
        self.texts: dict[str, str] = {}
        """{id: key of the text} for all memories that may be consolidated."""
        self.used: set[str] = set()
        """Ids of the memories in the changes of this run, even if a change was dropped because a note was edited."""
        self.yielded: set[frozenset[str]] = set()
        """Clusters that were yielded in this run."""
        index = self.context.ormah.index
        part = Filter(tiers=(Tier.WORKING,), alive_at=self.context.now, writable=True)
        for chunk in sql.chunks(index.ids(part), 500):
            self.context.give()
            rows = index.notes(chunk).values()
            self.texts |= {row.id: key_of(row) for row in rows if self._eligible(row)}
        self.waiting = self.context.verdicts.unexamined(Consolidator.name, self.texts)[::-1]
        """Ids of the memories whose neighbours are not examined yet; the next one is at the end."""

    def batch(self, size: int) -> list[MemoryGroup]:
        """Return up to `size` further clusters that are not decided yet, or an empty list if none are left. No memory
        is in two of them. The first memory of each is the one around which it was found."""
        found: list[MemoryGroup] = []
        taken = set(self.used)
        later: list[str] = []
        while self.waiting and len(found) < size:
            self.context.give()
            seed = self.waiting.pop()
            if seed in self.used:
                continue
            if seed in taken:
                later.append(seed)  # it is in a cluster of this batch, whose result is not known yet
                continue
            self.context.progress(len(self.texts) - len(self.waiting), len(self.texts), "clusters")
            cluster = self._cluster(seed, taken)
            if cluster is None:
                continue

            # Yield it, unless it is too small or decided. A small one may grow once this batch is decided
            known = self.context.verdicts.known(SUMMARIES.name, cluster.texts)
            if len(cluster.rows) < FEWEST:
                wider = self._cluster(seed, self.used)
                if wider is not None and len(wider.rows) >= FEWEST:
                    later.append(seed)
                else:
                    self.mark_examined(cluster)
            elif known is not None and "open" not in known:
                self.mark_examined(cluster)
            elif cluster.ids not in self.yielded:
                self.yielded.add(cluster.ids)
                found.append(cluster)
                taken |= cluster.ids
        self.waiting += later[::-1]
        return found

    def mark_examined(self, cluster: MemoryGroup) -> None:
        """Mark the memory around which a cluster was found as examined."""
        if not self.context.dry:
            seed = cluster.rows[0].id
            self.context.verdicts.mark_examined(Consolidator.name, [(seed, self.texts[seed])])

    def _eligible(self, row: NodeRow) -> bool:
        """Return whether a memory may become part of a summary: working, current, short, not a summary and not the self
        node."""
        excluded = row.guard or row.rejected or TAG in row.tags or row.id == self.context.ormah.vault.self_id
        return not excluded and row.tier is Tier.WORKING and row.valid_until is None and len(row.content) < CHARACTERS

    def _cluster(self, seed: str, taken: set[str]) -> MemoryGroup | None:
        """Return a cluster: the memory `seed` first, then the memories nearest to it that may be in one summary with
        it.

        `taken`: ids to leave out. None: no cluster can be formed around the seed in this run, but perhaps in a later
        one.
        """
        near = [other for other, cosine in self.context.near.of(seed) if cosine >= SIMILARITY]
        near = [other for other in near if other in self.texts and other not in taken]
        rows = self.context.ormah.index.notes([seed, *near])
        rows = {one: row for one, row in rows.items() if self._eligible(row) and self.texts[one] == key_of(row)}
        barred, replaced = self._barred(list(rows))
        if seed not in rows or seed in barred:
            return None
        cluster = [rows.pop(seed)]
        for other, row in rows.items():
            if other in barred or any(frozenset((other, one.id)) in replaced for one in cluster):
                continue
            size = sum(len(one.content) for one in (*cluster, row))
            # Preferences are not mixed with others, because whispers search for preferences by type
            preferences = {one.type is NodeType.PREFERENCE for one in (cluster[0], row)}
            fits = row.space == cluster[0].space and len(preferences) == 1
            if len(cluster) < LARGEST and size <= CHARACTERS and fits:
                cluster.append(row)
        return MemoryGroup(tuple(cluster), 0.0)

    def _barred(self, ids: Sequence[str]) -> tuple[set[str], set[frozenset[str]]]:
        """Return (those of `ids` that must not be consolidated, pairs of memories one of which replaced the other).

        A memory must not be consolidated if it is part of a summary already, or contradicts a valid memory.
        """
        index = self.context.ormah.index
        edges = [(edge.edge, frozenset((edge.source, edge.target))) for edge in index.edges_of(ids)]
        against = [ends for edge, ends in edges if edge is EdgeType.CONTRADICTS]
        ends = [end for pair in against for end in pair]
        alive = set(index.filter_ids(ends, Filter(alive_at=self.context.now, sources_of=())))
        barred = set(successors(index, ids, self.context.now))
        barred |= {end for ends in against if ends <= alive for end in ends}
        return barred, {ends for edge, ends in edges if edge is EdgeType.EVOLVED_FROM}


def _change(context: RunContext, cluster: MemoryGroup, summary: Summary) -> PlannedChange | str | None:
    """Return the change that stores a judge's summary. Return the reason, a string, if the judge refused or the summary
    is refused. Return None if a memory changed while the judge worked."""
    assert context.judge is not None
    if summary.content is None:
        return summary.reason
    sources = [(row.title, row.content) for row in cluster.rows]
    if missing := lost_facts(sources, f"{summary.title or ''}\n{summary.content}"):
        return "refused: it lost " + ", ".join(missing[:10])
    # The type of the judge's choice, unless all sources are preferences
    preferences = all(row.type is NodeType.PREFERENCE for row in cluster.rows)
    try:
        change = consolidate(
            context.ormah,
            [row.id for row in cluster.rows],
            title=summary.title,
            content=summary.content,
            kind=NodeType.PREFERENCE if preferences else summary.type,
            body=f"{summary.reason}\n\nJudge: {context.judge.name}",
            source=f"job:{Consolidator.name}",
        )
    except BadRequest as exc:
        return f"refused: {exc.message}"
    except (Conflict, NotFound, InvalidNote) as exc:
        log.info("consolidator: left a cluster for the next run (%s)", exc.code)
        return None
    same = dict(change.based_on) == {row.id: row.digest for row in cluster.rows}
    return change if same else None
