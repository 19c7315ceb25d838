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
"""The protocol's version. It is raised when an older client can no longer talk to a newer daemon."""


CHECK_SESSION: Final = "ormahctl-setup"
"""The session id of a prompt by which `ormahctl setup` checks a hook. The answer says that it came; nothing is logged."""

Count = Annotated[int, Meta(ge=1, le=10_000)]
LineNumber = Annotated[int, Meta(ge=1, le=2**53)]


class Params(Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    pass


class Result(Struct, kw_only=True):
    pass


# ---------------------------------------------------------------- envelope


class Call(Struct, kw_only=True, omit_defaults=True):
    """A request. `agent`: the caller (`claude-code`, `person`). `cwd`: the absolute path of the caller's working
    directory. `session`: the agent's session, as its hooks name it; if given, the caller's project is the one in which
    the session began, whatever `cwd` is.
    """

    method: str
    id: int | str | None = None
    params: Any = {}
    """A map when sent. The daemon decodes it into the Struct of the method's parameters."""
    agent: str | None = None
    cwd: str | None = None
    session: str | None = None


class ErrorBody(Struct, kw_only=True):
    code: str
    message: str
    hint: str | None = None
    data: dict[str, Any] = {}


class Progress(Struct, kw_only=True):
    """A report of progress. `total` 0: unknown. `stage`: a word for people (reading, embedding, indexing)."""

    done: int
    total: int
    stage: str


class Reply(Struct, kw_only=True):
    """An answer: exactly one of `result`, `error`, `progress` and `event` is set. Progress frames come before the last
    frame, events (`events.subscribe`) after it."""

    id: int | str | None = None
    result: Any = UNSET
    error: ErrorBody | UnsetType = UNSET
    progress: Progress | UnsetType = UNSET
    event: Any = UNSET
    """A `MemoryEvent`."""


# ---------------------------------------------------------------- values


class Near(Result):
    """An existing memory close in meaning to one that was just written. `content`: the beginning of its text."""

    id: str
    short_id: str
    title: str | None
    type: str
    space: str | None
    content: str
    created: str
    similarity: float
    """Cosine."""
    standing: str = "both"
    """The relation that the words show: the new memory `replaced` this one, they say the `same`, or `both` hold."""


class Edge(Result):
    """One connection of a node. `id`: the node at the other end."""

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
    """Parameters for a list of the newest memories. Nothing is searched, and nothing counts as used."""

    limit: Count = 20
    skip: Annotated[int, Meta(ge=0, le=10_000_000)] = 0
    """Number of the newest memories that are left out: those of the pages before."""
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
    """A time in the past means that the memory is outdated."""
    origin: str
    path: str
    rejected: str | None = None
    """`tried and rejected (12 Nov 2026): WHY`, if what it is about was."""


class ListResult(Result):
    memories: list[ListedMemory]
    """Newest first, with outdated and archived ones."""
    total: int
    """Number of memories that match."""
    spaces: dict[str, int]
    """Every space of the vault with its number of memories, also spaces that the filter excludes."""
    degraded: list[str] = []
    """`index` while the index may still lack memories of the vault: the answer is then not all of it."""


class WhispersParams(Params):
    """Parameters for a list of prompts and of what was whispered for them. The log goes back `whisper.keep_days`."""

    since: str | None = None
    """ISO 8601; a bare date means the start of that day."""
    before: str | None = None
    """ISO 8601; a bare date means the end of that day."""
    space: str | None = None
    """Only prompts from this space; `global`: only prompts without a space."""
    node_id: str | None = None
    """Only prompts for which this memory was whispered."""
    limit: Count = 50


class WhisperedMemory(Result):
    id: str
    short_id: str
    title: str | None
    """Null if the memory no longer exists."""
    shown: str
    """`full`, `title`, `preference` or `exploring`."""
    relevance: float
    heeded: bool = False
    """Whether the agent's reply shows that it used the memory."""


class WhisperedPrompt(Result):
    event: str
    """The id by which `agent.feedback` names this whisper."""
    time: str
    agent: str
    session_id: str | None
    space: str | None
    prompt: str
    """The first 400 characters, without secrets; empty for a session in a folder of `sessions.exclude`."""
    silence: str | None
    """The reason why nothing was whispered; null if something was."""
    milliseconds: float
    memories: list[WhisperedMemory]


class WhispersResult(Result):
    whispers: list[WhisperedPrompt]
    """Newest first."""


class ListedSpace(Result):
    space: str | None
    """Null for memories without a space."""
    memories: int
    projects: list[str]
    """The keys of its projects: host and path of the remote, else `root:` and the first commit, else `folder:` and the
    path."""


class SpacesResult(Result):
    spaces: list[ListedSpace]
    """Largest first."""
    here: str | None
    """The caller's space; null if the caller is in no project."""
    project: str | None
    """The key of the caller's project."""
    degraded: list[str] = []
    """`index` while the index may still lack memories of the vault: the answer is then not all of it."""


class AssignSpaceParams(Params):
    """Assign the caller's project to this space from now on. Memories stay in their space."""

    space: str


class AssignSpaceResult(Result):
    space: str
    key: str
    """The key of the project."""
