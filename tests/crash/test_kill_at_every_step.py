"""`kill -9` at every step of a write: what was acknowledged is there afterwards, nothing is half there, nothing is left."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from ormahd.git import oplog
from ormahd.model.change import Kind
from ormahd.vault.vault import Vault
from tests.crash.strides import STRIDE, numbered
from tests.vault.git_house import git, open_vault, put, remove, sha, sound

KEEPER, LOSER, NEW = "s/fact/2026-11/keeper.md", "s/fact/2026-10/loser.md", "t/fact/2026-11/new.md"


@pytest.fixture(autouse=True)
def git_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gitconfig").write_text("[user]\n\tname = Ada Example\n\temail = ada@example.org\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


def scenario(vault: Vault, acknowledge: Callable[[str], None]) -> None:
    """An edit, a new note, a merge of two, a removal, and two promises that wait for git and are drained."""
    put(vault, (KEEPER, b"keeper 2\n"))
    acknowledge("edit")
    put(vault, (NEW, b"new\n"))
    acknowledge("new")
    with vault.transaction("merge: two became one", kind=Kind.MERGE, source="job:m") as tx:
        tx.put(KEEPER, b"keeper 3\n", node_id=None, expect=sha(b"keeper 2\n"))
        tx.remove(LOSER, node_id=None, expect=sha(b"loser\n"))
    acknowledge("merge")
    remove(vault, NEW)
    acknowledge("removal")


STATES = [
    {KEEPER: b"keeper 1\n", LOSER: b"loser\n", NEW: None},
    {KEEPER: b"keeper 2\n", LOSER: b"loser\n", NEW: None},
    {KEEPER: b"keeper 2\n", LOSER: b"loser\n", NEW: b"new\n"},
    {KEEPER: b"keeper 3\n", LOSER: None, NEW: b"new\n"},
    {KEEPER: b"keeper 3\n", LOSER: None, NEW: None},
]


def in_a_child(work: Callable[[], None]) -> int:
    """Run `work` in a forked process; its wait status."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:  # noqa: BLE001 - the child must end here, whatever happens
            import traceback

            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1]


def begin(root: Path) -> None:
    with open_vault(root) as vault:
        put(vault, (KEEPER, b"keeper 1\n"), (LOSER, b"loser\n"))


def steps_of(root: Path, work: Callable[[Vault, Callable[[str], None]], None]) -> list[str]:
    seen: list[str] = []
    with open_vault(root, at=seen.append) as vault:
        work(vault, lambda _: None)
    return seen


def killed_at(root: Path, number: int, log: Path) -> None:
    """The scenario in a child that kills itself at the step `number`; the log gets what was acknowledged."""
    count = 0

    def at(step: str) -> None:
        nonlocal count
        if count == number:
            os.kill(os.getpid(), signal.SIGKILL)
        count += 1

    def acknowledge(what: str) -> None:
        with open(log, "a") as file:
            file.write(what + "\n")

    status = in_a_child(lambda: scenario(open_vault(root, at=at), acknowledge))
    assert os.WIFSIGNALED(status)


@STRIDE
def test_every_step(tmp_path: Path, stride: int) -> None:
    begin(tmp_path / "dry")
    steps = steps_of(tmp_path / "dry", scenario)
    assert len(steps) > 40
    for number, step in numbered(steps, stride):
        root, log = tmp_path / f"v{number}", tmp_path / f"log{number}"
        begin(root)
        log.touch()
        killed_at(root, number, log)
        acknowledged = len(log.read_text().split())
        with open_vault(root, recover=False) as vault:
            said = vault.recover()
            state = {path: vault.read(path) for path in STATES[0]}
            here = f"killed at step {number} ({step}), {acknowledged} acknowledged: {said}"
            assert state in STATES[acknowledged : acknowledged + 2], here
            assert {path: vault.committed(path) for path in STATES[0]} == state, here
            ops = [oplog.parse(r.decode()).trailer("Ormah-Op") for r in vault.git.log("--format=%B")]
            assert len(ops) == len(set(ops)) == STATES.index(state) + 2, here
            assert vault.recover() == [], here
            put(vault, (NEW, b"and on\n"))
        sound(root)


@STRIDE
def test_a_persons_save_in_the_moment_of_the_crash_is_kept(tmp_path: Path, stride: int) -> None:
    """The person saves at each step, then the daemon dies: whatever the step, the save is not lost."""
    begin(tmp_path / "dry")

    def edit(vault: Vault, acknowledge: Callable[[str], None]) -> None:
        put(vault, (KEEPER, b"keeper 2\n"))

    steps = steps_of(tmp_path / "dry", edit)
    for number, step in numbered(steps, stride):
        root = tmp_path / f"v{number}"
        begin(root)
        count = 0

        def at(_: str, root: Path = root, number: int = number) -> None:
            nonlocal count
            if count == number:
                (root / "save").write_bytes(b"the person's\n")
                os.replace(root / "save", root / KEEPER)
                os.kill(os.getpid(), signal.SIGKILL)
            count += 1

        assert os.WIFSIGNALED(in_a_child(lambda root=root, at=at: edit(open_vault(root, at=at), lambda _: None)))
        with open_vault(root) as vault:
            texts = [vault.read(KEEPER)] + [
                path.read_bytes() for path in (root / ".ormah/conflicts").rglob("*") if path.is_file()
            ]
            assert any(text is not None and b"the person's\n" in text for text in texts), (number, step)
        git(root, "fsck", "--strict", "--no-dangling")


@STRIDE
def test_a_crash_while_the_vault_is_made(tmp_path: Path, stride: int) -> None:
    steps: list[str] = []
    open_vault(tmp_path / "dry", at=steps.append).close()
    for number, step in numbered(steps, stride):
        root = tmp_path / f"v{number}"
        count = 0

        def at(_: str, number: int = number) -> None:
            nonlocal count
            if count == number:
                os.kill(os.getpid(), signal.SIGKILL)
            count += 1

        assert os.WIFSIGNALED(in_a_child(lambda root=root, at=at: open_vault(root, at=at).close()))
        with open_vault(root) as vault:
            assert len([path for path in vault.tree() if "/person/" in path]) == 1, step
            assert git(root, "rev-list", "--count", "HEAD") == "1", step
        sound(root)
