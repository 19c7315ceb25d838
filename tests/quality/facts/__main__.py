"""Print the figures of the pairs of changed facts: `python -m tests.quality.facts [dev|held] [--misses]`."""

from __future__ import annotations

import argparse

from tests.quality import facts


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.quality.facts", description=facts.__doc__)
    parser.add_argument("halves", nargs="*", default=["dev"], choices=facts.HALVES)
    parser.add_argument("--misses", action="store_true", help="also print each pair of dev that went wrong")
    asked = parser.parse_args()
    for half in asked.halves:
        with facts.daemon(half) as house:
            figures = facts.measure(house, facts.pairs(half))
        print(f"{half}: {figures.table()}")
        if asked.misses and half == "dev":  # who sees what is wrong in the other half tunes on it
            print(figures.misses())


if __name__ == "__main__":
    main()
