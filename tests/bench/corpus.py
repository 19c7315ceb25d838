"""Memories by the thousand, for figures: distinct, of the length and variety that real ones have, the same for a seed."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.tables import rows

PEOPLE = rows(__file__, "people")
PROJECTS = rows(__file__, "projects")
THINGS = rows(__file__, "things")
VERBS = rows(__file__, "verbs")
REASONS = rows(__file__, "reasons")
TYPES = ["fact", "decision", "preference", "event", "person", "project", "concept", "procedure", "goal", "observation"]
TIERS = ["core"] + ["working"] * 80 + ["archival"] * 19
START = datetime(2024, 1, 1, tzinfo=UTC)


def memories(count: int, *, seed: int = 7) -> Iterator[dict[str, Any]]:
    """`count` requests that `import` takes; about 30 words each, some with titles and tags, over 12 spaces and global."""
    chance = random.Random(seed)
    for number in range(count):
        who, what, other = chance.choice(PEOPLE), chance.choice(THINGS), chance.choice(THINGS)
        text = (
            f"{who} {chance.choice(VERBS)} the {what} of {chance.choice(PROJECTS)} number {number} "
            f"{chance.choice(REASONS)}; the {other} {chance.choice(VERBS)} by {chance.choice(PEOPLE)} stays as it is, "
            f"{chance.choice(REASONS)}."
        )
        item: dict[str, Any] = {
            "content": text,
            "type": chance.choice(TYPES),
            "tier": chance.choice(TIERS),
            "created": (START + timedelta(minutes=73 * number)).isoformat(),
        }
        if chance.random() < 0.9:
            item["space"] = chance.choice(PROJECTS)
        if chance.random() < 0.5:
            item["title"] = f"{who} and the {what} {number}"
        if chance.random() < 0.3:
            item["tags"] = sorted({chance.choice(THINGS) for _ in range(3)})
        yield item


def queries(count: int, *, seed: int = 11) -> list[str]:
    chance = random.Random(seed)
    return [
        f"{chance.choice(['what about', 'why was', 'who knows', 'remember'])} the {chance.choice(THINGS)} of "
        f"{chance.choice(PROJECTS)} {chance.choice(['and', 'without', 'before'])} {chance.choice(PEOPLE)}"
        for _ in range(count)
    ]


def write(path: Path, count: int, *, seed: int = 7) -> Path:
    with path.open("w", encoding="utf-8") as out:
        for item in memories(count, seed=seed):
            out.write(json.dumps(item) + "\n")
    return path
