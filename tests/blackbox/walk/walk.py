"""Walks: one vault, and all that happens to it, one thing after the other by chance.

After each step the house is compared with the model: every acknowledged memory is in its file, in git and, by `verify`, in the index,
and the worktree is clean. By its id, and by the word that only it has, each is found that the step changed, and a third of the others
in turn; all of them after each tenth step and after each start of the daemon, and after every step of a long walk.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator

import pytest

from tests import small_disk
from tests.blackbox.walk.world import World
from tests.house import open_house

MEMORIES = 20
"""About so many at a time, so that operations meet each other."""
ROOM = 256 << 20
"""Bytes of the disk that a walk fills, where it may have one of its own: the history of 5,000 steps needs some 100 MB."""


class Walk(World):
    steps = 0
    process: object = None
    """The daemon after the last step."""
    thorough = True
    """Whether every memory is asked for after each step."""

    def ways(self) -> list[tuple[Callable[[], None], float]]:
        if len(self.state) < 4:
            return [(self.remember, 1)]
        full = len(self.state) > MEMORIES
        return [
            (self.remember, 2 if full else 8), (self.update, 14), (self.connect, 9), (self.outdated, 4),
            (self.forget, 16 if full else 3), (self.by_hand, 12), (self.undo, 14), (self.undo_the_undo, 5), (self.revert, 8),
            (self.checkout, 2), (self.checkout_file, 3), (self.reset, 3), (self.stash, 2), (self.sync, 3), (self.jobs, 3),
            (self.time_passes, 2), (self.killed, 0.8), (self.killed_in_an_edit, 0.5), (self.killed_in_an_undo, 0.8), (self.stopped, 0.5),
            (self.index_deleted, 0.5), (self.meanwhile, 2),
            (self.disk_full, 1.5 if self.house.home.is_mount() else 0),
        ]  # fmt: skip

    def step(self) -> None:
        ways = self.ways()
        (way,) = self.chance.choices([way for way, _ in ways], [weight for _, weight in ways])
        self.take(way)

    def the_rest(self) -> None:
        """Each kind of step that chance left out."""
        while len(self.state) < 4:
            self.take(self.remember)
        for way in [way for way, weight in self.ways() if weight and way.__name__ not in self.tally]:
            self.take(way)

    def take(self, way: Callable[[], None]) -> None:
        self.tally[way.__name__] = self.tally.get(way.__name__, 0) + 1
        self.say(way.__name__)
        self.steps += 1
        try:
            way()
            started = self.process is not self.house.process
            self.check(all_of_them=self.thorough or started or self.steps % 10 == 0)
            self.process = self.house.process
        except (Exception, pytest.fail.Exception) as exc:
            told = f"seed {self.seed}, step {len(self.trace)}, after {', '.join(self.trace[-12:])}"
            raise AssertionError(f"{told}; the daemon said:\n{self.house.said()[-2000:]}") from exc


@contextlib.contextmanager
def begun(seed: int, **settings: str) -> Iterator[Walk]:
    """A walk in a house of its own, on a small disk of its own where this user may mount one."""
    ours = {"ORMAH_LINKING_SIMILARITY": "1.0", "ORMAH_JOBS_ENABLED": "false", "ORMAH_TIERS_CORE_CAP": "1000",
            "ORMAH_VAULT_BUSY_WAIT_SECONDS": "0.2"}  # fmt: skip
    with open_house(**(ours | settings)) as house, contextlib.ExitStack() as stack:
        house.module = "tests.quality.month.clocked"
        if not small_disk.mount(house.home, f"size={ROOM}", "mode=700"):
            stack.callback(small_disk.unmount, house.home)
            (house.home / ".gitconfig").write_text("[user]\n\tname = Ada Person\n\temail = ada@example.org\n")
        stack.callback(house.close)
        yield Walk(house, seed)


def walked(steps: int, seed: int) -> dict[str, int]:
    """Walk so many steps, then each kind of step that was not among them, and tell how many of each kind."""
    with begun(seed) as walk:
        walk.thorough = steps > 300
        for number in range(steps):
            walk.step()
            if number % 50 == 49:
                walk.git("fsck", "--strict", "--no-dangling")
        walk.the_rest()
        walk.git("fsck", "--strict", "--no-dangling")
        print(f"seed {seed}: {json.dumps(walk.tally)}")
        return walk.tally
