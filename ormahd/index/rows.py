"""The values that the index returns (nodes, edges, statistics), and its filters.

Times are stored as microseconds since 1970 (UTC), so that they can be compared and loaded without parsing.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from ormahd.model.node import ABOUT_SELF, EdgeType, NodeType, NoteGuard, Strength, Tier, short_id
from ormahd.note.values import NoteKind
from ormahd.process import sql
from ormahd.text.traits import BEGINNING, ENDING, Traits, traits

T = TypeVar("T")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
UNWRITTEN = f"('{NoteKind.SOURCE}', '{NoteKind.BROKEN}')"
"""The kinds of memories whose files Ormah never writes to, as a list in SQL."""
GLOBAL = "global"
"""The name, in a filter of spaces, for memories without a space."""


def micros(time: datetime) -> int:
    """Return microseconds since 1970. A time without a zone is taken as UTC."""
    return ((time.replace(tzinfo=UTC) if time.tzinfo is None else time) - _EPOCH) // _MICROSECOND


def moment(value: int) -> datetime:
    """Return the time that is `value` microseconds after 1970, in UTC."""
    return _EPOCH + timedelta(microseconds=value)


def moment_or_none(value: int | None) -> datetime | None:
    """Return the time that is `value` microseconds after 1970; None for None."""
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
    """A link or edge of the note `source` whose text matches no node, or several."""

    source: str
    edge: EdgeType
    text: str
    body: bool


class Acts(Struct, frozen=True, omit_defaults=True):
    """What a note says of actions."""

    because: str | None = None
    """Why it was tried and rejected, "" if the note does not say it; None if it was not."""
    guard: NoteGuard | None = None
    paths: tuple[str, ...] = ()
    """Globs of files, and `commands` of commands, that the note's properties have."""
    commands: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    """Globs of files, `patterns` of commands, and `things` that were rejected, as the text names them
    (`text.bearing`)."""
    patterns: tuple[str, ...] = ()
    things: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    """Files that the memory rests on, each as `path@blob`."""


NO_ACTS = Acts()
_DEFAULT_STRENGTH = Strength()


class NodeRow(Struct, frozen=True):
    """A node as read from the index, with the path and digest of its file."""

    id: str
    type: NodeType
    tier: Tier
    space: str | None
    title: str | None
    content: str
    tags: tuple[str, ...]
    aliases: tuple[str, ...]
    source: str
    confidence: float
    created: datetime
    updated: datetime
    valid_until: datetime | None
    outdated_reason: str | None
    path: str
    digest: str
    """The sha256 of the file's bytes from which this row was read. Given to a transaction as `expect`, it prevents that
    a later version of the file is overwritten."""
    strength: Strength = field(default=_DEFAULT_STRENGTH)
    unwritten: bool = False
    """Whether Ormah never writes to the file: it is one of a source, or cannot be read as a note."""
    said_in: str | None = None
    """`<session>#<turn>`: the turn of an archived session from which the memory was extracted; None if it was not
    extracted."""
    acts: Acts = NO_ACTS
    stale: str | None = None
    """What is said of its evidence, if that has changed since, as `actions.evidence` finds it out."""

    @property
    def rejected(self) -> str | None:
        """What is shown of a memory whose matter was tried and rejected; None for others."""
        if self.acts.because is None:
            return None
        day = self.created.astimezone()
        why = f": {self.acts.because}" if self.acts.because else ""
        return f"tried and rejected ({day.day} {day:%b %Y}){why}"

    @property
    def paths(self) -> tuple[str, ...]:
        """Globs of files in the note's properties, see `Acts`."""
        return self.acts.paths

    @property
    def commands(self) -> tuple[str, ...]:
        """Globs of commands in the note's properties."""
        return self.acts.commands

    @property
    def evidence(self) -> tuple[str, ...]:
        """Files that the memory rests on, each as `path@blob`."""
        return self.acts.evidence

    @property
    def guard(self) -> NoteGuard | None:
        """What happens before an agent does what the memory names; None: nothing."""
        return self.acts.guard

    @property
    def short_id(self) -> str:
        """The first eight characters of the id."""
        return short_id(self.id)

    @property
    def from_source(self) -> bool:
        """Whether this is a section of a file in one of the person's folders, and no memory of the vault."""
        return self.path.startswith("/")

    @property
    def about_self(self) -> bool:
        """Whether its tags say that it is about the person."""
        return ABOUT_SELF in self.tags

    @property
    def last_accessed(self) -> datetime:
        """When it was last used, or when it was created if it was never used."""
        return self.strength.last_accessed or self.created

    def expired(self, now: datetime) -> bool:
        """Return whether the memory is no longer valid at the time `now`."""
        return self.valid_until is not None and self.valid_until <= now


