"""The values that the index returns: nodes, edges, file states, and the filter that searches take.

Times are stored as microseconds since 1970 (UTC), so that they can be compared and loaded without parsing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from ormahd.model.node import ABOUT_SELF, Connection, EdgeType, MemoryNode, NodeType, Strength, Tier, short_id
from ormahd.note.note import NoteKind
from ormahd.process import sql

T = TypeVar("T")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
UNWRITTEN = f"('{NoteKind.INDEXED}', '{NoteKind.BROKEN}')"
"""The kinds of memories whose files Ormah never writes to, as a list in SQL."""
GLOBAL = "global"
"""The name, in a filter of spaces, for memories without a space."""


def micros(time: datetime) -> int:
    """Return microseconds since 1970. A time without a zone is taken as UTC."""
    return ((time.replace(tzinfo=UTC) if time.tzinfo is None else time) - _EPOCH) // _MICROSECOND


def moment(value: int) -> datetime:
    return _EPOCH + timedelta(microseconds=value)


def moment_or_none(value: int | None) -> datetime | None:
    return None if value is None else moment(value)


class EdgeRow(Struct, frozen=True):
    """A resolved edge: both ends are nodes of this vault."""

    source: str
    target: str
    edge: EdgeType
    weight: float
    created: datetime | None
    reason: str | None
    body: bool
    """True for a wikilink in the note's body, which only the person changes."""


class Unresolved(Struct, frozen=True):
    """A link that matches no node, or several."""

    source: str
    edge: EdgeType
    text: str
    body: bool


_DEFAULT_STRENGTH = Strength()


class NodeRow(Struct, frozen=True):
    """A node as the index holds it: every field of `MemoryNode`, and the file that it comes from.

    A plain struct, because one search makes hundreds of them; `node` converts it to a `MemoryNode`.
    """

    id: str
    type: NodeType
    tier: Tier
    space: str | None
    title: str | None
    content: str
    tags: tuple[str, ...]
    aliases: tuple[str, ...]
    source: str
    connections: tuple[Connection, ...]
    confidence: float
    created: datetime
    updated: datetime
    valid_until: datetime | None
    outdated_reason: str | None
    path: str
    digest: str
    """The sha256 of the bytes that this row was read from; a transaction compares it as `expect`."""
    strength: Strength = field(default=_DEFAULT_STRENGTH)
    lent: bool = False
    """Whether Ormah never writes to the note's file: it is only indexed, or cannot be read as a note."""

    @property
    def short_id(self) -> str:
        return short_id(self.id)

    @property
    def about_self(self) -> bool:
        return ABOUT_SELF in self.tags

    @property
    def last_accessed(self) -> datetime:
        return self.strength.last_accessed or self.created

    def expired(self, now: datetime) -> bool:
        return self.valid_until is not None and self.valid_until <= now

    @property
    def node(self) -> MemoryNode:
        """The row as a `MemoryNode`. It is not validated, because the note's parser did that."""
        return MemoryNode.model_construct(
            id=self.id, type=self.type, tier=self.tier, space=self.space, title=self.title, content=self.content,
            tags=list(self.tags), source=self.source, connections=list(self.connections), confidence=self.confidence,
            created=self.created, updated=self.updated, valid_until=self.valid_until,
            outdated_reason=self.outdated_reason, strength=self.strength,
        )  # fmt: skip


_CONFIDENCE = sql.exact("n.confidence")
NODE_COLUMNS = (
    "n.id", "n.type", "n.tier", "n.space", "n.title", "t.content", "n.tags", "n.aliases", "n.source", _CONFIDENCE, "n.created",
    "n.updated", "n.valid_until", "n.outdated_reason", "f.path", "n.digest",
    f"f.kind IN {UNWRITTEN}",
)  # fmt: skip
NODE_FROM = "node n JOIN text t USING (number) JOIN file f USING (number)"


def node_row(row: Sequence[Any], connections: Sequence[Connection], strength: Mapping[str, Strength]) -> NodeRow:
    """Make a NodeRow from a row of `NODE_COLUMNS`."""
    return NodeRow(
        id=row[0], type=NodeType(row[1]), tier=Tier(row[2]), space=row[3], title=row[4], content=row[5],
        tags=_texts(row[6]), aliases=_texts(row[7]), source=row[8],
        connections=tuple(connections), confidence=float(row[9]), created=moment(row[10]), updated=moment(row[11]),
        valid_until=moment_or_none(row[12]), outdated_reason=row[13], path=row[14], digest=row[15],
        strength=strength.get(row[0], _DEFAULT_STRENGTH), lent=bool(row[16]),
    )  # fmt: skip


