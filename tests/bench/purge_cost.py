"""Deep forgetting in a long history: the dry run, the purge, and how long others wait meanwhile.

    python -m tests.bench purge [--notes 10000] [--commits 20000] [--model all-MiniLM-L6-v2|hashing]

The vault is that of `long_vault`, with a few links to the memory that goes. It was in the history from the first commit on, so
that every commit is written anew.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Self

from tests.bench import corpus
from tests.bench.foundation import percentiles, timed
from tests.bench.long_vault import long_house, parser
from tests.house import House


class Meanwhile:
    """Asks one thing again and again in a thread of its own, and notes how long each answer took."""

    def __init__(self, house: House, ask: Callable[[Any, int], Any]) -> None:
        self._stop = threading.Event()
        self.seconds: list[float] = []

        def go() -> None:
            with house.connect() as connection:
                number = 0
                while not self._stop.is_set():
                    number += 1
                    self.seconds.append(timed(lambda number=number: ask(connection, number)))

        self._thread = threading.Thread(target=go)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def main(args: list[str]) -> None:
    options = parser(__doc__)
    chosen = options.parse_args(args)
    with long_house(chosen) as (house, ids):
        for other in ids[100:110]:
            house.call("agent.connect", source_id=other, target_id=ids[50], edge="supports")

        def purge(node_id: str, **more: Any) -> Any:
            with house.connect() as connection:
                params = {"node_id": node_id, "rewrite_foreign": True, **more}
                stages: dict[str, float] = {}
                answer = connection.call(
                    "admin.purge", params, timeout=3600.0,
                    on_progress=lambda at: stages.setdefault(at.stage, time.perf_counter()),
                )  # fmt: skip
                return answer, stages

        would, _ = purge(ids[50], dry_run=True)
        print(f"dry run: {would.seconds:.1f} s, {would.commits} of {would.commits_total} commits")
        begun = time.perf_counter()
        queries = corpus.queries(100_000)
        with (
            Meanwhile(house, lambda link, n: link.call("agent.recall", {"query": queries[n]})) as asked,
            Meanwhile(house, lambda link, n: link.call("agent.remember", {"content": f"Meanwhile it is {n} o'clock."},
                                                       timeout=600.0)) as written,
        ):  # fmt: skip
            done, stages = purge(ids[50])
        print(f"purge with others at work: {done.seconds:.1f} s, {done.commits} commits, "
              f"{done.size_before / 1e6:.1f} MB before, {done.size_after / 1e6:.1f} MB after")  # fmt: skip
        print("  begun after: " + ", ".join(f"{stage} {at - begun:.1f} s" for stage, at in stages.items()))
        print(f"  recall meanwhile: {percentiles(asked.seconds)}, longest {1000 * max(asked.seconds):.0f} ms")
        print(f"  remember meanwhile: {percentiles(written.seconds)}, longest {1000 * max(written.seconds):.0f} ms")
        begun = time.perf_counter()
        done, stages = purge(ids[60])
        print(f"purge with nobody else at work: {done.seconds:.1f} s")
        print("  begun after: " + ", ".join(f"{stage} {at - begun:.1f} s" for stage, at in stages.items()))
        print(f"resident memory: {house.call('admin.health').rss_mb:.0f} MB")
