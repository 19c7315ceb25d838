"""Functions on chances (0 to 1) and their odds, and `FittedWeights`: the weights of a fitted logistic regression.

Odds are chance / (1 - chance). Multiplying them by four turns a chance of 0.2 into 0.5, and one of 0.5 into 0.8.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from importlib import resources
from typing import Final, Self

from msgspec import Struct

MIN_CHANCE, MAX_CHANCE = 1e-6, 1.0 - 1e-6
"""A chance is clamped to these limits before its odds are computed."""
MAX_BOOST: Final = 0.15
"""How far feedback changes a memory's relevance at most: from 0.5 to 0.2 or 0.8."""
FEEDBACK: Final = 9.0
"""What a boost of 1 adds to the log odds. The largest boost (`MAX_BOOST`) multiplies or divides the
odds by almost four."""


def sigmoid(value: float) -> float:
    """Return the chance whose log odds are `value`."""
    return 1.0 / (1.0 + math.exp(-max(-60.0, min(60.0, value))))


def log_odds(chance: float) -> float:
    """Return the logarithm of the odds of a chance: 0 for 0.5."""
    chance = min(MAX_CHANCE, max(MIN_CHANCE, chance))
    return math.log(chance / (1.0 - chance))


def times_odds(chance: float, logarithm: float) -> float:
    """Return the chance whose odds are those of `chance` multiplied by e ** `logarithm`."""
    return sigmoid(log_odds(chance) + logarithm) if logarithm else chance


def after_feedback(relevance: float, boost: float) -> float:
    """Return `relevance`, raised by a positive or lowered by a negative `boost` (-1 to 1) from past judgements."""
    return times_odds(relevance, FEEDBACK * boost)


class FittedWeights(Struct, frozen=True):
    """The weights of a logistic regression that was fitted offline. Each of its inputs has a name."""

    made: str
    """Date of the fit."""
    sets: Mapping[str, int]
    """Name of a data set -> number of its questions or candidates that the weights were fitted on."""
    base: float
    """The constant term."""
    weights: Mapping[str, float]
    """Name of an input -> its weight."""

    @classmethod
    def shipped(cls, package: str, file: str, names: Iterable[str]) -> Self:
        """Read the weights from the JSON file `file` of `package`. `names`: the inputs, each of which must have a
        weight."""
        row = json.loads(resources.files(package).joinpath(file).read_bytes())
        return cls(row["made"], row["sets"], float(row["base"]), {name: float(row["weights"][name]) for name in names})
