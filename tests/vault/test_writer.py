"""The writer: ops that wait are committed and told in one batch, each with a commit of its own; one at fault harms no
other, and whatever goes wrong on the way leaves nothing behind."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ormahd.errors import Conflict, Unavailable
from ormahd.git import commit_message
from ormahd.git import objects as git_pack
from ormahd.git.repository import Git
from ormahd.model.change import Committed, Kind
from ormahd.vault.apply import Builder
from tests.house import wait_until
from tests.vault.git_house import git, open_vault, put, sound

OTHERS = 6
NOTE = "space/a.md"
MANY = [(f"space/{number}.md", b"%d\n" % number) for number in range(30)]


class Held:
    """A vault whose first op is held up, with the lock taken, until `OTHERS` more wait behind it."""

    def __init__(self, root: Path, *, wait: float = 60.0) -> None:
        self.steps: list[str] = []
        self.go = threading.Event()
        self.locked = threading.Event()
        self.more: Callable[[str], None] = lambda _: None
        self.told: list[list[Committed]] = []
        self.ops: dict[int, str] = {}
        self.errors: dict[int, BaseException] = {}
        self.armed = False
        self.vault = open_vault(root, wait=wait, at=self.at)
        self.vault.listen(lambda some: self.told.append(list(some)))
        self.steps.clear()
        self.armed = True
        self.threads = [threading.Thread(target=self.work, args=(number,)) for number in range(OTHERS + 1)]

    def at(self, step: str) -> None:
        self.steps.append(step)
        if step == "locked" and self.armed and not self.locked.is_set():
            self.locked.set()
            assert self.go.wait(120)
        self.more(step)

    def work(self, number: int) -> None:
        try:
            with self.vault.transaction(f"remember: {number}", kind=Kind.REMEMBER, source="agent:test") as tx:
                self.ops[number] = tx.op
                tx.put(f"s{number}/{number}.md", b"%d\n" % number, node_id=None, expect=None)
        except BaseException as exc:  # noqa: BLE001 - handed to the test's thread
            self.errors[number] = exc

    def begin(self) -> None:
        """All wait: the first one is being written, the others are in the queue, in order."""
        for number, thread in enumerate(self.threads, 1):
            thread.start()
            wait_until(lambda number=number: len(self.vault._writer._queue) == number, "it waits")
            assert self.locked.wait(120)

    def end(self) -> None:
        self.go.set()
        for thread in self.threads:
            thread.join(120)
            assert not thread.is_alive()

    def run(self) -> None:
        self.begin()
        self.end()


def subjects(root: Path) -> list[str]:
    return git(root, "log", "--reverse", "--format=%s").splitlines()[1:]


def begun(root: Path) -> list[Path]:
    """What is left of an index that was begun."""
    return list((root / ".git").glob("index.ormah-*"))


def children() -> list[str]:
    """The gits that were started to write, and that still run (Linux)."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            words = (process / "cmdline").read_bytes().split(b"\0")
            if parent == os.getpid() and {b"update-ref", b"update-index"}.intersection(words):
                found.append(b" ".join(words).decode())
    return found


def objects(root: Path) -> set[str]:
    return {str(file) for file in (root / ".git" / "objects").rglob("*") if file.is_file()}


def test_those_that_wait_go_together_and_each_has_its_commit(tmp_path: Path) -> None:
    held = Held(tmp_path / "v")
    with held.vault as vault:
        held.run()
        assert held.errors == {}
        assert [len(some) for some in held.told] == [1, OTHERS]
        assert held.steps.count("locked") == 2
        made = [one for some in held.told for one in some]
        assert [one.commit for one in made][:-1] == [one.parent for one in made][1:]
        assert subjects(vault.root) == [f"remember: {number}" for number in range(OTHERS + 1)]
        ops = [
            commit_message.parse(row.decode()).trailer("Ormah-Op") for row in vault.git.log("--reverse", "--format=%B")
        ][1:]
        assert ops == [one.op for one in made]
        for number in range(OTHERS + 1):
            assert vault.committed(f"s{number}/{number}.md") == b"%d\n" % number
        sound(vault.root)


