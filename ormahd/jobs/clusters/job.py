"""Move memories without a space into the space of their neighbours (REFERENCE 3.7; F 15).

Neighbours are memories connected by edges; a clear majority of them must be in one space. Memories that are global
on purpose (`global: true`, or a `space:` line without a value) stay global. So do memories about the user: the self
node, identity, preferences, persons and the core tier. The file is not moved. A move that was undone is not made
again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from msgspec import Struct

from ormahd.actions.amend import identities, see
from ormahd.actions.views import headline
from ormahd.errors import OrmahError
from ormahd.index.rows import GLOBAL, Filter, NodeRow
from ormahd.jobs.job import Done, Edit, PlannedChange, RunContext, Step, note_edits
from ormahd.model.change import Kind
from ormahd.model.node import NodeType, Tier
from ormahd.note.frontmatter import read
from ormahd.state.proposals import text_key

log = logging.getLogger("ormahd.jobs")

QUESTION = "cluster"
"""The name under which `Verdicts` remembers a move."""
LEAST = 2
"""Minimum number of neighbours in the space; one neighbour may be a coincidence."""
MAJORITY = 2 / 3
"""Minimum share of a memory's edges, by weight, that must lead into the space. Neighbours without a space count
as outside."""
EVERYWHERE = frozenset({NodeType.PREFERENCE, NodeType.PERSON})
"""Types of memories that hold in every project, and so stay global."""
TIERS = (Tier.WORKING, Tier.ARCHIVAL)
CHUNK = 500
"""Number of notes read at once."""


class _Move(Struct, frozen=True):
    """A memory to move, and the space that it gets. `inside`: number of its neighbours in that space; `among`: of all
    its neighbours."""

    row: NodeRow
    space: str
    inside: int
    among: int

    @property
    def key(self) -> tuple[str, str]:
        """Return the key under which the verdict is remembered: the memory's text and the space."""
        return text_key(self.row.title, self.row.content), text_key(None, self.space)


class AutoCluster:
    """The job that gives memories the space of their neighbours. It plans one change with all moves of a run."""

    name = "auto_cluster"

    def plan(self, context: RunContext) -> Iterator[Step]:
        """Yield one change with all moves of this run, then the number of memories left alone."""
        moves: list[_Move] = []
        more, skipped = False, 0
        for move in _moves(context):
            if len(moves) >= context.limit:
                more = True
                break
            try:
                seen = see(context.ormah, move.row.id)
            except OrmahError as exc:
                skipped += 1
                log.info("auto_cluster: %s was left alone (%s)", move.row.id[:8], exc.code)
                continue
            # Global on purpose (`global: true`, or a `space:` line), or without frontmatter, a note stays as it is
            block = read(seen.data.decode()) if seen.digest == move.row.digest and not seen.note.everywhere else None
            if block is not None and "space" not in block.pairs:
                moves.append(move)
        if moves:
            yield _change(context, moves)
        if more or skipped:
            yield Done(skipped=skipped, more=more)


def _moves(context: RunContext) -> Iterator[_Move]:
    """Yield the memories without a space whose neighbours are clearly in one space, and that were not moved there
    before."""
    index, me = context.ormah.index, context.ormah.vault.self_id
    identity = identities(context.ormah) | {me}
    ids = sorted(set(index.ids(Filter(spaces=(GLOBAL,), tiers=TIERS, alive_at=context.now, writable=True))) - identity)
    for at in range(0, len(ids), CHUNK):
        context.give()
        context.progress(at, len(ids), "memories")
        rows = index.notes(ids[at : at + CHUNK])
        movable = [row.id for row in rows.values() if row.type not in EVERYWHERE and not row.about_self]
        for node_id, majority in _majorities(context, movable, me).items():
            move = _Move(rows[node_id], *majority)
            if context.verdicts.known(QUESTION, move.key) is None:
                yield move


def _majorities(context: RunContext, ids: list[str], me: str) -> dict[str, tuple[str, int, int]]:
    """Return `{id: (space, number of neighbours in it, number of all neighbours)}` for those of `ids` whose neighbours
    are clearly in one space. `me`: id of the self node, which is not counted as a neighbour."""
    # {memory: {neighbour: weight of the strongest edge between them}}
    index, wanted = context.ormah.index, set(ids)
    weights: dict[str, dict[str, float]] = {}
    for edge in index.edges_of(ids):
        for near, far in ((edge.source, edge.target), (edge.target, edge.source)):
            if near in wanted and far != me:
                known = weights.setdefault(near, {})
                known[far] = max(known.get(far, 0.0), edge.weight)

    # The spaces of the neighbours that are still valid
    others = sorted({far for known in weights.values() for far in known})
    alive = set(index.filter_ids(others, Filter(alive_at=context.now, sources_of=())))
    spaces = {node_id: one.space for node_id, one in index.candidates(others).items() if node_id in alive}

    # The space with the most weight, if that is a clear majority
    out: dict[str, tuple[str, int, int]] = {}
    for near, known in weights.items():
        counted = {far: weight for far, weight in known.items() if far in spaces}
        by_space: dict[str, list[float]] = {}
        for far, weight in counted.items():
            if (space := spaces[far]) is not None:
                by_space.setdefault(space, []).append(weight)
        if by_space:
            space, those = max(by_space.items(), key=lambda one: (sum(one[1]), one[0]))
            if len(those) >= LEAST and 0 < MAJORITY * sum(counted.values()) <= sum(those) + 1e-9:
                out[near] = space, len(those), len(counted)
    return out


def _change(context: RunContext, moves: list[_Move]) -> PlannedChange:
    """Return the change that moves all these memories to their new spaces."""

    def edits() -> list[Edit]:
        """Return the edits of all moved notes."""
        return [one for move in moves for one in note_edits(context.ormah, move.row.id, set={"space": move.space})]

    def done() -> None:
        """Remember that these memories were moved, so that none is moved there again."""
        for move in moves:
            context.verdicts.remember(QUESTION, move.key, {"space": move.space})

    whose = "1 memory the space of its" if len(moves) == 1 else f"{len(moves)} memories the space of their"
    lines = [
        f"{headline(move.row.title, move.row.content, 60)} ({move.row.short_id}): {move.space}, "
        f"{move.inside} of {move.among} neighbours"
        for move in moves
    ]
    based_on = {move.row.id: move.row.digest for move in moves}
    return PlannedChange(Kind.CLUSTER, f"Give {whose} neighbours", "\n".join(lines), edits, based_on, len(moves), done)
