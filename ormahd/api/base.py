"""Types of every call and reply, values that several methods share, and the types of the lists (`agent.list` and
others).

Unset and null differ where a field can be cleared: unset leaves it, null clears it. `space` unset means "detect it from
the caller's `cwd`", null means global. Ids in parameters may be any unique prefix of 4 or more characters. Times are
ISO 8601 strings; a bare date in `created_before` includes that day.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from msgspec import UNSET, Meta, Struct, UnsetType, field

PROTOCOL: Final = 1
"""Raised when an old client can no longer talk to a new daemon."""


Count = Annotated[int, Meta(ge=1, le=10_000)]
LineNumber = Annotated[int, Meta(ge=1, le=2**53)]


class Params(Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    pass


class Result(Struct, kw_only=True):
    pass


# ---------------------------------------------------------------- envelope


class Call(Struct, kw_only=True, omit_defaults=True):
    """A request. `agent` is who asks (`claude-code`, `person`), `cwd` is from where (an absolute path). `session`:
    the agent's session as its hooks name it; then the project is the one that this session began in, not that of `cwd`."""

    method: str
    id: int | str | None = None
    params: Any = {}
    """A map on its way; read by the daemon into the method's own Struct of parameters."""
    agent: str | None = None
    cwd: str | None = None
    session: str | None = None


class ErrorBody(Struct, kw_only=True):
    code: str
    message: str
    hint: str | None = None
    data: dict[str, Any] = {}


class Progress(Struct, kw_only=True):
    """`total` 0: not known. `stage` is a word for people: reading, embedding, indexing."""

    done: int
    total: int
    stage: str


class Reply(Struct, kw_only=True):
    """Exactly one of `result`, `error` and `progress` is there; progress frames come before the last one."""

    id: int | str | None = None
    result: Any = UNSET
    error: ErrorBody | UnsetType = UNSET
    progress: Progress | UnsetType = UNSET


# ---------------------------------------------------------------- values


class Near(Result):
    """A memory that exists already, close in meaning to one that was just written; `content` is its beginning."""

    id: str
    short_id: str
    title: str | None
    type: str
    space: str | None
    content: str
    created: str
    similarity: float
    """Cosine."""
    standing: str = "unrelated"
    """What the words show: the new memory `replaced` it, `both` hold, they say the `same`, or they are `unrelated`."""


class Edge(Result):
    """One connection as seen from a node: `id` is the other end."""

    id: str
    short_id: str
    edge: str
    weight: float
    title: str | None = None
    created: str | None = None
    reason: str | None = None


class Connections(Result):
    out: list[Edge] = []
    incoming: list[Edge] = field(default_factory=list, name="in")


class Link(Params):
    target: str
    edge: str = "related_to"
    weight: float = 0.5
    reason: str | None = None


# ---------------------------------------------------------------- hello


class HelloParams(Params):
    client: str = ""
    protocol: int = PROTOCOL


class HelloResult(Result):
    version: str
    protocol: int
    capabilities: list[str]
    vault: str
    vault_id: str
    phase: str


class NoParams(Params):
    pass


class ListParams(Params):
    """The newest memories. Nothing is searched, and nothing counts as used."""

    limit: Count = 20
    types: list[str] | None = None
    tiers: list[str] | None = None
    spaces: list[str] | None = None
    """The word `global` stands for memories without a space."""
    tags: list[str] | None = None
    created_after: str | None = None
    created_before: str | None = None


class ListedMemory(Result):
    id: str
    short_id: str
    title: str
    """Its title, else the beginning of its text."""
    type: str
    tier: str
    space: str | None
    tags: list[str]
    content: str
    """The first 400 characters."""
    created: str
    updated: str
    valid_until: str | None
    """In the past: it is outdated."""
    origin: str
    path: str


class ListResult(Result):
    memories: list[ListedMemory]
    """Newest first; outdated and archived ones too."""
    total: int
    """How many fit."""
    spaces: dict[str, int]
    """Every space of the vault with its number of memories, whatever was asked for."""


class WhispersParams(Params):
    """Prompts and what was whispered for them, as far as the log has them (`whisper.keep_days`)."""

    since: str | None = None
    """ISO 8601; a bare date is its beginning."""
    before: str | None = None
    """A bare date is its end."""
    space: str | None = None
    """Only prompts from this space; `global`: from none."""
    limit: Count = 50


class WhisperedMemory(Result):
    id: str
    short_id: str
    title: str | None
    """Null: it is gone by now."""
    shown: str
    """`full`, `title`, `preference` or `exploring`."""
    relevance: float


class WhisperedPrompt(Result):
    event: str
    """By which `agent.feedback` names this whisper."""
    time: str
    agent: str
    session_id: str | None
    space: str | None
    prompt: str
    """The first 400 characters, without secrets."""
    silence: str | None
    """Why nothing was said; null: something was."""
    milliseconds: float
    memories: list[WhisperedMemory]


class WhispersResult(Result):
    whispers: list[WhisperedPrompt]
    """Newest first."""


class ListedSpace(Result):
    space: str | None
    """Null: memories of no project."""
    memories: int
    projects: list[str]
    """What its project is known by: host and path of its remote, else `root:` and its first commit, else `folder:` and its path."""


class SpacesResult(Result):
    spaces: list[ListedSpace]
    """The largest first."""
    here: str | None
    """The caller's space; null: it is in no project."""
    project: str | None
    """What the caller's project is known by."""


class AssignSpaceParams(Params):
    """From now on the caller's project belongs to this space. Memories stay in the space that they have."""

    space: str


class AssignSpaceResult(Result):
    space: str
    key: str
    """What the project is known by."""


LOOKING: Final[dict[str, tuple[type[Params], type[Result]]]] = {
    "agent.list": (ListParams, ListResult),
    "agent.whispers": (WhispersParams, WhispersResult),
    "agent.spaces": (NoParams, SpacesResult),
    "agent.assign_space": (AssignSpaceParams, AssignSpaceResult),
}
