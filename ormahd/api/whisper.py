"""Types of `agent.whisper` and `agent.feedback`: the memories that suit a prompt, and whether they were useful."""

from __future__ import annotations

from typing import Any, Final

from msgspec import UNSET, UnsetType

from ormahd.api.base import Params, Result


class WhisperParams(Params):
    prompt: str
    space: str | UnsetType | None = UNSET
    """Where the caller works: its memories and global ones come first. Absent: detected from `cwd`; null: no space."""
    session_id: str | None = None
    """With it the prompt is remembered for the next one, nothing is said twice, and feedback can refer to it."""
    explain: bool = False


class WhisperNode(Result):
    id: str
    short_id: str
    type: str
    title: str | None
    score: float
    """Relevance, 0 to 1, absolute; after feedback. What is compared with the gate."""
    shown: str
    """`full`, `title`, `preference` or `exploring`."""
    older_than: str | None = None
    """Full id of the newer memory that seems to have replaced this one; it stands before it."""


class WhisperResult(Result):
    text: str
    """What the agent is to read; empty: silence."""
    nodes: list[WhisperNode] = []
    exploring: WhisperNode | None = None
    """One below the gate, labelled so in the text, to learn from; it is not counted as whispered."""
    silence: str | None = None
    """Why nothing is said; null: something is."""
    better_space: str | None = None
    """With a silence: the space whose memories fit the prompt better than those of the caller's."""
    event: str | None = None
    """By which `agent.feedback` names this whisper."""
    review: str | None = None
    """The memory that the text asks about, if it asks."""
    resting: WhisperNode | None = None
    """With the silence `archive`: the memory that would have been whispered if it were not in the archive."""
    archived: int = 0
    """With the silence `archive`: how many memories rest there."""
    degraded: list[str] = []
    trace: dict[str, Any] | UnsetType = UNSET
    """With `explain`: what was heard, and each candidate's numbers with the stage that let it go."""


class FeedbackParams(Params):
    """A judgement: was a memory of use for the prompt for which it was whispered, or considered?"""

    node_id: str
    """The whole id, or a beginning of it that no other logged memory has."""
    signal: int
    """1: of use; -1: not."""
    source: str = "explicit"
    """`explicit`: somebody says so; `implicit`: inferred from what happened, which weighs a bit less."""
    event: str | None = None
    """The whisper that is judged; null: the last one that considered the memory."""
    request_id: str | None = None


class FeedbackResult(Result):
    text: str
    node_id: str
    short_id: str
    event: str
    signal: int
    source: str
    counted: bool
    """False: this was said before of the same whisper, and nothing was changed."""
    replaced: bool = False
    """It takes the place of the opposite, said of the same whisper by the same kind of source."""
    review: bool = False
    """A question about this memory was open, and is answered by this."""
    effect: str = ""
    """What is other from now on: "Silent for prompts like this from now on."."""
    commit: str | None = None
    op: str | None = None
    stored: bool = False
    """True with `commit` null: git was busy, the judgement is safe and will follow."""
    degraded: list[str] = []


WHISPER: Final[dict[str, tuple[type[Params], type[Result]]]] = {
    "agent.whisper": (WhisperParams, WhisperResult),
    "agent.feedback": (FeedbackParams, FeedbackResult),
}
