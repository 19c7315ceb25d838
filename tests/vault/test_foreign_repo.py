"""A vault in somebody's repository: their staged, unstaged and untracked work is theirs, and their git goes on working."""

from __future__ import annotations

from pathlib import Path

import pytest

from ormahd.model.change import Kind
from ormahd.vault.vault import Vault
from tests import small_disk
from tests.vault.git_house import git, open_vault, put, remove, sound

NOTE = "ormah/global/fact/2026-11/fact_x_12345678.md"


def at_work(root: Path) -> str:
    (root / "staged.txt").write_text("2\n")
    (root / "both.txt").write_text("2\n")
    (root / "added.txt").write_text("2\n")
    git(root, "add", "staged.txt", "both.txt", "added.txt")
    git(root, "rm", "-q", "--cached", "docs/kept.txt")
    (root / "both.txt").write_text("3\n")
    (root / "unstaged.txt").write_text("2\n")
    (root / "untracked.txt").write_text("2\n")
    return git(root, "status", "--porcelain")


def test_their_work_survives_and_their_next_commit_is_only_theirs(vault: Vault) -> None:
    root = vault.root
    before = at_work(root)
    staged = git(root, "diff", "--cached")
    put(vault, (NOTE, b"1\n"))
    put(vault, (NOTE, b"2\n"))
    put(vault, ("ormah/y.md", b"y\n"))
    remove(vault, "ormah/y.md")
    assert git(root, "status", "--porcelain") == before
    assert git(root, "diff", "--cached") == staged
    git(root, "commit", "-qm", "theirs again")
    changed = git(root, "show", "--name-status", "--format=", "HEAD").split("\n")
    assert sorted(changed) == ["A\tadded.txt", "D\tdocs/kept.txt", "M\tboth.txt", "M\tstaged.txt"]
    assert vault.committed(NOTE) == b"2\n"
    assert git(root, "fsck", "--strict") == ""


def test_commit_all_by_the_person_finds_nothing_of_ours_to_commit(vault: Vault) -> None:
    put(vault, (NOTE, b"1\n"))
    (vault.root / "staged.txt").write_text("2\n")
    git(vault.root, "add", "-A")
    git(vault.root, "commit", "-qm", "all")
    assert git(vault.root, "show", "--name-only", "--format=", "HEAD") == "staged.txt"


