"""The rule that finds likely conflicts without a judge, measured: `python -m tests.quality.conflicts [dev|held|second] [--misses]`."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ormahd.core.claims import read
from ormahd.core.disagree import Disagreement, disagree

PAIRS = Path(__file__).with_name("conflicts.tsv")
PARTS: Final = ("dev", "held", "second")


@dataclass(frozen=True)
class Pair:
    conflict: bool
    type: str
    one: tuple[str | None, str]
    other: tuple[str | None, str]

    def found(self) -> Disagreement | None:
        return disagree(read(*self.one), read(*self.other), measured=self.type == "observation")


@dataclass(frozen=True)
class Figures:
    right: int
    wrong: int
    missed: int
    refused: int

    @property
    def precision(self) -> float:
        return self.right / (self.right + self.wrong) if self.right + self.wrong else 1.0

    @property
    def recall(self) -> float:
        return self.right / (self.right + self.missed) if self.right + self.missed else 1.0


def pairs(part: str) -> list[Pair]:
    """Of the first set odd lines of each label are dev, even ones are held back."""
    first, _, second = PAIRS.read_text("utf-8").partition("# ---- second")
    rows = [line.split("\t") for line in (second if part == "second" else first).splitlines() if "\t" in line]
    found = []
    for label in ("conflict", "none"):
        some = [row for row in rows if row[0] == label]
        if part != "second":
            some = some[PARTS.index(part) :: 2]
        found += [Pair(label == "conflict", row[1], (row[2] or None, row[3]), (row[4] or None, row[5])) for row in some]
    return found


def measure(some: list[Pair]) -> Figures:
    told = [(pair.conflict, pair.found() is not None) for pair in some]
    return Figures(
        told.count((True, True)), told.count((False, True)), told.count((True, False)), told.count((False, False))
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=f"of {', '.join(PARTS)}; else all")
    parser.add_argument("--misses", action="store_true", help="also print each pair that went wrong")
    asked = parser.parse_args()
    for part in asked.parts:
        some = pairs(part)
        figures = measure(some)
        print(f"{part}: {len(some)} pairs, precision {figures.precision:.3f}, recall {figures.recall:.3f}, {figures}")
        if asked.misses:
            for pair in some:
                found = pair.found()
                if (found is not None) != pair.conflict:
                    print(
                        f"{'missed' if pair.conflict else 'WRONG '}  {pair.one[1]}  |  {pair.other[1]}  {found or ''}"
                    )


if __name__ == "__main__":
    main()
