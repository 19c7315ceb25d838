"""The values that pass between the stages of a whisper, and the trace that explains one.

Stages: hear → suppress? → gather → rerank → affinity → choose → render. The trace holds every number of each candidate and the stage
that dropped it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from ormahd.actions.views import headline
from ormahd.index.rows import NodeRow
from ormahd.model.node import Found, Tier

if TYPE_CHECKING:
    from ormahd.whisper.pipeline import Answer


Float = NDArray[np.float32]

Shown = Literal["full", "title", "preference", "exploring"]
"""How a memory stands in the text: with its content, as a line, as a standing preference, as a question to learn from."""


class Intent(StrEnum):
    """What kind of prompt it is (seeds: several may match; none: general)."""

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
    """At most two letters or digits, of whatever script."""
    COMMAND = "command"
    """A slash command, a shell line: meant for the harness."""
    MACHINE = "machine"
    """A task notification, a hook's or a scheduler's text: nobody asked."""
    ACKNOWLEDGEMENT = "acknowledgement"
    CONVERSATIONAL = "conversational"
    SAME_TOPIC = "same_topic"
    NO_CANDIDATES = "no_candidates"
    GATE = "gate"
    """There were candidates, and none was relevant enough."""
    JUDGED = "judged"
    """What is relevant was said to be of no use for a prompt that means the same."""
    ARCHIVE = "archive"
    """The only one that is relevant enough rests in the archive, from where it takes more."""
    KNOWN = "known"
    """What is relevant stands in this session's context already."""
    UNREAD = "unread"
    """Who asked has gone: his deadline was over before there was an answer."""
    NOT_READY = "not_ready"
    """The model is not loaded yet, so that nothing can be judged."""


class Asked(Struct, frozen=True):
    """A prompt as it came in. `space`: where the caller works (None: global)."""

    prompt: str
    space: str | None
    session_id: str | None = None
    agent: str = "agent"
    gone: Callable[[], bool] = bool
    """Whether nobody waits for the answer any more: then nothing of it was said."""

    @property
    def harness(self) -> str | None:
        """The harness that the prompt came through, by its agent's name."""
        return self.agent.removeprefix("agent:") if self.agent.startswith("agent:") else None

    def at_home(self, space: str | None) -> bool:
        """Whether a memory of `space` is at home where the caller works. Global ones are everywhere, and where no project is (the home
        folder) no project's are."""
        return space in (self.space, None)


class Said(Struct, frozen=True):
    """An earlier prompt of the session. `vector`: unit, or None where the model was not there."""

    text: str
    vector: Float | None
    at: datetime
    answered: bool
    """True when memories were whispered for it."""


class Before(Struct, frozen=True):
    """What the session says of itself before this prompt. Without a session id: nothing."""

    recent: tuple[Said, ...] | None = None
    """The last prompts, oldest first, none older than the gap; None: this is the first one."""
    known: frozenset[str] = frozenset()
    """Memories (`context_key`) whose content this session's context holds already."""
    named: frozenset[str] = frozenset()
    """Those that it holds as a title only."""
    prompts: int = 0
    """Prompts of this session so far, silent ones too."""


class Heard(Struct, frozen=True):
    """A prompt, understood."""

    prompt: str
    """What the person wrote: without our own injected text and the harness's tags."""
    intents: frozenset[Intent]
    vector: Float | None
    """The prompt's own vector (unit); None while the model is not there."""
    query: str
    """What is searched for: the prompt; for a follow-up the last two prompts before it; without the words of a period."""
    follow_up: bool
    topic: frozenset[str]
    """Words that a memory can share, in any script, stemmed: without stop words and the space's own name."""
    after: datetime | None = None
    before: datetime | None = None
    scores: dict[str, float] = field(default_factory=dict)
    """Per kind of prompt the largest cosine with its examples, for the trace."""

    @property
    def identity_only(self) -> bool:
        return self.intents == {Intent.IDENTITY}

    @property
    def temporal(self) -> bool:
        return Intent.TEMPORAL in self.intents


class Candidate(Struct):
    """A memory under consideration. Each stage fills in its numbers; `dropped` names the one that let it go."""

    row: NodeRow
    score: float
    """The search's score: for order only, it is relative to what else was found."""
    source: Found
    relevance: float = 0.0
    """Absolute, 0 to 1: how sure the texts make us that it belongs to the prompt; after feedback, confidence and space."""
    order: float = 0.0
    """What candidates are sorted by."""
    numbers: dict[str, float] = field(default_factory=dict)
    """Everything that went into relevance and order, for the trace."""
    dropped: str | None = None
    shown: Shown | None = None
    older_than: str | None = None
    """The newer memory that replaced this one, and stands before it."""
    also: int = 0
    """Memories that say the same and would have been said too."""

    @property
    def id(self) -> str:
        return self.row.id

    @property
    def wanted(self) -> bool:
        """Whether it was said outright that it is of use for this very prompt."""
        return self.numbers.get("verdict", 0.0) > 0

    @property
    def archived(self) -> bool:
        return self.row.tier is Tier.ARCHIVAL


def context_key(row: NodeRow) -> str:
    """A memory as a session's context holds it: changed since, it is another one there."""
    return f"{row.id}:{row.digest[:8]}"


def trace(found: Answer, asked: Asked, before: Before) -> dict[str, Any]:
    """Plain values, for `--explain`. The numbers add up: `recompute` makes the relevance from them."""
    heard, pool = found.heard, found.pool
    told: dict[str, Any] = {
        "space": asked.space,
        "first": before.recent is None,
        "silence": None if found.silence is None else found.silence.value,
    }
    if heard is not None:
        told |= {
            "prompt": heard.prompt,
            "query": heard.query,
            "intents": sorted(heard.intents),
            "intent_scores": {name: round(score, 4) for name, score in heard.scores.items()},
            "follow_up": heard.follow_up,
            "after": None if heard.after is None else heard.after.isoformat(),
            "before": None if heard.before is None else heard.before.isoformat(),
            "topic": sorted(heard.topic),
        }
    if pool is not None:
        told |= {
            "here": round(pool.here, 4),
            "elsewhere": round(pool.elsewhere, 4),
            "fits_better": pool.better,
            "candidates": [shown(one) for one in pool.candidates],
            "preferences": [shown(one) for one in pool.preferences],
        }
    return told


def shown(one: Candidate) -> dict[str, Any]:
    """One candidate."""
    return {
        "node_id": one.id, "source": one.source, "relevance": round(one.relevance, 6),
        "order": round(one.order, 6), "shown": one.shown, "dropped": one.dropped, **one.numbers,
        **({"older_than": one.older_than} if one.older_than else {}),
        **({"also": one.also} if one.also else {}),
        "title": headline(one.row.title, one.row.content), "title_boost": one.numbers.get("title", 0.0),
    }  # fmt: skip


def recompute(numbers: Mapping[str, float], reranker_blend: float) -> float:
    """The relevance from a candidate's own numbers."""
    if "renewed" in numbers:  # it stands in the place of what it replaced
        return numbers["renewed"]
    text = numbers["text"]
    if "cross" in numbers:
        text = reranker_blend * numbers["cross"] + (1.0 - reranker_blend) * text
    place = numbers["place"] * numbers["certain"]
    relevance = max(text, numbers["identity"]) * place
    return min(1.0, max(0.0, relevance + numbers.get("affinity", 0.0)))
