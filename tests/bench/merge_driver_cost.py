"""What git's merge driver costs a file: `git merge` of 200 notes that both sides changed, with the daemon and without it.

`python -m tests.bench merge-driver [--notes 200] [--rounds 3]`. Beside it, in the same run, a bare interpreter started as
often (`python -I -S -c pass`), and git's own text merge of files that it can merge.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from ormahd.note.edit import edit
from ormahd.note.read import parse
from ormahd.vault.merge_driver import KEY
from tests.house import House, open_house, wait_until

LIMITS = {"with the daemon": 15.0}
"""Milliseconds a file above the bare interpreter."""


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="merge-driver")
    parser.add_argument("--notes", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    with open_house() as house:
        house.start()
        rows = [json.dumps({"content": f"fact number {n}: " + "word " * 40, "title": f"Fact {n}", "tags": ["a"]})
                for n in range(options.notes)]  # fmt: skip
        added = house.json("import", "-", input="\n".join(rows))
        assert added["added"] == options.notes, added
        house.stop()
        fork(house)
        figures: dict[str, list[tuple[float, float]]] = {}
        for _ in range(options.rounds):
            figures.setdefault("bare interpreter", []).append(bare(options.notes))
            house.start()
            figures.setdefault("with the daemon", []).append(merge(house, options.notes))
            wait_until(lambda: house.call("admin.health").index.fresh, "the daemon has followed")
            house.stop()
            figures.setdefault("without it", []).append(merge(house, options.notes))
            figures.setdefault("git's text merge", []).append(merge(house, options.notes, text=True))
    low = statistics.median(took for took, _ in figures["bare interpreter"])
    print(f"{options.notes} notes, median of {options.rounds} rounds, milliseconds a file")
    for name, rounds in figures.items():
        took = sorted(one for one, _ in rounds)
        middle, cpu = statistics.median(took), statistics.median(cpu for _, cpu in rounds)
        limit = f", limit + {LIMITS[name]:g}" if name in LIMITS else ""
        above = f"bare interpreter {middle - low:+.1f}{limit}"
        print(f"  {name:18} {middle:6.1f}  ({above}; {took[0]:.1f} to {took[-1]:.1f}), of the processor {cpu:.1f}")


def fork(house: House) -> None:
    """Two branches: on `main` every note has another title, on `side` other tags; also what text can merge."""
    house.git("branch", "side")
    for branch, change in (("main", {"title": "A new title"}), ("side", {"tags": ["a", "b"]})):
        house.git("checkout", "-q", branch)
        for name in house.notes():
            file = house.vault / name
            data = file.read_bytes()
            if parse(data, name).title != "Ada Person":
                file.write_bytes(edit(data, name, set=change))
        house.git("commit", "-qam", f"on {branch}")
    house.git("checkout", "-q", "main")


def merge(house: House, notes: int, *, text: bool = False) -> tuple[float, float]:
    """`git merge side`, taken back again: milliseconds a file on the clock, and of the processor (without the daemon's)."""
    asked = ["-c", f"{KEY}=git merge-file --union %A %O %B"] if text else []
    took = _timed(lambda: house.git(*asked, "merge", "-q", "--no-edit", "side"), notes)
    merged = [parse(data, name) for name, data in house.notes().items()]
    if not text:
        assert sum(note.title == "A new title" and note.tags == ("a", "b") for note in merged) == notes
    house.git("reset", "-q", "--hard", "HEAD~1")
    return took


def bare(times: int) -> tuple[float, float]:
    """The same of one interpreter that does nothing, started from a shell as git does it."""
    shell = f"for n in $(seq {times}); do {Path(sys.executable)} -I -S -c pass; done"
    return _timed(lambda: subprocess.run(["sh", "-c", shell], check=True), times)


def _timed(act: Callable[[], object], times: int) -> tuple[float, float]:
    used, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    act()
    took = time.perf_counter() - begun
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
    return took * 1000 / times, cpu * 1000 / times


if __name__ == "__main__":
    main(sys.argv[1:])
