"""The auto linker: connect memories that are near in meaning by edges (REFERENCE 3.2).

Without a judge, two memories get a `related_to` edge if each is among the nearest neighbours of the other. A memory
gets only a few such edges, so that no memory has very many. With a judge, the job asks once about every pair that is
near enough; the judge chooses a type of edge or none.

Imported memories get edges only from this job.
"""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

from msgspec.structs import replace

from ormahd.actions.remember import CROSS_SPACE_PENALTY, NEIGHBOURS
from ormahd.errors import OrmahError
from ormahd.index.rows import EdgeRow, Filter
from ormahd.jobs.job import Done, RunContext, Step
from ormahd.jobs.links.change import Draft, EdgeToAdd, count_of, plain
from ormahd.jobs.questions import Asking, MemoryGroup, PairSearch
from ormahd.judge.model_judge import LINKS
from ormahd.judge.port import AnyVerdict, Linked
from ormahd.model.node import EdgeType, Tier

log = logging.getLogger("ormahd.jobs")

MAX_EDGES: Final = 500
"""Maximum number of edges per run (REFERENCE 3.2)."""
FEW: Final = 3
"""Without a judge, a memory with this many `related_to` edges gets no more of them."""


class LinkPair(MemoryGroup, frozen=True):
    """A newer and an older memory that may be linked. `score`: the cosine minus a penalty if the spaces differ."""

    cosine: float


class AutoLinker:
    """The job that connects memories near in meaning. It plans one change with all edges of a run."""

    name = "auto_linker"

    def plan(self, context: RunContext) -> Iterator[Step]:
        """Yield one change with all edges of this run, then the number of pairs that could not be linked."""
        search, limit = _search(context), min(MAX_EDGES, context.limit)
        asking: Asking[LinkPair] = Asking(context, LINKS, search)
        draft, lines, skipped = Draft(context.ormah), [], 0
        linked: list[tuple[LinkPair, Linked]] = []
        with contextlib.closing(search):
            for pair, verdict in asking.answers(_pairs(search), partial(_mutual, search)):
                assert isinstance(verdict, Linked)
                if not verdict.yes:
                    asking.settle(pair, verdict)
                    continue

                # Add the edge to the draft, if it is new and possible
                if len(draft.made) + 1 > limit:
                    asking.more = True
                    break
                newer, older = pair.rows
                reason = (verdict.reason or None) if context.judge is not None else None
                wish = EdgeToAdd(newer.id, older.id, EdgeType(verdict.edge), pair.score, reason)
                try:
                    added = draft.add(wish)
                except OrmahError as exc:  # for example because a note is being edited; the pair stays open
                    log.info("auto_linker: a pair was not linked (%s)", exc.code)
                    skipped += 1
                    continue
                if not added:
                    asking.settle(pair, verdict)
                    continue
                linked.append((pair, verdict))

                # Its line in the commit's body
                less = pair.cosine - pair.score
                evidence = f"cosine {pair.cosine:.2f}" + (
                    f", less {less:.2f} for another space" if less > 0.005 else ""
                )
                if context.judge is not None:
                    evidence = f"similarity {pair.score:.2f}; {verdict.reason or 'no reason given'}"
                lines.append(f"{draft.sentence(wish)}: {evidence}")

            # One change for all
            def done() -> None:
                """Settle the pairs of all edges."""
                for pair, verdict in linked:
                    asking.settle(pair, verdict)

            if draft.made:
                how = "Each is among the nearest of the other in meaning."
                how = how if context.judge is None else f"Judged by {context.judge.name}."
                body = "\n".join([f"{how}\n", *lines])
                yield replace(draft.change(subject=f"Link {count_of(len(lines))} of memories", body=body), done=done)
            if skipped or asking.more:
                yield Done(skipped=skipped, more=asking.more)


def candidates(context: RunContext) -> Iterator[LinkPair]:
    """Yield the pairs that no judge or agent has decided yet, newest memories first."""
    search = _search(context)
    with contextlib.closing(search):
        asking: Asking[LinkPair] = Asking(context, LINKS, search)
        yield from asking.unanswered(_pairs(search))


def _search(context: RunContext) -> PairSearch:
    """Return the search for pairs of current memories that are not in the archive."""
    # No archived or outdated memories: an edge would lead searches from current memories to them
    part = Filter(tiers=(Tier.CORE, Tier.WORKING), alive_at=context.now, writable=True)
    return PairSearch(context, part, name=AutoLinker.name, reach=NEIGHBOURS, floor=0.0)


def _pairs(search: PairSearch) -> Iterator[LinkPair]:
    """Yield the pairs that are similar enough and have no edge between them. For a judge or an agent, also those whose
    edge says only that they are similar."""
    linking, judged = search.context.ormah.settings.linking, search.context.who != "rules"
    for chunk in search.chunks():
        edges = search.between(chunk)
        for pair in chunk:
            newer, older = sorted(pair.rows, key=lambda row: (row.created, row.id), reverse=True)
            similarity = pair.score - (CROSS_SPACE_PENALTY if newer.space != older.space else 0.0)
            between = edges.get(pair.ids, [])
            if linking.near(similarity) and (all(map(plain, between)) if judged else not between):
                yield LinkPair((newer, older), round(min(1.0, similarity), 4), pair.score)
            else:
                search.settle(pair)


def _mutual(search: PairSearch, pairs: Iterable[LinkPair]) -> Iterator[tuple[LinkPair, AnyVerdict]]:
    """Yield each pair with a verdict. It is yes if each memory is among the nearest neighbours of the other, and
    neither has FEW `related_to` edges already."""
    index = search.context.ormah.index
    known: dict[str, list[EdgeRow]] = {}
    added: Counter[str] = Counter()
    for pair in pairs:
        one, other = pair.ids
        yes = search.near(one, other) and search.near(other, one)
        for node_id in (one, other) if yes else ():
            if node_id not in known:
                known[node_id] = index.edges_of([node_id])
            yes = yes and sum(edge.edge is EdgeType.RELATED_TO for edge in known[node_id]) + added[node_id] < FEW
        if yes:
            added.update((one, other))
        yield pair, Linked("related_to" if yes else "none", "")
