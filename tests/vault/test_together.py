"""Ops that wait together: promised, committed and told in one go, each with a commit of its own; one at fault harms no other."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from ormahd.errors import Unavailable, VaultBusy
from ormahd.git import message
from ormahd.model.change import Committed
from ormahd.vault import company
from ormahd.vault.intents import decode
from ormahd.vault.vault import Vault
from tests.house import wait_until
from tests.vault.git_house import batch, git, open_vault, put, sound

OTHERS = 6


class Held:
    """A vault whose first op is held up, with the lock taken, until `OTHERS` more wait behind it."""

    def __init__(self, root: Path, *, wait: float = 60.0, at: Callable[[str], None] = lambda _: None) -> None:
        self.steps: list[str] = []
        self.go = threading.Event()
        self.locked = threading.Event()
        self.more = at
        self.told: list[list[Committed]] = []
        self.errors: dict[int, BaseException] = {}
        self.vault = open_vault(root, wait=wait, at=self.at)
        self.vault.listen(lambda some: self.told.append(list(some)))
        self.steps.clear()
        self.first = threading.Thread(target=self.work, args=(0,))
        self.others = [threading.Thread(target=self.work, args=(number,)) for number in range(1, OTHERS + 1)]
        self.held = True

    def at(self, step: str) -> None:
        self.steps.append(step)
        if step == "locked" and getattr(self, "held", False) and threading.current_thread() is self.first:
            self.locked.set()
            assert self.go.wait(120)
        self.more(step)

    def work(self, number: int) -> None:
        try:
            put(self.vault, (f"s{number}/{number}.md", b"%d\n" % number), subject=f"remember: {number}")
        except BaseException as exc:  # noqa: BLE001 - handed to the test's thread
            self.errors[number] = exc

    def run(self, before: Callable[[Vault], None] = lambda _: None) -> None:
        self.first.start()
        assert self.locked.wait(120)
        for thread in self.others:
            thread.start()
        wait_until(lambda: self.vault.waiting == OTHERS + 1, "all wait", 120)
        before(self.vault)
        self.go.set()
        for thread in (self.first, *self.others):
            thread.join(120)


def subjects(root: Path) -> list[str]:
    return git(root, "log", "--reverse", "--format=%s").splitlines()[1:]


def test_those_that_wait_go_together_and_each_has_its_commit(tmp_path: Path) -> None:
    held = Held(tmp_path / "v")
    with held.vault as vault:
        held.run()
        assert held.errors == {}
        assert [len(some) for some in held.told] == [1, OTHERS]
        assert held.steps.count("promised") == 2
        assert held.steps.count("locked") == 2
        made = [one for some in held.told for one in some]
        assert [one.commit for one in made][:-1] == [one.parent for one in made][1:]
        assert sorted(subjects(vault.root)) == sorted(f"remember: {number}" for number in range(OTHERS + 1))
        ops = [message.parse(row.decode()).trailer("Ormah-Op") for row in vault.git.log("--reverse", "--format=%B")][1:]
        assert ops == [one.op for one in made]
        for number in range(OTHERS + 1):
            assert vault.committed(f"s{number}/{number}.md") == b"%d\n" % number
        sound(vault.root)


def test_who_leads_waits_for_those_who_have_said_that_they_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(company, "COMPANY_S", 60.0)
    told: list[int] = []
    all_there = threading.Barrier(3)

    def remember(vault: Vault, number: int) -> None:
        with vault.announced():
            all_there.wait(120)
            if number:
                wait_until(lambda: vault.waiting > 0 or told != [], "the first is ready", 120)
            put(vault, (f"{number}.md", b"%d\n" % number), subject=f"remember: {number}")

    with open_vault(tmp_path / "v") as vault:
        vault.listen(lambda some: told.append(len(some)))
        threads = [threading.Thread(target=remember, args=(vault, number)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
            assert not thread.is_alive()
        assert sorted(subjects(vault.root)) == [f"remember: {number}" for number in range(3)]
        assert len(told) <= 2, "the first went alone"
        assert told[0] >= 2
        sound(vault.root)


def test_one_that_cannot_be_promised_harms_no_other(tmp_path: Path) -> None:
    held = Held(tmp_path / "v")

    def spoil(vault: Vault) -> None:
        waiting = [queued.intent.op for queued in vault._writer._queue]
        folder = vault.root / ".ormah" / "intent"
        for name in (f"{waiting[3]}.json", *(f"{op}.together.json" for op in waiting)):
            (folder / f".{name}.part").mkdir(parents=True)

    with held.vault as vault:
        held.run(spoil)
        ((number, error),) = held.errors.items()
        assert isinstance(error, Unavailable)
        assert "nothing was changed" in str(error)
        assert f"remember: {number}" not in subjects(vault.root)
        assert len(subjects(vault.root)) == OTHERS
        assert vault.read(f"s{number}/{number}.md") is None
        for folder in (vault.root / ".ormah" / "intent").iterdir():
            folder.rmdir()
        sound(vault.root)


def test_those_that_are_told_to_wait_are_promised(tmp_path: Path) -> None:
    """The writer is stuck behind somebody's git: what an agent is told to be stored is on the disk, and comes about."""
    root = tmp_path / "v"
    held = Held(root, wait=0.2)
    held.first.start()
    assert held.locked.wait(120)
    for thread in held.others:
        thread.start()
    wait_until(lambda: held.vault.waiting == OTHERS + 1, "all wait", 120)
    lock = root / ".git" / "HEAD.lock"
    lock.touch()  # the branch cannot be moved
    held.go.set()
    for thread in (held.first, *held.others):
        thread.join(120)
    assert {type(error) for error in held.errors.values()} == {VaultBusy}
    promised = [
        intent.op for file in (root / ".ormah" / "intent").glob("*.json") for intent in decode(file.read_bytes())
    ]
    assert len(set(promised)) == len(promised) == len(held.errors) == OTHERS + 1
    held.vault.close()
    lock.unlink()
    with open_vault(root) as vault:
        assert sorted(subjects(root)) == sorted(f"remember: {number}" for number in range(OTHERS + 1))
        assert vault.waiting == 0
        sound(root)


def test_many_small_packs_become_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ormahd.git import tidy

    with open_vault(tmp_path / "v") as vault:
        for turn in range(4):
            batch(vault, turn)
        assert tidy.packs(vault.git) == 4
        assert not vault.tidy()
        monkeypatch.setattr(tidy, "PACKS", 3)
        assert vault.tidy()
        assert tidy.packs(vault.git) == 1
        assert vault.committed("t2/7.md") == b"2 7\n"
        sound(vault.root)
