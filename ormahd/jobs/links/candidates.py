"""Search for pairs of memories to link, and for the pairs that a judge has not decided yet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct, field

from ormahd.actions.remember import CROSS_SPACE_PENALTY
from ormahd.index.rows import EdgeRow, Filter, NodeRow
from ormahd.jobs.job import Turn
from ormahd.jobs.links.change import plain
from ormahd.jobs.neighbours import AHEAD
from ormahd.judge.port import Linked, Pair, Shown
from ormahd.model.node import EdgeType, Tier
from ormahd.state.proposals import text_key

QUESTION: Final = "link"
"""The name under which `Verdicts` remembers a judge's answers."""
LOOKED, JUDGED = "auto_linker", "auto_linker: judged"
"""The names under which `Verdicts` remembers which memories were examined: without and with a judge."""
TYPED: Final = (EdgeType.SUPPORTS, EdgeType.PART_OF, EdgeType.DEPENDS_ON, EdgeType.RELATED_TO)
"""The types of edges that a judge may choose."""
CHUNK: Final = 500
"""Number of notes read at once."""


class Survey:
    """The data for one run: the memories that may be linked (newest first), their neighbours, and their edges."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._index = turn.ormah.index
        self._linking = turn.ormah.settings.linking
        # No archived or outdated memories: an edge would lead searches from current memories to them
        part = Filter(tiers=(Tier.CORE, Tier.WORKING), alive_at=turn.now, writable=True)
        self.ids = [
            node_id for node_id in self._index.newest(part, max(1, self._index.count(part)))
            if node_id != turn.ormah.vault.self_id
        ]  # fmt: skip
        self._part = set(self.ids)
        self._edges: dict[str, list[EdgeRow]] = {}

    def unseen(self, mark: str) -> Iterator[tuple[NodeRow, str]]:
        """Yield (memory, key of its text) for memories not examined yet under the name `mark`, newest first.

        Memories without vectors are skipped.
        """
        for at in range(0, len(self.ids), CHUNK):
            rows = self._index.notes(self.ids[at : at + CHUNK], connections=False)
            keys = {row.id: text_key(row.title, row.content) for row in rows.values()}
            unseen = self._turn.verdicts.unseen(mark, keys)
            for done, node_id in enumerate(unseen):
                self._turn.give()
                if not done % AHEAD:
                    self._turn.progress(at + done, len(self.ids), "memories")
                    self._turn.near.ahead(unseen[done : done + AHEAD])
                if self._index.vectors(node_id) is not None:
                    yield rows[node_id], keys[node_id]

    def nearest(self, node_id: str) -> list[tuple[str, float]]:
        """Return the nearest neighbours that may be linked, as (id, cosine), nearest first."""
        hits = [hit for hit in self._turn.near.of(node_id) if hit[0] in self._part and hit[0] != node_id]
        return hits[: self._linking.neighbours]

    def ahead(self, ids: list[str]) -> None:
        """Search the neighbours of these memories in one batch, before `nearest` is called for each."""
        self._turn.near.ahead(ids)

    def near_enough(self, row: NodeRow) -> list[tuple[NodeRow, float, float]]:
        """Return the neighbours that are similar enough as (other, similarity, cosine), most similar first.

        The similarity is the cosine minus a penalty if the spaces differ.
        """
        hits = self.nearest(row.id)
        others = self._index.notes([node_id for node_id, _ in hits], connections=False)
        out = []
        for node_id, cosine in hits:
            other = others.get(node_id)
            if other is not None:
                similarity = cosine - (CROSS_SPACE_PENALTY if other.space != row.space else 0.0)
                if similarity >= self._linking.similarity:
                    out.append((other, min(1.0, similarity), cosine))
        return sorted(out, key=lambda hit: (-hit[1], hit[0].id))

    def edges(self, node_id: str) -> list[EdgeRow]:
        if node_id not in self._edges:
            self._edges[node_id] = self._index.edges_of([node_id])
        return self._edges[node_id]

    def between(self, one: str, other: str) -> list[EdgeRow]:
        return [edge for edge in self.edges(one) if other in {edge.source, edge.target}]


def ends(one: NodeRow, other: NodeRow) -> tuple[NodeRow, NodeRow]:
    """Return the pair as (newer, older). The edge is written into the newer note."""
    return (one, other) if (one.created, one.id) >= (other.created, other.id) else (other, one)


class Look(Struct, frozen=True):
    """A memory with its undecided pairs (`open`), and pairs decided by a judge whose edges are not written yet (`ready`)."""

    row: NodeRow
    key: str
    open: list[Pair] = field(default_factory=list)
    ready: list[tuple[Pair, Linked]] = field(default_factory=list)


def looks(turn: Turn) -> Iterator[Look]:
    """Yield every memory not examined yet with a judge, newest first, with its pairs that are near enough."""
    survey = Survey(turn)
    for row, key in survey.unseen(JUDGED):
        look = Look(row, key)
        for other, similarity, _ in survey.near_enough(row):
            if all(plain(edge) for edge in survey.between(row.id, other.id)):
                newer, older = ends(row, other)
                pair = Pair(_shown(newer), _shown(older), round(similarity, 4))
                known = turn.verdicts.known(QUESTION, keys(pair))
                if known is None:
                    look.open.append(pair)
                elif (answer := _undone(pair, known)) is not None:
                    look.ready.append((pair, answer))
        yield look


def verdict(pair: Pair, answer: Linked, *, made: bool) -> dict[str, str | bool | None]:
    """Return an answer in the form in which `Verdicts` stores it.

    `made`: the edge was written. If such an edge is missing later, a person removed it, and it is not written again.
    """
    return {
        "edge": answer.edge,
        "reason": answer.reason,
        "source": text_key(pair.a.title, pair.a.content),
        "made": made,
    }


def _undone(pair: Pair, known: dict[str, object]) -> Linked | None:
    """Return a remembered answer whose edge was never written, because the run ended or a note was being edited; else None."""
    edge = known.get("edge")
    if known.get("made") is not False or edge not in TYPED or known.get("source") != keys(pair)[0]:
        return None
    return Linked(EdgeType(str(edge)), str(known.get("reason") or ""))


def keys(pair: Pair) -> tuple[str, str]:
    return text_key(pair.a.title, pair.a.content), text_key(pair.b.title, pair.b.content)


def ids_of(pair: Pair) -> frozenset[str]:
    return frozenset({pair.a.id, pair.b.id})


def _shown(row: NodeRow) -> Shown:
    return Shown(row.id, row.type, row.space, row.title, row.content, row.created)
