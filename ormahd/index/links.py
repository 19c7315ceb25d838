"""Links between notes: how they are stored, and which node each one means.

An edge belongs to the note that writes it, and keeps its text as written. The node that the text means is resolved
again whenever a node with a matching name is added, renamed or removed. So an update of a node never loses the edges of
others, and a link may be written before its target exists.

A link is matched by these in turn, ignoring case (DESIGN section 12): the short id at the end of the target's stem, the
file name (with folders, if the target has some), an alias, a title. The first that matches any node decides; if it
matches several nodes, the link stays unresolved.
"""

from __future__ import annotations

import sqlite3
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from msgspec import Struct

from ormahd.index.rows import EdgeRow, micros, moment_or_none
from ormahd.model.node import EdgeType, is_node_id, short_id
from ormahd.note.values import Note, stem_short_id
from ormahd.process import sql

FILE, ALIAS, TITLE = 1, 2, 3


class Target(Struct, frozen=True):
    """The parts of a wikilink's text by which its node is found. `short`: the id or short id in it; `file`: the text
    after the last `/`; `whole`: the text with its folders."""

    short: str | None
    file: str
    whole: str


def fold(text: str) -> str:
    """Return a name in the form in which names are compared: composed (NFC; macOS decomposes file names) and
    case-folded."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold()).strip()


def parse_target(text: str) -> Target:
    """Return the parts of a wikilink's text by which its node is found."""
    whole = fold(text).removesuffix(".md")
    parts = [part for part in whole.split("/") if part not in {"", ".", ".."}]
    whole = "/".join(parts)
    file = parts[-1].strip() if parts else ""
    short = file if is_node_id(file) else stem_short_id(file)
    return Target(short, file, whole)


def stem(path: str) -> str:
    """Return the name of a file without its folders and without `.md`."""
    name = path.rsplit("/", 1)[-1]
    return name[:-3] if name[-3:].lower() == ".md" else name


def names(note: Note) -> set[tuple[str, int]]:
    """Return (name, rank) for each name under which links may find the note; rank: FILE, ALIAS or TITLE. The note's id
    is not among them, because links by id are found by the node table."""
    found = {(fold(stem(note.path)), FILE)}
    found |= {(fold(alias), ALIAS) for alias in note.aliases}
    if note.title:
        found.add((fold(note.title), TITLE))
    return {(key, rank) for key, rank in found if key}


def put(connection: sqlite3.Connection, notes: Sequence[tuple[int, Note]]) -> None:
    """Store the names of `notes` in table `name`, and the edges written in these notes in table `edge`. `notes`: (row
    number of the file, note)."""
    named = [(key, rank, number) for number, note in notes for key, rank in names(note)]
    rows = []
    for number, note in notes:
        for link in note.links:
            aim = parse_target(link.target)
            written = (link.weight, None if link.created is None else micros(link.created), link.reason, link.body)
            rows.append((number, link.edge, link.target, aim.short, aim.file, aim.whole, *written))
    sql.put(connection, "INSERT INTO name", named)
    into = "INSERT INTO edge (number, type, text, short, file, whole, weight, created, reason, body)"
    sql.put(connection, into, rows)


def keys_of(connection: sqlite3.Connection, numbers: Sequence[int], ids: Iterable[str]) -> set[str]:
    """Return every text by which a link could mean one of the nodes: the ids `ids` and their short ids, and the names
    of the files with the row numbers `numbers`."""
    keys: set[str] = set()
    for node_id in ids:
        keys |= {node_id, short_id(node_id)}
    for chunk in sql.sets(numbers):
        rows = sql.table(connection, ("key",), f"FROM name WHERE number IN ({sql.marks(chunk)})", chunk)
        keys |= {row[0] for row in rows}
    return keys


