"""Work in bulk lets those pass who go first, for a bounded time, and nobody else waits."""

from __future__ import annotations

import os
import sys
import threading
import time

import pytest

from ormahd.process import priority


def test_with_nobody_there_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(priority, "LONGEST_S", 3600.0)
    assert list(priority.giving(range(100_000))) == list(range(100_000))


def test_a_step_waits_until_those_who_go_first_have_passed() -> None:
    passed: list[bool] = []
    inside, leave = threading.Event(), threading.Event()

    def first() -> None:
        with priority.first(), priority.first():  # one that is asked within another one
            inside.set()
            leave.wait(120)

    urgent = threading.Thread(target=first)
    urgent.start()
    assert inside.wait(120)

    def bulk() -> None:
        priority.give()
        passed.append(leave.is_set())

    begun = time.monotonic()
    waiting = threading.Thread(target=bulk)
    waiting.start()
    waiting.join(120)
    assert passed == [False]  # nobody went on: its patience has an end
    assert time.monotonic() - begun >= priority.LONGEST_S
    leave.set()
    urgent.join(120)
    assert priority._clear.is_set()


def test_who_goes_first_is_let_pass_from_when_he_comes_not_from_when_his_thread_has_woken_up() -> None:
    turn = priority.first()
    assert not priority._clear.is_set()

    def answer() -> None:
        with turn:
            assert not priority._clear.is_set()

    other = threading.Thread(target=answer)
    other.start()
    other.join(120)
    assert priority._clear.is_set()


@pytest.mark.skipif(sys.platform != "linux", reason="the other systems' schedulers are not told")
def test_a_patient_thread_takes_nobody_off_his_core_and_can_be_eager_again() -> None:
    found: list[int] = []

    def work() -> None:
        for become in (priority.patient, priority.eager, priority.patient):
            become()
            found.append(os.sched_getscheduler(0))

    other = threading.Thread(target=work)
    other.start()
    other.join(120)
    assert found == [os.SCHED_BATCH, os.SCHED_OTHER, os.SCHED_BATCH]
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


def test_bulk_comes_to_its_end_where_somebody_always_goes_first() -> None:
    done = threading.Event()

    def bulk() -> None:
        for _ in priority.giving(range(2_000)):
            pass
        done.set()

    with priority.first():
        threading.Thread(target=bulk, daemon=True).start()
        assert done.wait(120)


def test_a_failure_of_who_went_first_does_not_hold_up_the_others() -> None:
    try:
        with priority.first():
            raise ValueError
    except ValueError:
        pass
    assert priority._clear.is_set()


def test_somebody_who_asked_a_moment_ago_is_expected_again(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_000.0]
    monkeypatch.setattr(priority.time, "monotonic", lambda: now[0])
    with priority.first():
        assert priority.asked_lately()
    now[0] += priority.LATELY_S / 2
    assert priority.asked_lately()
    now[0] += priority.LATELY_S
    assert not priority.asked_lately()


def test_who_searched_a_moment_ago_is_expected_again_but_goes_after_bulk_as_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("_searched", "_urgent_ended"):
        monkeypatch.setattr(priority, name, 0.0)  # and back again: the clock of this test is ahead
    now = [time.monotonic() + 3600.0]
    monkeypatch.setattr(priority.time, "monotonic", lambda: now[0])
    assert not priority.searched_lately()
    priority.searched()
    assert priority.searched_lately()
    assert not priority.asked_lately()
    now[0] += 2 * priority.LATELY_S
    assert not priority.searched_lately()
    with priority.first():
        assert priority.searched_lately()


def test_who_goes_first_does_not_wait_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(priority, "LONGEST_S", 3600.0)
    with priority.first():
        priority.give()
    priority.give()


def work(seconds: float) -> None:
    begun = time.thread_time()
    while time.thread_time() - begun < seconds:
        pass


def test_for_a_moment_after_somebody_went_first_work_rests_as_long_as_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(priority, "LATELY_S", 3600.0)
    priority.give()
    with priority.first():
        pass
    work(0.01)
    begun, worked = time.monotonic(), time.thread_time()
    priority.give()
    assert time.monotonic() - begun >= 0.01
    assert time.thread_time() - worked < 0.01  # it does not spin
    monkeypatch.setattr(priority, "REST_S", 0.001)  # and not for longer than that
    slept: list[float] = []
    monkeypatch.setattr(priority.time, "sleep", slept.append)
    work(0.01)
    priority.give()
    monkeypatch.setattr(priority, "LATELY_S", 0.0)
    work(0.01)
    priority.give()
    assert slept == [0.001]
