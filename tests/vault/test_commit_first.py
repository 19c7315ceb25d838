"""Once the branch has moved an op is durable: files and index follow it, whatever a person does to the file in that moment."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from ormahd.errors import Conflict, Unavailable
from ormahd.process import disk
from ormahd.vault import worktree
from ormahd.vault.vault import Vault
from tests.crash.strides import die, dies
from tests.vault.git_house import git, open_vault, put, remove, sound

NOTE = "space/a.md"
OLD, NEW = b"one\n\nmiddle\n\nthree\n", b"one!\n\nmiddle\n\nthree\n"
CASES = {
    # name: the note before, as the op leaves it, as a person leaves it meanwhile, in the end (None: no file), as `git status` has it
    "nobody": (OLD, NEW, ..., NEW, ""),
    "nobody, new": (None, NEW, ..., NEW, ""),
    "nobody, removed": (OLD, None, ..., None, ""),
    "elsewhere in the text": (OLD, NEW, b"one\n\nmiddle\n\n3\n", b"one!\n\nmiddle\n\n3\n", " M"),
    "at the same place": (OLD, NEW, b"uno\n\nmiddle\n\nthree\n", b"uno\n\nmiddle\n\nthree\n", " M"),
    "the same": (OLD, NEW, NEW, NEW, ""),
    "deleted": (OLD, NEW, None, None, " D"),
    "saved, while it is removed": (OLD, None, b"kept\n", b"kept\n", "??"),
    "saved, while it is made": (None, NEW, b"mine\n", b"mine\n", " M"),
}
TABLE = pytest.mark.parametrize(("before", "op", "person", "after", "status"), CASES.values(), ids=list(CASES))


def leave(root: Path, data: object) -> None:
    """As most editors save: a temporary file, renamed over the old one. None: the file is deleted; ...: nothing is done."""
    if isinstance(data, bytes):
        (root / NOTE).parent.mkdir(exist_ok=True)
        (root / "save").write_bytes(data)
        os.replace(root / "save", root / NOTE)
    elif data is None:
        (root / NOTE).unlink()


def begin(root: Path, before: bytes | None) -> None:
    with open_vault(root) as vault:
        put(vault, ("space/other.md", b"other\n"), *([] if before is None else [(NOTE, before)]))


def write(vault: Vault, op: bytes | None) -> None:
    if op is None:
        remove(vault, NOTE)
    else:
        put(vault, (NOTE, op))


def followed(vault: Vault, op: bytes | None, after: bytes | None, status: str) -> None:
    assert vault.committed(NOTE) == op
    assert vault.read(NOTE) == after
    assert git(vault.root, "status", "--porcelain", "--untracked-files=all") == (f"{status} {NOTE}" if status else "")
    assert [path.name for path in (vault.root / ".ormah/tmp").iterdir()] == []
    assert not (vault.root / ".git/index.lock").exists()


@TABLE
def test_a_save_while_the_files_follow(
    tmp_path: Path, before: bytes | None, op: bytes | None, person: object, after: bytes | None, status: str
) -> None:
    begin(tmp_path / "v", before)
    with open_vault(tmp_path / "v", at=lambda step: leave(vault.root, person) if step == "ref" else None) as vault:
        write(vault, op)
        followed(vault, op, after, status)


@TABLE
@pytest.mark.parametrize("step", ["ref", "placed"])
def test_a_save_after_a_crash(
    tmp_path: Path, step: str, before: bytes | None, op: bytes | None, person: object, after: bytes | None, status: str
) -> None:
    """The daemon dies before the files follow, or before git's index does; then the person saves, then the daemon starts."""
    root = tmp_path / "v"
    begin(root, before)
    assert dies(lambda: write(open_vault(root, at=lambda met: die() if met == step else None), op))
    if step == "placed" and (person is None or after not in (op, person)):
        pytest.skip("what a person saves over the new version is an edit of it")
    leave(root, person)
    with open_vault(root) as vault:
        followed(vault, op, after, status)
        put(vault, ("space/more.md", b"and on\n"))
    git(root, "add", "-A")
    git(root, "commit", "-qm", "by hand", ok=False)
    sound(root)


@pytest.mark.parametrize("folder", [False, True])
@pytest.mark.parametrize("step", ["locked", "objects", "moving", "ref"])
def test_a_note_that_a_person_renames_meanwhile_is_written_where_it_is(tmp_path: Path, step: str, folder: bool) -> None:
    begin(tmp_path / "v", OLD)
    there = "mine/a.md" if folder else "space/my name.md"

    def at(met: str) -> None:
        if met == step and armed:
            armed.clear()
            (vault.root / ("space" if folder else NOTE)).rename(vault.root / ("mine" if folder else there))

    armed: list[bool] = []
    with open_vault(tmp_path / "v", at=at) as vault:
        armed.append(True)
        try:
            put(vault, (NOTE, NEW))
        except Conflict:
            assert step == "locked"
            assert vault.read(there) == OLD
        else:
            assert vault.committed(NOTE) == vault.read(there) == NEW
        assert not (vault.root / ".git/index.lock").exists()
        assert list((vault.root / ".ormah/tmp").iterdir()) == []


@pytest.mark.parametrize("before", [OLD, None])
def test_staged_files_that_are_deleted_meanwhile_are_made_again(tmp_path: Path, before: bytes | None) -> None:
    """As by `git clean -fdX`: the folder is ignored."""
    begin(tmp_path / "v", before)

    def at(met: str) -> None:
        if met == "ref":
            shutil.rmtree(vault.root / ".ormah/tmp")

    with open_vault(tmp_path / "v", at=at) as vault:
        put(vault, (NOTE, NEW))
        followed(vault, NEW, NEW, "")
    sound(tmp_path / "v")


@pytest.mark.parametrize("how", ["a folder", "a link", "a folder in tmp"])
def test_what_a_person_puts_in_the_place_of_a_note_blocks_nothing_after_a_crash(tmp_path: Path, how: str) -> None:
    root = tmp_path / "v"
    begin(root, OLD)
    assert dies(lambda: write(open_vault(root, at=lambda met: die() if met == "ref" else None), NEW))
    if how == "a folder in tmp":
        (root / ".ormah/tmp/theirs").mkdir()
    else:
        (root / NOTE).unlink()
        (root / NOTE).mkdir() if how == "a folder" else (root / NOTE).symlink_to("other.md")
    with open_vault(root) as vault:
        assert vault.committed(NOTE) == NEW
        put(vault, ("space/other.md", b"2\n"))
        assert not (root / ".git/index.lock").exists()
        assert list((root / ".ormah/tmp").iterdir()) == []


def test_a_file_that_cannot_be_written_is_named_and_the_next_writes_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(tmp_path / "v", OLD)

    def refuse(*_: object, **__: object) -> bool:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM), NOTE)

    with open_vault(tmp_path / "v") as vault:
        with monkeypatch.context() as patched:
            patched.setattr(worktree, "rename2", refuse)
            with pytest.raises(Unavailable, match=f"the change is committed, but {NOTE} cannot be written"):
                put(vault, (NOTE, NEW))
        assert (vault.committed(NOTE), vault.read(NOTE)) == (NEW, OLD)
        assert worktree.rename2 is disk.rename2
        put(vault, ("space/other.md", b"2\n"))
        followed(vault, NEW, OLD, " M")
