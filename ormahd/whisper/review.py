"""Review: with the first whisper of a session, ask about one memory that was recently considered but not shown.

Feedback otherwise concerns only memories that were shown, so a memory below the gate could never be learned about.
Nothing of another project is shown: the earlier prompt belongs to the caller's space, and the memory to that space or
to none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ormahd.actions.views import replaced_today
from ormahd.embedding.scale import Scale
from ormahd.model.node import Tier
from ormahd.state import whispers
from ormahd.text.quoting import shortened
from ormahd.whisper.affinity import judged
from ormahd.whisper.hear import topic
from ormahd.whisper.types import Float

if TYPE_CHECKING:
    from ormahd.index.rows import NodeRow
    from ormahd.ormah import Ormah

TIERS: Final = (Tier.CORE, Tier.WORKING)
"""Tiers of memories that a review may ask about."""
HELD: Final = timedelta(days=7)
"""Largest age of the whisper in which the memory was considered; it must not have been shown since."""
REST: Final = timedelta(days=14)
"""Time during which the same memory is not asked about again."""
UNANSWERED: Final = 3
"""Number of unanswered reviews of a memory after which it is not asked about again."""
RELEVANT: Final = 0.1
"""Minimum relevance of a memory to ask about."""
CONTENT_WORDS: Final = 2
"""Minimum number of topic words of the earlier prompt: "what's 17 * 23?" has none, "tell me a joke" one."""
TOP: Final = 20
"""Number of the most relevant memories that are checked."""
POOL: Final = 200
"""Number of logged memories fetched to find those `TOP`: some are of another space, forgotten or outdated."""
PROMPT: Final = 300
"""Characters of the earlier prompt that are shown, cut between words."""


class Review(Struct, frozen=True):
    """A memory to judge, and the (redacted, shortened) `prompt` of the whisper `event` that considered but did not show it."""

    node_id: str
    title: str | None
    content: str
    prompt: str
    when: datetime
    event: str


def pick(
    ormah: Ormah, space: str | None, *, now: datetime, besides: Collection[str] = (),
    small_talk: Callable[[Float], bool] = lambda _: False, scale: Scale | None = None,
) -> Review | None:  # fmt: skip
    """Return the memory to ask about, or None. Writes nothing: call `went_out` once the whisper with it was sent.

    `besides`: ids of memories in the same whisper or in the session's context. `now`: the present for the expiry of
    memories; ages of whispers use the state's clock. `small_talk`: whether a prompt with this vector is mere
    politeness. `scale`: that of the model's similarities.
    """
    present, settings = ormah.state.clock(), ormah.settings.affinity
    held = whispers.held_back(ormah.state, present - HELD, space, POOL, least=RELEVANT)
    resting = whispers.resting(ormah.state, since=present - REST, unanswered=UNANSWERED)
    judgements, model = ormah.judgements, ormah.learned.model
    for number, row in islice(_fit(ormah, held, space, now, {ormah.vault.self_id, *besides}), TOP):
        if row.id in resting:
            continue
        one = whispers.row(ormah.state, number)
        if one is None or one.model != model or not has_content(one.prompt, space) or small_talk(one.vector):
            continue
        if not judged(one.vector, row.id, judgements, settings, scale) and not replaced_today(ormah, [row.id]):
            return Review(row.id, row.title, row.content, _short(one.prompt), one.time, one.event)
    return None


def has_content(prompt: str, space: str | None) -> bool:
    """Whether the prompt says enough to judge if a memory would have helped."""
    return sum(any(map(str.isalpha, word)) for word in topic(prompt, space)) >= CONTENT_WORDS


def _fit(
    ormah: Ormah, held: Sequence[tuple[int, str]], space: str | None, now: datetime, besides: Collection[str]
) -> Iterator[tuple[int, NodeRow]]:
    """Yield those of `held` that could be whispered in this space today, each with its row number in the whisper log."""
    # `candidates` is nearly always cached; notes are read only for nodes that may fit.
    known = ormah.index.candidates([node_id for _, node_id in held if node_id not in besides])
    fit = {node_id for node_id, one in known.items() if one.space in (space, None) and one.tier in TIERS}
    left = [(number, node_id) for number, node_id in held if node_id in fit]
    for start in range(0, len(left), TOP):
        part = left[start : start + TOP]
        rows = ormah.index.notes([node_id for _, node_id in part], connections=False)
        for number, node_id in part:
            row = rows.get(node_id)
            if row is not None and row.space in (space, None) and row.tier in TIERS and not row.expired(now):
                yield number, row


def went_out(ormah: Ormah, review: Review, event: str) -> None:
    """Record that the whisper `event` carried this review."""
    whispers.surfaced(ormah.state, review.node_id, event=review.event, surfaced_in=event)


def _short(prompt: str) -> str:
    """Return the prompt as one line, cut between words."""
    return shortened(" ".join(prompt.split()), PROMPT)
