"""Relevance of memories for a prompt in a language that the embedding model does not read: by words alone.

It is the share of the prompt's words that stand in a memory, weighted by rarity in the vault. Words that no memory has
count as the rarest, so that small talk and matters of which nothing is known stay silent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from ormahd.embedding.reading import READABLE
from ormahd.index.rows import NodeRow
from ormahd.model.chance import log_odds, times_odds
from ormahd.search.exact import FEW, RARE
from ormahd.search.gather import EmbedQuery, Searchable
from ormahd.text.language import note_stems, question_stems
from ormahd.text.quoting import beginning
from ormahd.text.words import query_terms, words

READ: Final = 8_000
"""Characters of a memory whose words are compared with a prompt's."""
TWO: Final = 2
"""Words of a prompt that a memory must have, unless the prompt has fewer: one word in common is chance."""
HALF: Final = 0.35
"""Share of a prompt's words at which a memory is as relevant as the default gate wants."""
GATE: Final = 0.15
"""The relevance of such a memory: the default of `whisper.injection_gate`."""
STRETCH: Final = 2.3
"""Log odds of relevance for one of the share, where half stands for `HALF`."""


def weights(index: Searchable, query: str, embed: EmbedQuery) -> dict[str, float]:
    """Return the weight of each word of a prompt, negative if it is common; empty if the model reads the prompt."""
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
    """Return the relevance of a memory, 0 to 1: `GATE` where it has `HALF` of the prompt's words, one of them rare."""
    text = f"{row.title or ''} {' '.join(row.tags)} {beginning(row.content, READ)}"
    said = set(words(text))
    said |= note_stems(text, said)
    there = [weight for term, weight in weighed.items() if term in said or not said.isdisjoint(question_stems(term))]
    if not any(weight > 0.0 for weight in there) or len(there) < min(TWO, len(weighed)):
        return 0.0
    share = sum(map(abs, there)) / sum(map(abs, weighed.values()))
    fits = 0.5 * share / HALF if share < HALF else 0.5 + 0.5 * (share - HALF) / (1.0 - HALF)
    return times_odds(GATE, STRETCH * log_odds(fits))
