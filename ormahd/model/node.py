"""The values of a memory: types, tiers, edges, strength, and the requests that create, change and find memories."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from msgspec import UNSET, Struct
from msgspec.structs import asdict
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from ormahd.errors import BadRequest, fault

MAX_CONTENT = 1_000_000
"""Maximum number of characters of one memory. A longer text should be ingested, or put into the vault as a file."""
MAX_TITLE = 300
MAX_TAGS = 64
MAX_TAG = 100
MAX_SPACE = 100
MAX_QUERY = 20_000

_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class NodeType(StrEnum):
    """What a memory is about."""

    FACT = "fact"
    DECISION = "decision"
    PREFERENCE = "preference"
    EVENT = "event"
    PERSON = "person"
    PROJECT = "project"
    CONCEPT = "concept"
    PROCEDURE = "procedure"
    GOAL = "goal"
    OBSERVATION = "observation"


class Tier(StrEnum):
    """How close at hand a memory is."""

    CORE = "core"
    WORKING = "working"
    ARCHIVAL = "archival"


class EdgeType(StrEnum):
    """How one memory is connected to another."""

    SUPPORTS = "supports"
    PART_OF = "part_of"
    DEPENDS_ON = "depends_on"
    DEFINES = "defines"
    DERIVED_FROM = "derived_from"
    EVOLVED_FROM = "evolved_from"
    RELATED_TO = "related_to"
    CONTRADICTS = "contradicts"

    @property
    def activation_factor(self) -> float:
        """The factor on a score that spreads along an edge of this type (`search.fuse.activate`)."""
        return _ACTIVATION[self]


_ACTIVATION = {
    EdgeType.SUPPORTS: 1.0,
    EdgeType.PART_OF: 1.0,
    EdgeType.DEPENDS_ON: 1.0,
    EdgeType.DEFINES: 1.0,
    EdgeType.DERIVED_FROM: 1.0,
    EdgeType.EVOLVED_FROM: 0.8,
    EdgeType.RELATED_TO: 0.7,
    EdgeType.CONTRADICTS: 0.4,
}


class NoteStanding(StrEnum):
    """What became of the thing that a memory is about; none for most."""

    REJECTED = "rejected"


class NoteGuard(StrEnum):
    """What happens before an agent does what a memory names: the person is asked, or it is refused."""

    ASK = "ask"
    DENY = "deny"


MAX_GLOBS = 32
MAX_GLOB = 200


def glob_fault(text: str) -> str | None:
    """Return what is wrong with a glob of `paths` or `commands`; None for a valid one."""
    if len(text) > MAX_GLOB:
        return f"has {len(text)} characters, at most {MAX_GLOB} are allowed"
    if "\0" in text or "\n" in text:
        return "has to be on one line"
    return None if re.search(r"\w", text) else "names nothing: it needs a letter or a digit"


EVIDENCE = re.compile(r"(?P<path>[^\0\n@][^\0\n]{0,399})@(?P<blob>[0-9a-f]{40})")
"""Matches a file that a memory rests on: its path in the project, and git's id of its content at that time."""
MAX_EVIDENCE = 16


def evidence_fault(text: str) -> str | None:
    """Return what is wrong with an item of `evidence`; None for a valid one."""
    found = EVIDENCE.fullmatch(text)
    if found is None:
        return "is not of the form path@blob, with the 40 digits of git's id"
    path = found["path"]
    return "leads out of the project" if path.startswith(("/", "~")) or ".." in path.split("/") else None


def is_node_id(text: str) -> bool:
    """Return whether `text` is a full id in canonical form (lower-case UUID)."""
    return _ID.fullmatch(text) is not None


def short_id(node_id: str) -> str:
    """Return the first 8 characters of an id, which are unique within a vault."""
    return node_id[:8]


def _utc(value: datetime) -> datetime:
    """Return the time in UTC. A time without a zone is taken as UTC."""
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def _clean(text: str) -> str:
    """Return the text. Raises ValueError if it cannot be stored: a NUL character or a lone surrogate."""
    if "\x00" in text:
        raise ValueError("a NUL character cannot be stored; remove it")
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        raise ValueError("the text holds a lone surrogate; send it as valid Unicode") from exc
    return text


def _one_line(text: str) -> str:
    """Return the text on one line, with single spaces between its words. Raises ValueError as `_clean`."""
    return " ".join(_clean(text).split())


def _blank_is_none(value: Any) -> Any:
    """Return the value; None if it is a blank text."""
    return None if isinstance(value, str) and not value.strip() else value