_CONFIDENCE = sql.exact("n.confidence")
NODE_COLUMNS = f"""n.id, n.type, n.tier, n.space, n.title, t.content, n.tags, n.aliases, n.source, {_CONFIDENCE}, n.created,
    n.updated, n.valid_until, n.outdated_reason, f.path, n.digest, f.kind IN {UNWRITTEN}, n.said_in, n.acts"""
NODE_FROM = "node n JOIN text t USING (number) JOIN file f USING (number)"


def node_row(row: Sequence[Any], strength: Mapping[str, Strength]) -> NodeRow:
    """Make a NodeRow from a row of `NODE_COLUMNS`."""
    return NodeRow(
        id=row[0],
        type=NodeType(row[1]),
        tier=Tier(row[2]),
        space=row[3],
        title=row[4],
        content=row[5],
        tags=_text_list(row[6]),
        aliases=_text_list(row[7]),
        source=row[8],
        confidence=float(row[9]),
        created=moment(row[10]),
        updated=moment(row[11]),
        valid_until=moment_or_none(row[12]),
        outdated_reason=row[13],
        path=row[14],
        digest=row[15],
        strength=strength.get(row[0], _DEFAULT_STRENGTH),
        unwritten=bool(row[16]),
        said_in=row[17],
        acts=NO_ACTS if row[18] is None else read_acts(row[18]),
    )


read_acts: Callable[[str], Acts] = msgspec.json.Decoder(Acts).decode


def _text_list(listed: str) -> tuple[str, ...]:
    """Return the strings of a JSON list."""
    return () if listed == "[]" else tuple(json.loads(listed))  # most lists are empty


class CandidateRow(Struct, frozen=True):
    """The fields of a node that ranking needs. It has fewer than `NodeRow`, because one search ranks hundreds of
    nodes."""

    id: str
    type: NodeType
    tier: Tier
    space: str | None
    title: str | None
    size: int
    """Number of characters of the content."""
    from_source: bool
    """See `NodeRow.from_source`."""
    confidence: float
    created: int
    """Microseconds since 1970."""
    traits: Traits
    strength: Strength

    @property
    def accessed(self) -> int:
        """Time of the last use, or of creation if it was never used: microseconds since 1970."""
        last = self.strength.last_accessed
        return self.created if last is None else micros(last)


SOURCE_PREFIX = "source:"
"""Beginning of the `source` of the sections of a folder of the person; the name of the folder follows."""
FROM_SOURCE = f"substr(n.source, 1, {len(SOURCE_PREFIX)}) = '{SOURCE_PREFIX}'"
CANDIDATE_COLUMNS = f"""n.id, n.type, n.tier, n.space, n.title, length(t.content), {FROM_SOURCE}, {_CONFIDENCE}, n.created,
    substr(t.content, 1, {BEGINNING}), substr(t.content, -{ENDING})"""


_traits = functools.lru_cache(20_000)(traits)


