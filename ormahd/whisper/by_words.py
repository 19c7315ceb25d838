"""Relevance by words alone, for a prompt in a language that the embedding model does not read; and by exact names.

Relevance grows with the share of a clause's words that a memory contains; that of the prompt is the highest of its
clauses. Each word is weighted by its rarity in the vault. A word that no memory contains has the largest weight, so
unknown topics get a low relevance. Clauses and words of mere politeness (`phrases.txt`) do not count.

Words and vectors do not tell names apart: a year counts as a common word, and two ticket numbers have similar vectors.
The search compares names exactly (`search.exact`). `adjust_by_names` uses its numbers: a memory with the prompt's name
is more relevant, one with a *look-alike*, a similar name, is not.
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
from ormahd.search.exact import BOOST, FEW, RARE
from ormahd.search.gather import EmbedQuery
from ormahd.text.facts import exact_tokens
from ormahd.text.language import note_stems, question_stems
from ormahd.text.quoting import beginning
from ormahd.text.words import fold, is_unspaced, query_terms, words
from ormahd.whisper.analyse import acknowledges

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

RARE_NAMES: Final = 0.6 * BOOST
"""Value of the search's number `exact` from which a memory has most of a prompt's exact names, and these are rare."""
NAMED: Final = 1.2
"""What is added to the log odds of a memory whose `exact` reaches `RARE_NAMES`."""
TWIN: Final = 0.15
"""Factor on the relevance of a memory with a look-alike, if the prompt has a name that no memory has."""
ALIKE: Final = 0.33
"""Minimum share of a name's parts that a look-alike has."""
READ_FOR_NAMES: Final = 4_000
"""Maximum number of characters of a memory in which look-alikes are searched."""

_PARTS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_]+|\d+")
_DIGITS: Final = re.compile(r"\d+")
_HASH: Final = re.compile(r"(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{6,64}")


def clause_weights(index: Reader, query: str, embed: EmbedQuery) -> list[dict[str, float]]:
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

    0 if these are too few, or none of them is rare. `clauses`: the prompt's words, as `clause_weights` returns them.
    """
    text = f"{row.title or ''} {' '.join(row.tags)} {beginning(row.content, READ)}"
    known = set(words(text))
    known |= note_stems(text, known)
    best = 0.0
    for weighed in clauses:
        shared = [
            weight for term, weight in weighed.items() if term in known or not known.isdisjoint(question_stems(term))
        ]
        if any(weight > 0.0 for weight in shared) and (len(shared) >= TWO or len(weighed) <= TWO):
            best = max(best, sum(map(abs, shared)) / sum(map(abs, weighed.values())))
    fits = 0.5 * best / HALF if best < HALF else 0.5 + 0.5 * (best - HALF) / (1.0 - HALF)
    return times_odds(GATE, STRETCH * log_odds(fits)) if best else 0.0


def unknown_names(index: Reader, query: str) -> list[str]:
    """Return the exact names in a prompt (`OPS-2310`, `src/app.py`) that no memory contains."""
    names = [token.text for token in exact_tokens(query) if not token.plain]
    if not names:
        return []
    counts, _ = index.frequencies(names)
    return [name for name in names if not counts[name]]


def has_twin(names: Sequence[str], row: NodeRow) -> bool:
    """Return whether a memory contains a look-alike of one of `names`.

    A look-alike has at least a third of the name's parts, or differs in digits only. All hashes are look-alikes.
    """
    if not names:
        return False
    others = [token.text for token in exact_tokens(f"{row.title or ''}\n{row.content[:READ_FOR_NAMES]}")]
    return any(_is_look_alike(name, other) for name in names for other in others)


def _is_look_alike(name: str, other: str) -> bool:
    """Return whether `other` is a look-alike of `name`, see `has_twin`."""
    if _HASH.fullmatch(fold(name)):
        return _HASH.fullmatch(fold(other)) is not None
    form = _DIGITS.sub("0", fold(name))
    if form != fold(name) and form == _DIGITS.sub("0", fold(other)):
        return True
    parts = _name_parts(name)
    return len(parts & _name_parts(other)) >= ALIKE * len(parts) > 0


def _name_parts(name: str) -> frozenset[str]:
    """Return the words and numbers in a name, in lower case: of `parse_tide-2` "parse", "tide" and "2"."""
    return frozenset(part.lower() for part in _PARTS.findall(name))


def adjust_by_names(relevance: float, numbers: Mapping[str, float], *, twin: bool) -> float:
    """Return the relevance of a memory after the exact names in the prompt have raised or lowered it.

    `relevance`: without the names; `numbers`: the search's numbers of the memory; `twin`: whether it contains a
    look-alike of a name in the prompt that no memory contains (`has_twin`).
    """
    boost = numbers.get("exact", 0.0)
    if boost >= RARE_NAMES:
        return times_odds(relevance, NAMED)
    if boost <= 0.0:
        relevance *= numbers.get("without", 1.0)  # below 1 if another memory has a name that this one lacks
    return relevance * TWIN if twin else relevance
