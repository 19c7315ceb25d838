"""Memories by the thousand, for figures: distinct, of the length and variety that real ones have, the same for a seed."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

PEOPLE = [
    "Aoife",
    "Bram",
    "Chidi",
    "Dana",
    "Elif",
    "Farid",
    "Greta",
    "Hiro",
    "Ines",
    "Jonas",
    "Kemal",
    "Lucia",
    "Mira",
    "Noor",
    "Olga",
    "Pavel",
    "Quinn",
    "Rosa",
    "Sven",
    "Tala",
]
PROJECTS = [
    "atlas",
    "beacon",
    "cobalt",
    "delta",
    "ember",
    "falcon",
    "garnet",
    "harbor",
    "indigo",
    "jasper",
    "krypton",
    "lumen",
]
THINGS = [
    "database",
    "cache",
    "queue",
    "gateway",
    "parser",
    "scheduler",
    "index",
    "dashboard",
    "invoice",
    "report",
    "migration",
    "backup",
    "deployment",
    "pipeline",
    "certificate",
    "cluster",
    "sensor",
    "notebook",
    "library",
    "protocol",
    "schema",
    "template",
    "worker",
    "socket",
    "endpoint",
    "renderer",
    "compiler",
    "editor",
    "calendar",
    "printer",
    "bicycle",
    "garden",
    "kitchen",
    "recipe",
    "flight",
    "hotel",
    "contract",
    "budget",
    "meeting",
    "workshop",
    "interview",
]
VERBS = [
    "prefers",
    "avoids",
    "replaced",
    "measured",
    "documented",
    "rewrote",
    "abandoned",
    "approved",
    "postponed",
    "reviewed",
    "tested",
    "shipped",
    "reverted",
    "bought",
    "repaired",
    "planned",
    "cancelled",
    "explained",
    "translated",
    "compared",
]
REASONS = [
    "because the old one lost data under load",
    "so that the team can work offline",
    "after a long discussion on Thursday",
    "since nobody could read the logs",
    "to save about forty euros a month",
    "although the documentation says otherwise",
    "because it failed twice during the demonstration",
    "until the new office opens",
    "in spite of the warning from legal",
    "as long as the tests stay under ten minutes",
]
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
