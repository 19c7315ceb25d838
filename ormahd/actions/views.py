"""Convert nodes and edges to replies: as values, and as text for agents.

A memory that a newer one seems to have replaced is marked, whether a query led to it or not. Also adds to the error of
an action with several commits what it had done before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import Enum
from pathlib import PurePosixPath
from typing import Any, Final, TypeVar

from msgspec import UNSET, Struct, UnsetType

from ormahd.api import AsOf, Connections, Edge, NodeResult
from ormahd.errors import OrmahError
from ormahd.index.reader import Reader
from ormahd.index.rows import EdgeRow, Filter, NodeRow
from ormahd.model.node import short_id
from ormahd.note.values import NoteLink
from ormahd.ormah import Ormah
from ormahd.search.search import replaced_of_all
from ormahd.text.quoting import beginning, shortened
from ormahd.vault.create import SELF_TEXT

HEAD = 1_000
"""Number of characters, from the beginning of a text, in which its first line is looked for."""


def stem(path: str) -> str:
    """Return the name by which wikilinks name the note at `path`: its file name without `.md`."""
    return PurePosixPath(path).stem


def iso(when: datetime | None) -> str | None:
    """Return a time in ISO 8601, in UTC with a `Z`; microseconds only if they are not zero."""
    return None if when is None else when.astimezone(UTC).isoformat().replace("+00:00", "Z")


def day(time: str) -> str:
    """Return the date of an ISO time in the person's time zone."""
    return f"{datetime.fromisoformat(time).astimezone():%Y-%m-%d}"


def headline(title: str | None, content: str, limit: int = 72) -> str:
    """Return a line that names the memory: its title, otherwise the beginning of its text."""
    text = "" if title else beginning(content, HEAD)
    line = title or next((" ".join(line.split()) for line in text.splitlines() if line.strip()), "(empty)")
    return shortened(line, limit)


R = TypeVar("R", bound=Struct)


def of_row(kind: type[R], row: object, /, **more: Any) -> R:
    """Return a `kind` whose fields are the attributes of `row` with the same names, and `more`.

    Times become ISO text, members of enums their values, tuples lists.
    """
    fields = {}
    for name in kind.__struct_fields__:
        if name not in more and (value := getattr(row, name, UNSET)) is not UNSET:
            fields[name] = plain(value)
    return kind(**fields, **more)


CONNECTION: Final = ("target", "edge", "weight", "created", "reason")
"""Fields of an edge of a note, in exports and snapshots."""


def plain(value: Any) -> Any:
    """Return a row's value as results have it: times as ISO text, members of enums as their values, tuples as lists."""
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, Enum):
        return value.value
    return list(value) if isinstance(value, tuple) else value


def edge_view(other: NodeRow, edge: EdgeRow | NoteLink) -> Edge:
    """Return an edge, stored or about to be written, as seen from one end; `other` is the node at the opposite end."""
    title = headline(other.title, other.content)
    return of_row(Edge, edge, id=other.id, short_id=other.short_id, title=title)


def node_view(
    index: Reader, row: NodeRow, as_of: AsOf | UnsetType = UNSET, older_than: str | None = None
) -> NodeResult:
    """Return a node with its connections from `index`. `as_of`: the earlier state that this index is of, if any.
    `older_than`: id of the memory that seems to replace this one."""
    leaving, entering = index.edges(row.id)
    ends = [edge.target for edge in leaving] + [edge.source for edge in entering]
    rows = index.notes(ends)
    connections = Connections(
        out=[edge_view(rows[edge.target], edge) for edge in leaving if edge.target in rows],
        incoming=[edge_view(rows[edge.source], edge) for edge in entering if edge.source in rows],
    )
    names = ("importance", "access_count", "use_count", "last_accessed", "last_review", "stability")
    fields: dict[str, Any] = {name: plain(getattr(row.strength, name)) for name in names}
    fields |= {"node_id": row.id, "connections": connections, "as_of": as_of, "older_than": older_than}
    return of_row(NodeResult, row, text=_prose(row, connections, older_than), **fields)


def _prose(row: NodeRow, connections: Connections, older_than: str | None) -> str:
    """Return a memory as text for agents: headline, fields, content and connections."""
    facts = [f"type: {row.type}", f"tier: {row.tier}", f"space: {row.space or 'global'}"]
    if row.tags:
        facts.append("tags: " + ", ".join(row.tags))
    if row.confidence != 1.0:
        facts.append(f"confidence: {row.confidence:g}")
    lines = [f"{headline(row.title, row.content)}", f"id: {row.id}", " | ".join(facts)]
    lines.append(f"source: {row.source} | created: {iso(row.created)} | updated: {iso(row.updated)}")
    if row.said_in is not None:
        lines.append(f"from: session {row.said_in.rpartition('#')[0]} (ormahctl show)")
    if row.valid_until is not None:
        reason = f": {row.outdated_reason}" if row.outdated_reason else ""
        lines.append(f"outdated since {iso(row.valid_until)}{reason}")
    elif older_than is not None:
        lines.append(f"older than {short_id(older_than)}, which seems to replace it")
    lines += [one for one in (row.rejected, row.stale) if one]
    lists = {"paths": row.paths, "commands": row.commands, "evidence": row.evidence}
    lines += [f"{name}: {', '.join(values)}" for name, values in lists.items() if values]
    lines += [f"guard: {row.guard}"] if row.guard else []
    lines += ["", row.content]
    if connections.out or connections.incoming:
        lines += ["", "Connections:"]
        edges = [("->", edge) for edge in connections.out] + [("<-", edge) for edge in connections.incoming]
        lines += [f"  {to} {edge.edge} {edge.title} ({edge.short_id}, weight {edge.weight:g})" for to, edge in edges]
    return "\n".join(lines)


def says_nothing(me: NodeRow) -> bool:
    """Return whether the self node has no content beyond the text it was created with."""
    text = " ".join(me.content.split())
    return text.endswith(SELF_TEXT) or text in {"", " ".join((me.title or "").split())}


def replaced_today(ormah: Ormah, ids: Sequence[str]) -> dict[str, str]:
    """Return {older id: newer id} for those of the memories `ids` that a valid newer memory seems to replace. Recall
    marks the same memories as replaced."""
    chosen = Filter(alive_at=ormah.ranking_clock())
    return replaced_of_all(ormah.index, ids, chosen, ormah.learned.both_hold, ormah.reworded)


NOTHING: Final = ("; nothing was changed", "; nothing was taken in")
"""Endings of error messages, which `saying` removes if something was changed before."""


@contextmanager
def saying(done: Callable[[], str], **data: Callable[[], Any]) -> Iterator[None]:
    """Context manager: if the block raises an OrmahError, add a clause to it about what was done before.

    `done`: returns that clause; empty: the error is not changed. `data`: {key: function that returns a value to add to
    the error's data}.
    """
    try:
        yield
    except OrmahError as exc:
        clause = done()
        if clause:
            message = exc.message
            for nothing in NOTHING:
                message = message.replace(nothing, "")
            exc.message = f"{message}; {clause}"
            exc.args = (exc.message,)
            exc.data |= {name: value() for name, value in data.items()}
        raise