Utc = Annotated[datetime, AfterValidator(_utc)]
Text = Annotated[str, AfterValidator(_clean)]
Line = Annotated[str, AfterValidator(_one_line)]
Share = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]
_Title = Annotated[str, Field(max_length=MAX_TITLE), AfterValidator(_one_line)]
Title = Annotated[_Title | None, BeforeValidator(_blank_is_none)]
Tag = Annotated[str, Field(min_length=1, max_length=MAX_TAG), AfterValidator(_one_line)]


def _space(value: str | None) -> str | None:
    """Return the name of a space; None for `global`. Raises ValueError for a name that is a special folder."""
    if value is None or value.casefold() == "global":
        return None
    if value in {".", ".."}:
        raise ValueError(f"{value!r} is no space; name a project, or leave it out")
    return value


def _glob(value: str) -> str:
    """Return the glob. Raises ValueError if it is invalid."""
    if fault := glob_fault(value):
        raise ValueError(f"{value[:40]!r} {fault}")
    return value


def _reason(value: str) -> str:
    """Return why a thing was rejected, on one line and without a leading "because". Raises ValueError if it is
    blank."""
    if not value.strip():
        raise ValueError("say why it was rejected")
    return re.sub("^because,? ", "", _one_line(value), flags=re.IGNORECASE)


def _evidence(value: str) -> str:
    """Return the item of evidence. Raises ValueError if it is invalid."""
    if fault := evidence_fault(value):
        raise ValueError(f"{value[:60]!r} {fault}")
    return value


Evidence = Annotated[
    list[Annotated[str, AfterValidator(_one_line), AfterValidator(_evidence)]], Field(max_length=MAX_EVIDENCE)
]
Globs = Annotated[list[Annotated[str, AfterValidator(_one_line), AfterValidator(_glob)]], Field(max_length=MAX_GLOBS)]
Reason = Annotated[str, Field(max_length=2_000), AfterValidator(_reason)]
_Space = Annotated[str, Field(max_length=MAX_SPACE), AfterValidator(_one_line)]
Space = Annotated[_Space | None, BeforeValidator(_blank_is_none), AfterValidator(_space)]


