"""Nights on end: every job, a judge that is sometimes wrong, slow, malformed or gone, and a vault that changes meanwhile.

What must hold whatever happens: no fact that was stored is lost from the vault unless somebody forgot it, each that stands is
answered for by recall, the index is what a rebuild would make, git is sound, and its log can be read.
"""

from __future__ import annotations

import random
import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ormahd.actions.outdated import forget
from ormahd.api import RunTaskResult
from ormahd.embedding.embedder import Hashing
from ormahd.index.index import Index
from ormahd.index.rows import NodeRow
from ormahd.jobs.runner import CHANGES_OF, JOBS, IndexUpdater, Runner
from ormahd.model.node import NodeType
from tests.contract.test_index_rebuild import dump
from tests.jobs_house import AGENT, JobsHouse, open_jobs_house
from tests.jobs_judge import Faults, ScriptedJudge
from tests.vault.git_house import sound

SERVICES = ("payments", "search", "billing", "login", "mail", "export", "reports", "images")
ATTRIBUTES = (
    "retry limit", "on-call contact", "deploy window", "log retention", "database host", "rate limit", "cache size",
    "backup bucket", "owner team", "runbook page", "queue name", "feature flag",
)  # fmt: skip
SPACES = (None, "shop", "infra")
FAULTS = Faults(wrong=0.1, malformed=0.08, open=0.05, slow=0.08, gone=0.05)
MOST = 220
"""Facts that stand at a time; beyond them the world forgets one for each that it learns."""
SUBJECT = 150
"""Characters of a subject: two memories named, at most."""


@dataclass
class Fact:
    """Something that was stored. Its ticket stands in every telling of it and in nothing else."""

    ticket: str
    space: str | None
    service: str
    attribute: str
    value: int
    type: NodeType

    @property
    def text(self) -> str:
        return f"The {self.attribute} of the {self.service} service is {self.value}, says ticket {self.ticket}."

    @property
    def again(self) -> str:
        return f"{self.attribute} of the {self.service} service is {self.value}; says ticket {self.ticket}!"

    @property
    def title(self) -> str:
        return f"{self.service} {self.attribute}"

    @property
    def query(self) -> str:
        return f"What is the {self.attribute} of the {self.service} service?"


