"""Make the change that adds edges between memories: many edges in one commit, each written into the note of its
source.

Used by the linking job and by two-phase maintenance. An existing edge is left alone. A plain `related_to` edge is
replaced by an edge of a more specific type (REFERENCE F 22). An edge that makes no sense is refused by an error,
whose data has the id of the memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from ormahd.actions.amend import SeenNote, clean, see
from ormahd.actions.views import headline, stem
from ormahd.errors import BadRequest, Conflict, NotFound
from ormahd.index.rows import EdgeRow, NodeRow
from ormahd.jobs.job import Edit, PlannedChange, nothing
from ormahd.model.change import Kind
from ormahd.model.node import EdgeType, short_id
from ormahd.note.edit import edit
from ormahd.note.values import DEFAULT_WEIGHT, NoteLink, stem_short_id

if TYPE_CHECKING:
    from ormahd.ormah import Ormah

DRAWN = (EdgeType.SUPPORTS, EdgeType.PART_OF, EdgeType.DEPENDS_ON, EdgeType.RELATED_TO, EdgeType.CONTRADICTS)
"""Types of edges that a draft may add. Edges of other types are added by other code, such as consolidation."""
BOTH_WAYS = frozenset({EdgeType.RELATED_TO, EdgeType.CONTRADICTS})
"""Symmetric types of edges: the direction has no meaning."""
NO_CIRCLE = frozenset({EdgeType.PART_OF, EdgeType.DEPENDS_ON})
"""Types of edges that must not form cycles."""
MAX_REASON = 1_000
"""Maximum number of characters of an edge's reason, which is one line in the note."""
WALKED = 1_000
"""Maximum number of memories visited in the search for a cycle."""
NAME = 60
"""Maximum number of characters of a memory's name in a commit message."""


class EdgeToAdd(Struct, frozen=True):
    """An edge to add. Ids are full ids. `weight` None or below 0.01: the default weight."""

    source_id: str
    target_id: str
    edge: EdgeType = EdgeType.RELATED_TO
    weight: float | None = None
    reason: str | None = None


def count_of(number: int) -> str:
    """Return "1 pair" or "12 pairs", for the subject of a commit."""
    return f"{number} {'pair' if number == 1 else 'pairs'}"


class _Edited(Struct):
    """The edges that a draft adds to one note (`links`) and removes from it (`unlinks`: type, link target). `seen`:
    the note before that."""

    seen: SeenNote
    links: list[NoteLink] = field(default_factory=list)
    unlinks: list[tuple[EdgeType, str]] = field(default_factory=list)


