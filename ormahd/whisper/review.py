"""Review: the first whisper of a session asks the agent to judge one memory that was recently considered but not shown.

Without reviews only memories that were shown would be judged, and those below the gate would stay there. Nothing of
another project is shown: the earlier prompt was made in the caller's space, and the memory is of that space or global.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Final

from msgspec import Struct

from ormahd.actions.views import replaced_today
from ormahd.index.rows import NodeRow
from ormahd.model.node import Tier
from ormahd.ormah import Ormah
from ormahd.state import whispers
from ormahd.text.quoting import shortened
from ormahd.whisper.affinity import judged
from ormahd.whisper.hear import topic
from ormahd.whisper.types import Float

TIERS: Final = (Tier.CORE, Tier.WORKING)
"""Tiers of memories that a review may ask about."""
HELD: Final = timedelta(days=7)
"""Maximum age of the whisper that considered the memory. The memory must not have been shown since."""
REST: Final = timedelta(days=14)
"""Time after a review during which the same memory is not asked about again."""
UNANSWERED: Final = 3
"""Number of unanswered reviews of a memory after which it is not asked about again."""
RELEVANT: Final = 0.1
"""Minimum relevance of a memory that a review asks about."""
CONTENT_WORDS: Final = 2
"""Minimum number of topic words (`hear.topic`) in the earlier prompt. "what's 17 * 23?" has none, "tell me a joke"
one."""
TOP: Final = 20
"""Maximum number of memories that are checked, the most relevant first."""
POOL: Final = 200
"""Number of memories that are fetched from the whisper log to find `TOP`. Some are of another space, forgotten or
expired."""
PROMPT: Final = 300
"""Maximum number of characters of the earlier prompt that are shown. It is cut between words."""


class Review(Struct, frozen=True):
    """A memory that an agent is asked to judge, and the earlier prompt for which it was considered but not shown.

    `prompt`: redacted and shortened; `when`, `event`: time and id of the whisper for that prompt.
    """

    node_id: str
    title: str | None
    content: str
    prompt: str
    when: datetime
    event: str


def pick(
    ormah: Ormah, space: str | None, *, now: datetime, besides: Collection[str] = (),
    small_talk: Callable[[Float], bool] = lambda _: False,
) -> Review | None:  # fmt: skip
    """Return a memory for an agent to judge, or None. Writes nothing: call `went_out` after its whisper was sent.

    `besides`: ids of memories that are not picked, because they are in the same whisper or in the session's context.
    `now`: the time at which memories must not be expired; ages of whispers are taken by the state's clock.
    `small_talk`: returns whether a prompt with this vector is mere politeness.
    """
    present = ormah.state.clock()
    held = whispers.held_back(ormah.state, present - HELD, space, POOL, least=RELEVANT)
    resting = whispers.resting(ormah.state, since=present - REST, unanswered=UNANSWERED)
    judgements, model = ormah.learned.judgements, ormah.learned.model
    for event, row in islice(_fit(ormah, held, space, now, {ormah.vault.self_id, *besides}), TOP):
        if row.id in resting:
            continue
        one = whispers.considered(ormah.state, event, row.id)
        if one is None or one.model != model or not has_content(one.prompt, space) or small_talk(one.vector):
            continue
        if not judged(one.vector, row.id, judgements) and not replaced_today(ormah, [row.id]):
            return Review(row.id, row.title, row.content, _short(one.prompt), one.time, one.event)
    return None


def has_content(prompt: str, space: str | None) -> bool:
    """Return whether a prompt has enough topic words to judge if a memory would have helped."""
    return sum(any(map(str.isalpha, word)) for word in topic(prompt, space)) >= CONTENT_WORDS


def _fit(
    ormah: Ormah, held: Sequence[tuple[str, str]], space: str | None, now: datetime, besides: Collection[str]
) -> Iterator[tuple[str, NodeRow]]:
    """Yield (event of the whisper, memory) for those of `held` that could be whispered in this space today.

    `held`: (event, node id) of each memory that was considered but not shown. `besides`: ids to leave out.
    """
    # `candidates` is nearly always cached. Notes are read only for nodes that it does not rule out.
    known = ormah.index.candidates([node_id for _, node_id in held if node_id not in besides])
    fit = {node_id for node_id, one in known.items() if one.space in (space, None) and one.tier in TIERS}
    left = [one for one in held if one[1] in fit]
    for start in range(0, len(left), TOP):
        part = left[start : start + TOP]
        rows = ormah.index.notes([node_id for _, node_id in part])
        for event, node_id in part:
            row = rows.get(node_id)
            if row is not None and row.space in (space, None) and row.tier in TIERS and not row.expired(now):
                yield event, row


def went_out(ormah: Ormah, review: Review, event: str) -> None:
    """Record that the whisper `event` contained this review."""
    whispers.surfaced(ormah.state, review.node_id, event=review.event, surfaced_in=event)


def _short(prompt: str) -> str:
    """Return the prompt as one line of at most `PROMPT` characters, cut between words."""
    return shortened(" ".join(prompt.split()), PROMPT)
