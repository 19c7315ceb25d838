"""What it costs to take something back in a long history, over the socket: the whole call, its commit and its index.

    python -m tests.bench undo [--notes 10000] [--commits 20000] [--model hashing] [--turns 40]

The vault is that of `long_vault`. Undone are changes just made and changes of long ago (the newest of their note, so that
nothing conflicts), single notes, and an import of 500.
"""

from __future__ import annotations

import json
import random

from tests.bench.as_of import times
from tests.bench.foundation import durable_commit, percentiles, timed
from tests.bench.long_vault import long_house, parser
from tests.house import House


def main(args: list[str]) -> None:
    options = parser(__doc__)
    options.add_argument("--turns", type=int, default=40)
    chosen = options.parse_args(args)
    with long_house(chosen) as (house, ids):
        undos(house, ids, chosen.turns)
        pages(house)
        house.restart()
        print(f"history, first page just after a start: {1000 * timed(lambda: house.call('history.list')):.0f} ms")


def undos(house: House, ids: list[str], turns: int) -> None:
    print(f"one durable git commit: {1000 * durable_commit(house):.0f} ms")
    chance = random.Random(5)
    with house.connect() as connection:

        def undo(*ops: str) -> float:
            return timed(lambda: connection.call("history.undo", {"ops": list(ops)}, timeout=600.0))

        fresh, redone, forgotten = [], [], []
        for node_id in chance.sample(ids, turns):
            op = connection.call("agent.update", {"node_id": node_id, "title": f"Another title {len(fresh)}"}).op
            fresh.append(undo(op))
            redone.append(undo(house.git("rev-parse", "HEAD").strip()))
            forgotten.append(undo(connection.call("agent.forget", {"node_id": node_id}).op))
        print(f"undo of an update: {percentiles(fresh)} (limit p50: 300 ms); of that undo {percentiles(redone)}; "
              f"of a forgetting {percentiles(forgotten)}")  # fmt: skip
        newest: dict[str, str] = {}
        for op in connection.call("history.list", {"limit": 10_000}).ops:
            for node_id in op.nodes:
                newest.setdefault(node_id, op.op if op.kind == "update" and op.op else "")
        old = [op for op in list(newest.values())[turns * 4 :] if op]
        chosen = chance.sample(old, 2 * turns)
        print(f"undo of an op of long ago: {percentiles([undo(op) for op in chosen[:turns]])}")
        several = timed(lambda: connection.call("history.undo", {"ops": chosen[turns:]}, timeout=600.0))
        print(f"{turns} ops in one call: {1000 * several / turns:.0f} ms each")
        batch = [{"content": f"a batch of line {number} and {number * 13}", "space": "batch"} for number in range(500)]
        house.ctl("import", "-", input="\n".join(map(json.dumps, batch)))
        imported = connection.call("history.list", {"kind": "import", "limit": 1}).ops[0]
        print(f"undo of an import of {len(imported.nodes)}: {undo(imported.op):.2f} s, "
              f"again {undo(house.git('rev-parse', 'HEAD').strip()):.2f} s")  # fmt: skip


def pages(house: House) -> None:
    print(f"history, first page: {percentiles(times(house, 'history.list'))} (limit p50: 150 ms)")
    for what, params in (
        ("of one kind", {"kind": "undo"}), ("of a kind that there is not", {"kind": "merge"}),
        ("of a job that there is not", {"job": "auto_linker"}), ("since a month ago", {"since": "2020-01-01"}),
    ):  # fmt: skip
        print(f"  {what}: {percentiles(times(house, 'history.list', [params] * 20))}")
