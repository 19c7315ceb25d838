"""Who leads a batch waits while most of those who will write are on their way, and for nobody where none is."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

import pytest

from ormahd.vault import company as module
from ormahd.vault.company import Company
from tests.house import wait_until


class Door:
    """Those who are ready, and threads that announce themselves and come when they are told."""

    def __init__(self) -> None:
        self.here = 0
        self.company = Company(lambda: self.here)
        self.threads: list[threading.Thread] = []

    def announce(self, then: Callable[[], None]) -> threading.Event:
        """A thread that is expected from here on, and does `then` when the event is set."""
        go, inside = threading.Event(), threading.Event()

        def come() -> None:
            with contextlib.suppress(ValueError), self.company.announced():
                inside.set()
                assert go.wait(120)
                then()

        self.threads.append(threading.Thread(target=come))
        self.threads[-1].start()
        assert inside.wait(120)
        return go

    def arrive(self) -> None:
        self.here += 1
        self.company.arrived()

    def lead(self) -> threading.Thread:
        leader = threading.Thread(target=self.company.wait)
        self.threads.append(leader)
        leader.start()
        return leader

    def waits(self) -> None:
        wait_until(lambda: self.company._waiting == 1, "the leader waits", 120)


@pytest.fixture
def door(monkeypatch: pytest.MonkeyPatch) -> Iterator[Door]:
    monkeypatch.setattr(module, "COMPANY_S", 30.0)
    door = Door()
    yield door
    for thread in door.threads:
        thread.join(120)
        assert not thread.is_alive()


def test_who_is_alone_or_has_half_of_them_waits_for_nobody(door: Door) -> None:
    door.company.wait()
    door.here = 1
    door.company.wait()
    comes = door.announce(door.arrive)
    door.company.wait()
    comes.set()


def test_nobody_is_waited_for_where_nothing_is_ready(door: Door) -> None:
    comes = door.announce(door.arrive)
    door.company.wait()
    comes.set()


def test_the_leader_goes_when_as_many_are_ready_as_are_coming(door: Door) -> None:
    door.here = 1
    coming = [door.announce(door.arrive) for _ in range(4)]
    leader = door.lead()
    door.waits()
    coming[0].set()  # two are ready, three come
    leader.join(0.1)
    assert leader.is_alive()
    coming[1].set()
    leader.join(120)
    assert not leader.is_alive()
    for each in coming:
        each.set()


def test_one_who_comes_to_nothing_is_expected_no_more(door: Door) -> None:
    def fail() -> None:
        with door.company.announced():  # once more: it is expected once
            raise ValueError("not that")

    door.here = 1
    coming = [door.announce(lambda: None), door.announce(fail)]
    door.lead()
    door.waits()
    for each in coming:
        each.set()
    for thread in door.threads:
        thread.join(120)
        assert not thread.is_alive()
    assert door.company._coming == 0


def test_who_was_not_announced_arrives_without_being_counted(door: Door) -> None:
    door.arrive()
    with door.company.announced():
        door.arrive()
        door.arrive()
    assert door.company._coming == 0


def test_the_leader_does_not_wait_for_ever(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COMPANY_S", 0.01)
    door.here = 1
    coming = [door.announce(door.arrive) for _ in range(3)]
    door.company.wait()
    for each in coming:
        each.set()
