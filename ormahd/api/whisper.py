"""Types of `agent.whisper` and `agent.feedback`: the memories that suit a prompt, and whether they were useful."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType

from ormahd.api.base import Params, Result


class WhisperParams(Params):
    prompt: str
    space: str | UnsetType | None = UNSET
    """The caller's space. Its memories and global ones come first. Absent: detected from `cwd`; null: no space."""
    session_id: str | None = None
    """If given, the prompt is stored for the next one, and no memory is whispered twice."""
    explain: bool = False
    dry: bool = False
    """Log nothing and publish no event."""


class WhisperNode(Result):
    id: str
    short_id: str
    type: str
    title: str | None
    score: float
    """Relevance from 0 to 1, absolute, after feedback. It is compared with the gate."""
    shown: str
    """`full`, `title`, `preference` or `exploring`."""
    older_than: str | None = None
    """Full id of the newer memory that seems to have replaced this one. It is listed before this one."""


class WhisperResult(Result):
    text: str
    """The text for the agent; empty for silence."""
    nodes: list[WhisperNode] = []
    exploring: WhisperNode | None = None
    """A memory below the gate, labelled as such in the text, so that feedback can teach about it. It does not count as
    whispered."""
    silence: str | None = None
    """The reason for silence; null if memories are whispered."""
    better_space: str | None = None
    """With a silence: the space whose memories fit the prompt better than those of the caller's space."""
    event: str | None = None
    """The id by which `agent.feedback` names this whisper."""
    review: str | None = None
    """The memory about which the text asks, if it asks about one."""
    resting: WhisperNode | None = None
    """With the silence `archive`: the memory that would have been whispered if it were not in the archive."""
    archived: int = 0
    """With the silence `archive`: number of memories in the archive."""
    degraded: list[str] = []
    trace: dict[str, Any] | UnsetType = UNSET
    """With `explain`: how the prompt was understood, and for each candidate its numbers and the stage that dropped it.
    """


class FeedbackParams(Params):
    """A judgement: was a memory useful for the prompt for which it was whispered or considered?"""

    node_id: str
    """The id, or a unique prefix of it."""
    signal: int
    """1: useful; -1: not useful."""
    source: str = "explicit"
    """`explicit`: a person or agent says so; `implicit`: inferred from what happened, which weighs less."""
    event: str | None = None
    """The whisper that is judged, also one that was silent or did not consider the memory; null: the last one of the
    caller's session, or of the last session in its project, that considered it."""
    request_id: str | None = None


class FeedbackResult(Result):
    text: str
    node_id: str
    short_id: str
    event: str
    prompt: str
    """The beginning of the prompt that the judgement is about, redacted."""
    signal: int
    source: str
    counted: bool
    """False if the same judgement on the same whisper exists already; then nothing was changed."""
    replaced: bool = False
    """True if it replaces the opposite judgement on the same whisper from the same kind of source."""
    review: bool = False
    """True if this answers an open review question about the memory."""
    commit: str | None = None
    op: str | None = None
    degraded: list[str] = []
