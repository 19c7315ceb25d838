"""Convert nodes and edges to replies: as values, and as text for agents.

A memory that a newer one seems to have replaced is marked, whether a query led to it or not. Also adds to the error of
an action with several commits what it had done before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any, Final

from msgspec import UNSET, UnsetType

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
    """Return the name of the note at `path` in wikilinks: its file name without `.md`."""
    return PurePosixPath(path).stem


def iso(when: datetime | None) -> str | None:
    """Return a time in ISO 8601, in UTC with a `Z`; microseconds only if they are not zero."""
    return None if when is None else when.astimezone(UTC).isoformat().replace("+00:00", "Z")


def day(time: str) -> str:
    """Return the date of an ISO time in the person's time zone."""
    return f"{datetime.fromisoformat(time).astimezone():%Y-%m-%d}"


def headline(title: str | None, content: str, limit: int = 72) -> str:
    """Return a line that names the memory: its title, otherwise the beginning of its text."""
    said = "" if title else beginning(content, HEAD)
    line = title or next((" ".join(line.split()) for line in said.splitlines() if line.strip()), "(empty)")
    return shortened(line, limit)


def edge_view(other: NodeRow, edge: EdgeRow | NoteLink) -> Edge:
    """Return an edge, stored or about to be written, as seen from one end; `other` is the node at the opposite end."""
    return Edge(
        other.id, other.short_id, edge.edge.value, edge.weight, headline(other.title, other.content), iso(edge.created),
        edge.reason,
    )  # fmt: skip


def edge_views(index: Reader, edges: list[EdgeRow], *, incoming: bool) -> list[Edge]:
    ends = [edge.source if incoming else edge.target for edge in edges]
    rows = index.notes(ends, connections=False)
    return [edge_view(rows[end], edge) for edge, end in zip(edges, ends, strict=True) if end in rows]


def node_view(
    index: Reader, row: NodeRow, as_of: AsOf | UnsetType = UNSET, older_than: str | None = None
) -> NodeResult:
    """Return a node with its connections from `index`. `as_of`: the earlier state that this index is of, if any.
    `older_than`: id of the memory that seems to replace this one."""
    out, incoming = index.edges(row.id)
    connections = Connections(edge_views(index, out, incoming=False), edge_views(index, incoming, incoming=True))
    strength = row.strength
    return NodeResult(
        text=_prose(row, connections, older_than), node_id=row.id, id=row.id, short_id=short_id(row.id), type=row.type.value,
        tier=row.tier.value, space=row.space, title=row.title, content=row.content, tags=list(row.tags),
        source=row.source, confidence=row.confidence, created=iso(row.created) or "", updated=iso(row.updated) or "",
        valid_until=iso(row.valid_until), outdated_reason=row.outdated_reason, importance=strength.importance,
        access_count=strength.access_count, use_count=strength.use_count, last_accessed=iso(strength.last_accessed),
        last_review=iso(strength.last_review), stability=strength.stability, path=row.path, digest=row.digest,
        connections=connections, as_of=as_of, older_than=older_than, said_in=row.said_in,
    )  # fmt: skip


def _prose(row: NodeRow, connections: Connections, older_than: str | None) -> str:
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
    lines += ["", row.content]
    if connections.out or connections.incoming:
        lines += ["", "Connections:"]
        lines += [
            f"  -> {edge.edge} {edge.title} ({edge.short_id}, weight {edge.weight:g})" for edge in connections.out
        ]
        lines += [
            f"  <- {edge.edge} {edge.title} ({edge.short_id}, weight {edge.weight:g})" for edge in connections.incoming
        ]
    return "\n".join(lines)


def says_nothing(me: NodeRow) -> bool:
    """Return whether the self node has no content beyond the text it was created with."""
    text = " ".join(me.content.split())
    return text.endswith(SELF_TEXT) or text in {"", " ".join((me.title or "").split())}


def replaced_today(ormah: Ormah, ids: Sequence[str]) -> dict[str, str]:
    """Return older id -> newer id for those of the memories `ids` that a valid newer memory seems to replace. Recall
    marks the same memories as replaced."""
    chosen = Filter(alive_at=ormah.ranking_clock())
    return replaced_of_all(ormah.index, ids, chosen, ormah.learned.both_hold, ormah.reworded)


NOTHING: Final = ("; nothing was changed", "; nothing was taken in")
"""Endings of error messages, which `saying` removes if something was changed before."""


@contextmanager
def saying(
    done: Callable[[], str], *, hint: Callable[[], str] = lambda: "", **data: Callable[[], Any]
) -> Iterator[None]:
    """Context manager: if the block raises an OrmahError, add to it what had been done before.

    `done`: returns that as a clause; if it is empty, the error stays as it is. `hint`: returns what goes before the
    error's own hint. `data`: key -> function that returns the value to add to the error's data.
    """
    try:
        yield
    except OrmahError as exc:
        said = done()
        if said:
            message = exc.message
            for nothing in NOTHING:
                message = message.replace(nothing, "")
            exc.message = f"{message}; {said}"
            exc.args = (exc.message,)
            exc.hint = "; ".join(filter(None, [hint(), exc.hint])) or None
            exc.data |= {name: value() for name, value in data.items()}
        raise
