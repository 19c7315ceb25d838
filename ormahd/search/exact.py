"""Exact names: which notes contain the names that a question spells out literally, and how much that changes their scores.

The rarer a name, the larger its effect. Notes with the name are raised, and notes without it are lowered if another
note has it. A name that no note contains has no effect.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from ormahd.search.gather import Heard, Searchable
from ormahd.text.facts import ExactToken, exact_tokens
from ormahd.text.words import fold

RARE = 0.05
"""Largest share of notes that may contain a rare word."""
FEW = 2
"""A word that at most this many notes contain is rare in a vault of any size."""
COMMON = 60
"""Names found in more notes than this are ignored: they do not single out a note."""
BOOST = 3.0
"""Largest boost, for a note that contains all names when they are rare. It is part of an exponent, like the title boost."""
MISSING = 0.35
"""Largest share of its score that a note without the names loses."""
PLAIN = 0.5
"""Weight of a number or hyphenated word, against 1 for other names: notes often spell these differently."""


class Exact(Struct, frozen=True):
    """Effect of the names on each node: `boost` and `factor` for nodes with a name; the factor `without` for all others."""

    boost: Mapping[str, float] = field(default_factory=dict)
    factor: Mapping[str, float] = field(default_factory=dict)
    without: float = 1.0

    def of(self, node_id: str) -> tuple[float, float]:
        """Return (boost, factor) of a node."""
        return self.boost.get(node_id, 0.0), self.factor.get(node_id, self.without)


NOTHING = Exact()


def look(index: Searchable, heard: Heard) -> Exact:
    """Find the notes that contain the names in the question, and weigh them."""
    tokens = exact_tokens(heard.text)
    if not tokens:
        return NOTHING
    counts, files = index.frequencies([token.text for token in tokens])
    known = [token for token in tokens if 0 < counts[token.text] <= COMMON]
    having = {token.text: _having(index, token, heard) for token in known}
    return weigh([(token, having[token.text]) for token in known if having[token.text]], files)


def rare_words(index: Searchable, topic: frozenset[str]) -> frozenset[str]:
    """Return the words of `topic` that few notes or no note contain; all words if none is rare."""
    if not topic:
        return topic
    counts, files = index.frequencies(sorted(topic))
    return frozenset(word for word in topic if counts[word] <= max(FEW, RARE * files)) or topic


def weigh(found: Sequence[tuple[ExactToken, frozenset[str]]], files: int) -> Exact:
    """Compute the boosts and factors. `found`: each name with the nodes that contain it, at least one. `files`: notes
    in the vault."""
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
    """Return the nodes whose text contains the name.

    Full text search finds notes with the parts of the name in sequence; the text itself is then checked for the exact
    spelling.
    """
    ids = [node_id for node_id, _ in index.begin_text([token.text], COMMON, heard.chosen)()]
    rows = index.notes(ids, connections=False)
    return frozenset(
        node_id for node_id, row in rows.items()
        if any(token.stands_in(fold(part)) for part in (row.title, row.content, *row.tags, *row.aliases) if part)
    )  # fmt: skip


def _rarity(notes: int, files: int) -> float:
    """Return 1 for a name that one note of many contains, falling to 0 for a name that all notes contain."""
    return math.log(1.0 + files / notes) / math.log(1.0 + max(files, 1)) if notes < files or files == 1 else 0.0
