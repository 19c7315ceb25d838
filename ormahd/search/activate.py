"""Spreading activation: add memories that are connected by edges to the best results (the seeds)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ormahd.index.rows import Filter
from ormahd.model.node import EdgeType
from ormahd.search.gather import Searchable
from ormahd.search.trace import Trace
from ormahd.settings import ActivationSettings

CONFLICTS_SHARE = 5
"""One result in this many may be a memory that contradicts another result."""
LEAST = 2
"""Minimum number of requested results for which a place is reserved for a contradiction."""


def activate(index: Searchable, results: Sequence[Trace], chosen: Filter, settings: ActivationSettings) -> list[Trace]:
    """Return memories one edge away from the best results, in either direction, that are not results themselves; best first.

    Score = score of the seed × weight of the edge × factor of the edge's type × decay. A memory reached by several
    edges keeps the best score. Each seed adds at most `max_per_seed` memories. The filter and expiry apply as for
    direct results.
    """
    seeds = list(results[: settings.seed_count])
    if not seeds or not settings.max_per_seed:
        return []
    direct = {trace.node_id for trace in results}
    by_seed: dict[str, list[Trace]] = {seed.node_id: [] for seed in seeds}
    scores = {seed.node_id: seed.score for seed in seeds}
    for edge in index.edges_of([seed.node_id for seed in seeds]):
        for seed_id, other in ((edge.source, edge.target), (edge.target, edge.source)):
            if seed_id not in by_seed or other in direct or other == seed_id:
                continue
            trace = Trace(other, {
                "activation": 1.0, "seed": scores[seed_id], "weight": edge.weight,
                "factor": edge.edge.activation_factor, "decay": settings.decay,
            }, source="conflict" if edge.edge is EdgeType.CONTRADICTS else "activated")  # fmt: skip
            trace.score = trace.recompute()
            trace.path = [{"seed": seed_id, "edge": edge.edge.value, "out": edge.source == seed_id}]
            by_seed[seed_id].append(trace)
    return _best(by_seed.values(), index, chosen, settings)


def _best(
    found: Collection[list[Trace]], index: Searchable, chosen: Filter, settings: ActivationSettings
) -> list[Trace]:
    passing = set(index.keep(sorted({trace.node_id for some in found for trace in some}), chosen))
    best: dict[str, Trace] = {}
    for some in found:
        per_seed: dict[str, Trace] = {}
        for trace in sorted(some, key=lambda one: (-one.score, one.node_id)):
            if trace.node_id in passing:
                per_seed.setdefault(trace.node_id, trace)
        for trace in list(per_seed.values())[: settings.max_per_seed]:
            known = best.get(trace.node_id)
            if known is None or trace.score > known.score:
                best[trace.node_id] = trace
    return sorted(best.values(), key=lambda one: (-one.score, one.node_id))


def seat(merged: Sequence[Trace], limit: int) -> list[Trace]:
    """Return the `limit` best of `merged` (best first), with places reserved for memories that contradict one of them.

    The reader of the answer thus learns of contradictions even when there are many results. At most one place in
    `CONFLICTS_SHARE` is used for this; a contradiction takes the place of the last result that is not one.
    """
    shown = list(merged[:limit])
    there = {trace.node_id for trace in shown}
    spare = max(1, limit // CONFLICTS_SHARE) - sum(trace.source == "conflict" for trace in shown)
    for trace in merged[limit:]:
        if spare <= 0 or limit < LEAST:
            break
        if trace.source == "conflict" and trace.path[0]["seed"] in there:
            last = next(
                (one for one in reversed(shown) if one.source != "conflict" and one.node_id != trace.path[0]["seed"]),
                None,
            )
            if last is None:
                break
            shown.remove(last)
            there.discard(last.node_id)
            shown.append(trace)
            spare -= 1
    return shown
