"""The person's git at the same time as ours: commits between ours, HEAD that moves, an editor that has the file open."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from ormahd.vault.vault import Vault
from tests.vault.git_house import git, open_vault, put, sound

PLAIN = "staged.txt"
NOTE = "ormah/global/fact/2026-11/fact_x_12345678.md"


@pytest.fixture
def root(vault: Vault) -> Path:
    """A closed vault with a plain file of the person."""
    with_plain_file(vault)
    vault.close()
    return vault.root


def with_plain_file(vault: Vault) -> None:
    (vault.root / PLAIN).write_text("1\n")
    git(vault.root, "add", PLAIN)
    git(vault.root, "commit", "-qm", "a plain file")


def test_a_person_commits_all_the_while(vault: Vault) -> None:
    """The person's commits and ours take turns; none is lost, whoever comes between the other's check and swap."""
    with_plain_file(vault)
    root = vault.root
    stop = threading.Event()
    made: list[str] = []

    def person() -> None:
        while not stop.is_set():
            made.append(f"p{len(made)}")
            (root / "staged.txt").write_text(made[-1])
            for _ in range(200):
                try:
                    git(root, "commit", "-qam", made[-1])
                    break
                except AssertionError:
                    if git(root, "status", "--porcelain", "--untracked-files=no") == "":
                        break

    with open_vault_again(vault) as patient:
        thread = threading.Thread(target=person)
        thread.start()
        try:
            for turn in range(15):
                put(patient, (NOTE, b"%d\n" % turn))
        finally:
            stop.set()
            thread.join()
        subjects = git(root, "log", "--format=%s").split("\n")
        assert subjects.count("remember: a thing") == 15
        assert set(made) <= set(subjects)
    sound(root)


def open_vault_again(vault: Vault) -> Vault:
    vault.close()
    return open_vault(vault.root, wait=60.0)


def test_head_moves_between_build_and_swap(root: Path) -> None:
    raced = []

    def at(step: str) -> None:
        if step == "moving" and len(raced) < 3:
            raced.append(step)
            tree = git(root, "rev-parse", "HEAD^{tree}")
            commit = git(root, "commit-tree", "-p", "HEAD", "-m", f"raced {len(raced)}", tree)
            git(root, "update-ref", "HEAD", commit)

    with open_vault(root, at=at) as vault:
        done = put(vault, (NOTE, b"1\n"))
        assert done is not None
        subjects = git(root, "log", "--format=%s", "-4").split("\n")
        assert subjects == ["remember: a thing", "raced 3", "raced 2", "raced 1"]
    sound(root)


def test_a_revert_typed_right_after_our_commit(vault: Vault) -> None:
    put(vault, (NOTE, b"1\n"))
    put(vault, (NOTE, b"2\n"), ("ormah/y.md", b"y\n"))
    git(vault.root, "revert", "--no-edit", "HEAD")
    assert vault.read(NOTE) == b"1\n"
    assert vault.read("ormah/y.md") is None
    put(vault, (NOTE, b"3\n"))
    sound(vault.root)


def test_rebase_stash_and_switch_right_after_our_commit(vault: Vault) -> None:
    with_plain_file(vault)
    root = vault.root
    git(root, "branch", "side")
    put(vault, (NOTE, b"1\n"))
    git(root, "rebase", "-q", "--force-rebase", "HEAD~1")
    put(vault, (NOTE, b"2\n"))
    git(root, "switch", "-q", "side")
    assert vault.read(NOTE) is None
    put(vault, ("ormah/side.md", b"x\n"))
    git(root, "merge", "-q", "--no-edit", "main")
    (root / "staged.txt").write_text("2\n")
    put(vault, (NOTE, b"3\n"))
    git(root, "stash", "-q")
    put(vault, (NOTE, b"4\n"))
    git(root, "stash", "pop", "-q")
    assert git(root, "status", "--porcelain") == " M staged.txt"
    assert vault.read(NOTE) == b"4\n"


def test_an_edit_typed_into_the_open_file_while_we_replace_it(root: Path) -> None:
    """An editor that writes in place, through a descriptor that it opened before: its text is not lost."""
    (root / "ormah").mkdir()
    (root / "ormah/open.txt").write_bytes(b"1\n")
    with open(root / "ormah/open.txt", "r+b") as editor:

        def at(step: str) -> None:
            if step == "ref":
                editor.write(b"typed\n")
                editor.flush()

        with open_vault(root, at=at) as vault:
            put(vault, ("ormah/open.txt", b"ours\n"))
            assert vault.committed("ormah/open.txt") == b"ours\n"
            assert (root / "ormah/open.txt").read_bytes() == b"typed\n"
            assert git(root, "status", "--porcelain") == " M ormah/open.txt"
