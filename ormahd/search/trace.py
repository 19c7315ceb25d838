"""A trace holds, for one candidate, every number of its score and the stage that dropped it."""

from __future__ import annotations

import math
from typing import Any

from msgspec import Struct, field

from ormahd.model.node import Found


class Trace(Struct):
    """How a candidate got its score. `numbers`: the unrounded values that `shape` computed, by name."""

    node_id: str
    numbers: dict[str, float]
    words_rank: int | None = None
    bm25: float | None = None
    meaning_rank: int | None = None
    score: float = 0.0
    source: Found = "search"
    dropped: str | None = None
    """Why the candidate is no result: the stage and its limit. None: it is a result."""
    path: list[dict[str, Any]] = field(default_factory=list)
    """For an activated result: the edge that leads to it. For a newer memory that was moved before an older one: that
    older memory."""
    older_than: str | None = None
    """Id of the newer memory that replaced this one."""

    def recompute(self) -> float:
        """Compute the score from the numbers alone."""
        n = self.numbers
        if "renewed" in n:  # set by `renew`: a newer memory moved before an older one, or that older one
            return n["renewed"]
        if "activation" in n:
            return n["seed"] * n["weight"] * n["factor"] * n["decay"]
        if "temporal" in n:
            return n["temporal"]
        if "similarity" in n:
            base = (1.0 - n["blend"]) * n["rrf_norm"] + n["blend"] * n["similarity"]
        else:
            base = n["dampening"] * n["rrf_share"]
        # For small scores this is base × (1 + boost). It approaches 1 without reaching it, so boosted notes do not tie at 1.
        titled = 1.0 - math.pow(1.0 - min(base, 1.0), 1.0 + n["title"] + n["exact"])
        adjusted = titled * n["without"] * n["confidence"]
        final = min(1.0, adjusted * (n["tier"] + n["recency"] + n["access"]) * n["period"] * n["kind"])
        score = round(final * n["space"], 6)
        return round(score * n["part"], 6) if "part" in n else score

    def shown(self) -> dict[str, Any]:
        """Return plain values for `--explain`, in the order in which they were computed."""
        return {
            "node_id": self.node_id, "source": self.source, "score": self.score, "dropped": self.dropped,
            "words_rank": self.words_rank, "bm25": self.bm25, "meaning_rank": self.meaning_rank,
            **self.numbers, **({"path": self.path} if self.path else {}),
            **({"older_than": self.older_than} if self.older_than else {}),
        }  # fmt: skip
