"""The index and the branch are begun beside the files: used where nothing came between, made anew or dropped where something did."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ormahd.errors import Conflict, Unavailable
from tests.house import wait_until
from tests.vault.git_house import git, open_vault, put, sound
from tests.vault.test_together import Held, subjects

NOTE = "space/a.md"


def begun(root: Path) -> list[Path]:
    return list((root / ".git").glob("index.ormah-*"))


def children() -> list[str]:
    """The gits that we have started to write, and that still run (Linux)."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            words = (process / "cmdline").read_bytes().split(b"\0")
            if parent == os.getpid() and {b"update-ref", b"update-index"}.intersection(words):
                found.append(b" ".join(words).decode())
    return found


def test_both_are_begun_before_a_file_is_placed(tmp_path: Path) -> None:
    seen: list[tuple[bool, bool]] = []

    def at(step: str) -> None:
        if step == "staged" and armed:
            wait_until(lambda: begun(vault.root), "the next index is begun")
            wait_until(
                lambda: any("update-ref" in line for line in children()) or sys.platform != "linux", "a git waits"
            )
            seen.append(((vault.root / NOTE).exists(), vault.head() == before))

    armed: list[bool] = []
    with open_vault(tmp_path / "v", at=at) as vault:
        before = vault.head()
        armed.append(True)
        done = put(vault, (NOTE, b"1\n"))
        assert done is not None
        assert seen == [(False, True)], "nothing is changed yet"
        assert (
            git(vault.root, "reflog", "-1", "--format=%H %gs") == f"{done.commit} ormah (remember): remember: a thing"
        )
        assert (begun(vault.root), children()) == ([], [])
        sound(vault.root)


def test_a_save_in_the_last_moment_leaves_nothing_of_what_was_begun(tmp_path: Path) -> None:
    def at(step: str) -> None:
        if step == "staged" and armed:
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


def test_of_those_that_go_together_one_is_refused(tmp_path: Path) -> None:
    """The index that was begun has the refused one too: another is made, and the branch moves in the name of the last that went."""
    held = Held(tmp_path / "v")

    def step(name: str) -> None:
        if name == "staged" and held.go.is_set() and held.steps.count("staged") == 2:
            last = held.vault._writer._queue[-1].intent.steps[0].path
            (held.vault.root / last).parent.mkdir(exist_ok=True)
            (held.vault.root / last).write_bytes(b"a person's\n")
            refused.append(last)

    refused: list[str] = []
    held.more = step
    with held.vault as vault:
        held.run()
        (number,) = held.errors
        assert refused == [f"s{number}/{number}.md"]
        assert isinstance(held.errors[number], Conflict)
        assert f"remember: {number}" not in subjects(vault.root)
        assert git(vault.root, "ls-files", refused[0]) == ""
        last = subjects(vault.root)[-1]
        assert git(vault.root, "reflog", "-1", "--format=%gs") == f"ormah (remember): {last}"
        assert (begun(vault.root), children()) == ([], [])
        (vault.root / refused[0]).unlink()
        sound(vault.root)


def test_a_git_that_does_not_start_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_vault(tmp_path / "v") as vault:
        put(vault, (NOTE, b"1\n"))
        head = vault.head()

        def none(*_: object, **__: object) -> subprocess.Popen[bytes]:
            raise OSError(11, "Resource temporarily unavailable")

        with monkeypatch.context() as patched:
            patched.setattr(type(vault.git), "start", none)
            with pytest.raises(Unavailable, match="nothing was changed"):
                put(vault, (NOTE, b"2\n"))
        assert vault.head() == head
        assert vault.read(NOTE) == b"1\n"
        assert put(vault, (NOTE, b"2\n")) is not None
        sound(vault.root)


def test_a_fault_of_ours_in_what_was_begun_leaves_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(*_: object, **__: object) -> None:
        raise RuntimeError("a fault of ours")

    with open_vault(tmp_path / "v") as vault:
        put(vault, (NOTE, b"1\n"))
        with monkeypatch.context() as patched:
            patched.setattr(vault._writer._applier._ahead._builder, "build", fault)
            with pytest.raises(RuntimeError, match="a fault of ours"):
                put(vault, (NOTE, b"2\n"))
        assert not (vault.root / ".git/index.lock").exists()
        assert (begun(vault.root), children()) == ([], [])
        assert vault.read(NOTE) == b"1\n"
        assert put(vault, (NOTE, b"3\n")) is not None
        sound(vault.root)


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
