"""A disk without room, at any moment: nothing acknowledged is lost, reading goes on, what is refused names the disk, and with room again
everything goes on by itself. On a small file system of its own, where one can be mounted."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ormahd.errors import NoRoom, OrmahError
from tests import small_disk
from tests.crash.soundness import nothing_is_left
from tests.house import House, open_house, wait_until
from tests.vault.git_house import open_vault, put

DISKS = {"vault": "vault", "index": "cache_home", "state": "state_home"}


class Disk:
    """A small file system that is filled to the last byte, and emptied again."""

    def __init__(self, at: Path) -> None:
        self.at = at
        at.mkdir(exist_ok=True)
        if against := small_disk.mount(at, "size=32m"):
            pytest.skip(f"no file system can be mounted here: {against}")

    def fill(self) -> None:
        with contextlib.suppress(OSError), (self.at / "ballast").open("ab", buffering=0) as ballast:
            for size in (1 << 16, 1 << 12, 1 << 9):
                with contextlib.suppress(OSError):
                    while True:
                        ballast.write(b"x" * size)

    def empty(self) -> None:
        (self.at / "ballast").unlink(missing_ok=True)


@contextlib.contextmanager
def house_on(*which: str) -> Iterator[tuple[House, list[Disk]]]:
    with open_house() as house:
        disks: list[Disk] = []
        try:
            disks.extend(Disk(house.home / DISKS[one]) for one in which)
            house.start()
            yield house, disks
        finally:
            house.close()
            for disk in disks:
                small_disk.unmount(disk.at)


def remember(house: House, told: dict[str, str], number: int) -> None:
    name = f"keeper{number}"
    told[house.call("agent.remember", content=f"lamp {number} is kept by {name} " + "and oil " * 99).node_id] = name


def found(house: House, node_id: str, name: str) -> bool:
    return node_id in {one.id for one in house.call("agent.recall", query=name).results}


def check_reading(house: House, told: dict[str, str]) -> None:
    for node_id, name in list(told.items())[-3:]:
        assert name in house.call("agent.get", node_id=node_id).content
        wait_until(partial(found, house, node_id, name), f"{name} is found")


def check_room_again(house: House, told: dict[str, str]) -> None:
    """Once there is room, everything works, without anybody's help."""
    wait_until(lambda: house.call("hello").phase == "ready", "being ready")
    wait_until(lambda: not house.call("admin.health").degraded, lambda: str(house.call("admin.health")))
    wait_until(lambda: house.call("admin.verify").ok, lambda: str(house.call("admin.verify")))
    wait_until(lambda: findings(house) == "", lambda: findings(house))
    remember(house, told, 1000 + len(told))
    for node_id, name in told.items():
        assert name in house.call("agent.get", node_id=node_id).content
    assert findings(house) == ""
    nothing_is_left(house, deep=True)


def findings(house: House) -> str:
    found: list[Any] = house.call("admin.doctor").findings
    return "\n".join(
        f"{one.what} {one.path} {one.mend}" for one in found if not one.what.startswith("degraded: chroma")
    )


@pytest.mark.parametrize("which", DISKS)
def test_a_full_disk_is_named_and_reading_goes_on(which: str) -> None:
    told: dict[str, str] = {}
    with house_on(which) as (house, (disk,)):
        for number in range(8):
            remember(house, told, number)
        before = list(told.items())
        disk.fill()
        refused = ""
        for number in range(8, 12):
            try:
                remember(house, told, number)
            except OrmahError as exc:
                refused = f"{exc.message} {exc.hint}"
        assert (which == "vault") == bool(refused), "only a full vault refuses"
        if refused:
            assert f"the disk at {disk.at} has 0.0 MB free of" in refused
            assert "nothing was changed" in refused
        check_reading(house, dict(before))
        house.call("agent.whisper", prompt="who keeps lamp 3?", session_id="s")
        assert f"the disk at {disk.at} has 0.0 MB free of" in findings(house)
        assert "make room" in findings(house)
        disk.empty()
        check_room_again(house, told)
        house.restart()
        check_room_again(house, told)


@pytest.mark.parametrize("step", ["locked", "moving"])
def test_a_disk_that_is_full_at_a_step_of_a_write(tmp_path: Path, step: str) -> None:
    disk, armed = Disk(tmp_path / "disk"), threading.Event()
    try:
        with open_vault(disk.at / "v", at=lambda now: disk.fill() if now == step and armed.is_set() else None) as vault:
            put(vault, ("a.md", b"1"))
            armed.set()
            with pytest.raises(NoRoom, match="nothing was changed"):
                put(vault, ("a.md", b"2" * 100_000))
            assert not list((vault.root / ".ormah" / "tmp").glob("*")), "nothing half written is left"
            armed.clear()
            disk.empty()
            assert put(vault, ("a.md", b"2"))
    finally:
        small_disk.unmount(disk.at)


class Writer(threading.Thread):
    """Remembers until it is killed; what is refused is no loss."""

    def __init__(self, house: House, told: dict[str, str], first: int) -> None:
        super().__init__(daemon=True)
        self.house, self.told, self.first = house, told, first
        self.leave = threading.Event()

    def run(self) -> None:
        for number in range(self.first, self.first + 1000):
            if self.leave.is_set():
                return
            try:
                remember(self.house, self.told, number)
            except (OrmahError, OSError):
                self.leave.wait(0.02)


def filled_at_random(times: int, seed: int) -> None:
    chance, told = random.Random(seed), {}
    with house_on("vault", "index", "state") as (house, disks):
        for turn in range(times):
            writers = [Writer(house, told, turn * 10_000 + at * 1000) for at in range(3)]
            for writer in writers:
                writer.start()
            full = chance.sample(disks, chance.randint(1, len(disks)))
            time.sleep(chance.uniform(0.1, 0.6))  # the random moment
            for disk in full:
                disk.fill()
            time.sleep(chance.uniform(0.0, 0.5))
            killed = chance.random() < 0.7
            if killed:
                house.kill()
            for writer in writers:
                writer.leave.set()
                writer.join(120)
                assert not writer.is_alive()
            for disk in full:
                disk.empty()
            if killed:
                house.start(phase="")
            check_room_again(house, told)
        assert told


def test_disks_that_are_full_at_a_random_moment() -> None:
    filled_at_random(2, 1)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10))
def test_disks_that_are_full_at_many_random_moments(seed: int) -> None:
    filled_at_random(10, 100 + seed)


def test_a_start_where_nothing_of_ours_can_be_written_is_refused_by_name() -> None:
    with open_house() as house:
        (house.home / "cache_home").write_text("no folder, and none of ours")
        with pytest.raises(pytest.fail.Exception, match=r"ended with status 69(.|\n)*cache_home"):
            house.start()
