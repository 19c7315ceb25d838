"""Another git program holds the vault: a write waits for a while, and is then refused. Nothing is stored for later."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path

import pytest

from ormahd.errors import VaultBusy
from tests.house import wait_until
from tests.vault.git_house import git, open_vault, put, sound

A, B = "global/fact/2026-11/a.md", "global/fact/2026-11/b.md"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    with open_vault(tmp_path / "vault") as vault:
        put(vault, (A, b"1\n"))
    return tmp_path / "vault"


def conflicting(root: Path, command: str) -> None:
    """Leave an unfinished operation of the person behind."""
    git(root, "switch", "-q", "-c", "other")
    (root / "x.txt").write_text("theirs\n")
    git(root, "add", "x.txt")
    git(root, "commit", "-qm", "x")
    git(root, "switch", "-q", "main")
    (root / "x.txt").write_text("ours\n")
    git(root, "add", "x.txt")
    git(root, "commit", "-qm", "y")
    if command == "bisect":
        git(root, "bisect", "start", "HEAD", "HEAD~1")
    elif command == "am":
        patch = git(root, "format-patch", "-1", "--stdout", "other")
        git(root, "am", ok=False, stdin=patch + "\n")
    elif command == "revert":
        git(root, "commit", "-q", "--allow-empty", "-m", "z")
        (root / "x.txt").write_text("again\n")
        git(root, "commit", "-qam", "w")
        git(root, "revert", "--no-edit", "HEAD~2", ok=False)
    else:
        git(root, command, "other", ok=False)


@pytest.mark.parametrize("command", ["merge", "rebase", "cherry-pick", "revert", "am", "bisect"])
def test_while_the_persons_work_is_unfinished_nothing_is_written(root: Path, command: str) -> None:
    conflicting(root, command)
    before = git(root, "status", "--porcelain")
    with open_vault(root) as vault:
        with pytest.raises(VaultBusy, match=r"is under way; nothing was changed"):
            put(vault, (A, b"2\n"))
        assert git(root, "status", "--porcelain") == before
        assert (root / A).read_bytes() == b"1\n"
        git(root, *(["bisect", "reset"] if command == "bisect" else [command, "--abort"]))
        assert put(vault, (A, b"2\n")) is not None
    sound(root)


@pytest.mark.parametrize("name", ["index.lock", "HEAD.lock", "refs/heads/main.lock", "packed-refs.lock"])
def test_a_lock_of_another_program_is_respected(root: Path, name: str) -> None:
    lock = root / ".git" / name
    with open_vault(root) as vault:
        lock.touch()
        with pytest.raises(VaultBusy, match=lock.name):
            put(vault, (A, b"2\n"), (B, b"1\n"))
        assert lock.exists()
        assert (root / A).read_bytes() == b"1\n"
        assert not (root / B).exists()
        assert not list((root / ".ormah/tmp").iterdir())
        lock.unlink()
        assert put(vault, (A, b"2\n")) is not None
    sound(root)


def test_a_short_hold_is_waited_for(root: Path) -> None:
    with open_vault(root, wait=60.0) as vault:
        lock = root / ".git/index.lock"
        lock.touch()
        writing = threading.Thread(target=lambda: put(vault, (A, b"2\n")))
        writing.start()
        lock.unlink()
        writing.join(60)
        assert vault.committed(A) == b"2\n"
    sound(root)


def test_a_ref_locked_in_the_last_moment_takes_everything_back(root: Path) -> None:
    lock = root / ".git/refs/heads/main.lock"
    armed = [True]
    with open_vault(root, at=lambda step: lock.touch() if step == "moving" and armed else None) as vault:
        before = git(root, "rev-parse", "HEAD")
        with pytest.raises(VaultBusy):
            put(vault, (A, b"2\n"), (B, b"1\n"))
        assert (root / A).read_bytes() == b"1\n"
        assert not (root / B).exists()
        assert git(root, "rev-parse", "HEAD") == before
        armed.clear()
        lock.unlink()
        assert put(vault, (B, b"1\n")) is not None
    sound(root)


def test_a_git_that_waits_for_its_editor_keeps_its_lock(root: Path, tmp_path: Path) -> None:
    """`git commit -a` holds index.lock, closed, while the person writes the message, for as long as that takes."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    (root / A).write_bytes(b"the person's\n")
    person = subprocess.Popen(["git", "commit", "-qa"], cwd=root, env={**os.environ, "GIT_EDITOR": f"cat {fifo} >"})
    try:
        wait_until((root / ".git/index.lock").exists, "git holds its lock")
        with open_vault(root) as vault:
            with pytest.raises(VaultBusy):
                put(vault, (B, b"b\n"))
            fifo.write_text("the person's words\n")
            assert person.wait(120) == 0
            assert put(vault, (B, b"b\n")) is not None
            assert git(root, "log", "-2", "--format=%s").split("\n") == ["remember: a thing", "the person's words"]
            assert vault.committed(A) == b"the person's\n"
    finally:
        person.kill()
        person.wait()
    sound(root)
