"""Whispers in 25 languages, through a real daemon with the real model (`languages.tsv`; README, "Languages").

`python -m tests.quality.test_languages [MODEL]` prints the figures, and what went wrong in the half dev.
"""

from __future__ import annotations

import json
import sys
import uuid
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from tests.house import open_house
from tests.quality.sets import rows

FOLDER = Path(__file__).parent
ROWS = rows(FOLDER / "languages.tsv", 4)
NOTES = [(language, note) for language, note, _ in rows(FOLDER / "scripts.tsv", 3) if note != "-"]
"""Further memories, in 13 of the languages, that no prompt wants."""
FLOORS = {"o": 0.68, "p": 0.88, "s": 0.98}


def ask(model: str = "all-MiniLM-L6-v2") -> tuple[dict[tuple[str, str], list[bool]], list[str]]:
    """Return {(half, kind): whether each prompt was answered rightly} and the dev prompts that were not."""
    memories = [(language, key, text) for language, kind, key, text in ROWS if kind == "m"]
    memories += [(language, text, text) for language, text in NOTES if language in {row[0] for row in ROWS}]
    ids = {(language, key): str(uuid.uuid5(uuid.NAMESPACE_URL, f"{language} {key}")) for language, key, _ in memories}
    lines = [
        json.dumps({"id": ids[language, key], "type": "fact", "space": language, "content": text, "source": "person"})
        for language, key, text in memories
    ]
    right: dict[tuple[str, str], list[bool]] = defaultdict(list)
    wrong = []
    count: Counter[tuple[str, str]] = Counter()
    with open_house(ORMAH_EMBEDDING_MODEL=model) as house:
        house.start()
        assert not house.call("admin.import", lines=lines).failed
        with house.connect() as connection:
            for language, kind, key, text in ROWS:
                if kind == "m":
                    continue
                params = {"prompt": text, "space": language, "session_id": None}
                said: Any = connection.call("agent.whisper", params, agent="languages", timeout=120)
                assert "vectors" not in said.degraded, house.said()
                told = [node.id for node in said.nodes if node.shown != "exploring"]
                good = ids.get((language, key)) in told if kind != "s" else not told
                half = "held" if count[language, kind] % 2 else "dev"
                count[language, kind] += 1
                right[half, kind].append(good)
                if not good and half == "dev":
                    wrong.append(f"{language} {kind} {said.silence or [node.title for node in said.nodes]} {text}")
    return right, wrong


def table(right: dict[tuple[str, str], list[bool]]) -> str:
    return ", ".join(f"{half} {kind} {sum(some)}/{len(some)}" for (half, kind), some in sorted(right.items()))


def test_wanted_memories_are_told_and_small_talk_is_silent() -> None:
    """Measured, dev and held: orders 0.92 and 0.72, prompts 0.91 and 0.96, small talk 1.00 and 1.00."""
    right, wrong = ask()
    for (half, kind), some in right.items():
        assert sum(some) >= FLOORS[kind] * len(some), (half, kind, table(right), wrong)


if __name__ == "__main__":
    figures, misses = ask(*sys.argv[1:])
    print(table(figures), *misses, sep="\n")