def test_a_linked_worktree(theirs: Path, tmp_path: Path) -> None:
    git(theirs, "worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    with open_vault(tmp_path / "side") as vault:
        done = put(vault, (NOTE, b"1\n"))
        assert done is not None
        assert git(theirs, "rev-parse", "side") == done.commit
        assert git(theirs, "rev-parse", "work") != done.commit
    sound(tmp_path / "side")
    assert git(theirs, "status", "--porcelain") == ""


def test_packed_refs_and_objects(vault: Vault) -> None:
    put(vault, (NOTE, b"1\n"))
    git(vault.root, "gc", "-q")
    assert not (vault.root / ".git/refs/heads/work").exists()
    done = put(vault, (NOTE, b"2\n"))
    assert done is not None
    assert git(vault.root, "rev-parse", "work") == done.commit
    git(vault.root, "gc", "-q", "--prune=now")
    assert vault.committed(NOTE) == b"2\n"
    sound(vault.root)


def test_their_hooks_signing_and_line_endings_are_not_ours(theirs: Path) -> None:
    for hook in (
        "pre-commit",
        "commit-msg",
        "prepare-commit-msg",
        "post-commit",
        "reference-transaction",
        "post-index-change",
    ):
        (theirs / ".git/hooks" / hook).parent.mkdir(exist_ok=True)
        (theirs / ".git/hooks" / hook).write_text(f"#!/bin/sh\necho {hook} >> '{theirs}/ran'\nexit 1\n")
        (theirs / ".git/hooks" / hook).chmod(0o755)
    for key, value in {
        "commit.gpgsign": "true", "gpg.program": "/bin/false", "core.autocrlf": "true", "core.eol": "crlf",
        "core.hooksPath": str(theirs / ".git/hooks"),
        "core.fsmonitor": "false", "commit.template": "/nowhere", "core.ignorecase": "true",
    }.items():  # fmt: skip
        git(theirs, "config", key, value)
    with open_vault(theirs) as vault:
        put(vault, (NOTE, b"unix\n"), ("ormah/dos.md", b"dos\r\n"))
        assert vault.committed(NOTE) == b"unix\n"
        assert vault.committed("ormah/dos.md") == b"dos\r\n"
        assert (theirs / NOTE).read_bytes() == b"unix\n"
    assert not (theirs / "ran").exists()
    assert git(theirs, "status", "--porcelain", "--", "*.md") == ""


def test_the_callers_git_environment_does_not_lead_astray(
    theirs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    git(other, "commit", "-q", "--allow-empty", "-m", "other")
    head = git(other, "rev-parse", "HEAD")
    with monkeypatch.context() as astray:
        for key, value in {
            "GIT_DIR": str(other / ".git"), "GIT_WORK_TREE": str(other), "GIT_INDEX_FILE": str(tmp_path / "index"),
            "GIT_OBJECT_DIRECTORY": str(other / ".git/objects"), "GIT_NAMESPACE": "x", "GIT_AUTHOR_NAME": "Nobody",
            "GIT_COMMITTER_NAME": "Nobody", "GIT_PREFIX": "docs/", "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "user.name", "GIT_CONFIG_VALUE_0": "Nobody", "GIT_TRACE": str(tmp_path / "trace"),
        }.items():  # fmt: skip
            astray.setenv(key, value)
        with open_vault(theirs) as vault:
            done = put(vault, (NOTE, b"1\n"), person=True)
    assert done is not None
    assert git(other, "rev-parse", "HEAD") == head
    assert git(theirs, "log", "-1", "--format=%H %an %cn") == f"{done.commit} Ada Example Ada Example"
    assert not (tmp_path / "index").exists()
    sound(theirs)


def test_without_an_identity_the_daemon_commits_as_itself(theirs: Path, git_config: Path) -> None:
    git_config.write_text("")
    with open_vault(theirs) as vault:
        put(vault, (NOTE, b"1\n"), source="agent:claude-code")
        assert git(theirs, "log", "-1", "--format=%an <%ae>|%cn <%ce>") == (
            "agent:claude-code <ormahd@localhost>|ormahd <ormahd@localhost>"
        )
    git_config.write_text("[user]\n\tname = Ada <x>\n\temail = ada@example.org\n")
    with open_vault(theirs) as vault:
        put(vault, (NOTE, b"2\n"), source="<\n>")
        assert git(theirs, "log", "-1", "--format=%an|%cn") == "ormahd|Ada x"
    sound(theirs)


def test_a_detached_head_moves_itself_and_is_reported(vault: Vault) -> None:
    git(vault.root, "checkout", "-q", "--detach")
    branch = git(vault.root, "rev-parse", "work")
    done = put(vault, (NOTE, b"1\n"))
    assert done is not None
    assert (vault.head(), git(vault.root, "rev-parse", "work")) == (done.commit, branch)
    assert "detached" in vault.notices()[0]
    git(vault.root, "switch", "-q", "work")
    assert vault.read(NOTE) is None
    assert vault.notices() == []


def test_a_branch_without_commits(vault: Vault) -> None:
    git(vault.root, "switch", "-q", "--orphan", "empty")
    assert vault.head() is None
    assert vault.tree() == {}
    assert list(vault.git.log()) == []
    done = put(vault, (NOTE, b"1\n"))
    assert done is not None
    assert git(vault.root, "rev-list", "empty") == done.commit
    assert git(vault.root, "show", "--name-only", "--format=") == NOTE


def test_the_reflog_says_what_moved_the_branch(vault: Vault) -> None:
    put(vault, (NOTE, b"1\n"), subject="remember: x")
    assert git(vault.root, "reflog", "-1", "--format=%gs %gn") == "ormah (remember): remember: x Ada Example"


def test_a_submodule_or_a_link_in_their_tree_is_no_folder_of_ours(vault: Vault) -> None:
    from ormahd.errors import Conflict

    git(vault.root, "update-index", "--add", "--cacheinfo", f"160000,{vault.head()},sub")
    git(vault.root, "commit", "-qm", "sub")
    before = vault.head()
    with pytest.raises(Conflict):
        put(vault, ("sub/x.md", b"x"))
    assert vault.head() == before
    assert not (vault.root / "sub").exists()
    assert not list((vault.root / ".ormah/intent").iterdir())


def test_an_executable_note_stays_executable(vault: Vault) -> None:
    put(vault, (NOTE, b"1\n"))
    (vault.root / NOTE).chmod(0o755)
    git(vault.root, "commit", "-qam", "chmod")
    put(vault, (NOTE, b"2\n"), kind=Kind.UPDATE)
    assert git(vault.root, "ls-tree", "HEAD", NOTE).startswith("100755")
    sound(vault.root)


@pytest.mark.parametrize(
    "config",
    [
        ("core.splitIndex", "true"),
        ("index.version", "4"),
        ("core.untrackedCache", "true"),
        ("core.preloadIndex", "true"),
    ],
)
def test_indexes_of_other_kinds(theirs: Path, config: tuple[str, str]) -> None:
    git(theirs, "config", *config)
    git(theirs, "update-index", "--refresh")
    before = at_work(theirs)
    with open_vault(theirs) as vault:
        for turn in range(3):
            put(vault, (NOTE, b"%d\n" % turn), (f"ormah/{turn}.md", b"x"))
        remove(vault, "ormah/1.md")
    assert git(theirs, "status", "--porcelain") == before
    git(theirs, "commit", "-qm", "theirs")
    assert git(theirs, "ls-files", "ormah").count("\n") == git(theirs, "ls-tree", "-r", "HEAD", "ormah").count("\n")


def test_one_op_that_cannot_be_written_does_not_harm_the_others(vault: Vault) -> None:
    """A folder of the vault is a disk of its own, and full: its note is refused, those that went with it are not."""
    import os
    import threading

    from ormahd.errors import Unavailable

    small = vault.root / "ormah/small"
    small.mkdir(parents=True)
    if against := small_disk.mount(small, "size=16k"):
        pytest.skip(f"needs the right to mount: {against}")
    vault.close()
    try:
        with open_vault(vault.root, wait=60.0) as patient:
            refused: list[str] = []

            def work(path: str) -> None:
                try:
                    put(patient, (path, b"x" * (1_000_000 if "small" in path else 10)))
                except Unavailable as exc:
                    refused.append(f"{path}: {exc}")

            names = [f"ormah/{number}.md" for number in range(8)]
            threads = [threading.Thread(target=work, args=(name,)) for name in ["ormah/small/x.md", *names]]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            (why,) = refused
            assert why.startswith("ormah/small/x.md: the vault cannot be written: No space left")
            assert set(names) <= set(patient.tree())
            assert os.listdir(small) == []
            assert put(patient, ("ormah/small/y.md", b"small")) is not None
            assert remove(patient, "ormah/small/y.md") is not None
    finally:
        small_disk.unmount(small)
    sound(vault.root)
