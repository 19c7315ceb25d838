"""What feedback says of a memory for a prompt: judged useful for prompts like this one it gains, judged useless it loses.

Of the judgements on a memory those count whose prompt was like this one (cosine from the threshold), each with its cosine,
half as much every half-life, and a bit less where an agent inferred it. The boost is their weighted mean of +1 and -1, times
the most that it may be. Source: seeds/affinity; pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ormahd.journal.feedback import Judgement, Judgements
from ormahd.settings import AffinitySettings

Float = NDArray[np.float32]
SHOWN = 20
"""Judgements that a trace names for one memory."""


@dataclass(frozen=True, slots=True)
class Row:
    """A judgement's part in a boost. `days` old; `weight` is what its signal counts."""

    judgement: Judgement
    cosine: float
    days: float
    weight: float

    @property
    def trace(self) -> dict[str, Any]:
        return {
            "event": self.judgement.event, "signal": self.judgement.signal, "source": self.judgement.source,
            "cosine": round(self.cosine, 4), "days": round(self.days, 2), "weight": round(self.weight, 6),
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Boost:
    """What is added to a memory's relevance, and the judgements that made it, the weightiest first (at most `SHOWN`)."""

    value: float
    judgements: int
    rows: tuple[Row, ...] = field(default=())

    @property
    def trace(self) -> dict[str, Any]:
        return {"boost": self.value, "judgements": self.judgements, "rows": [row.trace for row in self.rows]}


def boosts(
    vector: Float | None, node_ids: Iterable[str], judgements: Judgements, *, now: datetime, settings: AffinitySettings
) -> dict[str, Boost]:
    """What feedback adds to these memories for the prompt with this vector (unit). A memory without a judgement on a
    prompt like this one is left out."""
    if vector is None or judgements.matrix.shape[1] != len(vector):
        return {}
    found = {}
    for node_id in node_ids:
        span = judgements.spans.get(node_id)
        if span is not None:
            boost = _boost(vector, judgements, span, now, settings)
            if boost is not None:
                found[node_id] = boost
    return found


def judged(vector: Float | None, node_id: str, judgements: Judgements, settings: AffinitySettings) -> bool:
    """Whether there is a judgement on this memory for a prompt like this one: then there is nothing to ask."""
    span = judgements.spans.get(node_id)
    if vector is None or span is None or judgements.matrix.shape[1] != len(vector):
        return False
    return bool((judgements.matrix[span] @ vector >= settings.similarity_threshold).any())


def _boost(
    vector: Float, judgements: Judgements, span: slice, now: datetime, settings: AffinitySettings
) -> Boost | None:
    cosines = judgements.matrix[span] @ vector
    # a setting below 0 lets opposites in: they weigh nothing
    places = np.flatnonzero((cosines >= settings.similarity_threshold) & (cosines > 0))
    if not len(places):
        return None
    cosines = cosines[places].astype(np.float64)
    places += span.start
    # clocks of several machines differ: what comes from the future counts as of now
    days = np.maximum(0.0, (now.timestamp() - judgements.times[places]) / 86_400)
    source = np.where(judgements.implicit[places], settings.implicit_weight, 1.0)
    if not source.any():
        return None  # only inferred ones, which weigh nothing here
    counted = cosines * source
    # as the youngest had no age: the mean is the same, and a hundred years do not make 0 / 0 of it
    fresh = counted * np.exp2(-np.maximum(0.0, days - days[source > 0].min()) / settings.half_life_days)
    value = float((judgements.signals[places] * fresh).sum() / fresh.sum()) * settings.max_boost
    weights = counted * np.exp2(-days / settings.half_life_days)
    order = np.argsort(-fresh, kind="stable")[:SHOWN]
    rows = tuple(
        Row(judgements.rows[places[at]], float(cosines[at]), float(days[at]), float(weights[at])) for at in order
    )
    return Boost(value, len(places), rows)
