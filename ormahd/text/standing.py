"""How two memories stand to each other: the newer replaced the older, both hold, they say the same, they are unrelated. Pure.

`text.statement.read` reads a memory once; `compare` holds two of them against each other. The evidence
(`text.standing_evidence`) is weighed by a multinomial logistic regression whose numbers stand in `standing_weights.json`.
They are fitted, and the threshold is set, by `python -m tests.quality.standing --fit`.
"""

from __future__ import annotations

import json
import math
from enum import StrEnum
from functools import cache
from importlib import resources

from msgspec import Struct

from ormahd.model.node import NodeType
from ormahd.text.quantities import Sort
from ormahd.text.quoting import shortened
from ormahd.text.standing_evidence import Aligned, Evidence, weigh
from ormahd.text.statement import Statement, Token

RULES = frozenset({NodeType.PREFERENCE, NodeType.DECISION, NodeType.PROCEDURE, NodeType.GOAL})
"""What holds for one space need not hold for the rest: none of these is held against a memory of no space."""
WHOLE = 0.85
"""Evidence that either says every word of the other: such two say the same, in another order or with other small words."""
VALUE = 60
"""Characters of a subject or a value, for people to read."""


class Standing(StrEnum):
    REPLACED = "replaced"
    """What the newer memory says makes the older one false."""
    BOTH = "both"
    """Near one another, and both hold."""
    SAME = "same"
    """Two tellings of one thing."""
    UNRELATED = "unrelated"


class Compared(Struct, frozen=True):
    """The probability of each standing (together 1), the verdict, and where the two differ: `subject`, `old`, `new` for
    people to read; "" where nothing can be named."""

    replaced: float
    both: float
    same: float
    unrelated: float
    verdict: Standing
    subject: str = ""
    old: str = ""
    new: str = ""


class Weights(Struct, frozen=True):
    """What was fitted. Of each standing a constant and a weight for each of `names`; `replaced_at`, `same_at`: the least
    probability for that verdict."""

    names: tuple[str, ...]
    constants: dict[str, float]
    weights: dict[str, tuple[float, ...]]
    replaced_at: float
    same_at: float


def comparable(one: NodeType, space: str | None, other: NodeType, other_space: str | None) -> bool:
    """Whether one memory may say something about the other: of one space, or one of them global and neither a rule."""
    if space == other_space:
        return True
    return (space is None or other_space is None) and not RULES & {one, other}


def compare(older: Statement, newer: Statement, cosine: float) -> Compared:
    """Say how `newer` stands to `older`. Which of the two is the newer one the caller knows (`created`).

    `cosine`: of the two memories' vectors. Half a millisecond.
    """
    evidence = weigh(older, newer, cosine)
    told = weights()
    values = [evidence.numbers[name] for name in told.names]
    logits = {
        standing: told.constants[standing] + sum(a * b for a, b in zip(told.weights[standing], values, strict=True))
        for standing in Standing
    }
    most = max(logits.values())
    powers = {standing: math.exp(logit - most) for standing, logit in logits.items()}
    total = sum(powers.values())
    chance = {standing: power / total for standing, power in powers.items()}
    subject, old, new = _difference(evidence)
    return Compared(
        chance[Standing.REPLACED], chance[Standing.BOTH], chance[Standing.SAME], chance[Standing.UNRELATED],
        _verdict(evidence, chance, told), subject, old, new,
    )  # fmt: skip


def _verdict(evidence: Evidence, chance: dict[Standing, float], told: Weights) -> Standing:
    if not evidence.related:
        return Standing.UNRELATED
    if chance[Standing.REPLACED] >= told.replaced_at:
        return Standing.REPLACED
    if chance[Standing.SAME] >= told.same_at or evidence.numbers["agree_whole"] >= WHOLE:
        return Standing.SAME
    return Standing.UNRELATED if chance[Standing.UNRELATED] > chance[Standing.BOTH] else Standing.BOTH


@cache
def weights() -> Weights:
    """The fitted numbers, read once."""
    row = json.loads(resources.files(__package__).joinpath("standing_weights.json").read_bytes())
    return Weights(
        tuple(row["names"]), row["constants"], {name: tuple(some) for name, some in row["weights"].items()},
        row["replaced_at"], row["same_at"],
    )  # fmt: skip


def _difference(evidence: Evidence) -> tuple[str, str, str]:
    """What they speak of, and what each says of it."""
    best = evidence.best
    if best is None:
        return "", "", ""
    subject = _said(_shared(best))
    if evidence.rivals:
        old, new = evidence.rivals[0]
        return subject, _said((old,)), _said((new,))
    places = [place for place in best.places if not place.head] or list(best.places)
    if places:
        return subject, _said(places[0].old), _said(places[0].new)
    return subject, "", ""


def _shared(best: Aligned) -> tuple[Token, ...]:
    known = {token.key for token in best.other.tokens}
    return tuple(token for token in best.one.tokens if token.key in known)


def _said(tokens: tuple[Token, ...]) -> str:
    gap = "" if tokens and all(token.sort is Sort.HAN for token in tokens) else " "
    said = gap.join(token.text for token in tokens)
    return shortened(said, VALUE)
