"""What feedback says of a memory for a prompt: judged useful for prompts like this one it gains, judged useless it loses.

Of the judgements on a memory those count whose prompt was like this one (cosine from the threshold), each with its cosine,
half as much every half-life, and a bit less where an agent inferred it. The boost is their weighted mean of +1 and -1, times
the most that it may be. Source: seeds/affinity; pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ormahd.settings import AffinitySettings
from ormahd.state.feedback import Judgement, Judgements

Float = NDArray[np.float32]
SHOWN = 20
"""Judgements that a trace names for one memory."""


class Row(Struct, frozen=True):
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


class Boost(Struct, frozen=True):
    """What is added to a memory's relevance, and of how many `judgements` it was made."""

    value: float
    judgements: int
    _rows: Callable[[], tuple[Row, ...]] = tuple

    @property
    def rows(self) -> tuple[Row, ...]:
        """The judgements that made it, the weightiest first (at most `SHOWN`)."""
        return self._rows()

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
    nodes = [node for node in dict.fromkeys(node_ids) if node in judgements.spans]
    if not nodes:
        return {}
    spans = [judgements.spans[node] for node in nodes]
    cosines = np.concatenate([judgements.matrix[span] @ vector for span in spans]).astype(np.float64)
    places = np.concatenate([np.arange(span.start, span.stop) for span in spans])
    of = np.repeat(np.arange(len(nodes)), [span.stop - span.start for span in spans])
    source = np.where(judgements.implicit[places], settings.implicit_weight, 1.0)
    # a setting below 0 lets opposites in: they weigh nothing
    like = (cosines >= settings.similarity_threshold) & (cosines > 0) & (source > 0)
    cosines, places, of, source = cosines[like], places[like], of[like], source[like]
    # clocks of several machines differ: what comes from the future counts as of now
    days = np.maximum(0.0, (now.timestamp() - judgements.times[places]) / 86_400)
    # as if a memory's youngest had no age: the mean is the same, and a hundred years do not make 0 / 0 of it
    youngest = np.full(len(nodes), np.inf)
    np.minimum.at(youngest, of, days)
    weights = cosines * source * np.exp2(-(days - youngest[of]) / settings.half_life_days)
    total = np.bincount(of, weights, len(nodes))
    signed = np.bincount(of, weights * judgements.signals[places], len(nodes))

    def rows(number: int) -> tuple[Row, ...]:
        mine = np.flatnonzero(of == number)
        heaviest = mine[np.argsort(-weights[mine], kind="stable")][:SHOWN]
        aged = cosines * source * np.exp2(-days / settings.half_life_days)
        return tuple(
            Row(judgements.rows[places[at]], float(cosines[at]), float(days[at]), float(aged[at])) for at in heaviest
        )

    return {
        node: Boost(
            float(signed[number] / total[number]) * settings.max_boost, int(np.count_nonzero(of == number)), partial(rows, number)
        )
        for number, node in enumerate(nodes)
        if total[number] > 0
    }  # fmt: skip


def judged(vector: Float | None, node_id: str, judgements: Judgements, settings: AffinitySettings) -> bool:
    """Whether there is a judgement on this memory for a prompt like this one: then there is nothing to ask."""
    span = judgements.spans.get(node_id)
    if vector is None or span is None or judgements.matrix.shape[1] != len(vector):
        return False
    return bool((judgements.matrix[span] @ vector >= settings.similarity_threshold).any())
