"""Fit and measure how two memories stand to each other: `python -m tests.quality.standing [--shared DIR] [--fit] [--misses]`.

Prints, from six-fold cross-validation over all pairs that may be tuned on, what `text.standing` finds at which precision;
`--fit` writes `ormahd/text/standing_weights.json` from all of them. Deterministic. The shared benchmarks (`../shared/bench`) give
turns of conversations, none of which replaces another; a conversation is measured by numbers that were fitted without it.
"""

from __future__ import annotations

import argparse
import json
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import astuple

from ormahd.text.standing import NEWER_AT, REPLACED_AT, Features, Relation, compute_evidence, with_products
from ormahd.text.statement import Statement, read_statement
from tests.quality.standing_sets import Memory, Pair, crowds, dev, embed, minimal, own, talk

WEIGHTS = Path(__file__).parents[2] / "ormahd" / "text" / "standing_weights.json"
STANDINGS = tuple(Relation)
STRENGTH = 0.02
"""Inverse of the regularisation (L2, on standardised numbers)."""
FOLDS = 6
NEAR = 0.2
"""Least cosine of two memories of one vault that are compared although nobody made a pair of them."""
EVERY = 4
"""Of the turns of a conversation each so manieth is compared with later ones."""
PRECISION = 0.97
"""Of all pairs but those made to be hard, so many that reach `REPLACED_AT` are replaced: the constant is moved to it."""
SAME_PRECISION = 0.85
"""Lower, because a merge also needs that no word parts the two (`text.sameness`)."""


def gather(shared: Path) -> tuple[list[Pair], Any, Any, Any]:
    """Pairs, the numbers (one row a pair), labels, whether it is related."""
    pairs = [*own(), *dev(), *minimal(), *crowds(), *talk(shared, NEAR, EVERY)]
    vectors = embed([one for pair in pairs for one in (pair.older, pair.newer)])
    cosines = (vectors[0::2] * vectors[1::2]).sum(axis=1)
    near = [at for at, pair in enumerate(pairs) if pair.kind != "random" or cosines[at] >= NEAR]
    pairs, cosines = [pairs[at] for at in near], cosines[near]
    known: dict[Memory, Statement] = {}

    def statement(one: Memory) -> Statement:
        if one not in known:
            known[one] = read_statement(one.title, one.content, one.type)
        return known[one]

    found = [
        compute_evidence(statement(pair.older), statement(pair.newer), float(cosine))
        for pair, cosine in zip(pairs, cosines, strict=True)
    ]  # fmt: skip
    table = np.array([with_products(astuple(one.features)) for one in found])
    labels = np.array([STANDINGS.index(Relation(pair.label)) for pair in pairs])
    return pairs, table, labels, np.array([one.related for one in found])


def fit(table: Any, labels: Any) -> tuple[Any, Any]:
    """Constants and weights (one row a standing) for the numbers as they are."""
    from sklearn.linear_model import LogisticRegression

    mean, spread = table.mean(axis=0), table.std(axis=0)
    spread = np.where(spread < 1e-6, 1.0, spread)
    made = LogisticRegression(C=STRENGTH, max_iter=5000).fit((table - mean) / spread, labels)
    some = made.coef_ / spread
    return made.intercept_ - some @ mean, some


def chances(constants: Any, some: Any, table: Any) -> Any:
    logits = table @ some.T + constants
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def crossed(table: Any, labels: Any, pairs: list[Pair]) -> Any:
    """Each pair's chances, by numbers that were fitted without its vault or conversation."""
    groups = sorted({pair.group for pair in pairs})
    of_group = dict(zip(groups, np.random.default_rng(1).permutation(len(groups)) % FOLDS, strict=True))
    fold = np.array([of_group[pair.group] for pair in pairs])
    found = np.zeros((len(labels), len(STANDINGS)))
    for one in range(FOLDS):
        rest = fold != one
        found[~rest] = chances(*fit(table[rest], labels[rest]), table[~rest])
    return found


def threshold(chance: Any, right: Any, precision: float) -> float:
    """The least chance from which, of all that reach it, so many are right."""
    order = np.argsort(-chance)
    good = np.flatnonzero(np.cumsum(right[order]) / np.arange(1, len(order) + 1) >= precision)
    return float(chance[order[good[-1]]]) if len(good) else 1.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fit", action="store_true", help="write the numbers")
    parser.add_argument("--misses", action="store_true", help="also print each pair that went wrong")
    parser.add_argument(
        "--shared", type=Path, default=Path("../shared/bench"), help="the directory of the shared benchmarks"
    )
    asked = parser.parse_args()
    if not (asked.shared / "locomo.py").exists():
        parser.error(f"{asked.shared} is missing: the shared benchmarks are needed to fit")
    pairs, table, labels, related = gather(asked.shared)
    chance = crossed(table, labels, pairs)
    replaced, same = STANDINGS.index(Relation.REPLACED), STANDINGS.index(Relation.SAME)
    chance[~related, replaced] = 0.0
    source = np.array([pair.source for pair in pairs])
    counted = (source != "minimal") & (source != "talk")  # made to be hard, and too many of one kind
    at = round(threshold(chance[counted, replaced], labels[counted] == replaced, PRECISION), 3)
    same_at = round(max(0.5, threshold(chance[counted, same], labels[counted] == same, SAME_PRECISION)), 3)
    moved = np.log(REPLACED_AT / (1 - REPLACED_AT)) - np.log(at / (1 - at))
    odds = chance[:, replaced] * np.exp(moved)
    chance[:, replaced] = odds / (1 - chance[:, replaced] + odds)
    print(f"{len(pairs)} pairs; replaced from {at}, same from {same_at}")
    for name in dict.fromkeys(source):
        here = source == name
        told, near = here & (chance[:, replaced] >= REPLACED_AT), here & (chance[:, replaced] >= NEWER_AT)
        wanted = here & (labels == replaced)
        alike = here & (chance[:, same] >= same_at) & ~told
        print(
            f"{name}: {here.sum()} pairs; replaced found {(told & wanted).sum()} of {wanted.sum()}, wrong {(told & ~wanted).sum()}; "
            f"newer first {(near & wanted).sum()}, wrong {(near & ~wanted).sum()}; "
            f"same found {(alike & (labels == same)).sum()} of {(here & (labels == same)).sum()}, wrong {(alike & (labels != same)).sum()}"
        )
    if asked.misses:
        for pair, row, right in zip(pairs, chance, labels, strict=True):
            if (row[replaced] >= REPLACED_AT) != (right == replaced):
                print(
                    f"{'missed' if right == replaced else 'WRONG '} {row.round(2)} {pair.source} {pair.kind} {pair.language}"
                )
                print(
                    f"    {pair.older.type} {pair.older.title or ''}: {pair.older.content}\n    {pair.newer.type} {pair.newer.title or ''}: {pair.newer.content}"
                )
    if asked.fit:
        constants, some = fit(table, labels)
        constants[replaced] += moved
        WEIGHTS.write_text(
            json.dumps(
                {
                    "made": date.today().isoformat(), "pairs": {name: int((source == name).sum()) for name in dict.fromkeys(source)},
                    "same_at": same_at, "names": Features.__struct_fields__,
                    "constants": {one.value: round(float(value), 4) for one, value in zip(STANDINGS, constants, strict=True)},
                    "weights": {one.value: [round(float(value), 4) for value in row] for one, row in zip(STANDINGS, some, strict=True)},
                },
                indent=1,
            )
            + "\n"
        )  # fmt: skip


if __name__ == "__main__":
    main()
