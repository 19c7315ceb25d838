"""Exact: which notes have the names that a question spells out, letter by letter, and what that is worth.

The rarer the name, the more it counts: for the notes that have it, and against those that do not where another one does. What no note
has tells nothing about their order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from ormahd.search.gather import Searchable
from ormahd.search.hear import Heard
from ormahd.text.facts import ExactToken, exact_tokens
from ormahd.text.words import fold

RARE = 0.05
"""Share of the notes up to which a word is rare."""
FEW = 2
"""Notes up to which it is rare in any vault."""
COMMON = 60
"""Notes with a name from which it names none of them."""
BOOST = 3.0
"""Largest boost, to a note with all of the names, where they are rare; in the exponent, as the title's."""
MISSING = 0.35
"""Largest share that a note without them loses."""
PLAIN = 0.5
"""What a number or a word with a hyphen counts, against 1 for a name: they are often written in another way."""


class Exact(Struct, frozen=True):
    """By node: `boost`, for the names it has; and for those without any the factor `without`."""

    boost: Mapping[str, float] = field(default_factory=dict)
    factor: Mapping[str, float] = field(default_factory=dict)
    without: float = 1.0

    def of(self, node_id: str) -> tuple[float, float]:
        """(boost, factor)."""
        return self.boost.get(node_id, 0.0), self.factor.get(node_id, self.without)


NOTHING = Exact()


def look(index: Searchable, heard: Heard) -> Exact:
    """Which notes have the names in the question."""
    tokens = exact_tokens(heard.text)
    if not tokens:
        return NOTHING
    counts, files = index.frequencies([token.text for token in tokens])
    known = [token for token in tokens if 0 < counts[token.text] <= COMMON]
    having = {token.text: _having(index, token, heard) for token in known}
    return weigh([(token, having[token.text]) for token in known if having[token.text]], files)


def rare_words(index: Searchable, topic: frozenset[str]) -> frozenset[str]:
    """The words that few notes have, or none at all; all of them where each is common."""
    if not topic:
        return topic
    counts, files = index.frequencies(sorted(topic))
    return frozenset(word for word in topic if counts[word] <= max(FEW, RARE * files)) or topic


def weigh(found: Sequence[tuple[ExactToken, frozenset[str]]], files: int) -> Exact:
    """What the names are worth. `found`: each with the nodes that have it, at least one."""
    worth = [(_rarity(len(ids), files) * (PLAIN if token.plain else 1.0), token, ids) for token, ids in found]
    total = sum(weight for weight, _, _ in worth)
    if not total:
        return NOTHING
    strength = max(weight for weight, _, _ in worth)
    against = sum(weight for weight, token, _ in worth if not token.plain) / total * strength * MISSING
    boost: dict[str, float] = {}
    factor: dict[str, float] = {}
    for node_id in sorted({node_id for _, _, ids in worth for node_id in ids}):
        has = sum(weight for weight, _, ids in worth if node_id in ids) / total
        lacks = sum(weight for weight, token, ids in worth if node_id not in ids and not token.plain) / total
        boost[node_id] = BOOST * strength * has
        factor[node_id] = 1.0 - MISSING * strength * lacks
    return Exact(boost, factor, 1.0 - against)


def _having(index: Searchable, token: ExactToken, heard: Heard) -> frozenset[str]:
    """Full text search finds its parts in this order; whether they are the name, the text itself tells."""
    ids = [node_id for node_id, _ in index.begin_text([token.text], COMMON, heard.chosen)()]
    rows = index.notes(ids, connections=False)
    return frozenset(
        node_id for node_id, row in rows.items()
        if any(token.stands_in(fold(part)) for part in (row.title, row.content, *row.tags, *row.aliases) if part)
    )  # fmt: skip


def _rarity(notes: int, files: int) -> float:
    """1 for a name that one note of many has, nearing 0 for one that all have."""
    return math.log(1.0 + files / notes) / math.log(1.0 + max(files, 1)) if notes < files or files == 1 else 0.0
