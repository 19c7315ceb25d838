"""Activate: what the best results are connected with comes to mind too (seeds: spreading activation)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ormahd.index.rows import Filter
from ormahd.model.node import EdgeType
from ormahd.search.gather import Searchable
from ormahd.search.trace import Trace
from ormahd.settings import ActivationSettings

CONFLICTS_SHARE = 5
"""One place in so many is kept for what contradicts a result."""
LEAST = 2
"""Results from which there is such a place: who asks for one wants the best."""


def activate(index: Searchable, results: Sequence[Trace], chosen: Filter, settings: ActivationSettings) -> list[Trace]:
    """Neighbours of the best results, one edge away in either direction, as results of their own; best first.

    Score = seed's score × edge's weight × factor of its type × decay; of several ways the best one; the best
    `max_per_seed` of each seed. A direct hit is never one of them; filters and expiry hold for them as for all.
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
    """The `limit` best of results and activated ones (best first); what contradicts one of them has a place among them.

    However many answer a question, who reads the answer learns that something speaks against it. At most one place in five.
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
