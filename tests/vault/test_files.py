"""Replacing a file: a save in the last millisecond is not lost, and a half-done op can be taken back exactly."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from ormahd.vault import disk, files
from ormahd.vault.files import STAGING, Displaced, Worktree, Write
from tests.vault.git_house import sha


@pytest.fixture(params=["exchange", "no exchange"])
def tree(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Worktree:
    if request.param == "no exchange":
        monkeypatch.setattr(disk, "_rename2", None)  # as on a file system or system without it
    (tmp_path / STAGING).mkdir(parents=True)
    return Worktree(tmp_path)


def ready(tree: Worktree, path: str, data: bytes | None) -> Write:
    write = Write(path, sha(tree.read(path)), data, "op.0")
    tree.stage(write)
    return write


def staged(tree: Worktree) -> list[str]:
    return [path.name for path in (tree.root / STAGING).iterdir()]


def save(tree: Worktree, path: str, data: bytes) -> None:
    """As most editors do: a temporary file, renamed over the old one."""
    (tree.root / "temporary").write_bytes(data)
    os.replace(tree.root / "temporary", tree.root / path)


def test_new_replaced_removed(tree: Worktree) -> None:
    for data in (b"1", b"2", None):
        write = ready(tree, "a/b.md", data)
        tree.place(write)
        assert tree.read("a/b.md") == data
        assert tree.finish(write) is None
    assert not (tree.root / "a").exists()
    assert staged(tree) == []


@pytest.mark.parametrize("data", [b"ours", None])
def test_a_save_before_the_exchange_wins(tree: Worktree, data: bytes | None) -> None:
    save(tree, "a.md", b"1")
    write = ready(tree, "a.md", data)
    save(tree, "a.md", b"theirs")
    with pytest.raises(Displaced) as caught:
        tree.place(write)
    assert caught.value.found == b"theirs"
    tree.take_back(write)
    assert tree.read("a.md") == b"theirs"
    assert staged(tree) == []


def test_a_save_within_the_exchange_wins(tree: Worktree, monkeypatch: pytest.MonkeyPatch) -> None:
    """The person saves between our look and the kernel's exchange: what comes out is not what was expected."""
    save(tree, "a.md", b"1")
    write = ready(tree, "a.md", b"ours")
    real = disk.rename2
    saved: list[int] = []

    def late(*args: int | str, exchange: bool) -> bool:
        if not saved:
            saved.append(1)
            save(tree, "a.md", b"theirs")
        return real(*args, exchange=exchange)  # type: ignore[arg-type]

    monkeypatch.setattr(files, "rename2", late)
    with pytest.raises(Displaced):
        tree.place(write)
    tree.take_back(write)
    assert tree.read("a.md") == b"theirs"
    assert staged(tree) == []


def test_a_new_file_never_replaces(tree: Worktree) -> None:
    write = ready(tree, "a.md", b"ours")
    save(tree, "a.md", b"theirs")
    with pytest.raises(Displaced):
        tree.place(write)
    tree.take_back(write)
    assert tree.read("a.md") == b"theirs"
    assert staged(tree) == []


@pytest.mark.parametrize(("old", "new"), [(None, b"2"), (b"1", b"2"), (b"1", None)])
def test_taking_back(tree: Worktree, old: bytes | None, new: bytes | None) -> None:
    if old is not None:
        (tree.root / "d").mkdir()
        save(tree, "d/a.md", old)
    write = ready(tree, "d/a.md", new)
    tree.place(write)
    tree.take_back(write)
    assert tree.read("d/a.md") == old
    assert (tree.root / "d").exists() == (old is not None)
    assert staged(tree) == []


def test_taking_back_keeps_what_was_saved_over_ours(tree: Worktree) -> None:
    save(tree, "a.md", b"1")
    write = ready(tree, "a.md", b"2")
    tree.place(write)
    save(tree, "a.md", b"theirs")
    tree.take_back(write)
    assert tree.read("a.md") == b"theirs"
    assert staged(tree) == []


def test_a_write_into_the_displaced_file_is_found(tree: Worktree) -> None:
    save(tree, "a.md", b"1")
    with open(tree.root / "a.md", "r+b") as editor:
        write = ready(tree, "a.md", b"2")
        tree.place(write)
        editor.write(b"typed")
        editor.flush()
        late = tree.finish(write)
    # Without an exchange the second name may be a copy; then nothing can be seen.
    assert late == b"typed"
    assert tree.read("a.md") == b"2"


def test_modes_stay(tree: Worktree) -> None:
    save(tree, "a.md", b"1")
    (tree.root / "a.md").chmod(0o640)
    write = ready(tree, "a.md", b"2")
    tree.place(write)
    tree.finish(write)
    assert stat.S_IMODE((tree.root / "a.md").stat().st_mode) == 0o640
    new = ready(tree, "b.md", b"2")
    tree.place(new)
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE((tree.root / "b.md").stat().st_mode) == 0o666 & ~mask


def test_a_folder_on_another_file_system(tree: Worktree) -> None:
    """A folder of the vault that is mounted from elsewhere: the twin stands beside the file."""
    other = Path("/dev/shm")
    if not other.is_dir() or other.stat().st_dev == tree.root.stat().st_dev or os.getuid() != 0:
        pytest.skip("needs a second file system and the right to mount")
    (tree.root / "m").mkdir()
    if os.system(f"mount -t tmpfs none {tree.root}/m 2>/dev/null") != 0:
        pytest.skip("mounting is not allowed here")
    try:
        for data in (b"1", b"2", None):
            write = ready(tree, "m/a.md", data)
            tree.place(write)
            assert tree.read("m/a.md") == data
            assert tree.finish(write) is None
            write = ready(tree, "m/a.md", b"back")
            tree.place(write)
            tree.take_back(write)
            assert tree.read("m/a.md") == data
        assert os.listdir(tree.root / "m") == []
    finally:
        os.system(f"umount {tree.root}/m")
