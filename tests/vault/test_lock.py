"""One daemon for one vault."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from ormahd.errors import Unavailable
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
    before = set(os.listdir("/proc/self/fd")), threading.active_count(), children()
    vault = open_vault(tmp_path / "v")
    put(vault, ("a.md", b"a"), ("b.md", b"b"))
    vault.committed("a.md")
    vault.close()
    vault.close()
    assert (set(os.listdir("/proc/self/fd")), threading.active_count(), children()) == before
    with pytest.raises(Unavailable, match="closed"):
        put(vault, ("c.md", b"c"))
