"""A join that is refused: what is not committed here is not overwritten, and what a hostile remote sends is not taken."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ormahd.errors import Conflict, VaultBusy
from ormahd.sync.join import card_of, check_files
from ormahd.vault.conflicts import waiting
from ormahd.vault.create import CARD
from ormahd.vault.transaction import HistoryMoved
from ormahd.vault.worktree import Displaced
from tests.tables import rows
from tests.vault.git_house import git, open_vault
from tests.vault.sync_house import FILES, A, B, Machine, Two, note, settle, two_machines

# ---------------------------------------------------------------- what is not committed here


def test_a_file_of_ours_that_git_does_not_know_is_not_overwritten(two: Two) -> None:
    one, other = two
    one.store({"new.txt": b"theirs"})
    one.sync()
    (other.root / "new.txt").write_bytes(b"mine")
    before = other.vault.head()
    with pytest.raises(Displaced, match=r"new\.txt"):
        other.join()
    assert (other.root / "new.txt").read_bytes() == b"mine"
    assert other.vault.head() == before
    (other.root / "new.txt").write_bytes(b"theirs")
    other.join()
    assert other.vault.head() == one.vault.head()
    other.sound()


def test_an_edit_that_is_not_committed_is_not_overwritten_and_others_stay_as_they_are(two: Two) -> None:
    one, other = two
    one.store({"a.md": note("theirs", A)})
    one.sync()
    (other.root / "b.md").write_bytes(b"typing")
    (other.root / "staged.txt").write_bytes(b"staged")
    other.git("add", "staged.txt")
    (other.root / "a.md").write_bytes(b"typing too")
    with pytest.raises(Displaced, match=r"a\.md"):
        other.join()
    assert (other.root / "a.md").read_bytes() == b"typing too"
    other.git("checkout", "-q", "a.md")
    other.join()
    assert other.vault.head() == one.vault.head()
    assert (other.root / "b.md").read_bytes() == b"typing"
    assert other.git("status", "--porcelain").splitlines() == [" M b.md", "A  staged.txt"]


def test_a_save_in_the_last_moment_wins(tmp_path: Path) -> None:
    """The person saves at each step of a join: their text stays, and a join is either whole or did not happen."""
    one, other = two_machines(tmp_path, FILES)
    one.store({"a.md": note("theirs", A), "b.md": note("theirs too", B)})
    one.push()
    steps: list[str] = []
    other.vault.close()
    number = 0
    while True:
        root = tmp_path / f"clone{number}"
        git(tmp_path, "clone", "-q", str(tmp_path / "two"), str(root))
        git(root, "remote", "set-url", "origin", str(tmp_path / "remote.git"))
        steps.clear()

        def at(step: str, root: Path = root, number: int = number) -> None:
            if len(steps) == number:
                (root / "save").write_bytes(b"the person's\n")
                os.replace(root / "save", root / "a.md")
            steps.append(step)

        machine = Machine(open_vault(root, at=at))
        steps.clear()
        before = machine.vault.head()
        try:
            machine.join()
        except Conflict:
            assert machine.vault.head() == before
            assert machine.vault.committed("b.md") == (root / "b.md").read_bytes() == FILES["b.md"]
        else:
            assert machine.vault.head() == one.vault.head()
            assert (root / "b.md").read_bytes() == note("theirs too", B)
        texts = [
            (root / "a.md").read_bytes(),
            *(file.read_bytes() for file in (root / ".ormah/conflicts").rglob("*.md")),
        ]
        came = len(steps) > number
        assert any(b"the person's" in text for text in texts) is came, (number, steps)
        machine.vault.close()
        if not came:
            break
        number += 1
    assert number > 8
    one.vault.close()


def test_a_join_that_was_decided_on_another_history_changes_nothing(two: Two) -> None:
    one, other = two
    one.store({"a.md": note("theirs", A)})
    other.store({"a.md": note("ours", A)})
    one.sync()
    found = other.decide()
    other.git("commit", "-q", "--amend", "-m", "another")
    before = other.vault.head()
    with pytest.raises(HistoryMoved):
        other.carry_out(found)
    assert other.vault.head() == before
    assert waiting(other.root) == []
    settle(other, one)


def test_other_notes_may_be_written_while_a_join_is_decided(two: Two) -> None:
    one, other = two
    one.store({"a.md": note("theirs", A)})
    one.sync()
    found = other.decide()
    meanwhile = other.store({"b.md": note("meanwhile", B)})
    other.carry_out(found)
    assert other.git("log", "-1", "--format=%P").split() == [meanwhile, one.vault.head()]
    assert other.files()["a.md"] == note("theirs", A)
    assert other.push()
    settle(one, other)
    one.store({"a.md": note("theirs again", A)})
    one.sync()
    found = other.decide()
    other.store({"a.md": note("meanwhile too", A)})
    with pytest.raises(Displaced):
        other.carry_out(found)


def test_a_join_is_refused_while_git_is_held_and_does_not_happen_later(two: Two) -> None:
    one, other = two
    one.store({"a.md": note("theirs", A)})
    other.store({"a.md": note("ours", A)})
    one.sync()
    (other.root / ".git/index.lock").touch()
    with pytest.raises(VaultBusy):
        other.join()
    (other.root / ".git/index.lock").unlink()
    assert waiting(other.root) == []
    settle(other, one)


# ---------------------------------------------------------------- a hostile remote


def mktree(root: Path, *lines: str) -> str:
    return git(root, "mktree", "--missing", stdin="".join(f"{line}\n" for line in lines))


def hostile(machine: Machine, make: Callable[[str], str]) -> str:
    """A commit on the remote whose tree `make` makes out of a blob's id; raw, as no git would write it."""
    bare = machine.root.parent / "remote.git"
    blob = git(bare, "hash-object", "-w", "--stdin", stdin="bad\n")
    tip = git(bare, "rev-parse", "main")
    commit = git(bare, "commit-tree", "-p", tip, "-m", "bad", make(blob))
    git(bare, "update-ref", "refs/heads/main", commit)
    return commit


