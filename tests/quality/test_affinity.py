"""What feedback teaches, in numbers: through the daemon, with the real model, on prompts that nobody judged.

Each memory of `affinity.tsv` is judged three times, for one prompt that is asked in three sessions. Then two paraphrases
are asked that nobody judged, and forty prompts on other things.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ormahd.api import WhisperResult
from ormahd.errors import NotFound
from tests.house import House, open_house, wait_until
from tests.quality.sets import rows

FILE = Path(__file__).with_name("affinity.tsv")
TIMES = 3
TOP = 6
_SESSIONS = itertools.count()


@dataclass(frozen=True)
class Judged:
    key: str
    prompt: str
    paraphrases: tuple[str, ...]


@dataclass(frozen=True)
class Set:
    memories: tuple[tuple[str, str, str, str], ...]
    """Key, type, title, content."""
    judged: tuple[Judged, ...]
    unrelated: tuple[str, ...]


def read() -> Set:
    lines = rows(FILE)
    return Set(
        tuple((row[1], row[2], row[3], row[4]) for row in lines if row[0] == "memory"),
        tuple(Judged(row[1], row[2], tuple(row[3].split(" | "))) for row in lines if row[0] == "judged"),
        tuple(row[1] for row in lines if row[0] == "unrelated"),
    )


class Stand:
    def __init__(self, house: House, given: Set) -> None:
        self.house, self.given = house, given
        self.ids = {
            key: house.call("agent.remember", content=content, title=title, type=type_, space=None).node_id
            for key, type_, title, content in given.memories
        }
        self.keys = {node: key for key, node in self.ids.items()}
        wait_until(
            lambda: house.call("admin.health").index.pending_vectors == 0, "all memories have their vectors", 120
        )

    def whisper(self, prompt: str) -> WhisperResult:
        found: WhisperResult = self.house.call(
            "agent.whisper", prompt=prompt, space=None, session_id=f"s{next(_SESSIONS)}", explain=True
        )
        return found

    def injected(self, said: WhisperResult) -> list[str]:
        """Keys of what was injected, in the order of the text; what is explored is a question."""
        return [self.keys.get(node.id, node.id) for node in said.nodes if node.shown != "exploring"][:TOP]

    def ask(self) -> list[tuple[str, str]]:
        """Each judged prompt in `TIMES` sessions: (event, key)."""
        asked = [(self.whisper(one.prompt).event, one.key) for one in self.given.judged for _ in range(TIMES)]
        return [(event, key) for event, key in asked if event]

    def judge(self, asked: list[tuple[str, str]], signal: int) -> int:
        """Judge them; the number of judgements. A memory that was no candidate for its prompt cannot be judged."""
        counted = 0
        for event, key in asked:
            with contextlib.suppress(NotFound):
                done = self.house.call("agent.feedback", node_id=self.ids[key], signal=signal, event=event)
                counted += done.counted
        return counted

    def rank(self) -> float:
        """Mean reciprocal rank of the judged memories among what was injected for their paraphrases."""
        places = []
        for judged in self.given.judged:
            for paraphrase in judged.paraphrases:
                found = self.injected(self.whisper(paraphrase))
                places.append(1 / (found.index(judged.key) + 1) if judged.key in found else 0.0)
        return sum(places) / len(places)

    def unrelated(self) -> dict[str, list[str]]:
        return {prompt: self.injected(self.whisper(prompt)) for prompt in self.given.unrelated}


@pytest.fixture(scope="module")
def stand() -> Iterator[Stand]:
    with open_house(ORMAH_EMBEDDING_MODEL="all-MiniLM-L6-v2", ORMAH_WHISPER_REVIEW="false") as house:
        house.start()
        yield Stand(house, read())


def test_three_judgements_teach_and_nothing_else_changes(stand: Stand) -> None:
    given = stand.given
    assert len(given.judged) >= 20
    assert len(given.unrelated) >= 40
    before, elsewhere = stand.rank(), stand.unrelated()
    assert sum(map(bool, elsewhere.values())) >= 20, "those that are answered show that nothing moves"
    asked = stand.ask()
    assert stand.judge(asked, 1) >= TIMES * 20
    assert stand.rank() > before + 0.05
    assert stand.unrelated() == elsewhere
    assert stand.judge(asked, -1) >= TIMES * 20
    assert stand.rank() < before - 0.05
    assert stand.unrelated() == elsewhere