class CheckedModel(BaseModel):
    """Base class of models that validate their values. The validators are built on first use, or by `build`."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    @classmethod
    def of(cls, given: Struct | Mapping[str, Any], **more: Any) -> Self:
        """Return a model with the fields of `given`, overridden by `more`. Fields of a Struct that this model lacks, or
        that are unset, are ignored.

        Raises:
            BadRequest: a value is invalid; the message names the field, its value and what is allowed.
        """
        if isinstance(given, Struct):
            fields = {name: value for name, value in asdict(given).items() if value is not UNSET}
            given = {name: value for name, value in fields.items() if name in cls.model_fields}
        try:
            return cls.model_validate({**given, **more})
        except ValidationError as exc:
            found = fault(exc, cls.model_fields)
            raise BadRequest(str(found), hint=found.hint, data={"field": found.key}) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Strength:
    """How a node was used, from `.ormah/strength.jsonl`. A dataclass with slots, to save RAM: there is one per
    node."""

    importance: Share = 0.5
    access_count: Count = 0
    """How often it was found or opened."""
    use_count: Count = 0
    """Number of these accesses that were confirmed uses: the memory was opened, or judged useful."""
    last_accessed: Utc | None = None
    last_review: Utc | None = None
    stability: Annotated[float, Field(ge=0.0, allow_inf_nan=False)] = 0.0
    """Days until retrievability falls to about 37 %; 0 means never reviewed."""


ABOUT_SELF = "about_self"
"""Tag of memories about the user; full text search adds it if a query says "me", "my" and the like."""


class LinkRequest(CheckedModel):
    """An edge requested by a caller; `target` may be any unique prefix of an id with 4 or more characters."""

    target: Line
    edge: EdgeType = EdgeType.RELATED_TO
    weight: Share = 0.5
    reason: Text | None = None


class CreateNodeRequest(CheckedModel):
    """The parameters of `remember` and of a line of `import`."""

    content: Annotated[str, Field(max_length=MAX_CONTENT), AfterValidator(_clean)]
    type: NodeType = NodeType.FACT
    tier: Tier = Tier.WORKING
    source: Annotated[str, Field(max_length=200), AfterValidator(_one_line)] = "agent:unknown"
    space: Space = None
    tags: Annotated[list[Tag], Field(max_length=MAX_TAGS)] = []
    connections: Annotated[list[LinkRequest], Field(max_length=200)] = []
    title: Title = None
    about_self: bool = False
    confidence: Share = 1.0
    rejected: Reason | None = None
    """Why the thing that the memory is about was tried and rejected; None if it was not."""
    paths: Globs = []
    commands: Globs = []
    guard: NoteGuard | None = None
    evidence: Evidence = []
    created: Utc | None = None
    """Set only by import and ingestion; None means now."""
    everywhere: bool = Field(default=False, alias="global")
    """True if the caller asked for a global memory; then no job assigns a space to it."""

    @field_validator("content")
    @classmethod
    def _not_blank(cls, value: str) -> str:
        """Return the content. Raises ValueError if it is blank."""
        if not value.strip():
            raise ValueError("an empty memory cannot be stored")
        return value


class ChangeNodeRequest(CheckedModel):
    """The fields that `update` can set. Only those that were given count."""

    content: Text = ""
    type: NodeType = NodeType.FACT
    tier: Tier = Tier.WORKING
    space: Space = None
    title: Title = None
    tags: list[Tag] = []
    confidence: Share = 1.0
    valid_until: Utc | None = None
    rejected: Reason | None = None
    paths: Globs = []
    commands: Globs = []
    guard: NoteGuard | None = None
    evidence: Evidence = []


class Narrowing(CheckedModel):
    """Filters of a search or list. A field that is None does not filter."""

    types: list[NodeType] | None = None
    tiers: list[Tier] | None = None
    spaces: list[str] | None = None
    """Spaces to keep; "global" stands for memories without a space."""
    tags: list[str] | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None

    @field_validator("created_after", "created_before", mode="before")
    @classmethod
    def _whole_day(cls, value: Any, info: Any) -> Any:
        """Return a bare date as the begin or the end of that day: `created_before=2026-11-21` includes all of that day.
        Any other value is returned unchanged."""
        if isinstance(value, str) and re.fullmatch(r"\d{4}-\d{2}-\d{2}", value.strip()):
            end = info.field_name == "created_before"
            return f"{value.strip()}T23:59:59.999999" if end else f"{value.strip()}T00:00:00"
        return value

    @field_validator("created_after", "created_before")
    @classmethod
    def _as_utc(cls, value: datetime | None) -> datetime | None:
        """Return the time in UTC. A time without a zone is in the time zone of this machine."""
        return None if value is None else value.astimezone(UTC)  # without a zone: the person's


_SEARCHABLE = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo", "Nd", "Nl", "No", "So", "Co"})
"""Unicode's categories of characters that can be searched for: letters, digits, and pictures such as ♥. A query
without any of them is refused: a search by vectors would return unrelated memories for it."""


class SearchQuery(Narrowing):
    """The parameters of `recall`."""

    query: Annotated[str, Field(max_length=MAX_QUERY), AfterValidator(_clean)]
    limit: int = Field(default=10, ge=1, le=100)
    session_id: str | None = None

    @field_validator("query")
    @classmethod
    def _query_not_blank(cls, value: str) -> str:
        """Return the query. Raises ValueError if it has no character that can be searched for."""
        if not value.strip():
            raise ValueError("an empty query finds nothing; say what to look for")
        if not any(unicodedata.category(char) in _SEARCHABLE for char in value):
            raise ValueError("a query without a letter or digit finds nothing; say what to look for")
        return value


class ProposalType(StrEnum):
    """What a proposal changes."""

    MERGE = "merge"
    CONFLICT = "conflict"
    DECAY = "decay"
    MEMORY = "memory"
    """The proposal is a new memory; no existing memory is concerned."""


Found = Literal["search", "activated", "conflict", "temporal"]
"""How a result was found: by search, along an edge, along a contradiction, by time."""


def build() -> None:
    """Build the validators of all models now, so that no request waits for this."""
    waiting = CheckedModel.__subclasses__()
    while waiting:
        model = waiting.pop()
        model.model_rebuild()
        waiting += model.__subclasses__()


def read_time(value: Any) -> datetime | None:
    """Return the time of an ISO text with a zone, in UTC; None for anything else."""
    if not isinstance(value, str):
        return None
    try:
        date = datetime.fromisoformat(value)
        return date.astimezone(UTC) if date.tzinfo else None
    except (ValueError, OverflowError):
        return None


def write_time(date: datetime, timespec: str) -> str:
    """Return the time as ISO text in UTC with a `Z`; `timespec` as in `datetime.isoformat`."""
    return date.astimezone(UTC).isoformat(timespec=timespec).replace("+00:00", "Z")
