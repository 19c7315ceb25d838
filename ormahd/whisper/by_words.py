"""Relevance by words alone, for a prompt in a language that the embedding model does not read.

Relevance grows with the share of a clause's words that a memory contains; that of the prompt is the highest of its
clauses. Each word is weighted by its rarity in the vault. A word that no memory contains has the largest weight, so
unknown topics get a low relevance. Clauses and words of mere politeness (`phrases.txt`) do not count.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Final

from ormahd.embedding.reading import READABLE
from ormahd.index.reader import Reader
from ormahd.index.rows import NodeRow
from ormahd.model.chance import log_odds, times_odds
from ormahd.search.exact import FEW, RARE
from ormahd.search.gather import EmbedQuery
from ormahd.text.language import note_stems, question_stems
from ormahd.text.quoting import beginning
from ormahd.text.words import is_unspaced, query_terms, words
from ormahd.whisper.hear import acknowledges

READ: Final = 8_000
"""Maximum number of characters of a memory whose words are compared with a prompt's."""
TWO: Final = 2
"""Number of a clause's words that a memory must contain, unless the clause has no more. One may be a coincidence."""
HALF: Final = 0.35
"""Share of a clause's words that gives a memory the relevance `GATE`."""
STRAY: Final = 0.5
"""Factor on the weight of a pair of letters that no note contains, in scripts without spaces: about half of the pairs
there are of two words."""
CLAUSE_END: Final = re.compile(r"[.!?;:,\n…。！？；：，、؟،؛।]+|(?<=[\u0e01-\u0e4f])\s+(?=[\u0e01-\u0e4f])")
"""What parts clauses; in Thai also a space."""
GATE: Final = 0.35
"""Default of `whisper.injection_gate`."""
STRETCH: Final = 2.3
"""Factor from the log odds of the share, rescaled so that `HALF` becomes 0.5, to the log odds of the relevance."""


def weights(index: Reader, query: str, embed: EmbedQuery) -> list[dict[str, float]]:
    """Return `{word: weight}` for each clause of a prompt. Words that many notes contain have negative weights.

    Empty if the embedding model reads the prompt's language, or is not loaded.
    """
    vectors = embed(query)
    if vectors is None or vectors.read >= READABLE:
        return []
    spoken = [clause for clause in CLAUSE_END.split(query) if not acknowledges(clause, orders=False)]
    clauses = [[term for term in query_terms(clause) if not acknowledges(term, orders=False)] for clause in spoken]
    counts, files = index.frequencies(list({term: None for terms in clauses for term in terms}))
    least = max(FEW, RARE * files)
    weighed = {}
    for term, count in counts.items():
        weight = math.log(1.0 + (files + 1.0) / (count + 0.5))
        weight *= STRAY if not count and is_unspaced(term[0]) else 1.0
        weighed[term] = weight if count <= least else -weight
    return [{term: weighed[term] for term in terms} for terms in clauses if terms]


def relevance_by_words(row: NodeRow, clauses: Sequence[Mapping[str, float]]) -> float:
    """Return the relevance of a memory, from 0 to 1, by the words that it shares with a clause of the prompt.

    0 if these are too few, or none of them is rare. `clauses`: the prompt's words, as `weights` returns them.
    """
    text = f"{row.title or ''} {' '.join(row.tags)} {beginning(row.content, READ)}"
    said = set(words(text))
    said |= note_stems(text, said)
    best = 0.0
    for weighed in clauses:
        there = [
            weight for term, weight in weighed.items() if term in said or not said.isdisjoint(question_stems(term))
        ]
        if any(weight > 0.0 for weight in there) and (len(there) >= TWO or len(weighed) <= TWO):
            best = max(best, sum(map(abs, there)) / sum(map(abs, weighed.values())))
    fits = 0.5 * best / HALF if best < HALF else 0.5 + 0.5 * (best - HALF) / (1.0 - HALF)
    return times_odds(GATE, STRETCH * log_odds(fits)) if best else 0.0
