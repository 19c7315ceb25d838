"""One leads at a time, everybody gets his thing done or his turn, and the lead is never lost."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from ormahd.process.batcher import Line, Place


@pytest.fixture
def quick_turns() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def waiting(line: Line, place: Place, found: list[bool]) -> threading.Thread:
    """A thread that stands in line when this returns; what `lead` told it comes to `found`."""
    before = len(line._waiting)
    thread = threading.Thread(target=lambda: found.append(line.lead(place)))
    thread.start()
    while len(line._waiting) == before:
        time.sleep(0.001)
    return thread


def test_the_first_leads_and_the_next_when_he_goes() -> None:
    line, first, second = Line(), Place(), Place()
    assert line.lead(first)
    found: list[bool] = []
    thread = waiting(line, second, found)
    assert found == []
    line.pass_on()
    thread.join(120)
    assert found == [True]
    line.pass_on()
    assert line.lead(Place())


def test_whose_thing_was_done_goes_on_and_does_not_lead() -> None:
    line, others = Line(), [Place(), Place()]
    assert line.lead(Place())
    found: list[bool] = []
    threads = [waiting(line, place, found) for place in others]
    line.done(others)
    for thread in threads:
        thread.join(120)
    assert found == [False, False]
    assert not line.lead(others[0])
    line.pass_on()
    assert line.lead(Place())


def test_done_in_the_moment_of_his_turn() -> None:
    """He leads all the same: else nobody would after him."""
    for _ in range(200):
        line, second = Line(), Place()
        assert line.lead(Place())
        found: list[bool] = []
        thread = waiting(line, second, found)
        line.pass_on()
        line.done([second])
        thread.join(120)
        assert found == [True]
        line.pass_on()
        assert line.lead(Place())


def test_whose_thing_is_seen_to_does_not_lead_and_waits_for_it() -> None:
    line, taken, early, next_one = Line(), Place(), Place(), Place()
    assert line.lead(Place())
    found: dict[str, list[bool]] = {"taken": [], "early": [], "next": []}
    threads = [waiting(line, taken, found["taken"])]
    line.take([taken, early])
    threads.append(waiting(line, next_one, found["next"]))
    line.pass_on()
    threads[1].join(120)
    assert found == {"taken": [], "early": [], "next": [True]}, "the one who is seen to was asked to lead"
    line.pass_on()
    threads.append(waiting(line, early, found["early"]))  # nobody leads: he must not either
    line.done([taken, early])
    for thread in threads:
        thread.join(120)
    assert found == {"taken": [False], "early": [False], "next": [True]}
    assert line.lead(Place())


def test_many_together(quick_turns: None) -> None:
    """Threads whose things are done by whoever leads, in parts, or by somebody who never stands in line."""
    line, lock = Line(), threading.Lock()
    wanted: list[tuple[int, Place]] = []
    did: list[int] = []
    leading: list[int] = []

    def work(most: int) -> None:
        with lock:
            some, wanted[:most] = wanted[:most], []
        did.extend(number for number, _ in some)
        line.done(place for _, place in some)

    def one(number: int) -> None:
        chance = random.Random(number)
        for turn in range(40):
            place = Place()
            with lock:
                wanted.append((1000 * number + turn, place))
            if line.lead(place):
                leading.append(number)
                assert len(leading) == 1
                while not place.done:
                    work(chance.randint(1, 5))
                leading.remove(number)
                line.pass_on()

    stop = threading.Event()

    def other() -> None:
        while not stop.wait(0.0005):
            work(1)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(16)]
    helper = threading.Thread(target=other)
    for thread in (helper, *threads):
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    stop.set()
    helper.join(120)
    assert sorted(did) == [1000 * number + turn for number in range(16) for turn in range(40)]
