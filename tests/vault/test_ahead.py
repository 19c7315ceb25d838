"""Commits whose objects are made beside the promise and the files: used where nothing changed meanwhile, else made anew."""

from __future__ import annotations

import errno
import time
from pathlib import Path

import pytest

from ormahd.errors import Unavailable, VaultBusy
from ormahd.git import pack as git_pack
from ormahd.vault.ahead import Made
from ormahd.vault.vault import Vault
from tests.house import wait_until
from tests.vault.git_house import git, open_vault, put, sound

MANY = [(f"space/{number}.md", b"%d\n" % number) for number in range(30)]


def begun(vault: Vault) -> Made:
    """What was begun of the batch that is being written, once it is durable."""
    ahead = vault._writer._applier._ahead
    assert ahead._begun is not None
    return ahead._begun[1]()


def objects(root: Path) -> set[str]:
    return {str(file) for file in (root / ".git" / "objects").rglob("*") if file.is_file()}


@pytest.mark.parametrize("files", [MANY[:1], MANY], ids=["loose", "a pack"])
def test_the_commit_that_was_begun_is_the_one_that_head_gets(tmp_path: Path, files: list[tuple[str, bytes]]) -> None:
    made: list[Made] = []

    def at(step: str) -> None:
        if step == "placed" and armed:
            made.append(begun(vault))

    armed: list[bool] = []
    with open_vault(tmp_path / "v", at=at) as vault:
        armed.append(True)
        done = put(vault, *files)
        assert done is not None
        assert [one.tip for one in made] == [done.commit]
        assert made[0].written is not None
        assert made[0].written.suffix == (".idx" if len(files) > 1 else "")
        sound(vault.root)


def test_a_commit_of_somebody_else_in_between_is_built_upon(tmp_path: Path) -> None:
    theirs: list[str] = []

    def at(step: str) -> None:
        if step == "promised" and armed:
            armed.clear()
            begun(vault)
            git(vault.root, "commit", "--allow-empty", "-m", "by hand")
            theirs.append(git(vault.root, "rev-parse", "HEAD").strip())

    armed: list[bool] = []
    with open_vault(tmp_path / "v", at=at) as vault:
        armed.append(True)
        done = put(vault, *MANY)
        assert done is not None
        assert done.parent == theirs[0]
        assert git(vault.root, "log", "-2", "--format=%s").splitlines()[1] == "by hand"
        sound(vault.root)


def test_objects_that_somebody_took_away_are_written_again(tmp_path: Path) -> None:
    """Nothing names them yet, so `git gc --prune=now` takes them for rubbish."""

    def at(step: str) -> None:
        if step == "placed" and armed:
            begun(vault)
            git(vault.root, "gc", "--prune=now", "--quiet")
            armed.append(len(list((vault.root / ".git/objects/pack").glob("*.pack"))))

    armed: list[int] = []
    with open_vault(tmp_path / "v", at=at) as vault:
        put(vault, ("a.md", b"1\n"))
        armed.append(0)
        done = put(vault, *MANY)
        assert armed[1:] == [1]  # what was there before
        armed.clear()
        assert done is not None
        assert vault.committed("space/7.md") == b"7\n"
        sound(vault.root)


def test_where_they_cannot_be_written_nothing_was_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_vault(tmp_path / "v") as vault:
        put(vault, ("a.md", b"1\n"))
        head, there = vault.head(), objects(vault.root)

        def full(path: Path, data: bytes) -> None:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))

        with monkeypatch.context() as patched:
            patched.setattr(git_pack, "_write", full)
            with pytest.raises(Unavailable, match="No space left on device; nothing was changed"):
                put(vault, *MANY)
        assert (vault.head(), objects(vault.root)) == (head, there)
        assert not (vault.root / "space").exists()
        assert not list((vault.root / ".ormah/intent").glob("*.json"))
        assert not list((vault.root / ".ormah/tmp").iterdir())
        assert put(vault, *MANY) is not None
        sound(vault.root)


def test_while_others_hold_git_each_look_leaves_nothing_behind(tmp_path: Path) -> None:
    with open_vault(tmp_path / "v", wait=0.2) as vault:
        put(vault, ("a.md", b"1\n"))
        lock = vault.root / ".git/HEAD.lock"
        lock.touch()
        with pytest.raises(VaultBusy):
            put(vault, ("b.md", b"2\n"))
        there = objects(vault.root)
        time.sleep(1.0)  # the drainer looks again and again
        assert objects(vault.root) == there
        lock.unlink()
        wait_until(lambda: vault.waiting == 0, "what was promised is written", 120)
        assert vault.committed("b.md") == b"2\n"
        sound(vault.root)
