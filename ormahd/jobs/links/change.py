"""Make the change that adds edges between memories: many edges in one commit, each written into the note of its
source.

Used by the linking job and by two-phase maintenance. An existing edge is left alone. A plain `related_to` edge is
replaced by an edge of a more specific type (REFERENCE F 22). An edge that makes no sense is refused by an error,
whose data has the id of the memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct, field

from ormahd.actions.amend import SeenNote, clean, see
from ormahd.actions.views import headline, stem
from ormahd.errors import BadRequest, Conflict, NotFound
from ormahd.index.rows import EdgeRow, NodeRow
from ormahd.jobs.job import Edit, PlannedChange, note_edits
from ormahd.model.change import Kind
from ormahd.model.node import EdgeType, short_id
from ormahd.note.edit import edit
from ormahd.note.values import DEFAULT_WEIGHT, NoteLink, stem_short_id
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
            NotFound: an id is unknown.
            BadRequest: the edge is not allowed, such as one from a memory to itself.
            Conflict: a note was edited meanwhile.
        """
        source, target = self._row_of(wish.source_id), self._row_of(wish.target_id)
        made = self._checked(wish)

        # Is it there already, or would it close a cycle?
        self._load([source.id])
        between = [edge for edge in self._edges[source.id] if target.id in {edge.source, edge.target}]
        same = [edge for edge in between if edge.edge is made.edge or made.edge is EdgeType.RELATED_TO]
        both_ways = made.edge in BOTH_WAYS
        if any(both_ways or edge.source == source.id for edge in same):
            return False
        if not both_ways and (same or (made.edge in NO_CIRCLE and self._leads(made.edge, target.id, source.id))):
            sentence = f"{_named(source)} {made.edge} {_named(target)}"
            why = f"{sentence} would be a circle: the other way round it is so already"
            raise BadRequest(why, data={"id": source.id})

        # Try the edits on both notes: the new edge, in place of one that says only that the two are near
        replaced = [edge for edge in between if plain(edge)]
        tried: dict[str, _Edited] = {}
        for row in sorted((source, target), key=lambda row: row.id):
            known = self._edited.get(row.id) or _Edited(see(self._ormah, row.id))
            if row.id not in self._edited and known.seen.digest != row.digest:
                raise Conflict(f"{known.seen.path} was edited meanwhile", data={"id": row.id})
            tried[row.id] = note = _Edited(known.seen, [*known.links], [*known.unlinks])
            links = [link for link in known.seen.note.links if link.edge is EdgeType.RELATED_TO and not link.body]
            for end in [edge.target for edge in replaced if edge.source == row.id]:
                short, resolve = short_id(end), self._ormah.index.resolve_link
                names = [
                    one.target for one in links if stem_short_id(one.target) == short or resolve(one.target) == end
                ]
                note.unlinks += [(EdgeType.RELATED_TO, name) for name in names]
        new = NoteLink(made.edge, stem(target.path), made.weight or DEFAULT_WEIGHT, self._ormah.moment(), made.reason)
        tried[source.id].links.append(new)
        for note in tried.values():
            edit(note.seen.data, note.seen.path, link=note.links, unlink=note.unlinks)

        # All is possible: keep it
        self._edited |= tried
        drawn = EdgeRow(source.id, target.id, made.edge, new.weight, new.created, made.reason, False)
        for end in (source.id, target.id):
            self._load([end])
            self._edges[end] = [*(edge for edge in self._edges[end] if edge not in replaced), drawn]
        self.made.append(made)
        return True

    def change(self, *, subject: str, body: str) -> PlannedChange:
        """Return the change that writes all edges of the draft."""
        ormah, edited = self._ormah, dict(self._edited)

        def edits() -> list[Edit]:
            """Return one edit for each note whose edges change."""
            changed = {node_id: note for node_id, note in edited.items() if note.links or note.unlinks}
            found = [
                note_edits(ormah, node_id, link=note.links, unlink=note.unlinks) for node_id, note in changed.items()
            ]
            return [one for edits in found for one in edits]

        based_on = {node_id: note.seen.digest for node_id, note in edited.items()}
        return PlannedChange(Kind.LINK, subject, body, edits, based_on, len(self.made))

    def sentence(self, wish: EdgeToAdd) -> str:
        """Return a line for the commit's body that names an added edge.

        For example "Chose Vite (1a2b3c4d) supports Fast builds (9f8e7d6c)".
        """
        return f"{_named(self._rows[wish.source_id])} {wish.edge} {_named(self._rows[wish.target_id])}"

    # ------------------------------------------------------------ checks

    def _row_of(self, node_id: str) -> NodeRow:
        """Return the memory at one end of an edge.

        Raises:
            NotFound: no memory has that id.
        """
        if node_id not in self._rows:
            found = self._ormah.index.notes([node_id])
            if node_id not in found:
                raise NotFound(f"no memory has the id {node_id[:100]!r}", data={"id": node_id})
            self._rows[node_id] = found[node_id]
        return self._rows[node_id]

    def _checked(self, wish: EdgeToAdd) -> EdgeToAdd:
        """Return the edge with its reason cleaned, and a weight above 0 and at most 1, with two decimals.

        The weight is never 0, because spreading activation multiplies by it (REFERENCE F 6).
        """
        source, me = wish.source_id, self._ormah.vault.self_id
        reason = " ".join((clean(self._ormah, wish.reason, []) or "").split())
        weight = DEFAULT_WEIGHT if wish.weight is None else wish.weight
        if not math.isfinite(weight):
            raise BadRequest(f"a weight is a number from 0 to 1, not {weight}", data={"id": source})
        if len(reason) > MAX_REASON:
            long = f"the reason has {len(reason)} characters, at most {MAX_REASON} are allowed"
            raise BadRequest(long, hint="say it shorter", data={"id": source})
        if source == wish.target_id:
            raise BadRequest("a memory cannot be connected to itself", data={"id": source})
        if wish.edge not in DRAWN:
            hint = f"there are: {', '.join(DRAWN)}"
            raise BadRequest(f"{wish.edge} is not drawn by hand or by a judge", hint=hint, data={"id": source})
        if me in {source, wish.target_id}:
            raise BadRequest("the self node has no such edges: only what it defines", data={"id": me})
        weight = round(min(1.0, weight), 2) if weight >= 0.01 else DEFAULT_WEIGHT
        return EdgeToAdd(source, wish.target_id, wish.edge, weight, reason or None)

    def _leads(self, edge: EdgeType, start: str, goal: str) -> bool:
        """Return whether edges of the type `edge` lead from the memory `start` to `goal`, directly or through other
        memories."""
        visited, at = {start}, [start]
        while at and len(visited) < WALKED:
            self._load(at)
            reached = {
                one.target
                for node_id in at
                for one in self._edges[node_id]
                if one.edge is edge and one.source == node_id
            }
            if goal in reached:
                return True
            at = sorted(reached - visited)
            visited |= reached
        return False

    # ------------------------------------------------------------ edges and notes

    def _load(self, ids: Sequence[str]) -> None:
        """Read the edges of these memories into `_edges`, unless they are there."""
        missing = [node_id for node_id in ids if node_id not in self._edges]
        self._edges.update({node_id: [] for node_id in missing})
        for edge in self._ormah.index.edges_of(missing):
            for end in (edge.source, edge.target):
                if end in missing:
                    self._edges[end].append(edge)


def plain(edge: EdgeRow) -> bool:
    """Return whether an edge says only that two memories are similar: a `related_to` edge without a reason that is no
    link in a text."""
    return edge.edge is EdgeType.RELATED_TO and not edge.body and not edge.reason


def _named(row: NodeRow) -> str:
    """Return the shortened headline and the short id of a memory, for messages."""
    return f"{headline(row.title, row.content, NAME)} ({row.short_id})"
