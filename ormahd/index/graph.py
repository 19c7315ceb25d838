"""The data for a picture of the graph of memories: some columns of each memory, and its position, which is stored in
the index."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from msgspec import Struct

from ormahd.index.index import Index
from ormahd.index.layout import Placeable, arrange
from ormahd.index.rows import Filter
from ormahd.process import priority, sql

BEGINNING = 200
"""Number of characters at the beginning of a memory's text that are read, to name a memory without a title."""
PER_UNIT = 1000
"""Positions are stored as integers, in thousandths of the layout's unit."""
_COLUMNS = (
    "n.id", "n.type", "n.tier", "n.space", "n.title", f"substr(t.content, 1, {BEGINNING})", "n.tags", "n.created",
    "n.valid_until", "f.path",
)  # fmt: skip
_FROM = "FROM node n JOIN text t USING (number) JOIN file f USING (number)"
_placing = threading.Lock()


class PictureRow(Struct, frozen=True):
    """The fields of a memory that a picture of the graph needs. Times are microseconds since 1970; `tags` is JSON;
    `content` has at most `BEGINNING` characters."""

    id: str
    type: str
    tier: str
    space: str | None
    title: str | None
    content: str
    tags: str
    created: int
    valid_until: int | None
    path: str


def rows(index: Index, chosen: Filter, ids: Sequence[str] | None = None) -> list[PictureRow]:
    """Return the rows of the memories that pass the filter; of `ids` alone, if given. Unknown ids are left out."""
    where, values = chosen.sql()
    priority.give()
    found = []
    with index.database.ask() as connection:
        for some in [()] if ids is None else sql.sets(ids):
            inside = "" if ids is None else f" AND n.id IN ({sql.marks(some)})"
            found += sql.table(connection, _COLUMNS, f"{_FROM} WHERE {where}{inside}", [*values, *some])
    return [PictureRow(*row) for row in found]


def positions(index: Index, wanted: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Return node id -> (x, y), the positions of at least the `wanted` memories in pictures of the graph. If any of these
    has none, all memories without one get one now, which is stored.

    Positions of deleted memories are kept for a while, so that an undo brings these memories back to where they were.
    """
    with _placing:
        with index.database.read() as connection:
            stored = sql.table(connection, ("id", "x", "y"), "FROM position", ())
            known = {id_: (x / PER_UNIT, y / PER_UNIT) for id_, x, y in stored}
            if all(one in known for one in wanted):
                return known
            ids = sql.table(connection, ("n.id", "n.space"), "FROM node n WHERE n.held = 1", ())
        nodes = [Placeable(id_, space) for id_, space in ids]
        edges = [(one.source, one.target, one.weight) for one in index.edges_of()]
        found = arrange(nodes, edges, known, priority.give)
        changed = [
            (id_, round(x * PER_UNIT), round(y * PER_UNIT)) for id_, (x, y) in found.items() if known.get(id_) != (x, y)
        ]
        gone = known.keys() - found.keys()
        with index.database.write() as connection:
            if len(gone) > len(found):
                sql.among(connection, "DELETE FROM position WHERE id IN", sorted(gone))
            sql.put(connection, "INSERT OR REPLACE INTO position", changed)
    return found
