"""One daemon for one vault."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from ormahd.errors import Unavailable
from ormahd.process import disk
from tests.vault.git_house import children, git, open_vault, put


def test_a_second_open_is_refused_and_names_the_holder(tmp_path: Path) -> None:
    with open_vault(tmp_path / "v") as first:
        with pytest.raises(Unavailable, match=f"process {os.getpid()}") as caught:
            open_vault(tmp_path / "v")
        assert caught.value.data["pid"] == os.getpid()
        put(first, ("a.md", b"a"))
    with open_vault(tmp_path / "v") as second:
        assert second.read("a.md") == b"a"
    assert "lock" not in git(tmp_path / "v", "status", "--porcelain", "--ignored=no", "--untracked-files=all")


def test_the_same_folder_under_another_name_is_the_same_vault(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "v")
    with open_vault(tmp_path / "v"), pytest.raises(Unavailable):
        open_vault(tmp_path / "link")


def test_a_killed_holder_holds_nothing(tmp_path: Path) -> None:
    open_vault(tmp_path / "v").close()
    child = os.fork()
    if child == 0:
        open_vault(tmp_path / "v")
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    open_vault(tmp_path / "v").close()


def test_a_failed_open_holds_nothing(tmp_path: Path) -> None:
    open_vault(tmp_path / "v").close()
    card = tmp_path / "v/.ormah/vault.toml"
    text = card.read_bytes()
    card.write_bytes(b"damaged")
    with pytest.raises(Unavailable):
        open_vault(tmp_path / "v")
    card.write_bytes(text)
    open_vault(tmp_path / "v").close()


def test_close_leaves_no_child_no_thread_and_no_descriptor(tmp_path: Path) -> None:
    import threading

    open_vault(tmp_path / "v").close()
    before = set(os.listdir("/proc/self/fd")), set(threading.enumerate()), children()
    vault = open_vault(tmp_path / "v")
    put(vault, ("a.md", b"a"), ("b.md", b"b"))
    vault.committed("a.md")
    vault.close()
    vault.close()
    after = set(os.listdir("/proc/self/fd")), set(threading.enumerate()), children()
    assert all(now <= then for now, then in zip(after, before, strict=True)), (before, after)
    with pytest.raises(Unavailable, match="closed"):
        put(vault, ("c.md", b"c"))


def test_a_lock_that_was_removed_is_taken_again_and_nobody_else_gets_in(tmp_path: Path) -> None:
    root = tmp_path / "v"
    with open_vault(root) as first:
        put(first, ("a.md", b"a"))
        (root / ".ormah/lock").unlink()
        with pytest.raises(Unavailable, match="in use by process"):
            open_vault(root)
        put(first, ("b.md", b"b"))
        with pytest.raises(Unavailable, match=f"process {os.getpid()}"):
            open_vault(root)
        put(first, ("c.md", b"c"))
    open_vault(root).close()


def test_who_cleans_the_folder_keeps_out_nobody(tmp_path: Path) -> None:
    root = tmp_path / "v"
    with open_vault(root) as first:
        put(first, ("a.md", b"a"))
        git(root, "clean", "-fdxq")
        assert not (root / ".ormah/lock").exists()
        put(first, ("b.md", b"b"))
        assert (root / ".ormah/lock").read_text().strip() == str(os.getpid())
        assert git(root, "status", "--porcelain") == ""


@pytest.mark.parametrize("what", ["folder", "pipe", "link"])
def test_what_is_no_file_is_moved_out_of_the_locks_way(tmp_path: Path, what: str) -> None:
    root = tmp_path / "v"
    open_vault(root).close()
    lock = root / ".ormah/lock"
    lock.unlink()
    if what == "folder":
        (lock / "inside").mkdir(parents=True)
    elif what == "pipe":
        os.mkfifo(lock)
    else:
        lock.symlink_to("/dev/zero")
    with open_vault(root):
        assert lock.read_text().strip() == str(os.getpid())
        assert disk.findings(root)[0][0] == ".ormah/lock was no file, and was set aside"
    assert os.path.lexists(root / ".ormah/conflicts/damaged/lock.1")
