"""Looking back in a long history: `recall --as-of`, `history`, the life of a memory.

    python -m tests.bench as-of [--notes 10000] [--commits 20000] [--model all-MiniLM-L6-v2|hashing]

The vault is made by `git fast-import`: an import of all notes, then one edit a commit, spread over a hundred days, with
the trailers that the daemon writes; every twentieth commit is made by hand, without them.
"""

from __future__ import annotations

import json
import random
import subprocess
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ormahd.core.note import compose, path_for
from ormahd.vault.change import Kind, OpIds
from ormahd.vault.message import compose as message
from tests.bench import corpus
from tests.bench.foundation import percentiles, recall_times, timed
from tests.house import House, open_house

DAYS = 100
IMPORT_COMMIT = 500
BY_HAND = 20


def note(item: dict[str, Any], number: int, created: datetime, version: int) -> tuple[str, str, bytes]:
    """(id, path, bytes) of a memory in its nth version."""
    node_id = f"{number:08x}-0000-4000-8000-{number:012x}"
    kind, space, title = item.get("type") or "fact", item.get("space"), item.get("title")
    content = item["content"] if version == 0 else f"{item['content']}\nRevised for the {version}. time on reflection."
    path = path_for(id=node_id, type=kind, space=space, title=title, content=item["content"], created=created)
    data = compose(
        id=node_id, type=kind, tier="working", space=space, title=title, tags=item.get("tags") or [],
        source="agent:bench", confidence=1.0, created=created, updated=created + timedelta(days=version),
        content=content,
    )  # fmt: skip
    return node_id, path, data


def history(house: House, items: list[dict[str, Any]], commits: int) -> list[str]:
    """Write the vault's past below its present branch; returns the notes' ids."""
    begun = datetime.now(UTC) - timedelta(days=DAYS)
    step = timedelta(days=DAYS) / commits
    clock = _Clock(begun)
    ops = OpIds(clock)
    branch = house.git("symbolic-ref", "HEAD").strip()
    made = [note(item, number, begun, 0) for number, item in enumerate(items)]
    chance = random.Random(1)
    git = subprocess.Popen(
        ["git", "fast-import", "--quiet", "--force"], cwd=house.vault, env=house.env, stdin=subprocess.PIPE
    )
    assert git.stdin is not None
    out = git.stdin

    def commit(text: str, when: datetime, files: list[tuple[str, bytes]], parent: str | None) -> None:
        words = text.encode()
        stamp = f"Ada Person <ada@example.org> {int(when.timestamp())} +0000".encode()
        out.write(b"commit %b\ncommitter %b\ndata %d\n%b\n" % (branch.encode(), stamp, len(words), words))
        if parent:
            out.write(b"from %b^0\n" % parent.encode())
        for path, data in files:
            out.write(b"M 644 inline %b\ndata %d\n%b\n" % (path.encode(), len(data), data))

    parent: str | None = branch
    now = begun
    for at in range(0, len(made), IMPORT_COMMIT):
        some = made[at : at + IMPORT_COMMIT]
        text = message(f"Import {len(some)} memories", "", op=ops(), kind=Kind.IMPORT, source="person", run="bench",
                       nodes=[node_id for node_id, _, _ in some])  # fmt: skip
        commit(text, now, [(path, data) for _, path, data in some], parent)
        parent = None
    versions = [0] * len(items)
    for number in range(commits - len(made) // IMPORT_COMMIT):
        clock.now = now = begun + step * number
        chosen = chance.randrange(len(items))
        versions[chosen] += 1
        node_id, path, data = note(items[chosen], chosen, begun, versions[chosen])
        if number % BY_HAND == 0:
            commit("edited by hand", now, [(path, data)], None)
        else:
            text = message("Update: a note of the benchmark", "because the benchmark says so", op=ops(),
                           kind=Kind.UPDATE, source="agent:bench", nodes=[node_id])  # fmt: skip
            commit(text, now, [(path, data)], None)
    out.close()
    assert git.wait() == 0
    house.git("reset", "-q", "--hard")
    return [node_id for node_id, _, _ in made]


class _Clock:
    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now


def look_back(house: House, as_of: str, words: str) -> None:
    """One question about an earlier state while others ask about today, and the same again."""
    stop = threading.Event()
    beside: list[float] = []

    def others() -> None:
        with house.connect() as connection:
            for query in corpus.queries(100_000):
                if stop.is_set():
                    return
                beside.append(timed(lambda query=query: connection.call("agent.recall", {"query": query})))

    thread = threading.Thread(target=others)
    with house.connect() as connection:
        ask = lambda query: connection.call("agent.recall", {"query": query, "as_of": as_of}, timeout=600.0)  # noqa: E731
        thread.start()
        begun = time.perf_counter()
        found = ask("which database was replaced")
        took = time.perf_counter() - begun
        stop.set()
        thread.join()
        again = [timed(lambda query=query: ask(query)) for query in corpus.queries(60)]
    told = found.as_of
    print(f"recall --as-of {words}: {took:.2f} s ({told.notes} memories, degraded {found.degraded}); "
          f"again {percentiles(again[5:])}; today's recall meanwhile {percentiles(beside)}")  # fmt: skip


def main(args: list[str]) -> None:
    import argparse

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--notes", type=int, default=10_000)
    parser.add_argument("--commits", type=int, default=20_000)
    parser.add_argument("--model", default="all-MiniLM-L6-v2")
    chosen = parser.parse_args(args)
    with open_house(ORMAH_EMBEDDING_MODEL=chosen.model) as house:
        house.start()
        house.stop()
        lines = corpus.write(house.home / "notes.jsonl", chosen.notes)
        items = [json.loads(line) for line in Path(lines).read_text("utf-8").splitlines()]
        begun = time.perf_counter()
        ids = history(house, items, chosen.commits)
        took = time.perf_counter() - begun
        print(f"{chosen.notes} notes, {chosen.commits} commits (made in {took:.0f} s), model {chosen.model}")
        house.start(phase="")
        begun = time.perf_counter()
        while house.call("hello").phase != "ready" or house.call("admin.health").index.pending_vectors:
            time.sleep(1.0)
        print(f"indexed in {time.perf_counter() - begun:.0f} s")
        print(f"recall of today: {percentiles(recall_times(house, 120, filters=False))}")
        first = timed(lambda: house.call("history.list"))
        print(f"history, first page: {1000 * first:.0f} ms once, then {percentiles(times(house, 'history.list'))}")
        chance = random.Random(2)
        some = [{"node_id": chance.choice(ids)} for _ in range(40)]
        first = timed(lambda: house.call("history.life", **some[0]))
        print(
            f"life of a memory: {1000 * first:.0f} ms once, then {percentiles(times(house, 'history.life', some[1:]))}"
        )
        ops = house.call("history.list", limit=40).ops
        print(f"history show: {percentiles(times(house, 'history.show', [{'op': op.commit} for op in ops]))}")
        imported = house.call("history.list", kind="import", limit=1).ops[0]
        print(f"history show of an import: {1000 * timed(lambda: house.call('history.show', op=imported.op)):.0f} ms")
        for as_of, words in (("1d", "yesterday"), ("30d", "30 days ago"), ("99d", "99 days ago")):
            look_back(house, as_of, words)
        print(f"resident memory: {house.call('admin.health').rss_mb:.0f} MB")


def times(house: House, method: str, params: list[dict[str, Any]] | None = None) -> list[float]:
    with house.connect() as connection:
        return [timed(lambda one=one: connection.call(method, one)) for one in params or [{}] * 20]