class Draft:
    """Collects edges for one commit. It writes nothing, but tries each edit on the current note."""

    def __init__(self, ormah: Ormah) -> None:
        self._ormah = ormah
        self.made: list[EdgeToAdd] = []
        self._rows: dict[str, NodeRow] = {}
        self._edges: dict[str, list[EdgeRow]] = {}
        """{node id: its edges in both directions}, including those of this draft."""
        self._edited: dict[str, _Edited] = {}

    def add(self, wish: EdgeToAdd) -> bool:
        """Add one edge to the draft. Return False if the edge exists already. After an error the draft is unchanged.

        Raises:
            NotFound: an id is unknown. BadRequest: the edge makes no sense. Conflict: a note was edited meanwhile.
        """
        source, target = self._end(wish.source_id), self._end(wish.target_id)
        weight = _weight(wish)
        made = EdgeToAdd(source.id, target.id, wish.edge, weight, self._reason(wish))
        self._check(made, source, target)
        there = [edge for edge in self._touching(source.id) if target.id in {edge.source, edge.target}]
        if _drawn(made, there):
            return False
        self._check_way(made, there, source, target)
        new = NoteLink(made.edge, stem(target.path), weight, self._ormah.moment(), made.reason)
        changes: dict[str, tuple[list[NoteLink], list[tuple[EdgeType, str]]]] = {source.id: ([new], [])}
        replaced = [
            edge for edge in there if plain(edge)
        ]  # empty if a related_to is wished: `_drawn` excludes such edges
        for edge in replaced:
            changes.setdefault(edge.source, ([], []))[1].extend(self._written(edge))
        self._try(changes, {source.id, target.id})
        drawn = EdgeRow(source.id, target.id, made.edge, weight, new.created, made.reason, False)
        for end in (source.id, target.id):
            self._edges[end] = [*(edge for edge in self._touching(end) if edge not in replaced), drawn]
        self.made.append(made)
        return True

    def change(self, *, subject: str, body: str, done: Callable[[], None] = nothing) -> PlannedChange:
        """Return the change that writes all edges of the draft."""
        ormah, edited = self._ormah, dict(self._edited)

        def edits() -> list[Edit]:
            out = []
            for node_id, one in edited.items():
                if one.links or one.unlinks:
                    seen = see(ormah, node_id)
                    data = _edit(seen, one.links, one.unlinks)
                    if data != seen.data:
                        data = edit(data, seen.path, set={"updated": ormah.moment()})
                        out.append(Edit(node_id, seen.path, data, seen.digest))
            return out

        based_on = {node_id: one.seen.digest for node_id, one in edited.items()}
        return PlannedChange(Kind.LINK, subject, body, edits, based_on, len(self.made), done)

    def sentence(self, wish: EdgeToAdd) -> str:
        """Return a line for the commit's body that names an added edge.

        For example "Chose Vite (1a2b3c4d) supports Fast builds (9f8e7d6c)".
        """
        return f"{_named(self._rows[wish.source_id])} {wish.edge} {_named(self._rows[wish.target_id])}"

    # ------------------------------------------------------------ checks

    def _end(self, node_id: str) -> NodeRow:
        if node_id not in self._rows:
            found = self._ormah.index.notes([node_id], connections=False)
            if node_id not in found:
                raise NotFound(f"no memory has the id {node_id[:100]!r}", data={"id": node_id})
            self._rows[node_id] = found[node_id]
        return self._rows[node_id]

    def _reason(self, wish: EdgeToAdd) -> str | None:
        reason = " ".join((clean(self._ormah, wish.reason, []) or "").split())
        if len(reason) > MAX_REASON:
            raise BadRequest(
                f"the reason has {len(reason)} characters, at most {MAX_REASON} are allowed", hint="say it shorter",
                data={"id": wish.source_id},
            )  # fmt: skip
        return reason or None

    def _check(self, wish: EdgeToAdd, source: NodeRow, target: NodeRow) -> None:
        if source.id == target.id:
            raise BadRequest("a memory cannot be connected to itself", data={"id": source.id})
        if wish.edge not in DRAWN:
            raise BadRequest(
                f"{wish.edge} is not drawn by hand or by a judge", hint=f"there are: {', '.join(DRAWN)}",
                data={"id": source.id},
            )  # fmt: skip
        me = self._ormah.vault.self_id
        if me in {source.id, target.id}:
            raise BadRequest("the self node has no such edges: only what it defines", data={"id": me})

    def _check_way(self, wish: EdgeToAdd, there: list[EdgeRow], source: NodeRow, target: NodeRow) -> None:
        if wish.edge in BOTH_WAYS:
            return
        back = any(edge.edge is wish.edge for edge in there)  # `_drawn` has excluded the same direction
        if back or (wish.edge in NO_CIRCLE and self._leads(wish.edge, target.id, source.id)):
            raise BadRequest(
                f"{_named(source)} {wish.edge} {_named(target)} would be a circle: the other way round it is so already",
                data={"id": source.id},
            )

    def _leads(self, edge: EdgeType, start: str, goal: str) -> bool:
        """Whether edges of the type `edge` lead from the memory `start` to `goal`, also by way of others."""
        met, at = {start}, [start]
        while at and len(met) < WALKED:
            self._load(at)
            reached = {
                one.target
                for node_id in at
                for one in self._edges[node_id]
                if one.edge is edge and one.source == node_id
            }
            if goal in reached:
                return True
            at = sorted(reached - met)
            met |= reached
        return False

    # ------------------------------------------------------------ edges and notes

    def _touching(self, node_id: str) -> list[EdgeRow]:
        self._load([node_id])
        return self._edges[node_id]

    def _load(self, ids: Sequence[str]) -> None:
        missing = [node_id for node_id in ids if node_id not in self._edges]
        if missing:
            self._edges.update({node_id: [] for node_id in missing})
            for edge in self._ormah.index.edges_of(missing):
                for end in (edge.source, edge.target):
                    if end in missing:
                        self._edges[end].append(edge)

    def _written(self, edge: EdgeRow) -> list[tuple[EdgeType, str]]:
        """Return (type, link target) for each link in the frontmatter of the source's note that states `edge`."""
        short = short_id(edge.target)
        return [
            (one.edge, one.target)
            for one in self._note(edge.source).seen.note.links
            if one.edge is edge.edge
            and not one.body
            and (stem_short_id(one.target) == short or self._ormah.index.resolve_link(one.target) == edge.target)
        ]

    def _note(self, node_id: str) -> _Edited:
        if node_id in self._edited:
            return self._edited[node_id]
        seen, row = see(self._ormah, node_id), self._end(node_id)
        if seen.digest != row.digest:
            raise Conflict(f"{seen.path} was edited meanwhile", data={"id": node_id})
        return _Edited(seen)

    def _try(self, changes: dict[str, tuple[list[NoteLink], list[tuple[EdgeType, str]]]], ends: set[str]) -> None:
        """Add `changes` to the draft if all notes can be edited so. Otherwise raise the error of the edit; the draft
        stays as it was.

        `changes`: {node id: (links to add, links to remove)}. `ends`: ids of both memories of the new edge.
        """
        tried: dict[str, _Edited] = {}
        for node_id in sorted(ends | changes.keys()):
            links, unlinks = changes.get(node_id, ([], []))
            known = self._note(node_id)
            tried[node_id] = one = _Edited(known.seen, [*known.links, *links], [*known.unlinks, *unlinks])
            if links or unlinks:
                _edit(one.seen, one.links, one.unlinks)
        self._edited.update(tried)


