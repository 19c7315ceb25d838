"""Affinity: how earlier judgements change the relevance of candidates. Pure functions.

`verdicts` returns the explicit judgements on prompts with the same meaning (equal text hash, or cosine of at least
`SAME`): the latest one decides. `boosts` uses all judgements on similar prompts (cosine above the threshold): a
memory's boost is the mean of their signals (+1 or -1), weighted by cosine, age and source, times the largest boost
allowed.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ormahd.model.chance import MAX_BOOST
from ormahd.model.judgement import Judgement
from ormahd.state.feedback import Judgements

Float = NDArray[np.float32]

SAME: Final = 0.9
"""Minimum cosine of two prompts with the same meaning. With the default model, prompts that differ in wording only are
above it, and prompts that differ in a port, price, version or module are below it."""

SIMILARITY: Final = 0.70
"""Minimum cosine with an earlier prompt for its feedback to count."""
HALF_LIFE_DAYS: Final = 30.0
"""Days after which a judgement counts half: what was useful a season ago says little."""
IMPLICIT_WEIGHT: Final = 0.8
"""Weight of a judgement that was inferred; an explicit one has 1."""


class Verdict(Struct, frozen=True):
    """The latest explicit judgement on a memory for a prompt with the same meaning as the current prompt.

    `cosine`: between the two prompts; 1 if their texts are equal.
    """

    judgement: Judgement
    cosine: float

    @property
    def signal(self) -> int:
        return self.judgement.signal


def verdicts(vector: Float | None, prompt_hash: str, judgements: Judgements) -> dict[str, Verdict]:
    """Return `{node id: verdict}` for the memories that were explicitly judged for a prompt that means the same.

    `vector`: the prompt's unit vector, None to compare texts only; `prompt_hash`: the keyed hash of its text.
    """
    same: list[Verdict] = []
    if vector is not None and judgements.matrix.shape[1] == len(vector):
        cosines = judgements.matrix @ vector
        near = np.flatnonzero((cosines >= SAME) & ~judgements.implicit)
        same += [Verdict(judgements.rows[at], float(cosines[at])) for at in near]
    same += [Verdict(judgement, 1.0) for judgement in judgements.explicit.get(prompt_hash, ())]
    same.sort(key=lambda verdict: (verdict.judgement.confirmed_at, verdict.signal, verdict.cosine))
    return {verdict.judgement.node_id: verdict for verdict in same}  # the latest of each memory


def boosts(vector: Float | None, node_ids: Iterable[str], judgements: Judgements, *, now: datetime) -> dict[str, float]:
    """Return `{node id: boost}` for the nodes that were judged for a prompt similar to this one.

    `vector`: the prompt's unit vector, None for no boosts.
    """
    if vector is None or judgements.matrix.shape[1] != len(vector):
        return {}
    nodes = [node for node in dict.fromkeys(node_ids) if node in judgements.spans]
    if not nodes:
        return {}

    # one array item for each judgement on one of the nodes; `node_of`: the place of its node in `nodes`
    spans = [judgements.spans[node] for node in nodes]
    cosines = np.concatenate([judgements.matrix[span] @ vector for span in spans]).astype(np.float64)
    places = np.concatenate([np.arange(span.start, span.stop) for span in spans])
    node_of = np.repeat(np.arange(len(nodes)), [span.stop - span.start for span in spans])
    source = np.where(judgements.implicit[places], IMPLICIT_WEIGHT, 1.0)
    # with a threshold below 0, prompts with a negative cosine would pass
    like = (cosines >= SIMILARITY) & (cosines > 0)
    cosines, places, node_of, source = cosines[like], places[like], node_of[like], source[like]

    # clocks of several machines differ: a judgement dated in the future counts as made now
    days = np.maximum(0.0, (now.timestamp() - judgements.times[places]) / 86_400)
    # Ages count from each memory's youngest judgement: the mean is the same, and very old ones do not give 0 / 0.
    youngest = np.full(len(nodes), np.inf)
    np.minimum.at(youngest, node_of, days)

    # the weighted mean of the signals of each node
    weights = cosines * source * np.exp2(-(days - youngest[node_of]) / HALF_LIFE_DAYS)
    total = np.bincount(node_of, weights, len(nodes))
    signed = np.bincount(node_of, weights * judgements.signals[places], len(nodes))

    return {node: float(signed[at] / total[at]) * MAX_BOOST for at, node in enumerate(nodes) if total[at] > 0}


def is_judged(vector: Float | None, node_id: str, judgements: Judgements) -> bool:
    """Return whether this memory was judged for a similar prompt. Then a review need not ask about it.

    `vector`: the prompt's unit vector; None: the result is False.
    """
    span = judgements.spans.get(node_id)
    if vector is None or span is None or judgements.matrix.shape[1] != len(vector):
        return False
    return bool((judgements.matrix[span] @ vector >= SIMILARITY).any())
