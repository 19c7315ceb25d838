"""The review loop: beside the first whisper of a session, one memory that was held back lately is put up for judgement.

What feedback teaches comes from whispers alone; without this, a memory that the gate keeps out could never be learned
about (seeds/affinity, "Review Loop"; the rules REFERENCE 4.7). Nothing of another project is shown: the memory and the
prompt that it was held back for belong to the space where the person works; the memory may be global.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ormahd.actions.older import replaced_today
from ormahd.model.node import Tier
from ormahd.state import whispers
from ormahd.state import whispers as reviews
from ormahd.text.quoting import shortened
from ormahd.whisper.affinity import judged
from ormahd.whisper.hear import topic
from ormahd.whisper.types import Float

if TYPE_CHECKING:
    from ormahd.index.rows import NodeRow
    from ormahd.ormah import Ormah

TIERS: Final = (Tier.CORE, Tier.WORKING)
"""What can be whispered."""
HELD: Final = timedelta(days=7)
"""How long ago it was held back, at most; and it was not shown since then."""
REST: Final = timedelta(days=14)
"""For how long nobody is asked about it again."""
UNANSWERED: Final = 3
"""Questions in vain after which nobody is asked any more."""
RELEVANT: Final = 0.45
"""Relevance from which it can be judged whether a memory would have helped: the floor below which none is looked at further. What was
logged with less was lifted by feedback, or asked for by its time."""
CONTENT_WORDS: Final = 2
"""Words of a prompt that say what it is about, from which it is one to judge by: "what's 17 * 23?" has none, "tell me a joke" one."""
TOP: Final = 20
"""The most relevant ones, of which the first is taken that nothing speaks against."""
POOL: Final = 200
"""Memories that are looked at to find those `TOP`: others are of another space, forgotten or outdated."""
PROMPT: Final = 300
"""Characters of the earlier prompt, cut between words."""


class Review(Struct, frozen=True):
    """A memory to judge: for the `prompt` (redacted, shortened) of the whisper `event` it was considered and held back."""

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
    """The memory to ask about, or None. `besides`: memories that stand in the same whisper, or in the context already. `now`:
    what counts as the present for memories; how long ago something was whispered the log's own clock tells. `small_talk`: whether a
    prompt with this vector is polite, and asks for nothing.

    Writes nothing: `went_out` is to be called once the whisper that carries it really went out.
    """
    present, settings = ormah.state.clock(), ormah.settings.affinity
    held = whispers.held_back(ormah.state, present - HELD, space, POOL, least=RELEVANT)
    resting = reviews.resting(ormah.state, since=present - REST, unanswered=UNANSWERED)
    judgements, model = ormah.judgements, ormah.learned.model
    for number, row in islice(_fit(ormah, held, space, now, {ormah.vault.self_id, *besides}), TOP):
        if row.id in resting:
            continue
        one = whispers.row(ormah.state, number)
        if one is None or one.model != model or not has_content(one.prompt, space) or small_talk(one.vector):
            continue
        if not judged(one.vector, row.id, judgements, settings) and not replaced_today(ormah, [row.id]):
            return Review(row.id, row.title, row.content, _short(one.prompt), one.time, one.event)
    return None


def has_content(prompt: str, space: str | None) -> bool:
    """Whether somebody could say of a memory that it would have helped with this prompt."""
    return sum(any(map(str.isalpha, word)) for word in topic(prompt, space)) >= CONTENT_WORDS


def _fit(
    ormah: Ormah, held: Sequence[tuple[int, str]], space: str | None, now: datetime, besides: Collection[str]
) -> Iterator[tuple[int, NodeRow]]:
    """Those of what was held back that could be whispered here today, with their row of the log."""
    # What ranking asks of nodes is nearly always in memory; the notes themselves are read only of those that may fit.
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
    """The whisper `event` carried this question to the agent."""
    reviews.surfaced(ormah.state, review.node_id, event=review.event, surfaced_in=event)


def _short(prompt: str) -> str:
    """One line of it, cut between words where there are some."""
    return shortened(" ".join(prompt.split()), PROMPT)
