"""Change a memory's relevance by the exact names in a prompt: one with the name is more relevant, one with a similar
name is not.

Words and vectors do not tell names apart: a year counts as a common word, and two ticket numbers have similar
vectors. The search compares names exactly (`search.exact`), and its numbers are used here. A *look-alike* of a name
is a similar name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from ormahd.index.reader import Reader
from ormahd.index.rows import NodeRow
from ormahd.model.chance import times_odds
from ormahd.search.exact import BOOST
from ormahd.text.facts import exact_tokens
from ormahd.text.words import fold

RARE: Final = 0.6 * BOOST
"""Value of the search's number `exact` from which a memory has most of a prompt's exact names, and these are rare."""
NAMED: Final = 1.2
"""What is added to the log odds of a memory whose `exact` reaches `RARE`."""
TWIN: Final = 0.15
"""Factor on the relevance of a memory with a look-alike, if the prompt has a name that no memory has."""
ALIKE: Final = 0.33
"""Minimum share of a name's parts that a look-alike has."""
READ: Final = 4_000
"""Maximum number of characters of a memory in which look-alikes are searched."""

_PARTS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_]+|\d+")
_DIGITS: Final = re.compile(r"\d+")
_HASH: Final = re.compile(r"(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{6,64}")


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
    others = [token.text for token in exact_tokens(f"{row.title or ''}\n{row.content[:READ]}")]
    return any(_alike(name, other) for name in names for other in others)


def _alike(name: str, other: str) -> bool:
    if _HASH.fullmatch(fold(name)):
        return _HASH.fullmatch(fold(other)) is not None
    form = _DIGITS.sub("0", fold(name))
    if form != fold(name) and form == _DIGITS.sub("0", fold(other)):
        return True
    parts = _parts(name)
    return len(parts & _parts(other)) >= ALIKE * len(parts) > 0


def _parts(name: str) -> frozenset[str]:
    return frozenset(part.lower() for part in _PARTS.findall(name))


def by_names(relevance: float, numbers: Mapping[str, float], *, twin: bool) -> float:
    """Return `relevance` of a memory, raised or lowered by the exact names in the prompt.

    `numbers`: the search's numbers of the memory; `twin`: whether it contains a look-alike of a name in the prompt that
    no memory contains (`has_twin`).
    """
    boost = numbers.get("exact", 0.0)
    if boost >= RARE:
        return times_odds(relevance, NAMED)
    if boost <= 0.0:
        relevance *= numbers.get("without", 1.0)  # below 1 if another memory has a name that this one lacks
    return relevance * TWIN if twin else relevance
