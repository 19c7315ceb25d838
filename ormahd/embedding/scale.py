"""The scale of a model's similarities: which similarities it gives to unrelated texts.

Two unrelated texts have a cosine of 0.1 with the default model and of 0.75 with e5, so the same number cannot be a
limit for both. For each model the similarities of unrelated calibration texts are measured once. By their quantiles a
similarity is converted to that of the default model, for which all limits, such as the whisper's gate, were chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from ormahd.embedding.token_vectors import calibration

if TYPE_CHECKING:
    from ormahd.embedding.embedder import DocumentVectors, QueryVectors

EVERY: Final = 11
"""One in `EVERY` calibration texts is used for the measurement."""
QUANTILES: Final = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
APART: Final = 1e-4
"""Minimum distance between two quantiles when they are interpolated."""


class Scale(Struct, frozen=True):
    """How similar a model finds unrelated texts: quantiles of their cosines."""

    cosine: tuple[float, ...]


USUAL: Final = Scale(cosine=(-0.0646, -0.0159, 0.0286, 0.0781, 0.1905, 0.2454))
"""The scale of the default model. `tests/contract/test_scale.py` measures it again."""


def texts() -> list[str]:
    """Return the calibration texts whose similarities are measured."""
    return calibration()[::EVERY]


def measure(queries: Sequence[QueryVectors], documents: Sequence[DocumentVectors]) -> Scale:
    """Return the scale of a model. `queries`, `documents`: its vectors of `texts()`, embedded as queries and as
    notes."""
    cosine = [
        float(query.vector @ document.pieces[0].vector)
        for at, query in enumerate(queries)
        for other, document in enumerate(documents)
        if at != other
    ]
    return Scale(tuple(round(float(one), 4) for one in np.quantile(cosine, QUANTILES)))


def usual_cosine(scale: Scale, value: float) -> float:
    """Return the cosine of the default model that corresponds to `value`, a cosine of the model with this scale.

    It is interpolated between quantiles; 1 and -1 stay.
    """
    return float(np.interp(value, _rising(scale.cosine), [-1.0, *USUAL.cosine, 1.0]))


def own_cosine(scale: Scale | None, value: float) -> float:
    """Return the cosine of the model with this scale that corresponds to `value`, a cosine of the default model.

    `scale` None: the model is the default one.
    """
    return value if scale is None else float(np.interp(value, [-1.0, *USUAL.cosine, 1.0], _rising(scale.cosine)))


def _rising(own: Sequence[float]) -> list[float]:
    """Return -1, the quantiles and 1, raised where needed so that each is larger than the one before."""
    rising = np.maximum.accumulate(np.array([-1.0, *own], np.float64)) + APART * np.arange(len(own) + 1)
    return [*rising.tolist(), max(1.0, float(rising[-1]) + APART)]
