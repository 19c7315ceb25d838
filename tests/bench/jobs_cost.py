"""Figures of maintenance: a full `run all` at its default limits, the one right after, memory, and what was embedded.

    python -m tests.bench jobs [--notes 10000] [--model all-MiniLM-L6-v2 | hashing] [--house DIRECTORY]

A house that is there already (with its notes) is changed by it: give a copy.
"""

from __future__ import annotations

import argparse
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tests.bench import corpus
from tests.house import House, open_house, wait_until


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="jobs", description=__doc__)
    parser.add_argument("--notes", type=int, default=10_000)
    parser.add_argument("--model", default="all-MiniLM-L6-v2")
    parser.add_argument("--house", type=Path)
    options = parser.parse_args(arguments)
    with _house(options.house, options.model, options.notes) as house:
        figures(house)


FADING = {"ORMAH_DECAY_IDLE_SHARE": "1", "ORMAH_DECAY_FACT_DAYS": "14"}
"""Every day counts, and a fact has two weeks: so that a month is enough."""


@contextmanager
def _house(directory: Path | None, model: str, notes: int) -> Iterator[House]:
    if directory is not None:
        house = House(directory, {"ORMAH_EMBEDDING_MODEL": model} | FADING)
        house.start()
        try:
            yield house
        finally:
            house.close()
        return
    with open_house(ORMAH_EMBEDDING_MODEL=model, **FADING) as house:
        house.start()
        house.ctl("import", str(corpus.write(house.home / "notes.jsonl", notes)), timeout=7200)
        yield house


def figures(house: House) -> None:
    house.age(30)  # so that there is something to fade, as after a month
    wait_until(lambda: house.call("hello").phase == "ready", "ready", 600)
    wait_until(lambda: house.call("admin.health").index.pending_vectors == 0, "every memory has its vectors", 600)
    health = house.call("admin.health")
    embedded = texts(house)
    print(f"{health.nodes} notes, {health.rss_mb:.0f} MB")
    for name in ("first", "second", "third"):
        begun = time.perf_counter()
        results = run(house)
        took = time.perf_counter() - begun
        rss = house.call("admin.health").rss_mb
        print(f"{name:6} run of all: {took:6.1f} s, {rss:.0f} MB, {texts(house) - embedded} texts embedded anew")
        for one, seconds in results:
            more = " (more)" if one["more"] else ""
            error = f" FAILED: {one['error']}" if one["error"] else ""
            print(f"  {one['job']:20} {seconds:6.1f} s  {one['proposals']:5} planned {one['applied']:5} applied "
                  f"{one['skipped']:4} skipped {len(one['commits']):4} commits{more}{error}", flush=True)  # fmt: skip


def run(house: House) -> list[tuple[dict[str, object], float]]:
    """Every job in its order, with the seconds it took by the daemon's own book."""
    results = house.json("jobs", "run", "all", timeout=7200.0)
    took = {task.name: (task.last_duration_ms or 0.0) / 1000 for task in house.call("admin.tasks").tasks}
    return [(one, took[one["job"]]) for one in results]


def texts(house: House) -> int:
    """Embeddings that the index keeps."""
    with closing(sqlite3.connect(f"file:{house.index_dir}/index.sqlite3?mode=ro", uri=True)) as db:
        return int(db.execute("SELECT count(*) FROM document").fetchone()[0])
