"""What a prompt's hook costs a person: the whole process, from its start to its end, beside a bare interpreter's.

    python -m tests.bench hook [--notes 10000] [--runs 300] [--model all-MiniLM-L6-v2|hashing] [--only idle,down,…]

Interleaved with `python -I -S -c pass`, because machines are noisy and what counts is what stands above it. `idle`: the
daemon has nothing else to do; `down`: there is none; `stopped`: it hangs; then what the hook takes beside each kind of work.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ormahd.vault.merge_driver import SHIM
from tests.bench import corpus
from tests.bench.pressing import pressed
from tests.house import House, open_house, wait_until

BARE = [sys.executable, "-I", "-S", "-c", "pass"]
ABOVE = {"idle": (15.0, 30.0), "down": (5.0, 5.0)}
"""Milliseconds above the bare interpreter's p50: limits of p50 and p95."""
SMALL_TALK = [
    "thanks, that looks right", "ok", "refactor this function so that it takes an iterator",
    "write a regular expression for ISO dates", "why does this loop not end", "go on",
]  # fmt: skip
LOADED = ("rebuild", "jobs", "import", "scan", "recall", "everything")
READERS, WRITERS = 8, 4


class Asker:
    """Prompts of sessions of ten, each in one of the corpus's spaces; every sixth is about nothing that is known."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._chance = random.Random(5)
        self._queries = iter(corpus.queries(100_000, seed=31))
        self._number = 0
        self.spoke = 0

    def words(self, deadline: int) -> list[str]:
        given = ["--harness", "claude-code", "--socket", str(self._house.socket), "--deadline", str(deadline)]
        return [sys.executable, "-I", "-S", str(SHIM), "--hook", "UserPromptSubmit", *given]

    def ask(self, deadline: int = 20_000) -> float:
        """Milliseconds of one hook."""
        number, self._number = self._number, self._number + 1
        space = corpus.PROJECTS[number // 10 % len(corpus.PROJECTS)]
        prompt = self._chance.choice(SMALL_TALK) if number % 6 == 5 else next(self._queries)
        said = json.dumps({
            "session_id": f"bench-{os.getpid()}-{number // 10}", "cwd": str(self._house.home), "prompt": prompt,
            "hook_event_name": "UserPromptSubmit", "transcript_path": "/nowhere", "permission_mode": "default",
        })  # fmt: skip
        environ = self._house.env | {"ORMAH_SPACE": space}
        begun = time.perf_counter()
        done = subprocess.run(self.words(deadline), input=said.encode(), capture_output=True, env=environ, check=True)
        took = (time.perf_counter() - begun) * 1000
        assert not done.stderr, done.stderr
        self.spoke += bool(done.stdout)
        return took


def bare() -> float:
    begun = time.perf_counter()
    subprocess.run(BARE, input=b"", capture_output=True, check=True)
    return (time.perf_counter() - begun) * 1000


def share(took: list[float], part: float) -> float:
    return sorted(took)[round(part * (len(took) - 1))]


def measure(name: str, ask: Callable[[], float], go_on: Callable[[int], bool], asker: Asker) -> float:
    """Print the figures of one state of affairs; its p95 in milliseconds."""
    plain: list[float] = []
    took: list[float] = []
    spoke = asker.spoke
    while go_on(len(took)):
        plain.append(bare())
        took.append(ask())
    low = statistics.median(plain)
    limit = ""
    if name in ABOVE:
        middle, high = ABOVE[name]
        limit = f"   (limits {low + middle:.1f} and {low + high:.1f})"
    print(
        f"{name:9} {len(took):4} runs, {asker.spoke - spoke:3} spoke: p50 {statistics.median(took):6.1f}  p95 {share(took, 0.95):6.1f}  "
        f"max {max(took):6.1f} ms; bare p50 {low:.1f}  p95 {share(plain, 0.95):.1f}{limit}",
        flush=True,
    )
    return share(took, 0.95)


@contextmanager
def working(act: Callable[[], Any]) -> Iterator[Callable[[], bool]]:
    """`act` in a thread of its own; gives whether it is still at it. Its failure is ours."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            act()
        except BaseException as exc:
            failed.append(exc)

    thread = threading.Thread(target=run)
    thread.start()
    yield thread.is_alive
    thread.join()
    if failed:
        raise failed[0]


