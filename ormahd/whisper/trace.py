"""The trace that explains a whisper: all numbers of each candidate, and the stage that dropped it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ormahd.actions.views import headline
from ormahd.model.chance import after_feedback, log_odds, sigmoid
from ormahd.whisper.relevance import PART, TEXT_ALONE
from ormahd.whisper.types import Asked, Candidate

if TYPE_CHECKING:
    from ormahd.whisper.pipeline import Answer


def trace(found: Answer, asked: Asked) -> dict[str, Any]:
    """Return the values that `--explain` shows of a whisper, as plain dicts, lists and scalars."""
    heard, pool = found.heard, found.pool
    told: dict[str, Any] = {
        "space": asked.space,
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
        }
    if found.request is not None:
        told |= {"request": found.request.shown()}
    if pool is not None:
        told |= {
            "weights": dict(pool.weights),
            "fits_better": pool.better,
            "candidates": [shown(one) for one in pool.candidates],
            "preferences": [shown(one) for one in pool.preferences],
        }
    return told


def shown(one: Candidate) -> dict[str, Any]:
    """Return the values that `--explain` shows of one candidate."""
    return {
        "node_id": one.id, "source": one.source, "project": one.row.space, "relevance": round(one.relevance, 6),
        "order": round(one.order, 6), "shown": one.shown, "dropped": one.dropped, **one.numbers, "parts": parts(one.numbers),
        **({"older_than": one.older_than} if one.older_than else {}),
        **({"also": one.also} if one.also else {}),
        "title": headline(one.row.title, one.row.content),
    }  # fmt: skip


def parts(numbers: Mapping[str, float]) -> list[dict[str, Any]]:
    """Return the steps in which the stages compute a candidate's relevance from its `numbers`: the `name` of the evidence,
    the `odds` that it adds to the log odds (from 0), and the `relevance` after it. The last one is the candidate's."""
    found, odds = list[dict[str, Any]](), 0.0
    if "by_words" not in numbers:  # else the other evidence does not count
        for name, value in numbers.items():
            if name.startswith(PART) and name != TEXT_ALONE:
                odds += value
                found.append({"name": name.removeprefix(PART), "odds": value, "relevance": sigmoid(odds)})

    text = numbers["text"]
    linked = max(text, numbers["identity"])
    there = linked * numbers["place"]
    sure = there * numbers["certain"]
    judged = after_feedback(sure, numbers.get("affinity", 0.0))
    steps: dict[str, float | None] = {
        "by_words": numbers.get("by_words"), "twin" if numbers.get("twin") else "names": text, "identity": linked, "place": there,
        "certain": sure, "affinity": judged, "renewed": numbers.get("renewed"),
    }  # fmt: skip
    for name, after in steps.items():
        if after is not None:
            found.append({"name": name, "odds": log_odds(after) - odds, "relevance": after})
            odds = log_odds(after)
    return found