def plain(edge: EdgeRow) -> bool:
    """Whether an edge says only that two memories are near: a `related_to` edge without a reason that is no link
    in a text."""
    return edge.edge is EdgeType.RELATED_TO and not edge.body and not edge.reason


def _drawn(wish: EdgeToAdd, there: Sequence[EdgeRow]) -> bool:
    if wish.edge is EdgeType.RELATED_TO:
        return bool(there)
    return any(edge.edge is wish.edge and (wish.edge in BOTH_WAYS or edge.source == wish.source_id) for edge in there)


def _edit(seen: SeenNote, links: Sequence[NoteLink], unlinks: Sequence[tuple[EdgeType, str]]) -> bytes:
    return edit(seen.data, seen.path, link=links, unlink=unlinks)


def _weight(wish: EdgeToAdd) -> float:
    """Return the weight, at most 1, with two decimals. Raises BadRequest if it is not finite.

    It is never 0, because spreading activation multiplies by it (REFERENCE F 6).
    """
    if wish.weight is None:
        return DEFAULT_WEIGHT
    if not math.isfinite(wish.weight):
        raise BadRequest(f"a weight is a number from 0 to 1, not {wish.weight}", data={"id": wish.source_id})
    return round(min(1.0, wish.weight), 2) if wish.weight >= 0.01 else DEFAULT_WEIGHT


def _named(row: NodeRow) -> str:
    return f"{headline(row.title, row.content, NAME)} ({row.short_id})"
