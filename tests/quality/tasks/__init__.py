"""Task prompts: what people type when they work, with the memories that the work needs.

A vault is a file `<half>-<name>.tsv` of lines: `m` key, days ago, type, space (`.`: global), title, content; `p` long or
short, space, memories that must be told (`-`: none), memories that may be, prompt; `r` newer, older: the one replaced the
other, all other pairs of memories hold side by side. Nothing is tuned on the half `held`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

NOW = datetime(2026, 11, 21, 20, tzinfo=UTC)
FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Memory:
    key: str
    created: datetime
    type: str
    space: str | None
    title: str
    content: str


@dataclass(frozen=True)
class Prompt:
    long: bool
    space: str | None
    must: frozenset[str]
    may: frozenset[str]
    text: str


@dataclass(frozen=True)
class TaskVault:
    name: str
    memories: tuple[Memory, ...]
    prompts: tuple[Prompt, ...]
    replaced: frozenset[tuple[str, str]]
    """(older, newer)"""


def vaults(half: str) -> list[TaskVault]:
    return [_read(file) for file in sorted(FOLDER.glob(f"{half}-*.tsv"))]


def _read(file: Path) -> TaskVault:
    memories, prompts, replaced = [], [], set()
    for line in file.read_text("utf-8").splitlines():
        kind, *cells = line.split("\t")
        if kind == "m":
            key, days, type_, space, title, content = cells
            memories.append(Memory(key, NOW - timedelta(days=float(days)), type_, _space(space), title, content))
        elif kind == "p":
            size, space, must, may, text = cells
            prompts.append(Prompt(size == "long", _space(space), _keys(must), _keys(may), text.replace("\\n", "\n")))
        elif kind == "r":
            replaced.add((cells[1], cells[0]))
    return TaskVault(file.stem, tuple(memories), tuple(prompts), frozenset(replaced))


def _space(text: str) -> str | None:
    return None if text == "." else text


def _keys(text: str) -> frozenset[str]:
    return frozenset() if text == "-" else frozenset(text.split(","))
