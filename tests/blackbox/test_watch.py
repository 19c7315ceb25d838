"""`ormahctl watch` and `events.subscribe` beside a working daemon."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from ormahd.rpc import wire
from tests.house import House, open_house, save, wait_until


class Watch:
    """A running `ormahctl watch --json`, whose lines go to a file."""

    def __init__(self, house: House) -> None:
        self.file = house.home / f"watched-{len(list(house.home.glob('watched-*')))}"
        with self.file.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "ormahctl", "--json", "watch"], env=house.env, cwd=house.home, stdout=out,
                stderr=subprocess.STDOUT,
            )  # fmt: skip

    @property
    def events(self) -> list[dict[str, Any]]:
        lines = self.file.read_bytes().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith(b"\n")]

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [one for one in self.events if one["event"] == kind]

    def wait(self, kind: str, count: int = 1) -> list[dict[str, Any]]:
        wait_until(lambda: len(self.of(kind)) >= count, lambda: f"{count} {kind} events, of {self.events[-5:]}")
        return self.of(kind)


@contextlib.contextmanager
def watching(house: House) -> Iterator[Watch]:
    """A watch that has subscribed: it has told of a first write."""
    watch = Watch(house)
    try:
        wait_until(lambda: _told(house, watch), "the watch tells of a write")
        yield watch
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(watch.process.pid, signal.SIGCONT)
        watch.process.terminate()
        watch.process.wait(120)


LETTERS = str.maketrans("0123456789", "ghijklmnop")
"""Digits alone may be the number of a card, which no memory keeps."""


def _told(house: House, watch: Watch) -> bool:
    if not watch.events:
        house.call("agent.remember", content=f"Is it heard? {os.urandom(4).hex().translate(LETTERS)}")
    return bool(watch.events)


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with open_house() as found:
        found.start()
        yield found


def test_what_happens_is_told(house: House) -> None:
    with watching(house) as watch:
        begun = len(watch.of("write"))
        made = house.json("remember", "The shop is built with vite", "--title", "Vite builds the shop")
        told = watch.wait("write", begun + 1)[-1]
        assert (told["op"], told["commit"], told["kind"]) == (made["op"], made["commit"], "remember")
        assert (told["nodes"], told["source"]) == ([made["id"]], "person")

        note = house.vault / made["path"]
        save(note, note.read_text() + "\nSince 2026.\n")
        edit = watch.wait("edit")[-1]
        assert (edit["nodes"], edit["kind"], edit["source"]) == ([made["id"]], "edit", "person")

        house.git("revert", "--no-edit", "HEAD")
        wait_until(lambda: any(made["id"] in one["nodes"] for one in watch.of("outside")), "the revert is told")

        said = house.call(
            "agent.whisper", prompt="how is the shop built with vite?", session_id="s", agent="claude-code"
        )
        whisper = watch.wait("whisper")[-1]
        assert whisper["whisper"] == said.event
        assert whisper.get("nodes", []) == [one.id for one in said.nodes]
        assert "vite" not in json.dumps(whisper), "ids only"

        house.ctl("jobs", "run", "importance_scorer")
        began, ended = watch.wait("job", 2)[-2:]
        assert (began["job"], began["state"], ended["state"]) == ("importance_scorer", "began", "ended")
        assert began["run"] == ended["run"]


def test_a_person_can_read_it(house: House) -> None:
    last = house.call("events.subscribe").last
    house.ctl("remember", "Readable: the title stands in the line")
    house.ctl("remember", "Readable: a second line")
    done = house.ctl("watch", "--after", last, "-n", "2", "--only", "write")
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert "write" in first
    assert "the title stands in the line" in first
    assert "person" in second
    assert house.ctl("watch", "--after", "nonsense").returncode == 2
    assert "did you mean" in house.ctl("watch", "--only", "writes").stderr


def _beside(house: House, count: int) -> None:
    """Write `count` memories from four threads, with a rebuild, and with a reader that is stopped; compare with git."""
    with watching(house) as stopped, watching(house) as watch:
        os.kill(stopped.process.pid, signal.SIGSTOP)
        before = house.git("rev-parse", "HEAD").strip()
        known = len(watch.events)
        made: list[str] = []

        def work(number: int) -> None:
            with house.connect() as connection:
                for at in range(count // 4):
                    params = {
                        "content": f"Number {number}-{at} of many, kept by {os.urandom(8).hex().translate(LETTERS)}"
                    }
                    made.append(connection.call("agent.remember", params, timeout=300.0).op)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(2):
            assert house.call("admin.rebuild").status == "rebuilt"
        for thread in threads:
            thread.join()
        assert len(made) == count // 4 * 4
        ops = house.git(
            "log", "--reverse", "--format=%(trailers:key=Ormah-Op,valueonly,separator=)", f"{before}..HEAD"
        ).split()
        wait_until(lambda: len([one for one in watch.events[known:] if "op" in one]) >= len(ops), "all ops are told")
        assert [one["op"] for one in watch.events[known:] if "op" in one] == ops
        os.kill(stopped.process.pid, signal.SIGCONT)
        wait_until(lambda: {one.get("op") for one in stopped.events} >= set(ops), "the stopped one catches up")
        told = [one["op"] for one in stopped.events if one.get("op") in set(ops)]
        assert told == ops, "once and in order too, because nothing was forgotten meanwhile"


def test_every_op_is_told_once_beside_many_writes_and_rebuilds(house: House) -> None:
    _beside(house, 100)


@pytest.mark.soak
def test_every_op_is_told_once_beside_a_thousand_writes(house: House) -> None:
    _beside(house, 1_000)


def _read_to_the_end(reader: wire.ClientConnection) -> None:
    while True:
        reader.next_event(60.0)


def test_events_forget_what_is_purged(house: House) -> None:
    known = house.call("events.subscribe").last
    made = house.json("remember", "Of this nothing stays", "--title", "A purged title")["id"]
    with house.connect() as reader:
        assert not reader.call("events.subscribe", {"after": known}).refetch
        told = reader.next_event(60.0)
        assert told is not None
        assert "A purged title" in (told.subject or "")
        assert house.ctl("forget", made, "--purge", "--yes", "--rewrite-foreign").returncode == 0
        with pytest.raises(wire.Unavailable):
            _read_to_the_end(reader)
    with house.connect() as reader:
        assert reader.call("events.subscribe", {"after": told.id}).refetch
        while (later := reader.next_event(0.2)) is not None:
            assert "A purged title" not in (later.subject or "")


def test_it_goes_on_after_a_restart() -> None:
    with open_house() as house:
        house.start()
        with watching(house) as watch:
            house.restart()
            wait_until(lambda: watch.of("refetch"), "it is told that events were missed")
            before = len(watch.of("write"))
            made = house.json("remember", "After the restart")
            assert watch.wait("write", before + 1)[-1]["op"] == made["op"]
            house.stop()
            assert watch.process.poll() is None, "it waits for the daemon"
