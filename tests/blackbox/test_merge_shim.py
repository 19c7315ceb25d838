"""The shim that git starts for each file: who is asked, in what order, and what is left behind."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ormahd.note.edit import edit
from ormahd.note.read import parse
from ormahd.note.write import compose
from ormahd.vault.merge_driver import SHIM
from tests.house import open_house, wait_until
from tests.surroundings import surroundings

MERGED, REFUSED, CONFLICT, NOBODY = 0, 65, 66, 69
NOW = datetime(2026, 11, 21, 20, tzinfo=UTC)
PATH = "fact_uv-is-fast_97acbe8e.md"
ID = "97acbe8e-6d0a-4c1e-9a55-0a52b0f4f9d1"


def note(node_id: str = ID, content: str = "one") -> bytes:
    return compose(
        id=node_id, type="fact", tier="working", space="ormah", title="uv is fast", tags=["a"], source="agent:x",
        confidence=1.0, created=NOW, updated=NOW, content=content,
    )  # fmt: skip


BASE = note()
OURS, THEIRS = edit(BASE, PATH, set={"title": "uv"}), edit(BASE, PATH, set={"tags": ["b"]})


@dataclass
class Place:
    """A folder as git's working directory."""

    folder: Path
    home: Path
    env: dict[str, str] = field(default_factory=dict)

    def shim(
        self,
        base: bytes = BASE,
        ours: bytes = OURS,
        theirs: bytes = THEIRS,
        *,
        daemon: Path | None = None,
        tag: str = "",
        given: tuple[str, ...] = (),
    ) -> subprocess.CompletedProcess[bytes]:
        for name, data in (("O", base), ("A", ours), ("B", theirs)):
            (self.folder / (name + tag)).write_bytes(data)
        where = ["--socket", str(daemon or self.home / "nobody")]
        words = [sys.executable, "-I", "-S", str(SHIM), "--merge", *where, *given]
        words += [f"O{tag}", f"A{tag}", f"B{tag}", "7", PATH]
        return subprocess.run(words, cwd=self.folder, env=self.env, capture_output=True, timeout=120)

    def result(self, tag: str = "") -> bytes:
        return (self.folder / f"A{tag}").read_bytes()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    folder = tmp_path / "worktree"
    folder.mkdir()
    with open_house() as house:  # for its short home
        yield Place(folder, house.home, surroundings(house.home))


def merged(place: Place, tag: str = "") -> bool:
    found = parse(place.result(tag), PATH)
    return (found.title, found.tags) == ("uv", ("b",))


def test_the_shim_imports_what_is_built_in_and_nothing_else(place: Place) -> None:
    for name, data in (("O", BASE), ("A", OURS), ("B", THEIRS)):
        (place.folder / name).write_bytes(data)
    words = [str(SHIM), "--merge", "--socket", "/nowhere", "O", "A", "B", "7", PATH]
    options = ["-I", "-S", "-X", "importtime"]
    done = subprocess.run([sys.executable, *options, *words], cwd=place.folder, capture_output=True, text=True)
    assert done.returncode == MERGED, "a child merged it, whose imports are not told"
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    bare = subprocess.run([sys.executable, *options, "-c", "pass"], capture_output=True, text=True)
    always = {line.rpartition("|")[2].strip() for line in bare.stderr.splitlines() if line.startswith("import time:")}
    ours = {"ormahctl", "ormahctl.shim", "ormahctl.shim.merge", "ormahctl.shim.wire"}
    assert imported - always == ours | {"_socket"}


def test_without_a_mode_it_says_who_starts_it() -> None:
    for words in ([], ["--unknown"]):
        done = subprocess.run([sys.executable, "-I", "-S", str(SHIM), *words], capture_output=True, text=True)
        assert done.returncode == 64
        assert "started by git" in done.stderr


def test_a_child_merges_where_no_daemon_is_and_leaves_nothing(place: Place) -> None:
    done = place.shim()
    assert (done.returncode, done.stderr) == (MERGED, b"")
    assert merged(place)
    assert sorted(os.listdir(place.folder)) == ["A", "B", "O"]
    assert os.listdir(place.home / "runtime_dir") == []


def test_the_childs_answers_are_those_of_the_daemon(place: Place) -> None:
    done = place.shim(theirs=note("11111111-6d0a-4c1e-9a55-0a52b0f4f9d1"))
    assert done.returncode == REFUSED
    assert b"these are different notes" in done.stderr
    assert place.result() == OURS
    done = place.shim(ours=note(content="two"), theirs=edit(note(content="three"), PATH, set={"tags": ["b"]}))
    assert done.returncode == CONFLICT
    assert b"both sides changed content" in done.stderr
    assert parse(place.result(), PATH).tags == ("b",)
    assert parse((place.folder / "B").read_bytes(), PATH).content == "three"


def test_a_child_that_cannot_start_leaves_the_file_to_git(place: Place) -> None:
    """The shim alone, under an interpreter that has none of our packages."""
    shutil.copytree(SHIM.parent, place.home / "ormahctl", ignore=shutil.ignore_patterns("__pycache__"))
    for name, data in (("O", BASE), ("A", OURS), ("B", THEIRS)):
        (place.folder / name).write_bytes(data)
    words = [sys._base_executable, "-I", "-S", str(place.home / "ormahctl" / "hook.py"), "--merge"]  # type: ignore[attr-defined]
    done = subprocess.run([*words, "O", "A", "B", "7", PATH], cwd=place.folder, env=place.env, capture_output=True)
    assert done.returncode == NOBODY
    assert place.result() == OURS


def test_a_file_that_cannot_be_written_stays_whole(place: Place) -> None:
    (place.folder / "A.ormah").mkdir()
    done = place.shim()
    assert done.returncode == NOBODY
    assert done.stderr.startswith(b"ormah: ")
    assert b"Traceback" not in done.stderr
    assert place.result() == OURS


# With a daemon


def test_a_daemon_is_asked_and_spared_long_texts(place: Place) -> None:
    long = edit(BASE, PATH, content="a long line of text\n" * 10_000)
    with open_house() as house:
        house.start(phase="")
        for base in (BASE, long):
            ours, theirs = edit(base, PATH, set={"title": "uv"}), edit(base, PATH, set={"tags": ["b"]})
            done = place.shim(base, ours, theirs, daemon=house.socket)
            assert (done.returncode, done.stderr) == (MERGED, b"")
            assert merged(place)


def test_a_daemon_that_does_not_answer(place: Place) -> None:
    """It was stopped (SIGSTOP): its socket takes connections all the same."""
    with open_house() as house:
        house.start(phase="")
        house.signal(signal.SIGSTOP)
        try:
            assert place.shim(daemon=house.socket).returncode == MERGED
            assert merged(place)
        finally:
            house.signal(signal.SIGCONT)
        wait_until(lambda: house.call("admin.health").clients == 1, "the first shim's connection is gone")
        assert house.call("agent.recall", query="anything").results is not None


@pytest.mark.parametrize("reply", [b"", b"g", b"j\0\0\0\2{}", b"g\xff\xff\xff\xff", b"g\0\0\0\4="])
def test_somebody_else_at_the_daemons_socket(place: Place, reply: bytes) -> None:
    """An older daemon, another program, one that dies in the middle."""
    path = place.home / "other"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            channel, _ = listener.accept()
            with channel:
                channel.recv(1 << 16)
                channel.sendall(reply)

        thread = threading.Thread(target=serve)
        thread.start()
        assert place.shim(daemon=path).returncode == MERGED
        thread.join()
    assert merged(place)
