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
    rows = [line.split("\t") for line in FILE.read_text("utf-8").splitlines() if line and not line.startswith("#")]
    return Set(
        tuple((row[1], row[2], row[3], row[4]) for row in rows if row[0] == "memory"),
        tuple(Judged(row[1], row[2], tuple(row[3].split(" | "))) for row in rows if row[0] == "judged"),
        tuple(row[1] for row in rows if row[0] == "unrelated"),
    )


@dataclass(frozen=True)
class Figures:
    """Over the paraphrases: the judged memory's mean reciprocal rank among what was injected, the share of paraphrases that
    injected it, that injected it first; and how many of them are like the judged prompt to feedback."""

    rank: float
    injected: float
    first: float
    spoken_of: int

    def __str__(self) -> str:
        return f"{self.rank:.3f} | {self.injected:.2f} | {self.first:.2f}"


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

    def figures(self) -> Figures:
        places, spoken_of = [], 0
        for one in self.given.judged:
            for paraphrase in one.paraphrases:
                said = self.whisper(paraphrase)
                found = self.injected(said)
                places.append(found.index(one.key) + 1 if one.key in found else 0)
                assert isinstance(said.trace, dict)
                spoken_of += any(
                    row["node_id"] == self.ids[one.key] and row.get("affinity") for row in said.trace["candidates"]
                )
        count = len(places)
        return Figures(
            sum(1 / place for place in places if place) / count, sum(place > 0 for place in places) / count,
            sum(place == 1 for place in places) / count, spoken_of,
        )  # fmt: skip

    def unrelated(self) -> dict[str, list[str]]:
        return {prompt: self.injected(self.whisper(prompt)) for prompt in self.given.unrelated}


@pytest.fixture(scope="module")
def stand() -> Iterator[Stand]:
    with open_house(ORMAH_EMBEDDING_MODEL="all-MiniLM-L6-v2", ORMAH_WHISPER_REVIEW="false") as house:
        house.start()
        yield Stand(house, read())


def test_three_judgements_teach_and_nothing_else_changes(stand: Stand, capsys: pytest.CaptureFixture[str]) -> None:
    given = stand.given
    assert len(given.judged) >= 20
    assert all(len(one.paraphrases) == 2 for one in given.judged)
    assert len(given.unrelated) >= 40
    before, elsewhere = stand.figures(), stand.unrelated()
    assert before.spoken_of == 0
    asked = stand.ask()
    useful = stand.judge(asked, 1)
    after, elsewhere_after = stand.figures(), stand.unrelated()
    useless = stand.judge(asked, -1)
    against, elsewhere_against = stand.figures(), stand.unrelated()
    with capsys.disabled():
        print()
        print(f"{len(given.judged)} memories judged, {useful // TIMES} of them candidates; {2 * len(given.judged)} paraphrases, "
              f"{after.spoken_of} of them like the judged prompt to feedback")  # fmt: skip
        print("judgements | mean reciprocal rank | injected | first")
        for name, found in (("none", before), (f"{TIMES} positive", after), (f"{TIMES} negative", against)):
            print(f"{name} | {found}")
        changed = [
            sum(elsewhere[prompt] != one[prompt] for prompt in elsewhere)
            for one in (elsewhere_after, elsewhere_against)
        ]
        answered = sum(bool(found) for found in elsewhere.values())
        print(
            f"unrelated: {len(elsewhere)}, answered {answered}, top {TOP} changed: positive {changed[0]}, negative {changed[1]}"
        )
    assert useful == useless
    assert useful >= TIMES * 20
    assert after.rank > before.rank + 0.05
    assert against.rank < before.rank - 0.05
    assert elsewhere_after == elsewhere
    assert elsewhere_against == elsewhere
    assert sum(bool(found) for found in elsewhere.values()) >= 20, "those that are answered show that nothing moves"
