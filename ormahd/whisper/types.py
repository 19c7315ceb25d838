"""Values that pass between the stages of a whisper, see `pipeline`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from typing import Literal

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from ormahd.index.rows import NodeRow
from ormahd.model.node import Found, Tier

Float = NDArray[np.float32]

Display = Literal["full", "title", "preference", "exploring"]
"""How a memory is shown: with its content, by title, as a standing preference, or as an exploration to get feedback
on."""


class Intent(StrEnum):
    """What kind of prompt it is. A prompt may be of several kinds; GENERAL if it is of no other."""

    GENERAL = "general"
    TEMPORAL = "temporal"
    IDENTITY = "identity"
    CONTINUATION = "continuation"
    CONVERSATIONAL = "conversational"


class Silence(StrEnum):
    """Why nothing is whispered."""

    OFF = "off"
    EMPTY = "empty"
    SHORT = "short"
    """At most two letters or digits, in any script."""
    COMMAND = "command"
    """A slash command or shell line, meant for the harness."""
    MACHINE = "machine"
    """A task notification, or a text of a hook or scheduler: no person asked."""
    ACKNOWLEDGEMENT = "acknowledgement"
    ORDER = "order"
    """A short order without a matter of its own, such as "run the tests"."""
    CONVERSATIONAL = "conversational"
    SAME_TOPIC = "same_topic"
    NO_CANDIDATES = "no_candidates"
    GATE = "gate"
    """There were candidates, but none was relevant enough."""
    GENERIC = "generic"
    """The relevant memories share only general words of programming with the prompt."""
    JUDGED = "judged"
    """The relevant memories were judged of no use for a prompt with the same meaning."""
    ARCHIVE = "archive"
    """The only relevant memories are archived, and did not reach `whisper.archive_gate`."""
    KNOWN = "known"
    """The relevant memories are already in this session's context."""
    UNREAD = "unread"
    """The caller disconnected before the answer was ready, because its deadline had passed."""
    NOT_READY = "not_ready"
    """There is no vector of the prompt, usually because the model is not loaded yet. Without it there is no
    relevance."""


class Asked(Struct, frozen=True):
    """A prompt as received. `space`: the caller's space; None outside of any project."""

    prompt: str
    space: str | None
    session_id: str | None = None
    agent: str = "agent"
    disconnected: Callable[[], bool] = bool
    """Returns whether the caller has disconnected. Then no memory counts as shown."""
    unkept: bool = False
    """True if nothing of the prompt may be stored, because its session is in a folder of `sessions.exclude`."""
    cwd: str | None = None
    """A folder in the caller's project, in which the evidence of memories is compared."""
    dry: bool = False
    """True if nothing is logged, and no event is published."""

    @property
    def harness(self) -> str | None:
        """The harness that sent the prompt, by its agent's name; None if no agent sent it."""
        return self.agent.removeprefix("agent:") if self.agent.startswith("agent:") else None

    def at_home(self, space: str | None) -> bool:
        """Return whether a memory of `space` is global or belongs to the caller's project."""
        return space in (self.space, None)


class EarlierPrompt(Struct, frozen=True):
    """A prompt as its session stores it. `vector`: its unit vector; None if it has none by the model in use."""

    text: str
    vector: Float | None
    at: datetime
    answered: bool
    """Whether memories were whispered for it."""


class Before(Struct, frozen=True):
    """What is known about the session before this prompt; empty without a session id."""

    recent: tuple[EarlierPrompt, ...] | None = None
    """The last prompts that are younger than `session.GAP`, oldest first; None if there are none."""
    known: frozenset[str] = frozenset()
    """Context keys (`context_key`) of memories whose content is in the session's context."""
    named: frozenset[str] = frozenset()
    """Context keys of memories of which only the title is in the session's context."""
    prompts: int = 0
    """Number of prompts of this session so far, including those without a whisper."""


class Analysis(Struct, frozen=True):
    """A prompt as analysed by `analyse.analyse`."""

    prompt: str
    """The text that the person wrote: without text injected by Ormah and the harness's tags."""
    intents: frozenset[Intent]
    vector: Float | None
    """The prompt's own unit vector; None while the model is not loaded."""
    query: str
    """The search text: the prompt, for a follow-up after up to two earlier prompts. The words of a period are left
    out."""
    follow_up: bool
    after: datetime | None = None
    before: datetime | None = None
    """`after` and `before`: the period that the prompt asks for."""
    scores: dict[str, float] = field(default_factory=dict)
    """`{kind: largest cosine between the prompt and an example of that kind}`."""

    @property
    def identity_only(self) -> bool:
        """Whether the prompt is about the user, and of no other kind."""
        return self.intents == {Intent.IDENTITY}

    @property
    def temporal(self) -> bool:
        """Whether the prompt asks for a time."""
        return Intent.TEMPORAL in self.intents


class Candidate(Struct):
    """A memory that may be whispered. Each stage changes its fields."""

    row: NodeRow
    score: float
    """The search's score. It depends on the other results, so it is used only for ordering."""
    source: Found
    """How the search found the memory, such as by an edge."""
    relevance: float = 0.0
    """How likely the memory belongs to the prompt, absolute, from 0 to 1. It is computed from the memory's text, then
    changed by confidence, space and feedback."""
    order: float = 0.0
    """Sort key of candidates; the largest comes first."""
    numbers: dict[str, float] = field(default_factory=dict)
    """`{name: value}` of all values that relevance and order were computed from."""
    dropped: str | None = None
    """`stage: reason` if a stage dropped the memory."""
    display: Display | None = None
    older_than: str | None = None
    """Id of the newer memory that replaced this one. The newer one is placed before it."""
    also: int = 0
    """Number of memories that were dropped because they say the same as this one."""

    @property
    def id(self) -> str:
        return self.row.id

    @property
    def wanted(self) -> bool:
        """Whether the memory was explicitly judged useful for a prompt that means the same."""
        return self.numbers.get("verdict", 0.0) > 0

    @property
    def archived(self) -> bool:
        return self.row.tier is Tier.ARCHIVAL


def context_key(row: NodeRow) -> str:
    """Return the key that stands for a memory in the record of a session. It changes when the note changes."""
    return f"{row.id}:{row.digest[:8]}"
