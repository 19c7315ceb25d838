"""Print the figures of the month: `python -m tests.quality.month [dev|held] [--mode used|idle|away] [--misses]`."""

from __future__ import annotations

import argparse
import time

from tests.quality import month


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.quality.month", description=month.__doc__)
    parser.add_argument("halves", nargs="*", default=["dev"], choices=month.HALVES)
    parser.add_argument("--mode", action="append", choices=month.MODES, help="else all of them")
    parser.add_argument("--days", type=int, default=60, help="behind the month")
    parser.add_argument("--at-once", action="store_true", help="the month is imported and not lived: quicker")
    parser.add_argument("--misses", action="store_true", help="also print each question of dev that went wrong")
    said = parser.parse_args()
    for mode in said.mode or month.MODES:
        began = time.monotonic()
        first, last = month.live(mode, month.Pace(days=said.days, at_once=said.at_once))
        print(f"{mode}: {time.monotonic() - began:.0f} s")
        for half in said.halves:
            for day, figures in ((1, first.of(half)), (said.days, last.of(half))):
                print(f"  {half} day {day:>2}: {figures.line()}", flush=True)
                if day == 1:
                    print(f"    {figures.coding()}", flush=True)
                if said.misses and half == "dev":  # who sees what is wrong in the other half tunes on it
                    print(figures.misses())


if __name__ == "__main__":
    main()
