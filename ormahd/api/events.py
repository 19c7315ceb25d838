"""Types of `events.subscribe`: what happens in the daemon, as a stream of events."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from ormahd.api.base import Params, Result

EventKind = Literal["write", "edit", "outside", "whisper", "job", "health"]


class SubscribeParams(Params):
    """Subscribe to events. They follow the reply on the same connection, until either side closes it."""

    after: str | None = None
    """The id of the last event that the client knows, to get the later ones first. Null: only new events."""
    only: list[EventKind] | None = None
    """The kinds of events to send; null: all."""


class SubscribeResult(Result):
    """The reply, before the first event."""

    last: str
    """The id after which events are sent. A client that reconnects sends it, or the id of a later event, as `after`."""
    refetch: bool
    """True if events after `after` are no longer known, because the daemon was restarted or kept too few: the client
    must fetch again what it shows. Only new events follow."""


class MemoryEvent(Struct, kw_only=True, omit_defaults=True):
    """Something that happened. Which fields are set depends on `event`.

    - `write`: an op by an agent, a job, or a command of the person.
    - `edit`: an op that committed what a person did to files.
    - `outside`: the files changed without an op, as by `git pull`.
    - `whisper`: a prompt was answered.
    - `job`: a job began or ended.
    - `health`: the daemon's phase, or what is degraded, changed.
    """

    id: str
    """Later events have greater numbers after the dot. Before it stands a random word for this run of the daemon."""
    time: str
    event: EventKind
    op: str | None = None
    commit: str | None = None
    kind: str | None = None
    """The kind of the op: `remember`, `merge`, `undo` and others, as in `history.list`."""
    source: str | None = None
    """Who caused it: `agent:claude-code`, `job:auto_linker`, `person`."""
    subject: str | None = None
    nodes: list[str] = []
    """Ids of the memories that changed, or that were whispered; at most 100."""
    files: int | None = None
    """Number of files that changed."""
    whisper: str | None = None
    """The id by which `agent.feedback` names the whisper."""
    silence: str | None = None
    """The reason why nothing was whispered."""
    space: str | None = None
    """The space of the prompt."""
    milliseconds: float | None = None
    job: str | None = None
    run: str | None = None
    state: str | None = None
    """Of a job: `began` or `ended`."""
    proposals: int | None = None
    applied: int | None = None
    error: str | None = None
    phase: str | None = None
    degraded: list[str] | None = None
    warnings: list[str] | None = None
