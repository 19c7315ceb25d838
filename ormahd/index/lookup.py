"""Resolve ids, prefixes and paths to nodes, and load nodes from the database."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping, Sequence

from ormahd.errors import Ambiguous, BadRequest, NotFound
from ormahd.index.links import edges
from ormahd.index.rows import (
    CANDIDATE_COLUMNS,
    NODE_COLUMNS,
    NODE_FROM,
    Candidate,
    Filter,
    NodeRow,
    Stats,
    candidate,
    node_row,
)
from ormahd.index.write import fingerprint
from ormahd.model.files import FileState
from ormahd.model.node import Connection, Strength, is_node_id
from ormahd.note.note import NoteKind
from ormahd.process import sql

MIN_PREFIX = 4
SHOWN = 20
"""Maximum number of ids that an `Ambiguous` error lists."""
_PREFIX = re.compile(r"[0-9a-f-]{1,36}")
_DASHES = (8, 13, 18, 23)


def clean_prefix(text: str) -> str:
    """Return a prefix of an id in canonical form. Raises BadRequest for anything else, so no SQL, glob or path
    passes."""
    prefix = text.strip().casefold()
    if re.fullmatch(r"[0-9a-f]{9,32}", prefix):  # an id without dashes
        for at in _DASHES:
            prefix = prefix[:at] + "-" + prefix[at:] if len(prefix) > at else prefix
    if not _PREFIX.fullmatch(prefix) or any((char == "-") != (at in _DASHES) for at, char in enumerate(prefix)):
        raise BadRequest(
            f"{text[:60]!r} is no memory id",
            hint=f"give the id, or at least its first {MIN_PREFIX} characters (0-9, a-f)",
        )
    if len(prefix) < MIN_PREFIX:
        raise BadRequest(
            f"{text!r} is too short for a memory id", hint=f"give at least its first {MIN_PREFIX} characters"
        )
    return prefix


def resolve(connection: sqlite3.Connection, text: str) -> str:
    """Return the full id of the one node whose id begins with `text`, or whose file is at that path.

    Raises BadRequest, NotFound or Ambiguous.
    """
    if text.strip()[-3:].lower() == ".md":
        return _at(connection, text.strip())
    prefix = clean_prefix(text)
    ids = [
        row[0]
        for row in connection.execute(
            "SELECT id FROM node WHERE held = 1 AND id >= ? AND id < ? ORDER BY id LIMIT ?",
            (prefix, prefix + "g", SHOWN + 1),
        )
    ]
    if not ids:
        raise NotFound(f"no memory has the id {text.strip()!r}", hint="look for it with `ormahctl recall`")
    if len(ids) > 1:
        raise Ambiguous(
            f"{text.strip()!r} is the beginning of {'more than ' if len(ids) > SHOWN else ''}{min(len(ids), SHOWN)} ids",
            hint="give more characters of the id",
            data={"ids": ids[:SHOWN]},
        )
    return str(ids[0])


def _at(connection: sqlite3.Connection, path: str) -> str:
    row = connection.execute(
        "SELECT n.id FROM file JOIN node n USING (number) WHERE path = ? AND held = 1", (path,)
    ).fetchone()
    if row is None:
        raise NotFound(
            f"no memory lies at {path!r}", hint="paths are relative to the vault; look for it with `ormahctl recall`"
        )
    return str(row[0])


def notes(connection: sqlite3.Connection, ids: Sequence[str], strength: Mapping[str, Strength], *, connections: bool = True) -> dict[str, NodeRow]:  # fmt: skip
    """Return nodes by id, in the order of `ids`. Unknown ids are left out."""
    out: dict[str, list[Connection]] = {}
    for edge in edges(connection, ids, into=False) if connections else ():
        made = Connection.model_construct(
            target=edge.target, edge=edge.edge, weight=edge.weight, created=edge.created, reason=edge.reason
        )
        out.setdefault(edge.source, []).append(made)
    found: dict[str, NodeRow] = {}
    for some in sql.sets(ids):
        rest = f"FROM {NODE_FROM} WHERE n.held = 1 AND n.id IN ({sql.marks(some)})"
        for row in sql.table(connection, NODE_COLUMNS, rest, some):
            found[row[0]] = node_row(row, out.get(row[0], ()), strength)
    return {node_id: found[node_id] for node_id in ids if node_id in found}


def candidates(connection: sqlite3.Connection, ids: Sequence[str], strength: Mapping[str, Strength]) -> dict[str, Candidate]:  # fmt: skip
    """Return the fields of nodes that ranking needs, by id. Unknown ids are left out."""
    found: dict[str, Candidate] = {}
    for some in sql.sets(ids):
        rest = f"FROM node n JOIN text t USING (number) WHERE n.held = 1 AND n.id IN ({sql.marks(some)})"
        for row in sql.table(connection, CANDIDATE_COLUMNS, rest, some):
            found[row[0]] = candidate(row, strength)
    return found


def equal(connection: sqlite3.Connection, space: str | None, kind: str, title: str | None, content: str) -> str | None:
    """Return the id of the oldest node with exactly this space, type, title and content; None if there is none."""
    row = connection.execute(
        "SELECT id FROM node n JOIN text t USING (number) WHERE held = 1 AND same = ? AND space IS ? AND type = ? "
        "AND title IS ? AND content = ? ORDER BY created, id LIMIT 1",
        (fingerprint(space, kind, title, content), space, kind, title or None, content),
    ).fetchone()
    return None if row is None else str(row[0])


def passing(connection: sqlite3.Connection, chosen: Filter) -> list[str]:
    """Return the ids of all nodes that pass the filter."""
    condition, values = chosen.sql()
    (ids,) = sql.columns(connection, ("n.id",), f"FROM node n WHERE {condition}", values)
    return ids


def newest(connection: sqlite3.Connection, chosen: Filter, limit: int) -> list[str]:
    """Return the ids of the last created nodes that pass the filter, newest first, ties by id."""
    condition, values = chosen.sql()
    select = f"SELECT n.id FROM node n WHERE {condition} ORDER BY n.created DESC, n.id LIMIT ?"
    return [row[0] for row in connection.execute(select, (*values, limit))]


def files(connection: sqlite3.Connection, paths: Sequence[str] | None = None) -> dict[str, FileState]:
    """Return files with their state when they were indexed, by path: all of them, or the indexed ones among `paths`."""
    lent = f"CASE WHEN kind = '{NoteKind.INDEXED}' THEN node_id END"
    names = ("path", "size", "mtime_ns", "inode", "digest", lent)
    if paths is None:
        return {row[0]: FileState(*row) for row in connection.execute(f"SELECT {', '.join(names)} FROM file")}
    found: dict[str, FileState] = {}
    for some in sql.sets(paths):
        rows = sql.table(connection, names, f"FROM file WHERE path IN ({sql.marks(some)})", some)
        found |= {row[0]: FileState(*row) for row in rows}
    return found


def count(connection: sqlite3.Connection, chosen: Filter) -> int:
    condition, values = chosen.sql()
    return int(connection.execute(f"SELECT count(*) FROM node n WHERE {condition}", values).fetchone()[0])


def keep(connection: sqlite3.Connection, ids: Sequence[str], chosen: Filter) -> set[str]:
    """Return the subset of `ids` whose nodes pass the filter."""
    condition, values = chosen.sql()
    kept: set[str] = set()
    for some in sql.sets(ids):
        # `CROSS JOIN` by number: otherwise SQLite uses an index of the filter and walks half of the nodes.
        these = f"SELECT number FROM node WHERE held = 1 AND id IN ({sql.marks(some)})"
        rest = f"FROM ({these}) CROSS JOIN node n USING (number) WHERE {condition}"
        kept.update(*sql.columns(connection, ("n.id",), rest, (*some, *values)))
    return kept


def stats(connection: sqlite3.Connection, *, pending: int, size: int) -> Stats:
    def by(column: str) -> dict[str, int]:
        return dict(connection.execute(f"SELECT {column}, count(*) FROM node n WHERE held = 1 GROUP BY 1 ORDER BY 1"))

    def one(select: str) -> int:
        return int(connection.execute(select).fetchone()[0])

    nodes = one("SELECT count(*) FROM node WHERE held = 1")
    written = "SELECT count(*) FROM edge e JOIN node n USING (number) WHERE n.held = 1"
    return Stats(
        nodes=nodes, by_tier=by("tier"), by_type=by("type"), by_space=by("coalesce(space, 'global')"),
        edges=one(f"{written} AND e.target IS NOT NULL AND e.target <> n.id"),
        unresolved=one(f"{written} AND e.target IS NULL"),
        plain=one("SELECT count(*) FROM file") - nodes, pending=pending, bytes=size,
    )  # fmt: skip


def full(ids: Sequence[str]) -> list[str]:
    """Return the items of `ids` that are valid full ids, each once, in order."""
    return [node_id for node_id in dict.fromkeys(ids) if is_node_id(node_id)]
