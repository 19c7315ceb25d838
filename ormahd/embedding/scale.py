"""The scale of a model's similarities: how alike two texts are to it that have nothing to do with each other.

Unrelated texts have a cosine of 0.1 with the default model and of 0.75 with e5, so one number cannot be a gate for both.
For each model the similarities of unrelated calibration texts are measured once, and a similarity is converted, by their
quantiles, to what it would be with the default model, for which the whisper's gate was fitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from ormahd.embedding.token_vectors import calibration, cosines, pack

if TYPE_CHECKING:
    from ormahd.embedding.embedder import DocumentVectors, QueryVectors

EVERY: Final = 11
"""One in so many calibration texts is compared with the others."""
QUANTILES: Final = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
POWER: Final = 2.0
"""As in the search (`search.gather.POWER`)."""
APART: Final = 1e-4
"""Least distance of two quantiles."""


class Scale(Struct, frozen=True):
    """Quantiles of the similarities of unrelated texts: of vectors (`cosine`) and by late interaction (`late`)."""

    cosine: tuple[float, ...]
    late: tuple[float, ...]


USUAL: Final = Scale(
    cosine=(-0.065, -0.0172, 0.0296, 0.08, 0.1949, 0.2514), late=(0.0719, 0.1074, 0.1324, 0.1785, 0.2782, 0.3517)
)
"""That of the default model; `tests/contract/test_scale.py` measures it again."""


def texts() -> list[str]:
    """Return the calibration texts that are compared."""
    return calibration()[::EVERY]


def measure(queries: Sequence[QueryVectors], documents: Sequence[DocumentVectors]) -> Scale:
    """Return the scale of a model, by its vectors of `texts()`, as questions and as notes."""
    cosine, late = [], []
    for at, query in enumerate(queries):
        for other, document in enumerate(documents):
            if at == other:
                continue
            piece = document.pieces[0]
            cosine.append(float(query.vector @ piece.vector))
            if len(piece.tokens) and len(query.tokens):
                packed = np.frombuffer(pack(piece.tokens), np.uint8).reshape(len(piece.tokens), -1)
                best = np.clip(cosines(packed, query.tokens).max(axis=0), 0.0, 1.0) ** POWER
                late.append(float(best.mean() ** (1.0 / POWER)))
    return Scale(_quantiles(cosine), _quantiles(late or [0.0]))


def _quantiles(values: Sequence[float]) -> tuple[float, ...]:
    return tuple(round(float(one), 4) for one in np.quantile(values, QUANTILES))


def usual_cosine(scale: Scale, value: float) -> float:
    """Return the cosine that the default model would have given."""
    return _convert(value, scale.cosine, USUAL.cosine)


def usual_late(scale: Scale, value: float) -> float:
    """Return the late interaction that the default model would have given."""
    return _convert(value, scale.late, USUAL.late)


def own_cosine(scale: Scale | None, value: float) -> float:
    """Return the cosine of a model that means as much as `value` with the default model (`scale` None)."""
    return value if scale is None else float(np.interp(value, [-1.0, *USUAL.cosine, 1.0], _rising(scale.cosine)))


def _convert(value: float, own: Sequence[float], usual: Sequence[float]) -> float:
    """Convert by the quantiles, linearly between them; the same text (1) and the opposite (-1) keep their values."""
    return float(np.interp(value, _rising(own), [-1.0, *usual, 1.0]))


def _rising(own: Sequence[float]) -> list[float]:
    """Return quantiles that rise strictly, between those of the opposite and the same text."""
    rising = np.maximum.accumulate(np.array([-1.0, *own], np.float64)) + APART * np.arange(len(own) + 1)
    return [*rising.tolist(), max(1.0, float(rising[-1]) + APART)]
