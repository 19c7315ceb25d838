"""The whole process group is killed at any instant, git's own children with it: no lock needs a hand, nothing is lost."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from ormahd.git import oplog
from tests.vault.git_house import git, open_vault, put, sound


@pytest.fixture(autouse=True)
def git_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gitconfig").write_text("[user]\n\tname = Ada Example\n\temail = ada@example.org\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


def write_for_ever(root: Path, log: Path, life: int) -> None:
    """One note after the other, each three times; a line in `log` for each that was acknowledged."""
    with open_vault(root) as vault, open(log, "a") as acknowledged:
        for turn in range(10_000):
            path = f"s/fact/{life}-{turn // 3}.md"
            put(vault, (path, f"{life} {turn}\n".encode()))
            acknowledged.write(f"{path} {life} {turn}\n")
            acknowledged.flush()


def kills(tmp_path: Path, count: int, seed: int) -> None:
    root, log = tmp_path / "v", tmp_path / "log"
    chance = random.Random(seed)
    open_vault(root).close()
    log.touch()
    for life in range(count):
        before = log.stat().st_size
        child = os.fork()
        if child == 0:
            os.setsid()
            try:
                write_for_ever(root, log, life)
            finally:
                os._exit(1)
        deadline = time.monotonic() + 120
        while log.stat().st_size == before and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(chance.random() * 0.08)
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        wanted = {}
        for line in log.read_text().splitlines():
            path, text = line.split(" ", 1)
            wanted[path] = text
        with open_vault(root, recover=False) as vault:
            said = vault.recover()
            for path, text in wanted.items():
                found = (vault.read(path) or b"").decode()
                # The one that was under way may be there too, unacknowledged.
                assert int(found.split()[1]) - int(text.split()[1]) in {0, 1}, (life, path, said)
                assert vault.committed(path) == found.encode(), (life, path, said)
            ops = [oplog.parse(record.decode()).trailer("Ormah-Op") for record in vault.git.log("--format=%B")]
            assert len(ops) == len(set(ops)), (life, said)
        sound(root)
    git(root, "fsck", "--strict", "--full", "--no-dangling")


def test_twelve_kills(tmp_path: Path) -> None:
    kills(tmp_path, 12, seed=1)


@pytest.mark.soak
def test_three_hundred_kills(tmp_path: Path) -> None:
    kills(tmp_path, 300, seed=2)