def loads(house: House, notes: int) -> dict[str, Callable[[], Any]]:
    """Work that takes some time, by name."""
    lines = corpus.write(house.home / "more.jsonl", notes, seed=house.call("admin.stats").total_nodes)  # none twice

    def recalls() -> None:
        with house.connect() as connection:
            for query in corpus.queries(600, seed=77):
                connection.call("agent.recall", {"query": query}, timeout=60.0)

    def again(method: str, times: int, **params: Any) -> None:
        for _ in range(times):
            with house.connect() as connection:
                connection.call(method, params, timeout=3600.0)

    few = corpus.write(house.home / "all.jsonl", notes // 10, seed=97)

    def everything() -> None:
        """A rebuild, all jobs and an import; readers and writers are added while it is measured."""
        works = [
            lambda: again("admin.rebuild", 1), lambda: again("admin.run_all", 1),
            lambda: house.json("import", str(few), timeout=3600.0),
        ]  # fmt: skip
        with contextlib.ExitStack() as at_work:
            for work in works:
                at_work.enter_context(working(work))

    return {
        "everything": everything,
        "rebuild": lambda: again("admin.rebuild", 3),
        "jobs": lambda: again("admin.run_all", 1),
        "scan": lambda: again("admin.run_task", 8, name="index_updater"),
        "recall": recalls,
        "import": lambda: house.json("import", str(lines), timeout=3600.0),
    }


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="hook", description=__doc__)
    parser.add_argument("--notes", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--model", default="all-MiniLM-L6-v2")
    parser.add_argument("--only", default=",".join(("idle", "down", "stopped", *LOADED)))
    parser.add_argument("--house", type=Path, help="a house that is there already, with its notes")
    options = parser.parse_args(arguments)
    only = options.only.split(",")
    if options.house is not None:
        house = House(options.house, {"ORMAH_EMBEDDING_MODEL": options.model})
        try:
            figures(house, options.notes, options.runs, only)
        finally:
            house.close()
        return
    with open_house(ORMAH_EMBEDDING_MODEL=options.model) as house:
        house.start()
        lines = corpus.write(house.home / "notes.jsonl", options.notes)
        print(f"import: {house.ctl('--json', 'import', str(lines), timeout=7200).stdout.strip()}")
        house.stop()
        figures(house, options.notes, options.runs, only)


def figures(house: House, notes: int, runs: int, only: list[str]) -> None:
    house.start()
    wait_until(lambda: house.call("admin.health").degraded == [], "the model is loaded", 600)
    asker = Asker(house)
    for _ in range(20):
        asker.ask()
    stats = house.call("admin.stats")
    print(f"{stats.total_nodes} notes, {os.cpu_count()} cores")
    idle = measure("idle", asker.ask, lambda done: done < runs, asker) if "idle" in only else 0.0
    if "stopped" in only:
        house.signal(signal.SIGSTOP)
        measure("stopped", lambda: asker.ask(500), lambda done: done < 10, asker)
        house.signal(signal.SIGCONT)
    work = loads(house, notes)
    for name in LOADED:
        if name in only:
            with working(work[name]) as under_way:
                # On two cores the rebuild alone would take minutes more beside them.
                everything = name == "everything"
                most = runs if everything else sys.maxsize
                with pressed(house, READERS, WRITERS) if everything else contextlib.nullcontext():
                    p95 = measure(
                        name, asker.ask, lambda done, alive=under_way, most=most: alive() and done < most, asker
                    )  # type: ignore[misc]
            if idle:
                print(f"          p95 is {p95 / idle:.2f} x the idle one (limit 2)")
    if "down" in only:
        house.stop()
        measure("down", asker.ask, lambda done: done < runs, asker)


if __name__ == "__main__":
    main(sys.argv[1:])