def candidate(row: Sequence[Any], strength: Mapping[str, Strength]) -> CandidateRow:
    """Make a CandidateRow from a row of `CANDIDATE_COLUMNS`."""
    node_id, kind, tier, space, title, size, from_source, confidence, created, beginning, ending = row
    return CandidateRow(
        id=node_id,
        type=NodeType(kind),
        tier=Tier(tier),
        space=space,
        title=title,
        size=size,
        from_source=bool(from_source),
        confidence=float(confidence),
        created=created,
        traits=_traits(beginning, ending),
        strength=strength.get(node_id, _DEFAULT_STRENGTH),
    )


class Filter(Struct, frozen=True):
    """The conditions that a node must meet to be returned by a search. None is no condition; with an empty tuple, no
    node passes."""

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
    sources_of: tuple[str | None, ...] | None = None
    """Of the sections of the person's folders, only those in these spaces pass; None in it stands for global ones."""

    @property
    def empty(self) -> bool:
        """Whether every node passes."""
        return self == Filter()

    @property
    def narrow(self) -> bool:
        """Whether the filter has any condition besides `alive_at`."""
        return replace(self, alive_at=None) != Filter()

    def sql(self) -> tuple[str, list[Any]]:
        """Return a SQL condition on the node table under the alias `n`, and its parameters. No text from a caller gets
        into the SQL."""
        parts: list[str] = ["n.held = 1"]
        values: list[Any] = []
        for column, wanted in (("type", self.types), ("tier", self.tiers)):
            if wanted is not None:
                parts.append(f"n.{column} IN ({sql.marks(wanted)})")
                values += [str(value) for value in wanted]
        if self.spaces is not None:
            named = [space for space in self.spaces if space.casefold() != GLOBAL]
            either = [f"n.space IN ({sql.marks(named)})"] if named else []
            if len(named) < len(self.spaces):
                either.append("n.space IS NULL")
            parts.append(f"({' OR '.join(either) or '0'})")
            values += named
        if self.tags is not None:
            parts.append(f"n.number IN (SELECT number FROM tag WHERE tag IN ({sql.marks(self.tags)}))")
            values += [tag.casefold() for tag in self.tags]
        for sign, bound in ((">=", self.created_after), ("<=", self.created_before)):
            if bound is not None:
                parts.append(f"n.created {sign} ?")
                values.append(micros(bound))
        if self.alive_at is not None:
            parts.append("(n.valid_until IS NULL OR n.valid_until > ?)")
            values.append(micros(self.alive_at))
        if self.writable:
            parts.append(f"n.number NOT IN (SELECT number FROM file WHERE kind IN {UNWRITTEN})")
        if self.sources_of is not None:
            named = [space for space in self.sources_of if space is not None]
            anywhere = " OR n.space IS NULL" if None in self.sources_of else ""
            parts.append(f"(NOT {FROM_SOURCE} OR n.space IN ({sql.marks(named)}){anywhere})")
            values += named
        return " AND ".join(parts), values


MEMORIES = Filter(sources_of=())
"""All memories, without the sections of the person's folders."""


class SourceRow(Struct, frozen=True):
    """A section of a file in a folder of the person, as the index has it. `path`: the file's absolute path, `:` and the
    section's line."""

    path: str
    size: int
    mtime_ns: int
    inode: int
    digest: str
    node_id: str
    space: str | None
    source: str

    @property
    def file(self) -> str:
        """The file's absolute path, without the section's line."""
        return self.path.rpartition(":")[0]


class Stats(Struct, frozen=True):
    """Counts of what the index holds."""

    nodes: int
    by_tier: dict[str, int]
    by_type: dict[str, int]
    by_space: dict[str, int]
    """Space -> number of its nodes. Nodes without a space are counted under "global"."""
    by_edge: dict[str, int]
    by_tag: dict[str, int]
    """The most used tags, most used first."""
    edges: int
    plain: int
    """Number of files that are no nodes, such as templates, drawings, duplicates, and files that hold a secret."""
