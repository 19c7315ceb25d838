"""Types of `agent.work`: what agents did in archived sessions."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from ormahd.api.agent import Exchange
from ormahd.api.base import Count, Params, Result


class WorkParams(Params):
    kind: Literal["how", "fix", "file"]
    """`how`: commands that worked for what `query` says. `fix`: what followed an error like `query` until it worked. `file`:
    what was said and decided about the file that `query` names."""
    query: str
    space: str | UnsetType | None = UNSET
    """The project; absent: the caller's; null: all projects."""
    limit: Count = 5


class WorkedCommand(Result):
    command: str
    worked: int
    """How often it ran with success."""
    failed: int
    last: str
    """When it last ran with success."""
    asked: str
    """The beginning of the prompt under which it ran."""
    session: str
    turn: int
    seconds: float | None
    """How long it took, if the transcript says it and that was a second or more."""


class KnownFix(Result):
    """An error that occurred, and what was done until the command no longer gave it."""

    error: str
    command: str
    """The command that failed."""
    time: str
    commands: list[str]
    """What ran in between and worked; the last one is the command that then worked, if it is another one."""
    files: list[str]
    """The files that were edited in between."""
    worked: bool
    """Whether the command then worked; otherwise it gave another error."""
    asked: str
    session: str
    turn: int


class NamingMemory(Result):
    """A memory that names a file."""

    node_id: str
    short_id: str
    type: str
    title: str


class WorkResult(Result):
    text: str
    commands: list[WorkedCommand] = []
    """Answers `how`, best first."""
    fixes: list[KnownFix] = []
    """Answers `fix`, best first."""
    exchanges: list[Exchange] = []
    """Answers `file`: under these prompts it was edited; newest first."""
    memories: list[NamingMemory] = []
    """Answers `file`."""


class WhereResult(Result):
    """Where the last session in a project stopped; all fields are null or empty if there was none."""

    session: str | None = None
    harness: str | None = None
    time: str | None = None
    request: str | None = None
    """The beginning of what was asked last."""
    files: list[str] = []
    """Files that were edited, the last one first."""
    command: str | None = None
    """The last command that failed and did not work later, and the first line of its `error`."""
    error: str | None = None
    question: str | None = None
    """The question with which the agent's last answer ended."""
    branch: str | None = None
    """The branch that is checked out in the project now."""
