"""`kill -9` of the daemon's whole process group at random instants, again and again on one vault (DESIGN section 2.2).

After each restart: what was acknowledged is there, nothing is half-there, the worktree is clean, no lock is left, and nobody
repaired anything. With three writers, and with 32, whose ops are promised and committed in one go. 20 kills in `make test`, 400 in
`make soak`.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from ormahd.errors import OrmahError
from ormahd.rpc.pools import HEAVY
from tests.crash.soundness import nothing_is_left
from tests.house import House, open_house


@dataclass
class Ledger:
    """What the daemon acknowledged, and what was under way when it was killed (may or may not be there)."""

    there: dict[str, str] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    imported: set[str] = field(default_factory=set)
    maybe: dict[str, set[str | None]] = field(default_factory=dict)
    """Of a node whose change was not answered: the contents (None: forgotten) that it may have."""
    lock: threading.Lock = field(default_factory=threading.Lock)


class Writer(threading.Thread):
    """One client: remembers, updates, forgets, and where it `imports` that too, until its connection breaks."""

    def __init__(self, house: House, ledger: Ledger, seed: int, *, imports: bool) -> None:
        super().__init__(daemon=True)
        self.house, self.ledger, self.chance, self.seed = house, ledger, random.Random(seed), seed
        self.acts: list[Callable[[Any], None]] = [self.remember, self.remember, self.update, self.forget]
        if imports:
            self.acts.append(self.import_)
        self.mine: list[str] = []
        self.failure: Exception | None = None

    def run(self) -> None:
        try:
            with self.house.connect() as connection:
                while True:
                    self.chance.choice(self.acts)(connection)
        except (OrmahError, OSError):
            return  # killed under us: what was not answered is in `maybe`
        except Exception as exc:  # noqa: BLE001 - told to the test, which fails with it
            self.failure = exc

    def text(self) -> str:
        return f"writer {self.seed} says x{self.chance.getrandbits(64):016x} about {self.chance.choice(['bees', 'ports', 'tea'])}"

    def remember(self, connection: Any) -> None:
        text = self.text()
        done = connection.call("agent.remember", {"content": text, "about_self": self.chance.random() < 0.1})
        with self.ledger.lock:
            self.ledger.there[done.node_id] = text
        self.mine.append(done.node_id)

    def update(self, connection: Any) -> None:
        if not self.mine:
            return
        node_id, text = self.chance.choice(self.mine), self.text()
        with self.ledger.lock:
            self.ledger.maybe[node_id] = {self.ledger.there.pop(node_id), text}
        connection.call("agent.update", {"node_id": node_id, "content": text})
        with self.ledger.lock:
            del self.ledger.maybe[node_id]
            self.ledger.there[node_id] = text

    def forget(self, connection: Any) -> None:
        if len(self.mine) < 3:
            return
        node_id = self.mine.pop(self.chance.randrange(len(self.mine)))
        with self.ledger.lock:
            self.ledger.maybe[node_id] = {self.ledger.there.pop(node_id), None}
        connection.call("agent.forget", {"node_id": node_id})
        with self.ledger.lock:
            del self.ledger.maybe[node_id]
            self.ledger.gone.add(node_id)

    def import_(self, connection: Any) -> None:
        texts = [self.text() for _ in range(self.chance.choice([2, 20, 60]))]
        done = connection.call("admin.import", {"lines": [json.dumps({"content": text}) for text in texts]})
        assert done.added == len(texts), done
        with self.ledger.lock:
            self.ledger.imported.update(texts)


def check(house: House, ledger: Ledger, *, deep: bool) -> None:
    known: dict[str, str] = {}
    after = None
    while True:
        page = house.call("admin.export", after=after)
        known |= {item["id"]: item["content"] for item in page.items}
        after = page.next
        if after is None:
            break
    for node_id, text in ledger.there.items():
        assert known.get(node_id) == text, f"{node_id} was acknowledged with {text!r}, it is {known.get(node_id)!r}"
    assert not ledger.gone & set(known), "a forgotten memory is back"
    for node_id, contents in ledger.maybe.items():
        assert known.get(node_id) in contents, (node_id, contents, known.get(node_id))
        if node_id in known:
            ledger.there[node_id] = known[node_id]
        else:
            ledger.gone.add(node_id)
    ledger.maybe.clear()
    missing = ledger.imported - set(known.values())
    assert not missing, f"{len(missing)} imported memories are missing"
    counted = [text for text in known.values() if text in ledger.imported]
    assert len(counted) == len(set(counted)), "an imported memory is there twice"
    nothing_is_left(house, deep=deep)


def killed(kills: int, seed: int, *, writers: int, deep_every: int) -> None:
    chance = random.Random(seed)
    ledger = Ledger()
    with open_house() as house:
        house.start()
        for number in range(1, kills + 1):
            seeds = range(first := (seed * 1000 + number) * 100, first + writers)
            # As many import as do at a time: the others would only wait for them.
            threads = [Writer(house, ledger, one, imports=one < first + HEAVY) for one in seeds]
            for writer in threads:
                writer.start()
            time.sleep(chance.uniform(0.02, 0.8))  # the random instant
            house.kill()
            for writer in threads:
                writer.join(120)
                assert not writer.is_alive()
                assert writer.failure is None, writer.failure
            house.start()
            check(house, ledger, deep=number % deep_every == 0 or number == kills)
        assert ledger.there


@pytest.mark.parametrize(("kills", "writers"), [(12, 3), (8, 32)])
def test_twenty_kills(kills: int, writers: int) -> None:
    killed(kills, 1, writers=writers, deep_every=6)


@pytest.mark.soak
@pytest.mark.parametrize(("kills", "writers"), [(300, 3), (100, 32)])
def test_four_hundred_kills(kills: int, writers: int) -> None:
    killed(kills, 2, writers=writers, deep_every=30)