def test_of_those_that_go_together_one_is_refused(tmp_path: Path) -> None:
    """A person saves at the last one's path: the branch moves in the name of the last op that went."""
    held = Held(tmp_path / "v")
    theirs = held.vault.root / f"s{OTHERS}/{OTHERS}.md"

    def save(step: str) -> None:
        if step == "locked" and held.steps.count("locked") == 2:
            theirs.parent.mkdir()
            theirs.write_bytes(b"a person's\n")

    held.more = save
    with held.vault as vault:
        held.run()
        ((number, error),) = held.errors.items()
        assert number == OTHERS
        assert isinstance(error, Conflict)
        assert subjects(vault.root) == [f"remember: {number}" for number in range(OTHERS)]
        assert git(vault.root, "ls-files", f"s{OTHERS}") == ""
        assert git(vault.root, "reflog", "-1", "--format=%gs") == f"ormah (remember): remember: {OTHERS - 1}"
        assert (begun(vault.root), children()) == ([], [])
        theirs.unlink()
        sound(vault.root)


def test_who_must_be_alone_is_let_in_between_two_batches(tmp_path: Path) -> None:
    """While others write without a pause."""
    with open_vault(tmp_path / "v", wait=60.0) as vault:
        stop = threading.Event()

        def write(number: int) -> None:
            turn = 0
            while not stop.is_set():
                put(vault, (f"{number}/{turn}.md", b"x"))
                turn += 1

        threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(3):
                with vault.rewriting():
                    head = vault.head()
                    time.sleep(0.05)
                    assert vault.head() == head
        finally:
            stop.set()
            for thread in threads:
                thread.join(120)
        sound(vault.root)


# What comes between


@pytest.mark.parametrize("files", [MANY[:1], MANY], ids=["loose", "a pack"])
@pytest.mark.parametrize("step", ["locked", "objects", "moving"])
def test_a_commit_of_somebody_else_in_between_is_built_upon(
    tmp_path: Path, step: str, files: list[tuple[str, bytes]]
) -> None:
    theirs: list[str] = []

    def at(met: str) -> None:
        if met == step and armed:
            armed.clear()
            tree = git(vault.root, "rev-parse", "HEAD^{tree}")
            commit = git(vault.root, "commit-tree", tree, "-p", "HEAD", "-m", "by hand")
            git(vault.root, "update-ref", "HEAD", commit)
            theirs.append(commit)

    armed: list[bool] = []
    with open_vault(tmp_path / "v", at=at) as vault:
        armed.append(True)
        done = put(vault, *files)
        assert done is not None
        assert done.parent == theirs[0]
        assert vault.head() == done.commit
        assert git(vault.root, "log", "-2", "--format=%s").splitlines()[1] == "by hand"
        assert (begun(vault.root), children()) == ([], [])
        sound(vault.root)


def test_a_save_in_the_last_moment_leaves_nothing_of_what_was_begun(tmp_path: Path) -> None:
    def at(step: str) -> None:
        if step == "locked" and armed:
            (vault.root / NOTE).write_bytes(b"typed\n")

    armed: list[bool] = []
    with open_vault(tmp_path / "v", at=at) as vault:
        put(vault, (NOTE, b"1\n"))
        head = vault.head()
        armed.append(True)
        with pytest.raises(Conflict):
            put(vault, (NOTE, b"2\n"))
        armed.clear()
        assert (begun(vault.root), children()) == ([], [])
        assert not (vault.root / ".git/index.lock").exists()
        assert vault.head() == head
        assert (vault.root / NOTE).read_bytes() == b"typed\n"


