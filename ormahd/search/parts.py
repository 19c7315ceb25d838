"""Split a text that asks several questions into these questions, and join the results of a search for each.

"Which port do gateways use and who is our contact?" resembles no memory well, because each answer resembles one
half. A text is split only if every part begins with a question word, has a subject, and has no pronoun that may
refer to another part.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Final, Required, TypedDict, Unpack

from msgspec.structs import replace

from ormahd.index.reader import Reader
from ormahd.model.node import SearchQuery
from ormahd.search.gather import EmbedQuery, subject
from ormahd.search.search import Hit, Holds, Ranked, Reworded, Rules, rank
from ormahd.text.words import fold, words

MAX_PARTS: Final = 3
"""Maximum number of parts; a text with more questions is searched as a whole."""
LONGEST: Final = 400
"""Maximum number of characters of a text that is split. A longer text is rarely a question: it is a task with its
context."""

_ASKING: Final = (
    "what|which|who|whom|whose|when|where|why|how|do|does|did|is|are|was|were|can|at which|in which|from where|until when|"
    "was|welche|welcher|welches|wer|wem|wen|wann|wo|woher|wohin|warum|wieso|wie|ist|sind|hat|haben|"
    "quel|quelle|quels|quelles|qui|quand|ou|pourquoi|comment|combien|"
    "que|cual|cuales|quien|quienes|cuando|donde|por que|como|cuanto|cuantos"
)
_SEAM: Final = re.compile(
    rf"(?:\?+\s*(?:and\s+|und\s+|et\s+|y\s+)?|,?\s+(?:and|und|et|y)\s+(?:also\s+|auch\s+)?)(?=(?:{_ASKING})\s+\S)"
)
_BEGIN: Final = re.compile(rf"(?:{_ASKING})\s")
_LEANING: Final = frozenset(
    [
        *("it", "its", "they", "them", "their", "that", "those", "this", "these", "he", "she", "his", "her"),
        *("er", "sie", "es", "ihn", "ihr", "ihre", "il", "elle", "ils", "elles", "lui", "lo", "esa", "ese", "eso"),
    ]
)
"""Pronouns by which a part refers to something that the part before it names."""


def parts(text: str) -> tuple[str, ...]:
    """Return the questions that a text asks, if it asks several; otherwise an empty tuple."""
    if len(text) > LONGEST:
        return ()
    folded = fold(text)
    if len(folded) != len(text):
        folded = text.lower()  # a seam in the folded text has to be one in the text
    if len(folded) != len(text):
        return ()
    cuts = [0]
    found: list[str] = []
    for seam in _SEAM.finditer(folded):
        found.append(text[cuts[-1] : seam.start()])
        cuts.append(seam.end())
    found.append(text[cuts[-1] :])
    found = [part.strip(" \t\n,;?") for part in found]
    if not 1 < len(found) <= MAX_PARTS:
        return ()
    # a part that stands alone begins with a question word, has a subject, and has no pronoun
    alone = [part for part in found if _BEGIN.match(fold(part)) and subject(part) and _LEANING.isdisjoint(words(part))]
    return tuple(f"{part}?" for part in found) if alone == found else ()


class Options(TypedDict, total=False):
    """The keyword arguments of `rank`."""

    embed: Required[EmbedQuery]
    space: Required[str | None]
    now: Required[datetime]
    rules: Required[Rules]
    holds: Holds
    reworded: Reworded
    renewed: bool
    explain: bool


def rank_parts(index: Reader, query: SearchQuery, **options: Unpack[Options]) -> Ranked:
    """Return the results of `rank`. If the text asks several questions, join the results of the whole text and of
    each question."""
    whole, pieces = rank(index, query, **options), parts(query.query)
    each = [rank(index, query.model_copy(update={"query": piece}), **options) for piece in pieces]
    return join(whole, each, pieces, query.limit) if pieces else whole


def join(whole: Ranked, each: Sequence[Ranked], pieces: Sequence[str], limit: int) -> Ranked:
    """Join the results of the whole text and of each question in it. Each memory is listed once, with its highest
    score.

    The best results of the questions come first; the others follow by their score. `pieces`: the questions.
    """
    best: dict[str, Hit] = {}
    for ranked in (*each, whole):
        for hit in ranked.results:
            known = best.get(hit.node_id)
            if known is None or known.score < hit.score:
                best[hit.node_id] = hit
    firsts = {ranked.results[0].node_id for ranked in each if ranked.results}
    ordered = sorted(best.values(), key=lambda hit: (hit.node_id not in firsts, -hit.score, hit.node_id))
    degraded = list(dict.fromkeys(part for ranked in (whole, *each) for part in ranked.degraded))
    trace = {**whole.trace, "parts": list(pieces)} if whole.trace else whole.trace
    pool = {node_id: row for ranked in (*each, whole) for node_id, row in ranked.pool.items()}
    return replace(whole, results=ordered[:limit], degraded=degraded, trace=trace, pool=pool)
