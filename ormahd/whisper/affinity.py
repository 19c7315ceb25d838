"""Apply feedback to candidates: an explicit judgement on the same prompt decides, others raise or lower the score. Pure.

An explicit judgement counts where its prompt means the same, by vector or by text hash; the latest wins. Otherwise judgements on
similar prompts (cosine above the threshold) count, weighted by cosine, age and source. The boost is their weighted mean of +1 and -1,
times the largest boost allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import partial
from typing import Any, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ormahd.model.judgement import Judgement
from ormahd.settings import AffinitySettings
from ormahd.state.feedback import Judgements

Float = NDArray[np.float32]

SAME: Final = 0.9
"""Cosine from which two prompts mean the same: with the default model other fillers and forms (0.92 to 0.97), and not another port,
price, version or module in the same sentence (0.65 to 0.89). 0.7, from which feedback counts for a prompt, is the same subject."""


class Verdict(Struct, frozen=True):
    """The last explicit judgement on a memory for this prompt. `cosine`: of the two prompts; 1 where the text is the same."""

    judgement: Judgement
    cosine: float

    @property
    def signal(self) -> int:
        return self.judgement.signal


def verdicts(
    vector: Float | None, prompt_hash: str, node_ids: Iterable[str], judgements: Judgements
) -> dict[str, Verdict]:
    """Node id to what was said of it for the prompt with this vector (unit) and keyed hash; the others are left out."""
    found: dict[str, Verdict] = {}
    for node_id in dict.fromkeys(node_ids):
        said = list(_said(vector, prompt_hash, node_id, judgements))
        if said:
            found[node_id] = max(said, key=lambda one: (one.judgement.confirmed_at, one.signal))
    return found


def _said(vector: Float | None, prompt_hash: str, node_id: str, judgements: Judgements) -> Iterator[Verdict]:
    explicit = judgements.explicit.get(node_id, ())
    if not explicit:
        return
    for place, one in explicit:
        if one.prompt_hash == prompt_hash:
            yield Verdict(one, 1.0)
        elif place is not None and vector is not None and judgements.matrix.shape[1] == len(vector):
            cosine = float(judgements.matrix[place] @ vector)
            if cosine >= SAME:
                yield Verdict(one, cosine)


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
