"""Judgements by the agent: the first whisper of a session asks it to judge one memory that was recently considered but
not shown (`pick_review`), and its replies show which memories it used (`is_used`).

Without reviews only memories that were shown would be judged, and those below the gate would stay there. Nothing of
another project is shown: the earlier prompt was made in the caller's space, and the memory is of that space or global.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Final

from ormahd.actions.views import replaced_today
from ormahd.index.rows import NodeRow
from ormahd.model.node import Tier
from ormahd.ormah import Ormah
from ormahd.state import whispers
from ormahd.text.facts import exact_tokens
from ormahd.text.quoting import shortened
from ormahd.text.words import fold, stems
from ormahd.whisper.affinity import is_judged
from ormahd.whisper.analyse import Archetypes, is_small_talk, topic_stems, topical_words
from ormahd.whisper.render import Review

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
"""Minimum number of topic words (`analyse.topic_stems`) in the earlier prompt. "what's 17 * 23?" has none, "tell me a
joke" one."""
TOP: Final = 20
"""Maximum number of memories that are checked, the most relevant first."""
POOL: Final = 200
"""Number of memories that are fetched from the whisper log to find `TOP`. Some are of another space, forgotten or
expired."""
PROMPT: Final = 300
"""Maximum number of characters of the earlier prompt that are shown. It is cut between words."""
USED_WORDS: Final = 2
USED_SHARE: Final = 0.25
"""Minimum number and share of a memory's words, besides those of the prompt, that the reply has."""
LARGE_SHARE: Final = 1 / 3
"""Share of a memory's words at which one word is enough."""
_CODE: Final = re.compile(r"`([^`\n]{4,200})`")
READ: Final = 20_000
"""Maximum number of characters of a reply that are read."""


def pick_review(
    ormah: Ormah,
    space: str | None,
    *,
    now: datetime,
    besides: Collection[str] = (),
    archetypes: Archetypes | None = None,
) -> Review | None:
    """Return a memory for an agent to judge; None if there is none. Writes nothing: call `record_review` after its
    whisper was sent.

    `besides`: ids of memories that are not picked, because they are in the same whisper or in the session's context.
    `now`: the time at which memories must not be expired; ages of whispers are measured by the state's clock.
    `archetypes`: examples of prompts; no memory is picked for a prompt that resembles mere politeness.
    """
    present = ormah.state.clock()
    held = whispers.never_shown(ormah.state, present - HELD, space, POOL, least=RELEVANT)
    resting = whispers.not_to_ask(ormah.state, since=present - REST, unanswered=UNANSWERED)
    judgements, model = ormah.learned.judgements, ormah.learned.model
    for event, row in islice(_still_fitting(ormah, held, space, now, {ormah.vault.self_id, *besides}), TOP):
        if row.id in resting:
            continue
        logged = whispers.considered(ormah.state, event, row.id)
        if logged is None or logged.model != model or not has_topic(logged.prompt, space):
            continue
        if archetypes is not None and is_small_talk(logged.vector, archetypes):
            continue
        if not is_judged(logged.vector, row.id, judgements) and not replaced_today(ormah, [row.id]):
            prompt = shortened(" ".join(logged.prompt.split()), PROMPT)
            return Review(row.id, row.title, row.content, prompt, logged.time, logged.event)
    return None


def has_topic(prompt: str, space: str | None) -> bool:
    """Return whether a prompt has enough topic words to judge if a memory would have helped."""
    return sum(any(map(str.isalpha, word)) for word in topic_stems(prompt, space)) >= CONTENT_WORDS


def _still_fitting(
    ormah: Ormah, held: Sequence[tuple[str, str]], space: str | None, now: datetime, besides: Collection[str]
) -> Iterator[tuple[str, NodeRow]]:
    """Yield (id of the whisper, memory) for each entry of `held` that could still be whispered in this space.

    `held`: (id of the whisper, node id) of each memory that was considered but not shown. `besides`: node ids to leave
    out.
    """
    # `candidates` is nearly always cached. Notes are read only for nodes that it does not rule out.
    known = ormah.index.candidates([node_id for _, node_id in held if node_id not in besides])
    fit = {node_id for node_id, row in known.items() if row.space in (space, None) and row.tier in TIERS}
    candidates = [(event, node_id) for event, node_id in held if node_id in fit]
    for start in range(0, len(candidates), TOP):
        part = candidates[start : start + TOP]
        rows = ormah.index.notes([node_id for _, node_id in part])
        for event, node_id in part:
            row = rows.get(node_id)
            if row is not None and row.space in (space, None) and row.tier in TIERS and not row.expired(now):
                yield event, row


def record_review(ormah: Ormah, review: Review, event: str) -> None:
    """Record that the whisper `event` contained this review."""
    whispers.record_review(ormah.state, review.node_id, event=review.event, surfaced_in=event)


def is_used(memory: str, prompt: str, reply: str) -> bool:
    """Return whether `reply` seems to use `memory`. Only words are compared, so the result is a hint.

    It does if it has code, an exact name or a good part of the words of the memory, and these were not in `prompt`, the
    prompt that it answers.
    """
    reply = reply[:READ]
    if (_exact_names(memory) - _exact_names(prompt)) & _exact_names(reply):
        return True
    answered, asked = fold(reply), fold(prompt)
    if any(code in answered and code not in asked for code in map(fold, _CODE.findall(memory))):
        return True
    own = stems(topical_words(memory, None)) - stems(topical_words(prompt, None))
    shared = own & stems(topical_words(reply, None))
    return bool(shared) and len(shared) >= (USED_SHARE if len(shared) >= USED_WORDS else LARGE_SHARE) * len(own)


def _exact_names(text: str) -> set[str]:
    """Return the exact names in a text (paths, identifiers), folded; without those that are often written otherwise."""
    return {fold(token.text) for token in exact_tokens(text) if not token.plain}
