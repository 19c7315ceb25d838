"""`agent.list`, `agent.whispers`, `agent.spaces`: lists to look through; and which space a project has."""

from __future__ import annotations

from typing import Final

from ormahd.api.base import Count, NoParams, Params, Result


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
