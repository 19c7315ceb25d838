"""What lies in `.ormah` and is under no version control is emptied, cut off, garbled, removed, or replaced by something
that is no file; before the daemon starts, and while it runs. Memories are found and written all the same. What git cannot
read of its own files is named by doctor, in git's words.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ormahd.rpc import wire
from tests.house import House, open_house, wait_until

SECONDS = 30.0
"""Within which a call must be answered: a pipe that somebody opens answers never."""


def empty(path: Path) -> None:
    path.write_bytes(b"")


def truncated(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def garbled_page(path: Path) -> None:
    data = path.read_bytes()
    middle = len(data) // 2
    path.write_bytes(data[:middle] + random.Random(1).randbytes(min(512, len(data) - middle)) + data[middle + 512 :])


def garbled_whole(path: Path) -> None:
    path.write_bytes(random.Random(2).randbytes(max(64, path.stat().st_size)))


def removed(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)  # the daemon may be putting things into it
    else:
        path.unlink(missing_ok=True)


def in_place(new: Path, path: Path) -> None:
    """Bring `new` to `path`; the daemon may be mending that already."""
    for _ in range(1000):
        removed(path)
        try:
            os.rename(new, path)
        except OSError:
            continue
        return
    pytest.fail(f"{path} cannot be replaced")


def beside(path: Path) -> Path:
    """A name on the same file system, outside of what the daemon looks at."""
    home = next(one for one in path.parents if (one / ".gitconfig").exists())
    return Path(tempfile.mkdtemp(prefix="damage", dir=home), "new")


def folder(path: Path) -> None:
    new = beside(path)
    new.mkdir()
    (new / "inside").write_text("somebody's\n")
    in_place(new, path)


def pipe(path: Path) -> None:
    new = beside(path)
    os.mkfifo(new)
    in_place(new, path)


def link(path: Path) -> None:
    new = beside(path)
    new.symlink_to("nowhere/at/all")
    in_place(new, path)


def file(path: Path) -> None:
    new = beside(path)
    new.write_bytes(b"no folder\n")
    in_place(new, path)


OF_FILES: list[Callable[[Path], None]] = [empty, truncated, garbled_page, garbled_whole, removed, folder, pipe, link]
OF_FOLDERS: list[Callable[[Path], None]] = [removed, file, pipe, link]


@dataclass(frozen=True)
class Place:
    """A file or folder that is damaged."""

    name: str
    of: list[Callable[[Path], None]] = field(default_factory=lambda: OF_FILES)


PLACES = [
    Place(".ormah/lock"),
    Place(".ormah/intent", of=OF_FOLDERS),
    Place(".ormah/tmp", of=OF_FOLDERS),
]


class Ledger:
    """What was acknowledged in one house."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.there: dict[str, str] = {}

    def call(self, method: str, **params: Any) -> Any:
        with wire.connect(self.house.socket) as connection:
            return connection.call(method, params, agent="test", cwd=None, timeout=SECONDS)

    def remember(self) -> None:
        text = f"bee number {len(self.there)} lives in hive {random.Random(len(self.there)).getrandbits(40):x}"
        self.there[self.call("agent.remember", content=text).node_id] = text

    def all_is_well(self) -> None:
        """Old memories are found, a new one can be written, the history has all, and nothing is left to do."""
        first = next(iter(self.there))
        assert self.call("agent.recall", query=self.there[first]).results
        self.remember()
        found = {item["id"]: item["content"] for item in self.call("admin.export").items}
        assert {key: found.get(key) for key in self.there} == self.there
        wait_until(lambda: self.by_hand("status", "--porcelain") == "", lambda: self.by_hand("status"), SECONDS)
        wait_until(self.in_history, "the history to have all", SECONDS)
        assert self.call("admin.verify").differences == []
        assert self.house.process is not None
        assert self.house.process.poll() is None

    def in_history(self) -> bool:
        said = self.by_hand("log", "--format=%B")
        return all(key in said for key in self.there)

    def by_hand(self, *words: str) -> str:
        """What git says to a person, complaints and all."""
        done = subprocess.run(
            ["git", *words], cwd=self.house.vault, env=self.house.env, capture_output=True, text=True, timeout=SECONDS,
            check=False,
        )  # fmt: skip
        return done.stdout + done.stderr

    def prepare(self, place: Place) -> Path:
        self.remember()
        path = self.house.vault / place.name
        if not path.exists():
            path.mkdir(parents=True)
        return path


@pytest.fixture(scope="module")
def ledger() -> Iterator[Ledger]:
    with open_house() as house:
        house.start()
        ledger = Ledger(house)
        ledger.remember()
        yield ledger


CELLS = [pytest.param(place, how, id=f"{place.name}-{how.__name__}") for place in PLACES for how in place.of]


@pytest.mark.parametrize(("place", "how"), CELLS)
def test_while_it_runs(ledger: Ledger, place: Place, how: Callable[[Path], None]) -> None:
    how(ledger.prepare(place))
    ledger.all_is_well()


@pytest.mark.parametrize("words", ["clean -fdxq", "reset -q --mixed HEAD~3"])
def test_git_by_hand_takes_away_what_memories_stood_on(words: str) -> None:
    """The memories are found, a new one is written, `verify` is content, and what is not clean is named with a command."""
    with open_house() as house:
        house.start()
        ledger = Ledger(house)
        for _ in range(5):
            ledger.remember()
        house.git(*words.split())
        ledger.remember()

        def settled() -> bool:
            if ledger.call("admin.verify").differences:
                return False
            return ledger.by_hand("status", "--porcelain") == ""

        wait_until(settled, lambda: f"peace after git {words}; git says:\n{ledger.by_hand('status')}", SECONDS)
        found = {item["id"]: item["content"] for item in ledger.call("admin.export").items}
        assert {key: found.get(key) for key in ledger.there} == ledger.there
        for key, text in ledger.there.items():
            assert key in [one.id for one in ledger.call("agent.recall", query=text).results]


@pytest.mark.parametrize(("place", "how"), CELLS)
def test_before_it_starts(ledger: Ledger, place: Place, how: Callable[[Path], None]) -> None:
    path = ledger.prepare(place)
    assert ledger.house.stop() == 0
    how(path)
    ledger.house.start()
    ledger.all_is_well()


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("config", b"[core\n", "bad config line 1"),
        ("index", b"rubbish" * 10, "index file corrupt"),
        ("refs/heads/main", b"rubbish", "which commit HEAD names"),
    ],
)
def test_doctor_shows_what_git_says(name: str, data: bytes, said: str) -> None:
    with open_house() as house:
        house.start()
        ledger = Ledger(house)
        ledger.remember()
        (house.vault / ".git" / name).write_bytes(data)
        [found] = ledger.call("admin.doctor").findings
        assert found.level == "error"
        assert said in found.what
        assert "git fsck" in found.mend


def test_doctor_names_the_lock_that_stands_and_its_age() -> None:
    with open_house() as house:
        house.start()
        lock = house.vault / ".git/index.lock"
        lock.touch()
        os.utime(lock, (lock.stat().st_mtime - 720,) * 2)
        [found] = [one for one in Ledger(house).call("admin.doctor").findings if "lock" in one.what]
        assert f"12 minutes old: {lock}" in found.what
        assert f"rm {lock}" in found.mend
        lock.unlink()
