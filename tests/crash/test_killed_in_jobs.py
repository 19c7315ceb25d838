"""`kill -9` at random instants inside jobs, again and again on one vault (DESIGN section 2.2).

After each restart, and without anybody's repair: every fact that was acknowledged is still said by some memory, nothing is
half-there, the worktree is clean, no lock is left, and no job believes that it still runs. At the end a run finds all that is left
to do, and one more finds nothing. 8 kills in `make test`, 100 in `make soak`.
"""

from __future__ import annotations

import contextlib
import json
import random
import threading
import time

import pytest

from ormahd.errors import OrmahError
from ormahd.note.read import parse
from tests.crash.soundness import nothing_is_left
from tests.house import House, open_house

SPACES = ("net", "home", "work")
THINGS = ("printer", "router", "kettle", "garden gate", "bicycle", "server", "piano", "boiler")


class Asked(threading.Thread):
    """Somebody who has all jobs run, over and over, until the daemon is killed under it."""

    def __init__(self, house: House) -> None:
        super().__init__(daemon=True)
        self.house = house
        self.failed: list[str] = []

    def run(self) -> None:
        with contextlib.suppress(OrmahError, OSError), self.house.connect() as connection:
            while True:
                done = connection.call("admin.run_all", {"force": True}, timeout=120.0)
                self.failed += [f"{one.job}: {one.error}" for one in done.results if one.error]


def facts(chance: random.Random, start: int, count: int) -> list[dict[str, str]]:
    """What is to be remembered: each fact told twice in nearly the same words, for the jobs to have something to do."""
    found = []
    for number in range(start, start + count):
        thing, space = chance.choice(THINGS), chance.choice(SPACES)
        text = f"The {thing} with the number {number} was bought for {chance.randrange(10, 999)} euros"
        title = f"{thing.capitalize()} {number}"
        twice = (f"{text}.", text[0].lower() + text[1:])
        found += [{"content": said, "title": title, "space": space} for said in twice]
    return found


def told(text: str) -> str:
    return text.strip().rstrip(".").casefold()


def check(house: House, known: set[str], *, deep: bool) -> None:
    contents = [parse(data, path).content for path, data in house.notes().items()]
    said = "\n".join(map(told, contents))
    missing = [fact for fact in known if fact not in said]
    assert not missing, missing[:5]
    assert not [row.name for row in house.call("admin.tasks").tasks if row.running]
    nothing_is_left(house, deep=deep)


def killed(kills: int, seed: int, *, deep_every: int) -> None:
    chance = random.Random(seed)
    known: set[str] = set()
    with open_house(ORMAH_JOBS_ENABLED="false") as house:
        house.start()
        for number in range(1, kills + 1):
            lines = facts(chance, len(known), 12)
            done = house.call("admin.import", lines=[json.dumps(line) for line in lines])
            assert done.added == len(lines), done
            known |= {told(line["content"]) for line in lines}
            asked = Asked(house)
            asked.start()
            time.sleep(chance.uniform(0.02, 1.5))  # the random instant
            house.kill()
            asked.join(120)
            assert not asked.is_alive()
            assert not asked.failed, asked.failed
            house.start()
            check(house, known, deep=number % deep_every == 0 or number == kills)
        assert house.call("history.list", job="duplicate_merger", limit=1).ops, "some were killed after a merge"
        for _ in range(10):
            done = house.call("admin.run_all", force=True)
            assert not [one.error for one in done.results if one.error]
            if not any(one.proposals for one in done.results):
                break
        assert not any(one.proposals for one in done.results), [(one.job, one.planned[:3]) for one in done.results]
        check(house, known, deep=True)
        assert len(house.notes()) == len(known) + 1, "each fact once, and the self node"


@pytest.mark.timeout(600)
def test_eight_kills_inside_jobs() -> None:
    killed(8, 1, deep_every=4)


@pytest.mark.soak
def test_a_hundred_kills_inside_jobs() -> None:
    killed(100, 2, deep_every=20)
