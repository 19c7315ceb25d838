"""`kill -9` at every step of an adoption and of its undo: both commits or neither, and never other bytes of the person's."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from ormahd.model.change import Kind
from ormahd.vault.vault import Vault
from tests.crash.strides import STRIDE, numbered
from tests.crash.test_kill_at_every_step import git_config, in_a_child, steps_of
from tests.vault.git_house import git, open_vault, put, sha

__all__ = ["git_config"]

NEW, DIRTY, LIST = "Mine/New.md", "Mine/Dirty.md", ".ormah/released.jsonl"
THEIRS = {NEW: b"new\n", DIRTY: b"second\n"}
OURS = {path: b"---\nid: x\n---\n" + data for path, data in THEIRS.items()}


def begin(root: Path) -> None:
    """One file that git knows, with an edit that is not committed, and one that it does not."""
    with open_vault(root) as vault:
        put(vault, (DIRTY, b"first\n"))
    for path, data in THEIRS.items():
        (root / path).write_bytes(data)


def adopt(vault: Vault) -> None:
    with vault.transaction("Adopt", kind=Kind.ADOPT, source="person", person=True, first="Take in") as tx:
        for path, data in THEIRS.items():
            tx.put(path, OURS[path], node_id=None, expect=sha(data), first=data)


def release(vault: Vault) -> None:
    with vault.transaction("Undo", kind=Kind.UNDO, source="person", person=True, first="Take out") as tx:
        for path, data in THEIRS.items():
            held = b"first\n" if path == DIRTY else None
            tx.leave(path, data, node_id=None, expect=sha(OURS[path]), held=held, first=data)
        tx.put(LIST, b"{}\n", node_id=None, expect=sha(b""))


@STRIDE
@pytest.mark.parametrize("what", ["adopt", "release"])
def test_both_commits_or_neither(tmp_path: Path, what: str, stride: int) -> None:
    def prepare(root: Path) -> None:
        begin(root)
        if what == "release":
            with open_vault(root) as vault:
                adopt(vault)

    work = {"adopt": adopt, "release": release}[what]
    prepare(tmp_path / "dry")
    steps = steps_of(tmp_path / "dry", lambda vault, _: work(vault))
    for number, step in numbered(steps, stride):
        root = tmp_path / f"v{number}"
        prepare(root)
        before = git(root, "rev-list", "--count", "HEAD").strip()
        status = git(root, "status", "--porcelain")
        count = 0

        def at(_: str, number: int = number) -> None:
            nonlocal count
            if count == number:
                os.kill(os.getpid(), signal.SIGKILL)
            count += 1

        assert os.WIFSIGNALED(in_a_child(lambda root=root, at=at: work(open_vault(root, at=at))))
        here = f"killed at step {number} ({step})"
        with open_vault(root, recover=False) as vault:
            vault.recover()
            now = {path: vault.read(path) for path in THEIRS}
            assert vault.recover() == [], here
        commits = int(git(root, "rev-list", "--count", "HEAD")) - int(before)
        done, undone = (OURS, THEIRS) if what == "adopt" else (THEIRS, OURS)
        assert (commits, now) in ((2, done), (0, undone)), here
        found = git(root, "status", "--porcelain")
        if commits == 0:
            assert found == status, here
        else:
            assert found == ("" if what == "adopt" else " M Mine/Dirty.md\n?? Mine/New.md"), here
            first = {path: git(root, "show", f"HEAD^:{path}") for path in THEIRS}
            assert first == {path: data.decode().rstrip() for path, data in THEIRS.items()}, here
        git(root, "fsck", "--strict", "--no-dangling")
        assert [file.name for folder in ("tmp", "intent") for file in (root / ".ormah" / folder).iterdir()] == [], here