def resolve_again(connection: sqlite3.Connection, keys: Collection[str], numbers: Sequence[int]) -> None:
    """Resolve again the edges whose text matches one of `keys`, and the edges that are written in the files with the
    row numbers `numbers`. Store the targets that changed."""
    found: dict[int, list[Any]] = {}
    columns = ("edge", "short", "file", "whole", "target")
    for chunk in sql.sets(sorted(keys)):
        for column in ("short", "file", "whole"):
            extra = " AND whole <> file" if column == "whole" else ""  # lets SQLite take the partial index
            rest = f"FROM edge WHERE {column} IN ({sql.marks(chunk)}){extra}"
            found |= {row[0]: row for row in sql.table(connection, columns, rest, chunk)}
    for numbered in sql.sets(numbers):
        rest = f"FROM edge WHERE number IN ({sql.marks(numbered)})"
        found |= {row[0]: row for row in sql.table(connection, columns, rest, numbered)}
    aims = {edge: Target(short, file, whole) for edge, short, file, whole, _ in found.values()}
    known = {aim: find_target(connection, aim) for aim in set(aims.values())}
    changed = [(edge, known[aims[edge]]) for edge, *_, before in found.values() if known[aims[edge]] != before]
    by_edge = ") UPDATE edge SET target = (SELECT target FROM new WHERE new.edge = edge.edge) WHERE edge IN (SELECT edge FROM new)"
    sql.put(connection, "WITH new (edge, target) AS (", changed, more=by_edge)


def find_target(connection: sqlite3.Connection, aim: Target) -> str | None:
    """Return the id of the node that a link means; None if it matches no node, or several."""
    # By its short id.
    if aim.short:
        # The index is named: otherwise SQLite scans all nodes.
        held = "SELECT id FROM node INDEXED BY node_held WHERE held = 1 AND id >= ? AND id < ?"
        ids = {row[0] for row in connection.execute(held, (aim.short, aim.short + "g"))}
        if len(ids) > 1:  # several ids begin with it: the rest of the name may tell them apart
            ids = {row[0] for row in _nodes_named(connection, aim.file, FILE) if row[0] in ids}
        if ids:
            return ids.pop() if len(ids) == 1 else None

    # By its file name, with the folders if the link has some; else by an alias, else by a title.
    rows = _nodes_named(connection, aim.file, FILE)
    if "/" in aim.whole:
        matching = [row for row in rows if f"/{fold(row[1]).removesuffix('.md')}".endswith(f"/{aim.whole}")]
        rows = matching or rows
    for rank in (ALIAS, TITLE):
        rows = rows or _nodes_named(connection, aim.whole, rank)
    found = {row[0] for row in rows}
    return found.pop() if len(found) == 1 else None


def _nodes_named(connection: sqlite3.Connection, key: str, rank: int) -> list[tuple[str, str]]:
    """Return (node id, path) of each node that has the name `key` with this rank: `FILE`, `ALIAS` or `TITLE`."""
    select = (
        "SELECT n.id, f.path FROM name JOIN node n USING (number) JOIN file f USING (number) "
        "WHERE name.key = ? AND name.rank = ? AND n.held = 1"
    )
    return connection.execute(select, (key, rank)).fetchall()


BOTH = 250
"""Maximum number of nodes whose edges, in both directions, are read in one statement."""
_EDGE = ("source", "target", "type", "weight", "created", "reason", "body")
_RESOLVED = (
    f"SELECT n.id AS source, e.target, e.type, {sql.exact('e.weight')} AS weight, e.created, e.reason, e.body "
    "FROM edge e JOIN node n USING (number) WHERE n.held = 1 AND e.target IS NOT NULL"
)


def edges(connection: sqlite3.Connection, ids: Sequence[str] | None = None) -> list[EdgeRow]:
    """Return the resolved edges that leave or enter one of `ids` (None: all nodes), without edges from a node to itself.

    Each (source, type, target) is returned once: if a note writes the same edge twice, an edge of its frontmatter wins
    over a link in the body, then the greater weight.
    """
    rows: list[Sequence[Any]] = []
    if ids is None:
        rows = connection.execute(_RESOLVED).fetchall()
    for chunk in [] if ids is None else sql.sets(ids, BOTH):
        either = " UNION ALL ".join(f"{_RESOLVED} AND {end} IN ({sql.marks(chunk)})" for end in ("n.id", "e.target"))
        rows += sql.table(connection, _EDGE, f"FROM ({either})", [*chunk, *chunk])
    found: dict[tuple[str, str, str], EdgeRow] = {}
    for source, aim, kind, weight, created, reason, body in sorted(rows, key=_preferred_first):
        if source != aim:
            edge = EdgeRow(source, aim, EdgeType(kind), float(weight), moment_or_none(created), reason, bool(body))
            found.setdefault((source, aim, kind), edge)
    return list(found.values())


def _preferred_first(row: Sequence[Any]) -> tuple[object, ...]:
    """Return the sort key of a row of `_EDGE`. If several edges have the same ends and type, the preferred one comes
    first."""
    source, aim, kind, weight, created, reason, body = row
    return source, aim, kind, body, -float(weight), created or 0, reason or ""
