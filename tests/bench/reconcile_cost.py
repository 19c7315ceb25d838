"""What observing costs: a scan of an unchanged vault, of a lost index, of a changed branch, one edit, and a page of history.

python tests/bench/reconcile_cost.py [NOTES ...]        (default: 1000 10000; 100000 takes some minutes)
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from ormahd.note.values import path_for
from ormahd.note.write import compose
from ormahd.vault.history import find_op, list_ops
from ormahd.watch.scan import walk
from ormahd.watch.watcher import Watcher
from tests.vault.observed import House, now, uuid

WORDS = "the river runs below the old bridge and nobody minds how long it takes to reach the sea " * 6


def timed(what: str, work: Callable[[], object], repeat: int = 1) -> None:
    best = min(_once(work) for _ in range(repeat))
    print(f"  {what:<58} {best:8.3f} s", flush=True)


def _once(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def fill(house: House, count: int) -> list[str]:
    created = now()
    paths = []
    for number in range(count):
        node_id = uuid(number + 1)
        path = path_for(id=node_id, type="fact", space=f"space {number % 20}", title=f"Note {number}",
                        content=WORDS, created=created)  # fmt: skip
        data = compose(
            id=node_id, type="fact", tier="working", space=f"space {number % 20}", title=f"Note {number}", tags=["x"],
            source="agent:bench", confidence=1.0, created=created, updated=created, content=f"{number} {WORDS}",
        )  # fmt: skip
        house.write(path, data)
        paths.append(path)
    house.git("add", "-A")
    house.git("commit", "-qm", "many")
    return paths


def new_process(house: House) -> None:
    house.reconciler = house.new_reconciler()


def edit(house: House, path: str) -> None:
    house.write(path, house.read(path) + b"one line more\n")
    result = house.scan(paths=[path])
    assert result.edited == 1


def branch(house: House, paths: list[str]) -> None:
    house.git("switch", "-qc", "side")
    for path in paths:
        house.write(path, house.read(path).replace(b"river", b"brook"))
    house.git("commit", "-qam", "side")
    house.scan()
    house.git("switch", "-q", "main")


def run(count: int) -> None:
    root = Path(tempfile.mkdtemp(prefix="ormah-bench-"))
    os.environ |= {"GIT_CONFIG_GLOBAL": str(root / "config"), "GIT_CONFIG_NOSYSTEM": "1"}
    (root / "config").write_text("[user]\nname = Bench\nemail = bench@example.org\n[gc]\nauto = 0\n")
    house = House(root / "vault")
    paths = fill(house, count)
    print(f"{count:,} notes ({sum(os.path.getsize(house.root / path) for path in paths) / 1e6:.0f} MB)")
    timed("first scan, empty index (read, parse, index all)", house.scan)
    timed("second scan (young files are read again)", house.scan)
    new_process(house)
    timed("scan in a new process (asks git what it ignores)", house.scan)
    known = house.index.known()
    timed("walk alone", lambda: walk(house.root, known, house.reconciler.excluded), 5)
    timed("scan, nothing changed", house.scan, 5)
    timed("scan of one path, nothing changed", lambda: house.scan(paths=[paths[0]]), 5)
    timed("one edit: read, decide, commit, index", lambda: edit(house, paths[0]), 5)
    house.write("dropped in.md", "a person's own note\n")
    timed("first adoption in a process (looks at every id once)", house.scan)
    house.write("dropped in too.md", "another one\n")
    timed("second adoption", house.scan)
    (house.root / paths[1]).unlink()
    timed("one deletion", house.scan)
    branch(house, paths[2:])
    timed(f"checkout of a branch with {len(paths) - 2:,} changes", house.scan)
    timed("history: newest 50", lambda: list_ops(house.vault), 3)
    timed("history: of one note", lambda: list_ops(house.vault, node_id=uuid(5)), 3)
    watcher = Watcher(house.vault, house.reconciler, house.settings.model_copy(update={"quiet_seconds": 1.5}))
    begun = time.perf_counter()
    watcher.start()
    watcher.wait_idle(600)
    print(f"  {'watcher: start until idle':<58} {time.perf_counter() - begun:8.3f} s   ({watcher.state})")
    for turn in range(3):
        words = f"words of turn {turn}"
        house.write(paths[5], house.read(paths[5]) + words.encode() + b"\n")
        begun = time.perf_counter()
        house.index.wait(lambda index, words=words: words.encode() in index.rows[paths[5]][0], 60)
        print(f"  {'watcher: from the save to the index, 1.5 s of it rest':<58} {time.perf_counter() - begun:8.3f} s")
        watcher.wait_idle(60)
    before = time.process_time()
    time.sleep(20)
    print(f"  {'watcher: CPU of 20 idle seconds':<58} {time.process_time() - before:8.3f} s")
    watcher.stop()
    long_history(house)
    house.close()
    shutil.rmtree(root)


def long_history(house: House, count: int = 20_000) -> None:
    lines = []
    for number in range(count):
        text = f"update: number {number}\n\nwhy\n\nOrmah-Op: {number:026d}\nOrmah-Kind: update\n"
        text += f"Ormah-Source: job:x\nOrmah-Nodes: {uuid(number % 100 + 1)}\n"
        lines.append(f"commit refs/heads/long\ncommitter A <a@b.c> {2_000_000_000 + number} +0000\n"
                     f"data {len(text)}\n{text}" + ("from refs/heads/main^0\n" if number == 0 else "\n"))  # fmt: skip
    subprocess.run(["git", "fast-import", "--quiet"], cwd=house.root, input="".join(lines).encode(), check=True)
    house.git("symbolic-ref", "HEAD", "refs/heads/long")
    timed(f"history of {count:,} more commits: newest 50", lambda: list_ops(house.vault), 3)
    timed("  newest 50 of a job, filtered", lambda: list_ops(house.vault, job="x"), 3)
    timed("  newest 50 of one note", lambda: list_ops(house.vault, node_id=uuid(3)), 3)
    timed("  an op by a prefix (all of it is read)", lambda: find_op(house.vault, f"{17:026d}"), 1)


if __name__ == "__main__":
    for size in [int(argument) for argument in sys.argv[1:]] or [1000, 10_000]:
        run(size)