@dataclass
class World:
    """What people and agents do between two nights, and what they know."""

    house: JobsHouse
    chance: random.Random
    facts: dict[str, Fact] = field(default_factory=dict)
    tickets: int = 0

    def day(self) -> None:
        self.house.go(hours=self.chance.choice([8, 24, 24, 24, 72, 24 * 16]))
        for _ in range(self.chance.randint(1, 6)):
            doing = self.chance.choices(
                [self.learn, self.hear_again, self.hear_otherwise, self.correct, self.type_something, self.use, self.lose,
                 self.move],
                [8, 3, 2, 2, 2, 3, 1, 1],
            )[0]  # fmt: skip
            doing()
        while len(self.facts) > MOST:
            self.lose()

    # ------------------------------------------------------------ agents

    def learn(self) -> None:
        self.tell(self.chance.choice(SERVICES), self.chance.choice(ATTRIBUTES), self.chance.choice(SPACES))

    def tell(self, service: str, attribute: str, space: str | None) -> None:
        if any((one.service, one.attribute, one.space) == (service, attribute, space) for one in self.facts.values()):
            return
        self.tickets += 1
        kind = self.chance.choice([NodeType.FACT, NodeType.FACT, NodeType.DECISION, NodeType.PREFERENCE])
        self.store(Fact(f"ZK{self.tickets:05d}", space, service, attribute, self.chance.randint(2, 90), kind))

    def store(self, fact: Fact) -> None:
        self.facts[fact.ticket] = fact
        self.house.remember(fact.text, title=fact.title, space=fact.space, type=fact.type)

    def hear_again(self) -> None:
        if fact := self.some_fact():
            text = self.chance.choice([fact.again, fact.text + " Again."])
            self.house.remember(text, title=fact.title, space=fact.space, type=fact.type)

    def hear_otherwise(self) -> None:
        if fact := self.some_fact():
            self.tickets += 1
            again = fact.value + 100
            self.store(Fact(f"ZK{self.tickets:05d}", fact.space, fact.service, fact.attribute, again, fact.type))

    def correct(self) -> None:
        if (row := self.some_row()) is not None:
            self.house.update(row.id, content=row.content + f"\nChecked on {self.house.now:%Y-%m-%d}.")

    def use(self) -> None:
        if fact := self.some_fact():
            self.house.ormah.state.touch(
                [hit.id for hit in self.house.recall(fact.query, 2).results], how="get", session_id=None
            )

    def lose(self) -> None:
        row = self.some_row()
        if row is not None:
            forget(self.house.ormah, row.id, AGENT)
            standing = self.said()
            for ticket in _tickets(row.content) - standing:
                self.facts.pop(ticket, None)

    # ------------------------------------------------------------ people

    def type_something(self) -> None:
        if (row := self.some_row()) is not None:
            path = self.house.path(row.id)
            path.write_bytes(path.read_bytes() + f"\nSeen by hand in week {self.house.now:%W}.\n".encode())
            self.house.ormah.reconciler.scan()

    def move(self) -> None:
        if (row := self.some_row()) is not None:
            path = self.house.path(row.id)
            path.rename(path.with_name(f"moved-{self.chance.randrange(10**6)}-{path.name}"))
            self.house.ormah.reconciler.scan()

    def meanwhile(self) -> None:
        """While a slow judge thinks."""
        self.house.go(minutes=20)
        self.chance.choice([self.type_something, self.correct, self.learn, lambda: None])()

    # ------------------------------------------------------------ what stands

    def some_fact(self) -> Fact | None:
        return self.chance.choice(list(self.facts.values())) if self.facts else None

    def some_row(self) -> NodeRow | None:
        rows = sorted((row for row in self.rows() if _tickets(row.content)), key=lambda row: row.id)
        return self.chance.choice(rows) if rows else None

    def rows(self) -> list[NodeRow]:
        index = self.house.ormah.index
        return list(index.notes(index.ids(), connections=False).values())

    def said(self) -> set[str]:
        """Every ticket that stands in a note."""
        return {ticket for row in self.rows() for ticket in _tickets(row.content)}


def _tickets(text: str) -> set[str]:
    return set(re.findall(r"ZK\d{5}", text))


def check_nothing_is_lost(world: World) -> None:
    assert world.facts.keys() - world.said() == set()


def check_recall(world: World, facts: list[Fact]) -> None:
    """Each is among the first ten for its question; what was replaced by a newer belief leaves the results on purpose."""
    valid = {ticket for row in world.rows() if not row.expired(world.house.now) for ticket in _tickets(row.content)}
    for fact in facts:
        if fact.ticket in valid:
            hits = world.house.recall(fact.query, space=fact.space).results
            assert any(fact.ticket in hit.content for hit in hits), (fact, [hit.content for hit in hits])


def check_log(house: JobsHouse, since: str, ran: list[RunTaskResult]) -> None:
    """What a night left in the history can be read by people and by programs."""
    commits = {commit for one in ran for commit in one.commits}
    log = house.git("log", "--format=%H%x00%B%x01", f"{since}..HEAD").split("\x01")
    messages = dict(entry.strip("\n").split("\0", 1) for entry in log if entry.strip())
    assert commits <= messages.keys()
    for commit in commits:
        subject, blank, *body = messages[commit].rstrip("\n").splitlines()
        assert 10 <= len(subject) <= SUBJECT, subject
        assert blank == ""
        trailers = dict(line.split(": ", 1) for line in body if line.startswith("Ormah-"))
        assert trailers.keys() >= {"Ormah-Op", "Ormah-Kind", "Ormah-Source", "Ormah-Run"}, messages[commit]
        assert trailers["Ormah-Source"].startswith("job:")
        if trailers["Ormah-Kind"] != "strength":
            assert len([line for line in body if line and not line.startswith("Ormah-")]) >= 1, messages[commit]


