"""What a full cycle of maintenance, without a judge, does to recall: the shared benchmark's conversations, dev half.

    python -m tests.bench jobs-recall [--shared ../shared/bench]

Each turn of each conversation is a memory; each question's evidence turns are what it should find. recall@10 is the share of a
question's evidence among the ten best; a turn that a merge took in counts where its keeper is found (tags are united). First the
night after the import. Then the same vault as if it had come thirty days ago (its commits are dated back), so that everything
that is not spared fades: cycles run until nothing is applied any more.

That the questions were asked before a cycle is itself a part of what is measured: what was found counts as found.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path
from typing import Any

from tests.house import House, open_house, wait_until

SHARED = Path(__file__).parents[3] / "shared" / "bench"
CYCLES = 40


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="jobs-recall", description=__doc__)
    parser.add_argument("--shared", type=Path, default=SHARED)
    options = parser.parse_args(arguments)
    if not (options.shared / "locomo.py").exists():
        print(f"the shared benchmark is not at {options.shared}; nothing measured")
        return
    sys.path.insert(0, str(options.shared))
    data = importlib.import_module("locomo").load(str(options.shared / "data" / "locomo-dev"), "dev")
    fading = {"ORMAH_DECAY_IDLE_SHARE": "1", "ORMAH_DECAY_FACT_DAYS": "14"}  # a month is enough
    with open_house(ORMAH_EMBEDDING_MODEL="all-MiniLM-L6-v2", **fading) as house:
        house.start()
        lines = house.home / "turns.jsonl"
        lines.write_text("".join(
            json.dumps({"content": note.content, "space": note.space, "created": note.created, "tags": [note.id]}) + "\n"
            for note in data.notes
        ))  # fmt: skip
        house.ctl("import", str(lines), timeout=3600)
        wait_until(lambda: not house.call("admin.health").degraded, "the vectors", 600)
        print(f"{len(data.notes)} memories, {len(data.recall_questions)} questions")
        print(told("before", recalled(house, data)), flush=True)
        cycles(house, data, "the night after", 1)
        house.age(30)
        cycles(house, data, "a month later", CYCLES)


def cycles(house: House, data: Any, when: str, most: int) -> None:
    for cycle in range(1, most + 1):
        results = house.json("jobs", "run", "all", timeout=3600)
        applied = {one["job"]: one["applied"] for one in results if one["applied"]}
        print(told(f"{when}, cycle {cycle}", recalled(house, data)), applied, flush=True)
        if not set(applied) - {"index_updater", "importance_scorer"}:
            break


def told(when: str, found: tuple[float, float, float]) -> str:
    return f"{when}: recall@10 {found[0]:.4f}  any@10 {found[1]:.4f}  MRR {found[2]:.4f}"


def recalled(house: House, data: Any) -> tuple[float, float, float]:
    """(recall@10, any@10, mean reciprocal rank) over the questions, each asked in its conversation's space."""
    shares, anys, ranks = 0.0, 0, 0.0
    with house.connect() as connection:
        for question in data.recall_questions:
            params = {"query": question.text, "limit": 10, "spaces": [question.space]}
            found = connection.call("agent.recall", params, timeout=60.0).results
            tags = [set(hit.tags) for hit in found if hit.source == "search"][:10]
            hit = [any(one in some for some in tags) for one in question.gold]
            shares += sum(hit) / len(hit)
            anys += any(hit)
            ranks += next((1 / place for place, some in enumerate(tags, 1) if some.intersection(question.gold)), 0.0)
    count = len(data.recall_questions)
    return shares / count, anys / count, ranks / count
