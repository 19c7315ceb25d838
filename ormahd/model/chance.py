"""Chances from 0 to 1, their odds (what makes the odds four times as large brings 0.2 to 0.5, and 0.5 to 0.8), and the weights of a
logistic regression that tells them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from importlib import resources
from typing import Final, Self

from msgspec import Struct

LEAST, MOST = 1e-6, 1.0 - 1e-6
"""Limits of a chance whose odds are computed."""
FEEDBACK: Final = 9.0
"""Log odds for a boost of 1. The largest boost (`affinity.max_boost`, 0.15) multiplies or divides the odds by almost four."""


def sigmoid(value: float) -> float:
    """Return the chance whose log odds are `value`."""
    return 1.0 / (1.0 + math.exp(-max(-60.0, min(60.0, value))))


def log_odds(chance: float) -> float:
    """Return the logarithm of the odds of a chance: 0 for 0.5."""
    chance = min(MOST, max(LEAST, chance))
    return math.log(chance / (1.0 - chance))


def times_odds(chance: float, logarithm: float) -> float:
    """Return a chance after its odds were multiplied by e ** `logarithm`."""
    return sigmoid(log_odds(chance) + logarithm) if logarithm else chance


def after_feedback(relevance: float, boost: float) -> float:
    """Return a memory's relevance after a boost by feedback (-1 to 1)."""
    return times_odds(relevance, FEEDBACK * boost)


class FittedWeights(Struct, frozen=True):
    """The weights of a logistic regression that was fitted offline, by the names of its evidence."""

    made: str
    """Date of the fit."""
    sets: Mapping[str, int]
    """Number of questions or candidates of each set it was fitted on."""
    base: float
    weights: Mapping[str, float]

    @classmethod
    def shipped(cls, package: str, file: str, names: Iterable[str]) -> Self:
        """Read the table of numbers that a package ships."""
        row = json.loads(resources.files(package).joinpath(file).read_bytes())
        return cls(row["made"], row["sets"], float(row["base"]), {name: float(row["weights"][name]) for name in names})