def check_index(house: JobsHouse) -> None:
    """The index that followed every change is the one that is made of the files in one go."""
    index = house.ormah.index
    assert index.wait_filled(60, settled=True)
    assert house.ormah.verify() == []
    with tempfile.TemporaryDirectory(prefix="orm") as directory:
        fresh = Index.open(Path(directory), house.ormah.settings.embedding, clock=house.clock)
        try:
            fresh.first_path = house.ormah.reconciler.first_path
            fresh.attach(Hashing())
            fresh.rebuild(house.ormah.files())
            assert fresh.wait_filled(60)
            assert dump(fresh) == dump(index)
        finally:
            fresh.close()


def night(runner: Runner) -> list[RunTaskResult]:
    ran = runner.run(runner.named("all"))
    assert [one.error for one in ran] == [None] * len(JOBS), [(one.job, one.error) for one in ran if one.error]
    return ran


@pytest.mark.parametrize("cycles", [8, pytest.param(1000, marks=pytest.mark.soak)])
def test_nights_on_end(cycles: int, capsys: pytest.CaptureFixture[str]) -> None:
    chance = random.Random(cycles)
    with open_jobs_house(seed=cycles, **{"decay.days": 14, "decay.idle_share": 1}) as house:
        world = World(house, chance)
        judge = ScriptedJudge(cycles, FAULTS, world.meanwhile)
        runner = Runner(house.ormah, JOBS, judge, CHANGES_OF)
        for _ in range(60):
            world.learn()
        for _ in range(10):
            world.hear_again()
        kinds: dict[str, int] = {}
        for cycle in range(1, cycles + 1):
            world.day()
            head = house.head
            ran = night(runner)
            for one in ran:
                kinds[one.job] = kinds.get(one.job, 0) + one.applied
            check_log(house, head, ran)
            check_nothing_is_lost(world)
            check_recall(world, chance.sample(list(world.facts.values()), min(5, len(world.facts))))
            if cycle % 10 == 0:
                check_recall(world, list(world.facts.values()))
                assert house.ormah.verify() == []
            if cycle % 50 == 0:
                check_index(house)
                sound(house.ormah.vault.root)
        check_index(house)
        check_recall(world, list(world.facts.values()))
        sound(house.ormah.vault.root)
        check_taken_back(house, world)
        with capsys.disabled():
            print(_told(house, cycles, kinds, judge))
        assert all(judge.did[fault] for fault in ("honest", "wrong", "malformed")), judge.did
        assert kinds["consolidator"]
        assert kinds["duplicate_merger"]
        assert kinds["decay_manager"]


def check_taken_back(house: JobsHouse, world: World) -> None:
    """A whole night without anybody about, and all of it undone: every note is what it was, byte for byte."""
    for _ in range(8):
        world.learn()
        world.hear_again()
    house.go(days=20)
    runner = Runner(
        house.ormah, [job for job in JOBS if not isinstance(job, IndexUpdater)], ScriptedJudge(), CHANGES_OF
    )
    before, head = notes(house), house.head
    ran = runner.run(runner.named("all"))
    assert sum(one.applied for one in ran) > 0
    assert notes(house) != before
    runs = set(house.git("log", "--format=%(trailers:key=Ormah-Run,valueonly,separator=)", f"{head}..HEAD").split())
    (run,) = runs
    done = house.undo(run=run)
    assert done.skipped == [], done.skipped
    assert notes(house) == before
    assert house.ormah.verify() == []


def notes(house: JobsHouse) -> dict[str, bytes]:
    root = house.ormah.vault.root
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*.md")}


def _told(house: JobsHouse, cycles: int, kinds: dict[str, int], judge: ScriptedJudge) -> str:
    counted = dict(line.split(": ") for line in house.git("count-objects", "-v").splitlines())
    loose, packed = int(counted["size"]), int(counted["size-pack"])
    commits = int(house.git("rev-list", "--count", "HEAD"))
    return (
        f"\n{cycles} nights: {commits} commits, {house.ormah.index.count()} memories, repository {loose + packed} KiB "
        f"({loose} loose, {packed} packed); applied {kinds}; the judge was asked {len(judge.asked)} times, {dict(judge.did)}"
    )
