"""Edges that were read from the index: each question asks three times, for those of its best results and of what was archived."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from ormahd.index.rows import Edge

MOST = 20_000
"""Edges, each at both its ends, and nodes without any (8 MB)."""

Read = Callable[[Sequence[str]], list[Edge]]
"""The edges that touch any of these nodes, from the index (`links.edges`)."""


class KeptEdges:
    """Of nodes the edges that touch them. Part of a `Kept`, and as that one: taken before what is read for it. No change leaves
    any of it: an edge is of two nodes, and where it leads may depend on a third."""

    def __init__(self) -> None:
        self._known: dict[str, list[Edge]] = {}
        self._counted = 0

    def of(self, ids: Sequence[str], read: Read) -> list[Edge]:
        """The edges that touch any of `ids`, each once, in the order of `links.edges`; read where they are not known."""
        known = self._known
        there = {node_id: one for node_id in ids if (one := known.get(node_id)) is not None}
        missing = [node_id for node_id in dict.fromkeys(ids) if node_id not in there]
        if missing:
            found: dict[str, list[Edge]] = {node_id: [] for node_id in missing}
            for edge in read(missing):
                for end in found.keys() & {edge.source, edge.target}:
                    found[end].append(edge)
            there |= found
            self._keep(found)
        once = {(edge.source, edge.target, edge.edge): edge for edge in itertools.chain(*there.values())}
        return [once[key] for key in sorted(once)]

    def _keep(self, found: dict[str, list[Edge]]) -> None:
        counted = len(found) + sum(map(len, found.values()))
        if counted > MOST:
            return
        if self._counted + counted > MOST:
            self._known, self._counted = {}, 0
        self._known.update(found)
        self._counted += counted
