"""The trace of a whisper: what was heard, and for each candidate every number and the stage that let it go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ormahd.actions.views import headline
from ormahd.whisper.types import Asked, Before, Candidate

if TYPE_CHECKING:
    from ormahd.whisper.pipeline import Answer


def trace(found: Answer, asked: Asked, before: Before) -> dict[str, Any]:
    """Plain values, for `--explain`. The numbers add up: `recompute` makes the relevance from them."""
    heard, pool = found.heard, found.pool
    told: dict[str, Any] = {
        "space": asked.space,
        "first": before.recent is None,
        "silence": None if found.silence is None else found.silence.value,
    }
    if heard is not None:
        told |= {
            "prompt": heard.prompt,
            "query": heard.query,
            "intents": sorted(heard.intents),
            "intent_scores": {name: round(score, 4) for name, score in heard.scores.items()},
            "follow_up": heard.follow_up,
            "after": None if heard.after is None else heard.after.isoformat(),
            "before": None if heard.before is None else heard.before.isoformat(),
            "topic": sorted(heard.topic),
        }
    if pool is not None:
        told |= {
            "here": round(pool.here, 4),
            "elsewhere": round(pool.elsewhere, 4),
            "fits_better": pool.better,
            "candidates": [shown(one) for one in pool.candidates],
            "preferences": [shown(one) for one in pool.preferences],
        }
    return told


def shown(one: Candidate) -> dict[str, Any]:
    """One candidate."""
    return {
        "node_id": one.id, "source": one.source, "relevance": round(one.relevance, 6),
        "order": round(one.order, 6), "shown": one.shown, "dropped": one.dropped, **one.numbers,
        **({"older_than": one.older_than} if one.older_than else {}),
        **({"also": one.also} if one.also else {}),
        "title": headline(one.row.title, one.row.content), "title_boost": one.numbers.get("title", 0.0),
    }  # fmt: skip


def recompute(numbers: Mapping[str, float], reranker_blend: float) -> float:
    """The relevance from a candidate's own numbers."""
    if "renewed" in numbers:  # it stands in the place of what it replaced
        return numbers["renewed"]
    text = numbers["text"]
    if "cross" in numbers:
        text = reranker_blend * numbers["cross"] + (1.0 - reranker_blend) * text
    place = numbers["place"] * numbers["certain"]
    relevance = max(text, numbers["identity"]) * place
    return min(1.0, max(0.0, relevance + numbers.get("affinity", 0.0)))
