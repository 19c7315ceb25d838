"""Sixty days with jobs every third one: what is asked now and then goes on speaking, and what nobody asks for rests.

The embedder hashes words: a prompt that repeats a memory's words is about it. What the real model makes of real prompts:
`tests/quality`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from ormahd.jobs.decay.job import DecayManager, ImportanceScorer
from ormahd.model.node import NodeType, Tier
from ormahd.whisper.pipeline import Whisper
from ormahd.whisper.types import Asked
from tests.jobs_house import JobsHouse, open_jobs_house

TYPES = (NodeType.EVENT, NodeType.OBSERVATION, NodeType.FACT, NodeType.DECISION, NodeType.PROCEDURE)
EACH = 4
DAYS = 60


def words(number: int) -> str:
    """Six words that no other memory has."""
    return " ".join(f"{name}{number:02}" for name in ("marmot", "kettle", "violin", "anchor", "lantern", "walnut"))


class Life:
    """A vault of `EACH` memories of each type that came on one day; by number: the even ones are asked for each nine days."""

    def __init__(self, house: JobsHouse) -> None:
        self.house = house
        self.whisper = Whisper(house.ormah)
        self.ids = [
            house.remember(f"The {words(number)} belong together.", type=TYPES[number % len(TYPES)], title=f"Number {number}")
            for number in range(EACH * len(TYPES))
        ]  # fmt: skip

    def prompt(self, number: int) -> list[str]:
        """The ids of what is whispered, in a session of its own."""
        session = f"{number} on {self.house.now}"
        said = self.whisper.whisper(Asked(f"which {words(number)} belong together", None, session))
        return [one.id for one in said.nodes if one.shown == "full"]

    def days(self, *, somebody_asks: bool) -> None:
        for day in range(1, DAYS + 1):
            self.house.go(days=1)
            if somebody_asks:
                self.house.ormah.state.asked(self.house.now)
                for number in range(0, len(self.ids), 2):
                    if (day + number) % 9 == 0:
                        assert self.ids[number] in self.prompt(number)
            if day % 3 == 0:
                self.night()

    def night(self) -> None:
        self.house.run(ImportanceScorer())
        self.house.run(DecayManager())

    def resting(self) -> dict[bool, Counter[NodeType]]:
        """By whether they are asked for: the types of what rests in the archive."""
        found: dict[bool, Counter[NodeType]] = {True: Counter(), False: Counter()}
        for number, node_id in enumerate(self.ids):
            row = self.house.row(node_id)
            if row.tier is Tier.ARCHIVAL:
                found[number % 2 == 0][row.type] += 1
        return found


@pytest.fixture
def life() -> Iterator[Life]:
    with open_jobs_house(seed=7) as house:
        yield Life(house)


def test_what_is_whispered_stays_and_ranks_no_higher(life: Life) -> None:
    life.days(somebody_asks=True)
    resting = life.resting()
    assert resting[True] == {}, "what is asked for goes on speaking"
    assert resting[False] == {NodeType.EVENT: EACH / 2, NodeType.OBSERVATION: EACH / 2}, (
        "what happened and nobody asks for rests"
    )
    for number, node_id in enumerate(life.ids):
        strength = life.house.row(node_id).strength
        assert (strength.use_count, strength.access_count, strength.last_accessed) == (0, 0, None), number

    number = next(at for at, one in enumerate(life.ids) if life.house.row(one).tier is Tier.ARCHIVAL)
    assert life.prompt(number) == [life.ids[number]], "it fits so well that it speaks from the archive"
    life.house.go(days=1)
    life.night()
    assert life.house.row(life.ids[number]).tier is Tier.WORKING
    assert len(life.house.ormah.state.active_days()) == DAYS


def test_while_nobody_asks_nothing_is_forgotten(life: Life) -> None:
    life.days(somebody_asks=False)
    assert life.resting() == {True: Counter(), False: Counter()}


def test_a_whisper_does_not_fail_where_the_state_is_damaged(life: Life, caplog: pytest.LogCaptureFixture) -> None:
    with life.house.ormah.state.transaction() as db:
        db.execute("DROP TABLE access")
        db.execute("DROP TABLE active_day")
    assert life.prompt(0) == [life.ids[0]]
    assert "was begun anew" in caplog.text


def test_a_whisper_that_is_only_looked_at_uses_nothing(life: Life) -> None:
    said = life.whisper.whisper(Asked(f"which {words(0)} belong together", None, "s"), explain=True)
    assert said.nodes
    by_hand = Asked(f"which {words(0)} belong together", None, agent="person")
    assert life.whisper.whisper(by_hand).nodes
    assert life.house.ormah.state.active_days() == set()
    asked = Asked(f"which {words(0)} belong together", None, "t", disconnected=lambda: True)
    assert life.whisper.whisper(asked).nodes == []
    assert life.whisper.whisper(replace(asked, prompt="")).nodes == []
    assert life.house.ormah.state.accesses() == []
