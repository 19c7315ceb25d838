"""The shim that git starts for each file, and its helper: who is asked, in what order, and what is left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ormahd.note.note import compose, edit, parse
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
    """A folder as git's working directory, and a process that stands for git."""

    folder: Path
    home: Path
    git: subprocess.Popen[bytes]
    env: dict[str, str] = field(default_factory=dict)

    def shim(
        self,
        base: bytes = BASE,
        ours: bytes = OURS,
        theirs: bytes = THEIRS,
        *,
        daemon: Path | None = None,
        tag: str = "",
    ) -> subprocess.CompletedProcess[bytes]:
        for name, data in (("O", base), ("A", ours), ("B", theirs)):
            (self.folder / (name + tag)).write_bytes(data)
        where = ["--socket", str(daemon or self.home / "nobody")]
        words = [sys.executable, "-I", "-S", str(SHIM), "--merge", *where, "--git", str(self.git.pid)]
        words += [f"O{tag}", f"A{tag}", f"B{tag}", "7", PATH]
        return subprocess.run(words, cwd=self.folder, env=self.env, capture_output=True, timeout=120)

    def result(self, tag: str = "") -> bytes:
        return (self.folder / f"A{tag}").read_bytes()

    @property
    def helper(self) -> Path:
        return self.home / "runtime_dir" / f"ormah-merge-{os.geteuid()}-{self.git.pid}"

    def end(self) -> None:
        """Git ends, and the helper with it."""
        self.git.kill()
        self.git.wait()
        wait_until(lambda: not self.helper.exists(), "the helper is gone")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    folder = tmp_path / "worktree"
    folder.mkdir()
    with open_house() as house:  # for its short home
        git = subprocess.Popen(["sleep", "600"])
        found = Place(folder, house.home, git, surroundings(house.home))
        try:
            yield found
        finally:
            found.end()


def merged(place: Place, tag: str = "") -> bool:
    found = parse(place.result(tag), PATH)
    return (found.title, found.tags) == ("uv", ("b",))


def test_the_shim_imports_what_is_built_in_and_nothing_else(place: Place) -> None:
    for name, data in (("O", BASE), ("A", OURS), ("B", THEIRS)):
        (place.folder / name).write_bytes(data)
    words = [str(SHIM), "--merge", "--socket", "/nowhere", "--git", "0", "O", "A", "B", "7", PATH]
    options = ["-I", "-S", "-X", "importtime"]
    done = subprocess.run([sys.executable, *options, *words], cwd=place.folder, capture_output=True, text=True)
    assert done.returncode == NOBODY
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


def test_one_helper_serves_all_files_of_a_git_and_ends_with_it(place: Place) -> None:
    inodes = set()
    for _ in range(3):
        done = place.shim()
        assert (done.returncode, done.stderr) == (MERGED, b"")
        assert merged(place)
        inodes.add((place.helper / "s").stat().st_ino)
    assert len(inodes) == 1
    assert stat.S_IMODE(place.helper.stat().st_mode) == 0o700
    place.end()


def test_the_helpers_answers_are_those_of_the_daemon(place: Place) -> None:
    done = place.shim(theirs=note("11111111-6d0a-4c1e-9a55-0a52b0f4f9d1"))
    assert done.returncode == REFUSED
    assert b"these are different notes" in done.stderr
    assert place.result() == OURS
    done = place.shim(ours=note(content="two"), theirs=edit(note(content="three"), PATH, set={"tags": ["b"]}))
    assert done.returncode == CONFLICT
    assert b"both sides changed content" in done.stderr
    assert parse(place.result(), PATH).tags == ("b",)
    assert parse((place.folder / "B").read_bytes(), PATH).content == "three"


def test_a_helper_that_was_killed_is_replaced(place: Place) -> None:
    assert place.shim().returncode == MERGED
    for process in Path("/proc").iterdir():
        if process.name.isdecimal() and f"--git\0{place.git.pid}\0".encode() in _cmdline(process):
            os.kill(int(process.name), signal.SIGKILL)
    wait_until(lambda: not _listens(place.helper / "s"), "nobody listens")
    assert (place.helper / "s").exists(), "a stale socket"
    assert place.shim().returncode == MERGED
    assert merged(place)


