"""Refs in tables (git 3's default): a vault of our own, a person's repository, and git typed by hand in them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ormahd.errors import Conflict, VaultBusy
from ormahd.purge.purge import check_place
from ormahd.watch.watcher import Watcher
from tests import newer_git
from tests.vault.git_house import git, open_vault, put, remove, sound
from tests.vault.observed import House
from tests.vault.sync_house import FILES, two_machines

A, B = "global/fact/2026-11/a.md", "global/fact/2026-11/b.md"


@pytest.fixture(autouse=True)
def reftable(git_config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = newer_git.find()
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    with git_config.open("a") as file:
        file.write("\tdefaultRefFormat = reftable\n")


def format_of(root: Path) -> str:
    return git(root, "rev-parse", "--show-ref-format")


def test_a_vault_of_our_own(tmp_path: Path) -> None:
    root = tmp_path / "vault"
    with open_vault(root) as vault:
        assert format_of(root) == "reftable"
        assert vault.git.branch() == "refs/heads/main"
        done = put(vault, (A, b"1\n"), (B, b"2\n"))
        assert done is not None
        assert git(root, "rev-parse", "HEAD") == done.commit == vault.head()
        remove(vault, B)
        assert git(root, "reflog", "-1", "--format=%gs").startswith("ormah (forget)")
        sound(root)
    with open_vault(root) as vault:
        assert vault.read(A) == b"1\n"
        assert vault.notices() == []
    sound(root)


def test_a_repository_of_a_person(tmp_path: Path) -> None:
    root = tmp_path / "theirs"
    root.mkdir()
    git(root, "init", "-q", "-b", "work")
    for name in ("staged.txt", "unstaged.txt"):
        (root / name).write_text("1\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "theirs")
    (root / "staged.txt").write_text("2\n")
    git(root, "add", "staged.txt")
    (root / "unstaged.txt").write_text("2\n")
    with open_vault(root) as vault:
        put(vault, (A, b"1\n"))
        assert vault.git.branch() == "refs/heads/work"
    assert git(root, "status", "--porcelain") == "M  staged.txt\n M unstaged.txt"


def test_the_branch_is_the_one_that_a_person_went_to(tmp_path: Path) -> None:
    root = tmp_path / "vault"
    with open_vault(root) as vault:
        put(vault, (A, b"1\n"))
        git(root, "switch", "-q", "-c", "other")
        put(vault, (A, b"2\n"))
        assert vault.git.branch() == "refs/heads/other"
        assert git(root, "show", f"other:{A}") == "2"
        assert git(root, "show", f"main:{A}") == "1"
        git(root, "switch", "-q", "--detach")
        put(vault, (A, b"3\n"))
        assert vault.git.branch() is None
        assert "detached" in vault.notices()[0]
        git(root, "switch", "-q", "main")
        assert vault.notices() == []
    sound(root)


def test_a_cherry_pick_under_way_is_waited_for(tmp_path: Path) -> None:
    root = tmp_path / "vault"
    with open_vault(root) as vault:
        put(vault, (A, b"1\n"))
        git(root, "switch", "-q", "-c", "other")
        put(vault, (A, b"2\n"))
        git(root, "switch", "-q", "main")
        put(vault, (A, b"3\n"))
        git(root, "cherry-pick", "other", ok=False)
        assert vault.busy() == "a cherry-pick is under way"
        with pytest.raises(VaultBusy):
            put(vault, (B, b"1\n"))
        git(root, "cherry-pick", "--abort")
        assert vault.busy() is None
        vault.recover()
        assert vault.waiting == 0
    sound(root)


def test_a_lock_that_a_killed_git_of_ours_left_is_removed(tmp_path: Path) -> None:
    root = tmp_path / "vault"
    with open_vault(root) as vault:
        head = put(vault, (A, b"1\n"))
    assert head is not None
    lock = root / ".git/reftable/tables.list.lock"
    lock.write_bytes((root / ".git/reftable/tables.list").read_bytes())
    (root / ".ormah/intent/moving").write_text(head.commit)
    with open_vault(root) as vault:
        assert not lock.exists()
        put(vault, (A, b"2\n"))
    sound(root)


def test_what_happens_outside_is_brought_in(tmp_path: Path) -> None:
    house = House(tmp_path / "vault")
    house.settle()
    watcher = Watcher(house.vault, house.reconciler, house.settings)
    try:
        watcher.start()
        with house.vault.transaction("a", kind="remember", source="agent:x") as tx:  # type: ignore[arg-type]
            tx.put(A, b"before\n", node_id=None, expect=None)
        assert A in house.index.rows
        git(house.root, "revert", "--no-edit", "HEAD")
        house.index.wait(lambda index: A not in index.rows)
        house.index.wait(lambda index: index.head == git(house.root, "rev-parse", "HEAD"))
    finally:
        watcher.stop()
        house.close()


def test_two_machines_sync(tmp_path: Path) -> None:
    one, other = two_machines(tmp_path, FILES)
    try:
        assert format_of(one.root) == format_of(other.root) == "reftable"
        put(one.vault, (A, b"of one\n"))
        one.sync()
        other.sync()
        assert (other.root / A).read_bytes() == b"of one\n"
    finally:
        one.vault.close()
        other.vault.close()


def test_a_purge_is_refused_by_name(tmp_path: Path) -> None:
    with open_vault(tmp_path / "vault") as vault, pytest.raises(Conflict) as caught:
        check_place(vault)
    assert "extensions.refstorage" in caught.value.message
