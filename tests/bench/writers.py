"""One writer, and 32 at once, beside durable commits of git in the same run.

python -m tests.bench writers [--notes 3000] [--rounds 3] [--model all-MiniLM-L6-v2|hashing]
"""

from __future__ import annotations

import statistics

from tests.bench import corpus
from tests.bench.foundation import clients, durable_commit, percentiles, timed
from tests.house import House, open_house


def moves(house: House) -> int:
    """How often the branch was moved."""
    return len(house.git("reflog", "--format=%h").splitlines())


def main(args: list[str]) -> None:
    import argparse

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--notes", type=int, default=3_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--model", default="all-MiniLM-L6-v2")
    chosen = parser.parse_args(args)
    with open_house(ORMAH_EMBEDDING_MODEL=chosen.model) as house:
        lines = corpus.write(house.home / "notes.jsonl", chosen.notes)
        house.start()
        house.ctl("import", str(lines), timeout=7200)
        for turn in range(chosen.rounds):
            own = []
            for number in range(40):
                item = {
                    "content": f"A new thing worth keeping, number {number} of round {turn}, about bees and harbours."
                }
                own.append(timed(lambda item=item: house.call("agent.remember", **item)))  # type: ignore[misc]
            commit = durable_commit(house)
            print(f"remember: {percentiles(own)}; one durable git commit {1000 * commit:.1f} ms: "
                  f"{statistics.median(own) / commit:.2f} x", flush=True)  # fmt: skip
            before = moves(house)
            clients(house, 32, 50, turn)
            print(f"  {1600 / (moves(house) - before):.1f} notes a batch", flush=True)
