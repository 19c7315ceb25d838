"""Relevance by words alone, for a prompt in a language that the embedding model does not read.

Relevance grows with the share of the prompt's words that a memory contains. Each word is weighted by its rarity in the
vault. A word that no memory contains has the largest weight, so small talk and unknown topics get a low relevance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from ormahd.embedding.reading import READABLE
from ormahd.index.reader import Reader
from ormahd.index.rows import NodeRow
from ormahd.model.chance import log_odds, times_odds
from ormahd.search.exact import FEW, RARE
from ormahd.search.gather import EmbedQuery
from ormahd.text.language import note_stems, question_stems
from ormahd.text.quoting import beginning
from ormahd.text.words import query_terms, words

READ: Final = 8_000
"""Maximum number of characters of a memory whose words are compared with a prompt's."""
TWO: Final = 2
"""Number of a prompt's words that a memory must contain, unless the prompt has fewer. One may be a coincidence."""
HALF: Final = 0.35
"""Share of a prompt's words that gives a memory the relevance `GATE`."""
GATE: Final = 0.35
"""Default of `whisper.injection_gate`."""
STRETCH: Final = 2.3
"""Factor from the log odds of the share, rescaled so that `HALF` becomes 0.5, to the log odds of the relevance."""


def weights(index: Reader, query: str, embed: EmbedQuery) -> dict[str, float]:
    """Return `{word: weight}` for the words of a prompt. Words that many notes contain have negative weights.

    Empty if the embedding model reads the prompt's language, or is not loaded.
    """
    vectors = embed(query)
    if vectors is None or vectors.read >= READABLE:
        return {}
    terms = query_terms(query)
    counts, files = index.frequencies(terms)
    least = max(FEW, RARE * files)
    found = {}
    for term in terms:
        weight = math.log(1.0 + (files + 1.0) / (counts[term] + 0.5))
        found[term] = weight if counts[term] <= least else -weight
    return found


def relevance_by_words(row: NodeRow, weighed: Mapping[str, float]) -> float:
    """Return the relevance of a memory, from 0 to 1, by the words that it shares with the prompt.

    0 if these are too few, or none of them is rare. `weighed`: the prompt's words, as `weights` returns them.
    """
    text = f"{row.title or ''} {' '.join(row.tags)} {beginning(row.content, READ)}"
    said = set(words(text))
    said |= note_stems(text, said)
    there = [weight for term, weight in weighed.items() if term in said or not said.isdisjoint(question_stems(term))]
    if not any(weight > 0.0 for weight in there) or len(there) < min(TWO, len(weighed)):
        return 0.0
    share = sum(map(abs, there)) / sum(map(abs, weighed.values()))
    fits = 0.5 * share / HALF if share < HALF else 0.5 + 0.5 * (share - HALF) / (1.0 - HALF)
    return times_odds(GATE, STRETCH * log_odds(fits))
