"""`kill -9` at every step of a join: it is whole or it is not there, and the next one brings what is missing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ormahd.sync.join import card_of
from ormahd.sync.setup import plan_setup
from ormahd.vault.conflicts import waiting
from ormahd.vault.create import find_card
from tests.crash.strides import STRIDE, killed_at, numbered, save
from tests.vault.git_house import git, open_vault, sound
from tests.vault.observed import uuid
from tests.vault.sync_house import A, B, C, Machine, note, two_machines

FILES = {"a.md": note("one\n\ntwo", A), "b.md": note("bees", B), "plain.txt": b"1\n2\n3\n"}


def there(one: Machine) -> None:
    """What the other machine did."""
    one.store({"a.md": note("one, theirs\n\ntwo!", A), "b.md": None, "new/c.md": note("new", C)})
    assert one.push()


def follow(tmp_path: Path) -> None:
    one, other = two_machines(tmp_path, FILES)
    there(one)
    other.fetch()
    one.vault.close()
    other.vault.close()


def merge(tmp_path: Path) -> None:
    one, other = two_machines(tmp_path, FILES)
    there(one)
    other.store({"a.md": note("one, ours\n\ntwo", A), "plain.txt": b"1\n2\n3!\n"})
    other.fetch()
    one.vault.close()
    other.vault.close()


def setup(tmp_path: Path) -> None:
    one, other = two_machines(tmp_path, FILES)
    there(one)
    one.vault.close()
    other.vault.close()
    shutil.rmtree(other.root)
    third = Machine(open_vault(tmp_path / "two"))
    third.store({"d.md": note("mine", uuid(0x4D4D4D4D))})
    third.git("remote", "add", "origin", str(tmp_path / "remote.git"))
    third.fetch()
    third.vault.close()


def join(machine: Machine, kind: str) -> None:
    if kind != "setup":
        machine.join()
        return
    head, tip = machine.vault.head(), machine.fetch()
    assert head
    assert tip
    card = card_of(machine.vault, tip)
    assert card
    if card.id != machine.vault.id:
        machine.carry_out(plan_setup(machine.vault, head, tip, card))
        machine.vault.adopt_card(card)


@pytest.mark.parametrize(("kind", "begin"), [("follow", follow), ("merge", merge), ("setup", setup)])
@STRIDE
def test_every_step(tmp_path: Path, stride: int, kind: str, begin: Callable[[Path], None]) -> None:
    begin(tmp_path)
    start = tmp_path / "two"

    def fresh(name: str) -> Path:
        shutil.copytree(start, tmp_path / name, symlinks=True)
        return tmp_path / name

    steps: list[str] = []
    with open_vault(fresh("dry"), at=steps.append) as vault:
        before = git(vault.root, "rev-parse", "HEAD^{tree}")
        join(Machine(vault), kind)
        after = git(vault.root, "rev-parse", "HEAD^{tree}")
        conflicts = [(one.path, one.fields) for one in waiting(vault.root)]
        card = find_card(vault.root)
        assert conflicts == ([("a.md", ("content",))] if kind == "merge" else [])
        sound(vault.root)
    assert len(steps) > 10
    for number, step in numbered(steps, stride):
        root = fresh(f"v{number}")
        killed_at(number, lambda at, root=root: join(Machine(open_vault(root, at=at)), kind))  # type: ignore[misc]
        with open_vault(root, recover=False) as vault:
            said = vault.recover()
            here = f"killed at step {number} ({step}): {said}"
            tree = git(root, "rev-parse", "HEAD^{tree}")
            assert tree in {before, after}, here
            asides = [(one.path, one.fields) for one in waiting(root)]
            assert asides == (conflicts if tree == after else []), here
            assert vault.id == (find_card(root) or card).id, here
            assert git(root, "status", "--porcelain", "--untracked-files=all") == "", here
            assert vault.recover() == [], here
            join(Machine(vault), kind)
            assert git(root, "rev-parse", "HEAD^{tree}") == after, here
            assert [(one.path, one.fields) for one in waiting(root)] == conflicts, here
            assert vault.id == (card.id if card else ""), here
            if kind == "follow":
                assert git(root, "rev-parse", "HEAD") == git(root, "rev-parse", "origin/main"), here
        sound(root)


@STRIDE
def test_a_persons_save_in_the_moment_of_the_crash_takes_the_join_back(tmp_path: Path, stride: int) -> None:
    """The person saves at each step, then the daemon dies: the text is kept, and the join is whole or not there."""
    merge(tmp_path)
    start = tmp_path / "two"
    steps: list[str] = []
    shutil.copytree(start, tmp_path / "dry", symlinks=True)
    with open_vault(tmp_path / "dry", at=steps.append) as vault:
        join(Machine(vault), "merge")
    for number, step in numbered(steps, stride):
        root = tmp_path / f"v{number}"
        shutil.copytree(start, root, symlinks=True)
        killed_at(
            number,
            lambda at, root=root: join(Machine(open_vault(root, at=at)), "merge"),  # type: ignore[misc]
            lambda root=root: save(root, "a.md", note("the person's", A)),  # type: ignore[misc]
        )
        with open_vault(root) as vault:
            texts = [vault.read("a.md") or b"", *(f.read_bytes() for f in (root / ".ormah/conflicts").rglob("*.md"))]
            assert any(b"the person's" in text for text in texts), (number, step)
            tree = git(root, "ls-tree", "-r", "--name-only", "HEAD").splitlines()
            assert ("new/c.md" in tree) == ("b.md" not in tree), (number, step)
            assert (root / "new/c.md").exists() == ("new/c.md" in tree), (number, step)
        git(root, "fsck", "--strict", "--no-dangling")