def test_where_objects_cannot_be_written_nothing_was_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_vault(tmp_path / "v") as vault:
        put(vault, ("a.md", b"1\n"))
        head, there = vault.head(), objects(vault.root)

        def full(fd: int, data: bytes) -> None:
            os.close(fd)
            raise OSError(errno.ENOSPC, "No space left on device", "objects")

        with monkeypatch.context() as patched:
            patched.setattr(git_pack, "write_and_sync", full)
            with pytest.raises(Unavailable, match="No space left on device; nothing was changed"):
                put(vault, *MANY)
        assert (vault.head(), objects(vault.root)) == (head, there)
        assert not (vault.root / "space").exists()
        assert not list((vault.root / ".ormah/tmp").iterdir())
        assert put(vault, *MANY) is not None
        sound(vault.root)


def test_a_git_that_does_not_start_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_vault(tmp_path / "v") as vault:
        put(vault, (NOTE, b"1\n"))
        head = vault.head()

        def none(*_: object, **__: object) -> subprocess.Popen[bytes]:
            raise OSError(11, "Resource temporarily unavailable")

        with monkeypatch.context() as patched:
            patched.setattr(Git, "start", none)
            with pytest.raises(Unavailable, match="nothing was changed"):
                put(vault, (NOTE, b"2\n"))
        assert vault.head() == head
        assert vault.read(NOTE) == b"1\n"
        assert put(vault, (NOTE, b"2\n")) is not None
        sound(vault.root)


def test_a_fault_of_ours_reaches_the_caller_and_leaves_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(*_: object, **__: object) -> None:
        raise RuntimeError("a fault of ours")

    with open_vault(tmp_path / "v") as vault:
        put(vault, (NOTE, b"1\n"))
        with monkeypatch.context() as patched:
            patched.setattr(Builder, "build", fault)
            with pytest.raises(RuntimeError, match="a fault of ours"):
                put(vault, (NOTE, b"2\n"))
        assert not (vault.root / ".git/index.lock").exists()
        assert (begun(vault.root), children()) == ([], [])
        assert vault.read(NOTE) == b"1\n"
        assert put(vault, (NOTE, b"3\n")) is not None
        sound(vault.root)


# The person's index


@pytest.mark.parametrize("kind", [("--index-version=4",), ("--split-index",), ("--untracked-cache",)])
def test_an_index_of_any_kind_is_told_of_our_paths(tmp_path: Path, kind: tuple[str, ...]) -> None:
    with open_vault(tmp_path / "v") as vault:
        put(vault, (NOTE, b"1\n"))
        git(vault.root, "update-index", *kind)
        put(vault, (NOTE, b"2\n"), ("space/b.md", b"3\n"))
        assert git(vault.root, "status", "--porcelain") == ""
        sound(vault.root)


def test_an_edit_in_the_second_of_its_add_is_seen_after_our_commit(tmp_path: Path) -> None:
    """Git takes a file for unchanged that has the size and time of its entry, unless that is as young as the index."""
    with open_vault(tmp_path / "v") as vault:
        theirs = vault.root / "todo.txt"
        theirs.write_bytes(b"one\n")
        os.utime(theirs, ns=(1_700_000_000 * 10**9,) * 2)
        git(vault.root, "add", "todo.txt")
        os.utime(vault.root / ".git/index", ns=(1_700_000_000 * 10**9,) * 2)
        theirs.write_bytes(b"two\n")
        os.utime(theirs, ns=(1_700_000_000 * 10**9,) * 2)
        put(vault, (NOTE, b"1\n"))
        assert git(vault.root, "status", "--porcelain", "todo.txt").split() == ["AM", "todo.txt"]


def test_where_the_index_cannot_be_written_nothing_is_changed(tmp_path: Path) -> None:
    with open_vault(tmp_path / "v") as vault:
        put(vault, (NOTE, b"1\n"))
        head = vault.head()
        git(vault.root, "config", "index.threads", "many")  # git update-index refuses it, git update-ref does not ask
        with pytest.raises(Unavailable, match=r"index\.threads"):
            put(vault, (NOTE, b"2\n"))
        assert (begun(vault.root), vault.head(), vault.read(NOTE)) == ([], head, b"1\n")
        git(vault.root, "config", "--unset", "index.threads")
        put(vault, (NOTE, b"2\n"))
        sound(vault.root)
