"""Filling the index from nothing beside what ONNX Runtime alone does with the same notes, in turns.

    python -m tests.bench rebuild [--notes 10000] [--rounds 5]

What was made of the model once (`models/` in the cache) stands. Measured from the daemon's first answer, a quarter of a second after its
start, to the last note's vectors: the model's loading, reading and parsing all notes and storing them count.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import time
from collections.abc import Sequence

from tests.bench import corpus
from tests.bench.embed_alone import notes_per_second
from tests.house import House, open_house, wait_until

LIMIT = 0.68
"""Of ONNX Runtime alone: batches at least .85 of it, a rebuild at least .8 of that."""


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--notes", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args(arguments)
    with open_house(ORMAH_EMBEDDING_MODEL="all-MiniLM-L6-v2") as house:
        lines = corpus.write(house.home / "notes.jsonl", given.notes)
        house.start()
        house.ctl("import", str(lines), timeout=7200)
        notes = house.call("admin.health").nodes
        print(f"{notes} notes, {os.cpu_count()} cores, model all-MiniLM-L6-v2")
        ratios = [from_nothing(house, notes) for _ in range(given.rounds)]
        print(f"of ONNX Runtime alone: {statistics.median(ratios):.3f} in the middle (limit {LIMIT})")


def from_nothing(house: House, notes: int) -> float:
    """The index of a vault of so many notes made anew; the rate's share of ONNX Runtime alone right before and after it."""
    house.stop()
    before = notes_per_second(house.vault, house.models_dir)
    shutil.rmtree(house.index_dir)
    house.start(phase="")
    begun = time.perf_counter()

    def done() -> bool:
        health = house.call("admin.health")
        return health.nodes >= notes and not health.index.pending_vectors and "vectors" not in health.degraded

    wait_until(done, "all is embedded", 7200, every=0.2)  # a question each 20 ms would take a tenth of a core from it
    took = time.perf_counter() - begun
    wait_until(lambda: house.call("hello").phase == "ready", "ready", 300)
    house.stop()
    after = notes_per_second(house.vault, house.models_dir)
    share = notes / took / ((before + after) / 2)
    print(f"index from nothing: {took:.1f} s, {notes / took:.0f} notes/s = {share:.3f} of ONNX Runtime alone "
          f"({before:.0f} notes/s before, {after:.0f} after)", flush=True)  # fmt: skip
    return share


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
