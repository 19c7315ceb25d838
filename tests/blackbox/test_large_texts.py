"""A hook is answered in time while a large text is taken in, whatever it is made of and however it comes.

How long a hook takes beside one is held against another daemon, which is asked at the same time and has nothing to do: on a busy
machine both take longer.
"""

from __future__ import annotations

import base64
import json
import random
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.bench import corpus
from tests.house import House, open_house, save

pytestmark = pytest.mark.soak

DEADLINE_S = 0.5
"""What a hook has (`ormahctl hook --deadline`)."""
TIMES = 10
"""Of the slowest answer of the idle daemon: what it may take where the machine is so busy that this is more than the deadline."""
SHARE = 0.01
"""Of the hooks: how many may be late, because the machine has other work as well."""
LONGEST_S = 2.0
"""What none of them takes: one pass over a text that keeps the interpreter takes longer."""
LEAST = 10
"""Hooks that are asked beside each text."""

_random = random.Random(16)
PROSE = " ".join(one["content"] for one in corpus.memories(2_000))


def prose(size: int) -> str:
    return (PROSE * (size // len(PROSE) + 1))[:size]


def inline_image(size: int) -> str:
    return f"A sketch of the harbour.\n\n![](data:image/png;base64,{base64.b64encode(_random.randbytes(size * 3 // 4)).decode()})\n"


FILES = {
    "400 kB with an inline image": inline_image(400_000),
    "10 MB of prose": prose(10_000_000),
    "5 MB in one line of code": "function(a,b){return a[b]||{}};" * 160_000,
    "2 MB of blanks": "The ferry sails.\n" + " " * 2_000_000 + "\nThe ferry docks.",
    "2 MB of beginnings of tokens": "eyJ" * 700_000,
    "2 MB of links": "See [[Boat]] and [map](Map%20One.md). " * 55_000,
    "2 MB of a table": "| key | value | password |\n" * 80_000,
    "2 MB of Chinese": "渡轮在黎明时分离开港口。" * 170_000,
}


@pytest.fixture(scope="module")
def houses() -> Iterator[tuple[House, House]]:
    """One at work and one that has nothing to do, each with the same fifty memories."""
    with open_house() as busy, open_house() as idle:
        for house in (busy, idle):
            house.start()
            house.ctl("import", str(corpus.write(house.home / "notes.jsonl", 50)), timeout=300)
        yield busy, idle


def hook(house: House, number: int) -> float:
    """Seconds that the answer to a prompt took."""
    query = corpus.queries(number + 1)[number]
    said = json.dumps({"prompt": query, "session_id": f"beside-{number}"}).encode()
    begun = time.monotonic()
    with house.connect() as connection:
        connection.hook(b"\0".join((b"claude-code", b"UserPromptSubmit", b"/tmp/shop", b"", said)), 120.0)
    return time.monotonic() - begun


def beside(houses: tuple[House, House], work: Callable[[], object]) -> None:
    """Ask both daemons for hooks while `work` is done by the first, and compare."""
    busy, idle = houses
    failed: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as exc:  # noqa: BLE001  # shown by the test
            failed.append(exc)

    thread = threading.Thread(target=run)
    took: list[tuple[float, float]] = []
    thread.start()
    while thread.is_alive() or len(took) < LEAST:
        took.append((hook(busy, len(took) % 40), hook(idle, len(took) % 40)))
    thread.join()
    assert failed == []
    slowest = max(one for _, one in took)
    late = [one for one, _ in took if one > max(DEADLINE_S, TIMES * slowest)]
    print(f"{len(took)} hooks, slowest {max(one for one, _ in took):.3f} s, of the idle daemon {slowest:.3f} s")
    assert len(late) <= SHARE * len(took), (slowest, took)
    assert all(one <= max(LONGEST_S, TIMES * slowest) for one in late), (slowest, late)


def taken_in(house: House, name: str, text: str) -> None:
    """Save a note as a person does, and wait until it is in the history and indexed."""
    before = house.call("admin.health").nodes
    save(house.vault / f"{name}.md", text)
    while house.call("admin.health").nodes == before:
        time.sleep(0.2)


@pytest.mark.parametrize("kind", FILES)
def test_beside_a_note_that_a_person_saves(houses: tuple[House, House], kind: str) -> None:
    beside(houses, lambda: taken_in(houses[0], kind, FILES[kind]))


def test_beside_an_import(houses: tuple[House, House]) -> None:
    busy, _ = houses
    lines = (json.dumps({"content": f"Number {number}. {prose(20_000)}"}) for number in range(200))
    file = busy.home / "large.jsonl"
    file.write_text("\n".join(lines))

    def work() -> None:
        done = busy.ctl("import", str(file), timeout=600)
        assert done.returncode == 0, done.stderr

    beside(houses, work)


@pytest.mark.parametrize("kind", ["10 MB of prose", "2 MB of blanks", "2 MB of beginnings of tokens"])
def test_beside_a_giant_prompt(houses: tuple[House, House], kind: str) -> None:
    said = json.dumps({"prompt": FILES[kind], "session_id": "giant"}).encode()

    def work() -> None:
        with houses[0].connect() as connection:
            connection.hook(b"\0".join((b"claude-code", b"UserPromptSubmit", b"/tmp/shop", b"", said)), 600.0)

    beside(houses, work)
