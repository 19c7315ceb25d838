"""Trace: for each candidate every number that made its score, and the stage that dropped it."""

from __future__ import annotations

import math
from typing import Any

from msgspec import Struct, field

from ormahd.model.node import Found


class Trace(Struct):
    """How one candidate came to its score. `numbers` are by name what `shape` computed, unrounded."""

    node_id: str
    numbers: dict[str, float]
    words_rank: int | None = None
    bm25: float | None = None
    meaning_rank: int | None = None
    score: float = 0.0
    source: Found = "search"
    dropped: str | None = None
    """Why it is no result: the stage and the bound; None: it is one."""
    path: list[dict[str, Any]] = field(default_factory=list)
    """Of an activated result: the edges that lead to it; of a newer memory that came in the place of an older one: which."""
    older_than: str | None = None
    """The newer memory that replaced this one."""

    def recompute(self) -> float:
        """The score from the numbers alone: what `--explain` shows adds up."""
        n = self.numbers
        if "renewed" in n:  # a newer memory in the place of the older one, or the older one behind it
            return n["renewed"]
        if "activation" in n:
            return n["seed"] * n["weight"] * n["factor"] * n["decay"]
        if "temporal" in n:
            return n["temporal"]
        if "similarity" in n:
            base = (1.0 - n["blend"]) * n["rrf_norm"] + n["blend"] * n["similarity"]
        else:
            base = n["dampening"] * n["rrf_share"]
        # For small scores the seeds' base × (1 + boost); it nears 1 but never passes it, so no two notes tie there.
        titled = 1.0 - math.pow(1.0 - min(base, 1.0), 1.0 + n["title"] + n["exact"])
        adjusted = titled * n["without"] * n["confidence"]
        final = min(1.0, adjusted * (n["tier"] + n["recency"] + n["access"]) * n["period"] * n["kind"])
        score = round(final * n["space"], 6)
        return round(score * n["part"], 6) if "part" in n else score

    def shown(self) -> dict[str, Any]:
        """For `--explain`: plain values, in the order in which they were made."""
        return {
            "node_id": self.node_id, "source": self.source, "score": self.score, "dropped": self.dropped,
            "words_rank": self.words_rank, "bm25": self.bm25, "meaning_rank": self.meaning_rank,
            **self.numbers, **({"path": self.path} if self.path else {}),
            **({"older_than": self.older_than} if self.older_than else {}),
        }  # fmt: skip
