"""Replacing a file: a save in the last millisecond is not lost."""

from __future__ import annotations

import os
import stat
from multiprocessing import Pipe, Process
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from ormahd.errors import Unavailable
from ormahd.process import disk
from ormahd.vault import worktree
from ormahd.vault.worktree import STAGING, Displaced, Worktree, Write
from ormahd.watch.reading import state_of
from tests.vault.git_house import sha


@pytest.fixture(params=["exchange", "no exchange"])
def tree(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Worktree:
    if request.param == "no exchange":
        monkeypatch.setattr(disk, "_rename2", None)  # as on a file system or system without it
    (tmp_path / STAGING).mkdir(parents=True)
    return Worktree(tmp_path)


def ready(tree: Worktree, path: str, data: bytes | None) -> Write:
    write = Write(path, sha(tree.read(path)), data)
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
    tree.drop(write)
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

    monkeypatch.setattr(worktree, "rename2", late)
    with pytest.raises(Displaced):
        tree.place(write)
    tree.drop(write)
    assert tree.read("a.md") == b"theirs"
    assert staged(tree) == []


def test_a_new_file_never_replaces(tree: Worktree) -> None:
    write = ready(tree, "a.md", b"ours")
    save(tree, "a.md", b"theirs")
    with pytest.raises(Displaced):
        tree.place(write)
    tree.drop(write)
    assert tree.read("a.md") == b"theirs"
    assert staged(tree) == []


@pytest.mark.parametrize(("old", "new"), [(None, b"2"), (b"1", b"2"), (b"1", None)])
def test_a_write_that_is_dropped_leaves_nothing(tree: Worktree, old: bytes | None, new: bytes | None) -> None:
    if old is not None:
        (tree.root / "d").mkdir()
        save(tree, "d/a.md", old)
    write = Write("d/a.md", sha(old), new)
    tree.check(write)
    tree.stage(write)
    tree.drop(write)
    assert tree.read("d/a.md") == old
    assert (tree.root / "d").exists() == (old is not None)
    assert staged(tree) == []


@pytest.mark.parametrize(
    ("there", "old", "new"), [(b"theirs", b"1", b"2"), (b"theirs", None, b"2"), (None, b"1", None)]
)
def test_a_file_that_is_not_the_expected_version_is_seen_before_anything_is_written(
    tree: Worktree, there: bytes | None, old: bytes | None, new: bytes | None
) -> None:
    if there is not None:
        save(tree, "a.md", there)
    with pytest.raises(Displaced) as caught:
        tree.check(Write("a.md", sha(old), new))
    assert caught.value.found == there
    tree.check(Write("a.md", sha(there), new))


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


def test_nothing_at_all_is_told_from_what_is_in_the_way(tree: Worktree) -> None:
    save(tree, "a.md", b"1")
    (tree.root / "link").symlink_to("nowhere")
    assert [tree.is_absent(path) for path in ("a.md", "b.md", "no/folder.md", "link", "a.md/below.md")] == [
        False, True, True, False, False,
    ]  # fmt: skip


def test_a_vault_that_is_gone_has_nothing_absent(tmp_path: Path) -> None:
    tree = Worktree(tmp_path / "gone")
    assert not tree.is_absent("a.md")
    with pytest.raises(Unavailable, match="is gone"):
        tree.read("a.md")


def test_many_twins_through_one_open_folder(tree: Worktree) -> None:
    writes = [Write(f"space/{number}.md", None, b"%d" % number) for number in range(20)]
    before = len(os.listdir("/dev/fd"))
    with tree.held():
        for write in writes:
            tree.stage(write)
        assert len(staged(tree)) == 20
        for write in writes:
            tree.place(write)
            assert tree.finish(write) is None
    assert len(os.listdir("/dev/fd")) == before
    assert staged(tree) == []
    assert [tree.read(write.path) for write in writes] == [write.data for write in writes]


def test_a_placed_file_has_the_stat_of_its_twin(tree: Worktree) -> None:
    save(tree, "a.md", b"1")
    for path in ("a.md", "new.md"):
        write = ready(tree, path, b"22")
        tree.place(write)
        found = (tree.root / path).stat()
        assert write.stat == (2, found.st_mtime_ns, found.st_ino)
        given = write.stat
        assert state_of(tree.root, path, b"22", given) == state_of(tree.root, path, b"22")
        tree.finish(write)
        save(tree, path, b"33")
        assert state_of(tree.root, path, b"22", given) is None, "somebody saved over it"


def test_where_the_same_stood_already_its_stat_is_not_taken_for_ours(tree: Worktree) -> None:
    write = ready(tree, "a.md", b"1")
    save(tree, "a.md", b"1")
    tree.place(write)
    assert write.stat is None
    assert tree.finish(write) is None
    assert staged(tree) == []


def _save_thrice_a_round(root: str, rounds: Connection) -> None:
    saves = 0
    while rounds.recv():
        for _ in range(3):
            saves += 1
            (Path(root) / "temporary").write_bytes(b"save %d" % saves)
            os.replace(Path(root) / "temporary", Path(root) / "a.md")
        rounds.send(b"save %d" % saves)


@pytest.mark.soak
def test_the_newest_of_several_saves_during_a_write_stays(tmp_path: Path) -> None:
    """A save comes between reading a file and replacing it, and another one while the first is put back."""
    (tmp_path / STAGING).mkdir(parents=True)
    (tmp_path / "a.md").write_bytes(b"before")
    tree = Worktree(tmp_path)
    ours, theirs = Pipe()
    editor = Process(target=_save_thrice_a_round, args=(str(tmp_path), theirs))
    editor.start()
    for _ in range(10_000):
        ours.send(True)
        followed: set[bytes | None] = set()
        while not ours.poll():
            seen = tree.read("a.md")
            write = Write("a.md", sha(seen), b"the daemon's")
            tree.stage(write)
            try:
                tree.place(write)
                followed |= {seen, tree.finish(write)}
            except Displaced:
                tree.drop(write)
        newest = ours.recv()
        assert newest in followed | {tree.read("a.md")}
    ours.send(False)
    editor.join()