def _cmdline(process: Path) -> bytes:
    with contextlib.suppress(OSError):
        return (process / "cmdline").read_bytes()
    return b""


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True


def test_many_at_once_start_helpers_and_all_are_answered(place: Place) -> None:
    done: dict[str, subprocess.CompletedProcess[bytes]] = {}

    def one(tag: str) -> None:
        done[tag] = place.shim(tag=tag)

    threads = [threading.Thread(target=one, args=(str(number),)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {tag: (one.returncode, one.stderr) for tag, one in done.items()} == dict.fromkeys(done, (MERGED, b""))
    assert all(merged(place, tag) for tag in done)


def test_a_directory_that_others_could_enter_is_not_used(place: Place) -> None:
    place.helper.mkdir(mode=0o755)
    place.helper.chmod(0o755)
    assert place.shim().returncode == NOBODY
    assert place.result() == OURS
    place.helper.rmdir()
    elsewhere = place.home / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    place.helper.symlink_to(elsewhere)
    assert place.shim().returncode == NOBODY
    assert list(elsewhere.iterdir()) == []
    place.helper.unlink()


def test_a_runtime_directory_that_is_too_long_or_gone_is_passed_over(place: Place) -> None:
    long = place.folder / ("x" * 90)
    long.mkdir()
    place.env |= {"XDG_RUNTIME_DIR": str(long), "TMPDIR": str(place.home / "runtime_dir")}
    assert place.shim().returncode == MERGED
    assert (place.helper / "s").exists()
    assert list(long.iterdir()) == []


def test_what_killed_helpers_left_is_swept(place: Place) -> None:
    with subprocess.Popen(["true"]) as gone:
        pass
    left = place.helper.with_name(f"ormah-merge-{os.geteuid()}-{gone.pid}")
    left.mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stale:
        stale.bind(str(left / "s"))
    assert place.shim().returncode == MERGED
    wait_until(lambda: not left.exists(), "swept")


def test_the_helper_holds_nothing_open_that_its_starter_had(place: Place) -> None:
    """Else whoever reads git's output would wait for the helper too."""
    read, write = os.pipe()
    os.set_inheritable(write, True)
    for name, data in (("O", BASE), ("A", OURS), ("B", THEIRS)):
        (place.folder / name).write_bytes(data)
    words = [sys.executable, "-I", "-S", str(SHIM), "--merge", "--socket", "/nowhere", "--git", str(place.git.pid)]
    done = subprocess.run([*words, "O", "A", "B", "7", PATH], cwd=place.folder, env=place.env, pass_fds=[write])
    assert done.returncode == MERGED
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        assert pipe.read() == b""
    assert _listens(place.helper / "s")


def test_a_file_that_cannot_be_written_stays_whole(place: Place) -> None:
    (place.folder / "A.ormah").mkdir()
    done = place.shim()
    assert done.returncode == NOBODY
    assert done.stderr.startswith(b"ormah: ")
    assert b"Traceback" not in done.stderr
    assert place.result() == OURS


# With a daemon


def test_a_daemon_is_asked_and_no_helper_started(place: Place) -> None:
    with open_house() as house:
        house.start(phase="")
        done = place.shim(daemon=house.socket)
    assert (done.returncode, done.stderr) == (MERGED, b"")
    assert merged(place)
    assert not place.helper.exists()


def test_long_texts_spare_the_daemon(place: Place) -> None:
    with open_house() as house:
        house.start(phase="")
        long = edit(BASE, PATH, content="a long line of text\n" * 10_000)
        ours, theirs = edit(long, PATH, set={"title": "uv"}), edit(long, PATH, set={"tags": ["b"]})
        assert place.shim(long, ours, theirs, daemon=house.socket).returncode == MERGED
    assert merged(place)
    assert place.helper.exists()


def test_a_daemon_that_does_not_answer_is_asked_once_only(place: Place) -> None:
    """It was stopped (SIGSTOP): its socket takes connections all the same."""
    with open_house() as house:
        house.start(phase="")
        house.signal(signal.SIGSTOP)
        try:
            assert place.shim(daemon=house.socket).returncode == MERGED
            assert merged(place)
            assert place.shim(daemon=house.socket).returncode == MERGED
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