def _texts(listed: str) -> tuple[str, ...]:
    return () if listed == "[]" else tuple(json.loads(listed))  # most lists are empty


class Candidate(Struct, frozen=True):
    """The fields of a node that ranking needs. Only some columns, because one search ranks hundreds of nodes."""

    id: str
    type: NodeType
    tier: Tier
    space: str | None
    title: str | None
    size: int
    """Number of characters of the content."""
    confidence: float
    created: int
    """Microseconds since 1970."""
    strength: Strength

    @property
    def accessed(self) -> int:
        """Time of the last use, or of creation if it was never used: microseconds since 1970."""
        last = self.strength.last_accessed
        return self.created if last is None else micros(last)


CANDIDATE_COLUMNS = ("n.id", "n.type", "n.tier", "n.space", "n.title", "length(t.content)", _CONFIDENCE, "n.created")


def candidate(row: Sequence[Any], strength: Mapping[str, Strength]) -> Candidate:
    """Make a Candidate from a row of `CANDIDATE_COLUMNS`."""
    node_id, kind, tier, space, title, size, confidence, created = row
    return Candidate(
        node_id,
        NodeType(kind),
        Tier(tier),
        space,
        title,
        size,
        float(confidence),
        created,
        strength.get(node_id, _DEFAULT_STRENGTH),
    )


class Filter(Struct, frozen=True):
    """Which nodes a search may return. None means any; an empty tuple lets no node pass."""

    types: tuple[NodeType, ...] | None = None
    tiers: tuple[Tier, ...] | None = None
    spaces: tuple[str, ...] | None = None
    """Names of spaces; "global" means nodes without a space."""
    tags: tuple[str, ...] | None = None
    """A node passes with any of these tags, ignoring case."""
    created_after: datetime | None = None
    created_before: datetime | None = None
    """`created_after` and `created_before` are inclusive."""
    alive_at: datetime | None = None
    """Excludes nodes that have expired by this time."""
    writable: bool = False
    """Excludes nodes whose files Ormah never writes to."""

    @property
    def empty(self) -> bool:
        return self == Filter()

    @property
    def narrow(self) -> bool:
        """Whether the filter has any condition besides `alive_at`."""
        return replace(self, alive_at=None) != Filter()

    def sql(self, alias: str = "n") -> tuple[str, list[Any]]:
        """Return a SQL condition on the node table under `alias`, and its parameters. No text from a caller gets into
        the SQL."""
        parts: list[str] = [f"{alias}.held = 1"]
        values: list[Any] = []
        for column, wanted in (("type", self.types), ("tier", self.tiers)):
            if wanted is not None:
                parts.append(f"{alias}.{column} IN ({sql.marks(wanted)})")
                values += [str(one) for one in wanted]
        if self.spaces is not None:
            named = [space for space in self.spaces if space.casefold() != GLOBAL]
            either = [f"{alias}.space IN ({sql.marks(named)})"] if named else []
            if len(named) < len(self.spaces):
                either.append(f"{alias}.space IS NULL")
            parts.append(f"({' OR '.join(either) or '0'})")
            values += named
        if self.tags is not None:
            parts.append(f"{alias}.number IN (SELECT number FROM tag WHERE tag IN ({sql.marks(self.tags)}))")
            values += [tag.casefold() for tag in self.tags]
        for sign, bound in ((">=", self.created_after), ("<=", self.created_before)):
            if bound is not None:
                parts.append(f"{alias}.created {sign} ?")
                values.append(micros(bound))
        if self.alive_at is not None:
            parts.append(f"({alias}.valid_until IS NULL OR {alias}.valid_until > ?)")
            values.append(micros(self.alive_at))
        if self.writable:
            parts.append(f"{alias}.number NOT IN (SELECT number FROM file WHERE kind IN {UNWRITTEN})")
        return " AND ".join(parts), values


class Stats(Struct, frozen=True):
    nodes: int
    by_tier: dict[str, int]
    by_type: dict[str, int]
    by_space: dict[str, int]
    """Number of nodes by space; those without a space under "global"."""
    edges: int
    unresolved: int
    plain: int
    """Number of files that are no nodes, such as templates, drawings, duplicates, and files that hold a secret."""
    pending: int
    """Number of nodes that wait for their vectors."""
    bytes: int
