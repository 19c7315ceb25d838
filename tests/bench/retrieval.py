"""Retrieval through the real daemon at its defaults, on the sets of `tests/quality`, beside words alone and vectors alone.

    python -m tests.bench retrieval [--notes 600]

The shared benchmarks have scripts of their own (`tests/bench/README.md` says how they are run).
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ormahd.embedding.model import load
from ormahd.settings import EmbeddingSettings
from tests.house import open_house
from tests.quality.sets import Question, Text, long_notes, memory
from tests.quality.test_floors import Stand


def through_the_daemon(texts: Sequence[Text], questions: Sequence[Question]) -> tuple[float, float, float]:
    """(share with the right note in the top 10, mean reciprocal rank, median milliseconds of a recall)."""
    with open_house(ORMAH_EMBEDDING_MODEL="all-MiniLM-L6-v2") as house:
        house.start()
        lines = [json.dumps({"content": text.content, "title": text.title, "tags": [f"key-{number}"]}) for number, text in enumerate(texts)]  # fmt: skip
        file = house.home / "texts.jsonl"
        file.write_text("\n".join(lines) + "\n")
        house.ctl("import", str(file), timeout=1800)
        tag_of = {text.key: f"key-{number}" for number, text in enumerate(texts)}
        places: list[int] = []
        seconds: list[float] = []
        with house.connect() as connection:
            for question in questions:
                begun = time.perf_counter()
                found = connection.call("agent.recall", {"query": question.text, "limit": 10, "space": None}).results
                seconds.append(time.perf_counter() - begun)
                tags = [hit.tags for hit in found if hit.source == "search"]
                places.append(next((at for at, of in enumerate(tags, 1) if tag_of[question.gold] in of), 0))
    any10 = sum(place > 0 for place in places) / len(places)
    return any10, sum(1 / place for place in places if place) / len(places), 1000 * statistics.median(seconds)


def main(args: list[str]) -> None:
    import argparse

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--notes", type=int, default=600)
    chosen = parser.parse_args(args)
    with tempfile.TemporaryDirectory() as place:
        embedder = load(EmbeddingSettings(), Path(place))
        for name, (texts, questions) in {"short notes": memory(), "long notes": long_notes(chosen.notes)}.items():
            any10, mrr, ms = through_the_daemon(texts, questions)
            print(f"{name}: {len(texts)} notes, {len(questions)} questions")
            print(f"  the daemon      any@10 {any10:.3f}  MRR {mrr:.3f}  p50 {ms:.1f} ms", flush=True)
            stand = Stand(Path(place, name), embedder, texts)
            ways: dict[str, Callable[[str], list[str]]] = {
                "words alone": stand.by_words,
                "vectors alone": stand.by_meaning,
            }
            for way, ask in ways.items():
                any10, mrr = stand.figures(questions, ask)
                print(f"  {way:15} any@10 {any10:.3f}  MRR {mrr:.3f}", flush=True)
            stand.index.close()
