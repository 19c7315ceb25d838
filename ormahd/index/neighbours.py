"""What a text that is about to become a note is near to: looked up for all who ask at once.

One by one, each of many writers embedded its text, asked the cache for it, and compared it with every note, and took turns with
all others at each of these steps. Together a step is one turn for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct

from ormahd.index.embed_together import Together
from ormahd.index.late import Float

MOST_TOKENS = 512
"""In one turn, padding counted: about one forward pass."""
CHARACTERS = 4
"""In one token, about."""

Near = list[tuple[str, float]]
"""Nodes, each with its cosine, best first."""
Embed = Callable[[Sequence[tuple[str | None, str]]], list[Float] | None]
Search = Callable[[Float, int], list[Near]]


class _Asked(Struct, frozen=True):
    title: str | None
    content: str
    limit: int

    def tokens(self) -> int:
        """About how many."""
        return 2 + (len(self.title or "") + len(self.content)) // CHARACTERS


class Neighbours:
    """Safe from any thread."""

    def __init__(self, embed: Embed, search: Search) -> None:
        """`embed`: vectors of texts (title, content), or None without a model; `search`: of each vector the nearest nodes."""
        self._embed = embed
        self._search = search
        self._together = Together[_Asked, Near](self._each, _Asked.tokens, most=MOST_TOKENS)

    def __call__(self, title: str | None, content: str, limit: int) -> Near:
        """The nodes nearest in meaning to a text; none without a model."""
        return self._together([_Asked(title, content, limit)])[0]

    def _each(self, asked: Sequence[_Asked]) -> list[Near]:
        vectors = self._embed([(one.title, one.content) for one in asked])
        if vectors is None:
            return [[] for _ in asked]
        found = self._search(np.stack(vectors), max(one.limit for one in asked))
        return [near[: one.limit] for one, near in zip(asked, found, strict=True)]
