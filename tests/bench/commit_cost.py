"""What one durable change costs in a vault of 10,000 notes, beside `git commit` with fsync doing the same.

    python -m tests.bench.commit_cost [notes] [turns]

Prints medians in milliseconds. Measure on a machine that does nothing else: both sides start processes and wait for
the disk.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from ormahd.model.change import Kind, sha256
from ormahd.settings import VaultSettings
from ormahd.vault.vault import Vault

FSYNC = ["-c", "core.fsync=committed,loose-object,reference,index", "-c", "core.fsyncMethod=fsync", "-c", "gc.auto=0"]
BODY = "The user prefers TypeScript over JavaScript for anything that outlives a day.\n" * 6


def path_of(number: int) -> str:
    kind = ("fact", "decision", "event", "preference")[number % 4]
    return f"space-{number % 10}/{kind}/2026-{number % 12 + 1:02d}/{kind}_a-note-with-a-title_{number:08x}.md"


def note(number: int, turn: int = 0) -> bytes:
    return f"---\nid: {number:08x}\ntype: fact\n---\n{turn} {number} {BODY}".encode()


def store(vault: Vault, files: dict[str, bytes], *, kind: Kind) -> None:
    with vault.transaction("bench: a change", kind=kind, source="agent:bench") as tx:
        for path, data in files.items():
            now = vault.read(path)
            tx.put(path, data, node_id=None, expect=None if now is None else sha256(now))


def median(turns: int, work: Callable[[int], object]) -> str:
    times = []
    for turn in range(turns):
        start = time.perf_counter()
        work(turn)
        times.append((time.perf_counter() - start) * 1000)
    return f"{statistics.median(times):7.1f} ms   (best {min(times):.1f}, worst {max(times):.1f})"


def by_git(root: Path, number: int, turn: int, *, only: bool) -> None:
    path = path_of(number)
    with open(root / path, "wb") as file:
        file.write(note(number, turn))
        file.flush()
        os.fsync(file.fileno())
    command = ["git", *FSYNC, "-C", str(root)]
    if only:
        subprocess.run([*command, "commit", "-qm", "bench", "--", path], check=True)
    else:
        subprocess.run([*command, "add", "--", path], check=True)
        subprocess.run([*command, "commit", "-qm", "bench"], check=True)


def main(notes: int = 10_000, turns: int = 30) -> None:
    with tempfile.TemporaryDirectory(dir=Path.cwd() if os.environ.get("BENCH_HERE") else None) as folder:
        root = Path(folder) / "vault"
        with Vault.open(VaultSettings(path=root), clock=lambda: datetime.now(UTC)) as vault:
            for first in range(0, notes, 1000):
                numbers = range(first, min(first + 1000, notes))
                start = time.perf_counter()
                store(vault, {path_of(n): note(n) for n in numbers}, kind=Kind.IMPORT)
                took = time.perf_counter() - start
            print(f"{notes} notes; the last 1,000 as one op: {took * 1000:.0f} ms")
            print(
                "one edit, through the vault  ",
                median(turns, lambda t: store(vault, {path_of(t): note(t, 1)}, kind=Kind.UPDATE)),
            )
            print(
                "one new note, through it     ",
                median(turns, lambda t: store(vault, {path_of(notes + t): note(t)}, kind=Kind.REMEMBER)),
            )
            print("git commit -- FILE, fsynced  ", median(turns, lambda t: by_git(root, t, 2, only=True)))
            print("git add + git commit, fsynced", median(turns, lambda t: by_git(root, t, 3, only=False)))
            print(
                "one edit, through the vault  ",
                median(turns, lambda t: store(vault, {path_of(t): note(t, 4)}, kind=Kind.UPDATE)),
            )


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