def raw_tree(bare: Path, name: str, mode: str, oid: str) -> str:
    tip = bytes.fromhex(oid)
    data = mode.encode() + b" " + name.encode() + b"\0" + tip
    file = bare / "raw"
    file.write_bytes(data)
    return git(bare, "hash-object", "-t", "tree", "-w", "--literally", str(file))


@pytest.mark.parametrize(
    ("name", "mode"),
    rows(__file__, "a_tree_that_no_git_would_write_is_refused"),
)  # fmt: skip
def test_a_tree_that_no_git_would_write_is_refused(two: Two, name: str, mode: str) -> None:
    one, _ = two
    bare = one.root.parent / "remote.git"

    def make(blob: str) -> str:
        inner = raw_tree(bare, "x.md", "100644", blob) if mode == "40000" else blob
        return raw_tree(bare, name, mode, inner)

    before = one.files(), one.vault.head()
    hostile(one, make)
    with pytest.raises(Conflict):
        one.join()
    assert (one.files(), one.vault.head()) == before
    assert not (one.root.parent / "out.md").exists()
    one.sound()


@pytest.mark.parametrize("path", [".ormah/lock", ".ormah/tmp/x", ".ormah/conflicts/x", ".Ormah/LOCK", ".ORMAH/Tmp/x"])
def test_what_belongs_to_the_running_daemon_is_refused(two: Two, path: str) -> None:
    one, other = two
    other.git("update-index", "--add", "--cacheinfo", f"100644,{other.vault.git.oid('blob', FILES['a.md'])},{path}")
    other.git("commit", "-qm", "bad")
    other.git("push", "-q")
    before = one.files(), one.vault.head()
    with pytest.raises(Conflict, match="no vault may have"):
        one.join()
    assert (one.files(), one.vault.head()) == before


def test_a_link_in_place_of_our_folder_is_refused(two: Two) -> None:
    one, other = two
    other.git("rm", "-rq", "--cached", ".ormah")
    (other.root / "sub").mkdir()
    blob = git(other.root, "hash-object", "-w", "--stdin", stdin="/etc")
    other.git("update-index", "--add", "--cacheinfo", f"120000,{blob},.ormah")
    other.git("commit", "-qm", "bad")
    other.git("push", "-q")
    head, tip = one.vault.head(), one.fetch()
    assert head
    assert tip
    assert card_of(one.vault, tip) is None
    with pytest.raises(Conflict):
        check_files(one.vault, head, tip)
    assert (one.root / CARD).is_file()
