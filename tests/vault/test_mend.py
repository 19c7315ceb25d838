"""What git cannot read of its own is mended from what it can, and said; nothing is thrown away, and nothing healthy is touched."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path

import pytest

from ormahd.errors import Unavailable, VaultBusy
from ormahd.process import disk
from tests.house import wait_until
from tests.vault.git_house import git, open_vault, put, remove, sha

A, B = "global/fact/2026-11/a.md", "global/fact/2026-11/b.md"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    with open_vault(tmp_path / "vault") as vault:
        put(vault, (A, b"1\n"))
        put(vault, (B, b"1\n"))
    return tmp_path / "vault"


def said(root: Path) -> list[str]:
    return [what for what, _ in disk.findings(root, root / ".git")]


@pytest.mark.parametrize("data", [b"", b"0" * 40 + b"\n", b"not an id\n", b"\0" * 41, None])
def test_a_branch_is_again_what_its_reflog_says(root: Path, data: bytes | None) -> None:
    head = git(root, "rev-parse", "HEAD")
    ref = root / ".git/refs/heads/main"
    with open_vault(root) as vault:
        ref.unlink()
        if data is not None:
            ref.write_bytes(data)
        assert vault.head() == head
        put(vault, (A, b"2\n"))
    assert git(root, "rev-parse", "HEAD~1") == head
    assert head[:12] in said(root)[0]
    kept = [path.read_bytes() for path in (root / ".git/ormah-damaged").glob("refs-heads-main.*")]
    assert kept == ([] if data is None else [data])
    assert git(root, "status", "--porcelain") == ""


def test_head_names_the_branch_again_that_it_was_on(root: Path) -> None:
    git(root, "switch", "-q", "-c", "other")
    with open_vault(root) as vault:
        put(vault, (A, b"2\n"))
    (root / ".git/HEAD").write_bytes(b"\x01\x02")
    with open_vault(root) as vault:
        assert vault.git.branch() == "refs/heads/other"
        put(vault, (A, b"3\n"))
    assert git(root, "show", f"other:{A}") == "3"
    assert git(root, "show", f"main:{A}") == "1"


def test_packed_refs_are_put_together_again(root: Path) -> None:
    git(root, "branch", "kept")
    git(root, "tag", "v1")
    git(root, "pack-refs", "--all")
    before = git(root, "for-each-ref")
    packed = root / ".git/packed-refs"
    packed.write_bytes(b"\xff\xfe garbage without end\n" + packed.read_bytes())
    with open_vault(root) as vault:
        put(vault, (A, b"2\n"))
        git(root, "update-ref", "refs/heads/main", "HEAD~1")
    assert git(root, "for-each-ref") == before


def test_a_configuration_that_git_cannot_read_is_made_anew(root: Path) -> None:
    config = root / ".git/config"
    config.write_bytes(b"[core\n\x00")
    with open_vault(root) as vault:
        put(vault, (A, b"2\n"))
        assert git(root, "status", "--porcelain") == ""
    assert (root / ".git/ormah-damaged/config.1").read_bytes() == b"[core\n\x00"
    assert "has to be set anew" in said(root)[0]


def test_a_fault_in_the_persons_own_configuration_is_not_the_repositorys(root: Path, git_config: Path) -> None:
    whole = (root / ".git/config").read_bytes()
    good = git_config.read_bytes()
    git_config.write_bytes(good + b"[core\n")
    with pytest.raises(Unavailable, match="bad config"):
        open_vault(root)
    assert (root / ".git/config").read_bytes() == whole
    assert said(root) == []
    git_config.write_bytes(good)
    open_vault(root).close()


def test_a_repository_of_long_ids_keeps_its_kind(tmp_path: Path) -> None:
    root = tmp_path / "vault"
    root.mkdir()
    git(root, "init", "-q", "--object-format=sha256")
    with open_vault(root) as vault:
        put(vault, (A, b"1\n"))
    for data in (b"", b"[core\n", None):
        config = root / ".git/config"
        config.unlink()
        if data is not None:
            config.write_bytes(data)
        with open_vault(root) as vault:
            put(vault, (A, sha(data).encode() if data is not None else b"none\n"))
            assert len(vault.head() or "") == 64
    assert git(root, "status", "--porcelain") == ""


def test_a_branch_that_never_had_a_commit_is_left(root: Path) -> None:
    head = git(root, "rev-parse", "HEAD")
    with open_vault(root) as vault:
        git(root, "checkout", "-q", "--orphan", "new")
        assert vault.head() is None
        assert vault.git.branch() == "refs/heads/new"
        git(root, "checkout", "-q", "main")
        assert vault.head() == head
    assert said(root) == []


def test_a_branch_that_a_person_removed_stays_away(root: Path) -> None:
    git(root, "branch", "gone")
    git(root, "branch", "-D", "gone")
    (root / ".git/refs/heads/main").write_bytes(b"")
    with open_vault(root) as vault:
        put(vault, (A, b"2\n"))
    assert git(root, "for-each-ref", "--format=%(refname)") == "refs/heads/main"


def test_a_lost_list_of_packs_hides_no_commit(root: Path) -> None:
    """Else the branch would be taken for broken, and go back to what its reflog had before."""
    git(root, "repack", "-q", "-d")
    git(root, "multi-pack-index", "write")
    head = git(root, "rev-parse", "HEAD")
    listed = root / ".git/objects/pack/multi-pack-index"
    listed.chmod(0o600)
    data = listed.read_bytes()
    listed.write_bytes(data[: len(data) // 3] + os.urandom(200) + data[len(data) // 3 + 200 :])
    with open_vault(root) as vault:
        assert vault.head() == head
        assert vault.committed(B) == b"1\n"
    assert not listed.exists()


def test_a_folder_without_its_git_is_no_part_of_the_repository_around_it(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    root = tmp_path / "vault"
    root.mkdir()
    git(root, "init", "-q")
    with open_vault(root) as vault:
        put(vault, (A, b"1\n"))
    os.rename(root / ".git/objects", tmp_path / "objects")
    with pytest.raises(Unavailable, match=r"git cannot read .*\.git"):
        open_vault(root)
    os.rename(tmp_path / "objects", root / ".git/objects")
    open_vault(root).close()


def test_a_promise_that_was_cleaned_away_is_promised_again(root: Path) -> None:
    with open_vault(root) as vault:
        lock = root / ".git/index.lock"
        lock.touch()
        with pytest.raises(VaultBusy):
            put(vault, (A, b"2\n"))
        for promise in (root / ".ormah/intent").glob("*.json"):
            promise.unlink()
        wait_until(lambda: list((root / ".ormah/intent").glob("*.json")), "the promise to be there again")
        assert vault.waiting == 1
    lock.unlink()
    with open_vault(root) as vault:
        assert vault.read(A) == b"2\n"
    assert git(root, "show", f"HEAD:{A}") == "2"


def test_forgetting_goes_on_too(root: Path) -> None:
    with open_vault(root) as vault:
        (root / ".git/index").write_bytes(b"")
        remove(vault, A)
    assert git(root, "ls-files", A, B) == B
    assert git(root, "status", "--porcelain") == ""


def test_whoever_waits_for_a_pipe_goes_on_once_it_is_set_aside(root: Path) -> None:
    """A git that was started just before, and opened it as a file of its own."""
    pipe = root / ".git/objects/pack/multi-pack-index"
    with open_vault(root) as vault:
        os.mkfifo(pipe)
        reading = subprocess.Popen(["sh", "-c", 'echo begun; exec cat "$0"', pipe], stdout=subprocess.PIPE)
        assert reading.stdout is not None
        assert reading.stdout.readline() == b"begun\n"
        with contextlib.suppress(subprocess.TimeoutExpired):
            reading.wait(0.2)  # it opens the pipe
        assert reading.poll() is None
        vault.git.look_out()
        assert reading.stdout.read() == b""
        assert reading.wait(120) == 0
        put(vault, (A, b"3\n"))
    assert "multi-pack-index" in said(root)[0]
