"""Looking back in a long history: `recall --as-of`, `history`, the life of a memory.

    python -m tests.bench as-of [--notes 10000] [--commits 20000] [--model all-MiniLM-L6-v2|hashing]

The vault is that of `long_vault`.
"""

from __future__ import annotations

import random
import threading
import time
from typing import Any

from tests.bench import corpus
from tests.bench.foundation import percentiles, recall_times, timed
from tests.bench.long_vault import long_house, parser
from tests.house import House


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
    options = parser(__doc__, model="all-MiniLM-L6-v2")
    chosen = options.parse_args(args)
    with long_house(chosen) as (house, ids):
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
