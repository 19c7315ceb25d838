"""Texts of several callers in one pass: each gets its own, nobody waits for company, and an error reaches those it is for."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import pytest

from ormahd.embedding.model import Together


class Passes:
    """A pass that doubles numbers; it can be held up, and fails for a negative one."""

    def __init__(self, most: int = 100) -> None:
        self.seen: list[list[int]] = []
        self.begun = threading.Semaphore(0)
        self.go = threading.Semaphore(0)
        self.together = Together[int, int](self.forward, abs, most=most)

    def forward(self, windows: Sequence[int]) -> list[int]:
        self.seen.append(list(windows))
        self.begun.release()
        assert self.go.acquire(timeout=120)
        if min(windows) < 0:
            raise ValueError(min(windows))
        return [2 * window for window in windows]

    def ask(self, *asked: list[int]) -> tuple[list[threading.Thread], dict[int, object]]:
        """A thread for each; the first is in its pass, and the others wait, when this returns."""
        found: dict[int, object] = {}

        def one(number: int, windows: list[int]) -> None:
            try:
                found[number] = self.together(windows)
            except ValueError as error:
                found[number] = error

        threads = [threading.Thread(target=one, args=item) for item in enumerate(asked)]
        threads[0].start()
        assert self.begun.acquire(timeout=120)
        for number, thread in enumerate(threads[1:], 1):
            thread.start()
            while len(self.together._waiting) < number:
                time.sleep(0.001)
        return threads, found


def end(passes: Passes, threads: list[threading.Thread], count: int) -> None:
    for _ in range(count):
        passes.go.release()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()


def test_who_waits_goes_together_and_gets_its_own() -> None:
    passes = Passes()
    threads, found = passes.ask([1, 2], [3], [4, 5], [6])
    end(passes, threads, 2)
    assert passes.seen == [[1, 2], [3, 4, 5, 6]]
    assert found == {0: [2, 4], 1: [6], 2: [8, 10], 3: [12]}


def test_a_pass_has_its_size() -> None:
    passes = Passes(most=20)
    threads, found = passes.ask([1], [4], [5, 5], [9], [30], [1])
    end(passes, threads, 5)
    # three windows of five fit into twenty, padding counted, four of nine do not; one that is too long goes alone
    assert passes.seen == [[1], [4, 5, 5], [9], [30], [1]]
    assert [found[number] for number in range(6)] == [[2], [8], [10, 10], [18], [60], [2]]


def test_an_error_is_for_those_of_its_pass() -> None:
    passes = Passes()
    threads, found = passes.ask([1], [2], [-3])
    end(passes, threads, 2)
    assert found[0] == [2]
    assert isinstance(found[1], ValueError)
    assert found[1] is found[2]
    passes.go.release()
    assert passes.together([7]) == [14]


@pytest.mark.parametrize("count", [1, 40])
def test_nobody_is_forgotten(count: int) -> None:
    together = Together[int, int](lambda windows: [window + 1 for window in windows], abs, most=16)
    found: dict[int, list[int]] = {}
    threads = [
        threading.Thread(target=lambda number=number: found.__setitem__(number, together([number, number + 1])))
        for number in range(count)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert found == {number: [number + 1, number + 2] for number in range(count)}
