"""What a text is near to, asked by several at once: one turn for those who wait, and each gets its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np
import pytest

from ormahd.embedding.token_vectors import Float
from ormahd.index import neighbours as neighbours_module
from ormahd.index.neighbours import MOST_TOKENS, Near, Neighbours


class Rooms:
    """A model whose vector of a text is the number that it ends with, and notes that are called after such numbers."""

    def __init__(self) -> None:
        self.turns: list[list[str]] = []
        self.begun = threading.Semaphore(0)
        self.go = threading.Semaphore(0)
        self.neighbours = Neighbours(self.embed, self.search)

    def embed(self, texts: Sequence[tuple[str | None, str]]) -> list[Float] | None:
        self.turns.append([content for _, content in texts])
        self.begun.release()
        assert self.go.acquire(timeout=120)
        if "fail" in self.turns[-1]:
            raise ValueError("no")
        if "no model" in self.turns[-1]:
            return None
        return [self.vector(content) for _, content in texts]

    @classmethod
    def instant(cls) -> Neighbours:
        """Of rooms in which nobody waits."""
        rooms = cls()
        return Neighbours(lambda texts: [rooms.vector(content) for _, content in texts], rooms.search)

    @staticmethod
    def vector(content: str) -> Float:
        return np.array([float(content.rsplit(" ", 1)[1])], np.float32)

    def search(self, vectors: Float, limit: int) -> list[Near]:
        return [[(f"note {vector[0]:.0f}, place {place}", 1.0) for place in range(limit)] for vector in vectors]

    def ask(self, *asked: tuple[str, int]) -> list[object]:
        """What each was told. The first is under way when the others come, and those stand in line before it goes on."""
        found: list[object] = [None] * len(asked)

        def one(number: int, content: str, limit: int) -> None:
            try:
                found[number] = self.neighbours(None, content, limit, lambda near: near)
            except ValueError as error:
                found[number] = str(error)

        threads = [threading.Thread(target=one, args=(number, *each)) for number, each in enumerate(asked)]
        threads[0].start()
        assert self.begun.acquire(timeout=120)
        for number, thread in enumerate(threads[1:], 1):
            thread.start()
            while len(self.neighbours._waiting) < number:
                time.sleep(0.001)
        for _ in asked:
            self.go.release()
        for thread in threads:
            thread.join(120)
            assert not thread.is_alive()
        return found


def test_those_who_wait_go_together_and_each_gets_its_own_and_no_more_than_it_asked_for() -> None:
    rooms = Rooms()
    found = rooms.ask(("text 0", 1), ("text 1", 3), ("text 2", 1), ("text 3", 2))
    assert rooms.turns == [["text 0"], ["text 1", "text 2", "text 3"]]
    assert found == [
        [(f"note {number}, place {place}", 1.0) for place in range(limit)]
        for number, limit in enumerate((1, 3, 1, 2))
    ]  # fmt: skip


def test_after_a_turn_of_several_the_first_one_waits_while_others_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours_module, "LONGEST_S", 30.0)
    rooms = Rooms()
    rooms.ask(("text 0", 1), ("text 1", 1), ("text 2", 1))
    asked = [threading.Thread(target=rooms.neighbours, args=(None, f"text {number}", 1, len)) for number in range(3, 6)]
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        """Each time that the first one waits another one comes, as long as there are any."""
        slept.append(seconds)
        if len(slept) < len(asked):
            asked[len(slept)].start()
            while len(rooms.neighbours._waiting) <= len(slept):
                time.sleep(0.001)

    # Its clock alone: others sleep as ever.
    monkeypatch.setattr(neighbours_module, "time", SimpleNamespace(sleep=sleep, monotonic=time.monotonic))
    rooms.go.release()
    asked[0].start()
    for thread in asked:
        thread.join(120)
        assert not thread.is_alive()
    assert [sorted(turn) for turn in rooms.turns[2:]] == [["text 3", "text 4", "text 5"]]
    assert slept == [neighbours_module.COMPANY_S] * 3


def test_long_texts_do_not_make_one_endless_turn() -> None:
    rooms = Rooms()
    long = "x " * (MOST_TOKENS * 2)
    found = rooms.ask(("text 0", 1), (f"{long} 1", 1), (f"{long} 2", 1), ("text 3", 1))
    assert [len(turn) for turn in rooms.turns] == [1, 1, 1, 1]
    assert found == [[(f"note {number}, place 0", 1.0)] for number in range(4)]


@pytest.mark.parametrize("told", [("fail", "no"), ("no model", [])])
def test_what_fails_reaches_those_it_is_for_and_the_next_ones_go_on(told: tuple[str, object]) -> None:
    content, answer = told
    rooms = Rooms()
    assert rooms.ask((content, 1), ("text 1", 1)) == [answer, [("note 1, place 0", 1.0)]]


def test_what_goes_wrong_with_ones_own_work_reaches_no_other() -> None:
    neighbours = Rooms.instant()

    def work(near: Near) -> str:
        if near[0][0].startswith("note 3"):
            raise LookupError("not with 3")
        return near[0][0]

    found: list[object] = [None] * 8

    def one(number: int) -> None:
        try:
            found[number] = neighbours(None, f"text {number}", 1, work)
        except LookupError as error:
            found[number] = str(error)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert found == [f"note {number}, place 0" if number != 3 else "not with 3" for number in range(8)]


def test_while_one_composes_the_next_one_embeds_and_composes_after_him() -> None:
    rooms, composing, enough = Rooms(), threading.Event(), threading.Event()
    done: list[str] = []

    def slow(near: Near) -> None:
        composing.set()
        assert enough.wait(120)
        done.append(near[0][0])

    def quick(near: Near) -> None:
        done.append(near[0][0])

    first = threading.Thread(target=lambda: rooms.neighbours(None, "text 1", 1, slow))
    first.start()
    rooms.go.release()
    assert composing.wait(120)
    second = threading.Thread(target=lambda: rooms.neighbours(None, "text 2", 1, quick))
    second.start()
    assert rooms.begun.acquire(timeout=120)
    assert rooms.begun.acquire(timeout=120), "the second does not embed while the first composes"
    rooms.go.release()
    second.join(0.1)
    assert done == []
    enough.set()
    for thread in (first, second):
        thread.join(120)
    assert done == ["note 1, place 0", "note 2, place 0"]


def test_many_who_ask_again_and_again() -> None:
    neighbours, alone, wrong = Rooms.instant(), threading.Lock(), []

    def work(near: Near) -> str:
        if not alone.acquire(blocking=False):
            wrong.append("two at once")
        time.sleep(0)
        alone.release()
        return near[0][0]

    def one(number: int) -> None:
        for turn in range(60):
            text = f"text {100 * number + turn}"
            if neighbours(None, text, 1, work) != f"note {100 * number + turn}, place 0":
                wrong.append(text)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    assert wrong == []
