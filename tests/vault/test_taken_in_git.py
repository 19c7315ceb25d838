"""The reconciler beside a person's own git: what was committed, checked out or merged is indexed, not committed again."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.vault.observed import FOUR, ONE, THREE, TWO, House


def test_a_file_that_was_empty_before_it_got_conflict_markers_stays_findable_as_it_was(house: House) -> None:
    path = house.remember("the committed words", title="Title", node_id=ONE)
    house.settle()
    data = house.read(path)
    house.write(path, b"")
    house.scan()
    house.write(path, data.replace(b"the committed words", b"<<<<<<< HEAD\none\n=======\nother\n>>>>>>> x\n"))
    house.scan()
    assert house.index.find("the committed words") == [path]
    assert house.index.nodes()[ONE] == path
    house.settle()


def test_a_checkout_of_an_older_state_is_indexed_and_not_committed(house: House) -> None:
    path = house.remember("first version", title="Title", node_id=ONE)
    other = house.remember("other", title="Other", node_id=TWO)
    before = house.git("rev-parse", "HEAD")
    house.write(path, house.read(path).replace(b"first", b"second"))
    house.scan()
    (house.root / other).unlink()
    house.scan()
    count = house.git("rev-list", "--count", "HEAD")
    assert house.index.find("second version") == [path]
    house.git("checkout", "-q", before)
    result = house.scan()
    assert (result.indexed, result.edited) == (2, 0)
    assert house.index.find("first version") == [path]
    assert house.index.nodes()[TWO] == other
    assert house.index.head == before
    assert any("detached" in problem["what"] for problem in house.reconciler.problems())
    house.git("checkout", "-q", "main")
    house.scan()
    assert house.index.find("second version") == [path]
    assert TWO not in house.index.nodes()
    assert house.git("rev-list", "--count", "HEAD") == count
    house.settle()


def test_an_own_commit_on_top_of_an_unseen_one_claims_nothing(house: House) -> None:
    path = house.remember("first version", title="Title", node_id=ONE)
    house.scan()
    before = house.git("rev-parse", "HEAD")
    assert house.index.head == before
    house.write(path, house.read(path).replace(b"first", b"second"))
    house.git("commit", "-qam", "by hand")
    house.remember("another", title="Other", node_id=TWO)
    assert house.index.head == before
    assert house.scan().indexed == 1
    assert house.index.head == house.git("rev-parse", "HEAD")


def test_commits_by_hand_are_only_indexed(house: House) -> None:
    path = house.remember("first version", title="Title", node_id=ONE)
    house.write(path, house.read(path).replace(b"first", b"second"))
    house.git("commit", "-qam", "by hand")
    house.git("commit", "-q", "--allow-empty", "-m", "nothing")
    assert house.scan().indexed == 1
    assert house.log() == ["nothing"]
    assert house.index.head == house.git("rev-parse", "HEAD")
    house.git("revert", "--no-edit", "HEAD~1")
    assert house.scan().indexed == 1
    assert house.index.find("first version") == [path]
    house.settle()


def test_conflict_markers_are_neither_committed_nor_indexed(house: House) -> None:
    path = house.remember("our version", title="Title", node_id=ONE)
    house.settle()
    house.write(path, house.read(path) + b"<<<<<<< HEAD\na\n=======\nb\n>>>>>>> other\n")
    result = house.scan()
    assert (result.edited, result.indexed) == (0, 0)
    assert house.index.find("our version") == [path]
    assert house.index.find("<<<<") == []
    [problem] = house.reconciler.problems()
    assert (problem["path"], problem["level"]) == (path, "error")
    house.settle()
    house.index.rows.clear()  # without an index its last committed version is found again
    house.reconciler = house.new_reconciler()
    house.scan()
    assert house.index.find("our version") == [path]
    house.settle()
    house.write(path, house.read(path).split(b"<<<<<<<")[0] + b"resolved\n")
    assert house.scan().edited == 1
    assert house.index.find("resolved") == [path]
    assert house.reconciler.problems() == []


@pytest.mark.parametrize("commits", [1, 2])
def test_conflict_markers_that_another_git_committed_leave_the_last_whole_version(house: House, commits: int) -> None:
    """Before and after the index is lost."""
    path = house.remember("our version", title="Title", node_id=ONE)
    house.settle()
    for number in range(commits):
        marked = b"<<<<<<< HEAD\na%d\n=======\nb\n>>>>>>> other\n" % number
        house.write(path, house.read(path).partition(b"<<<<<<<")[0] + marked)
        house.git("commit", "-qam", "by hand")
        house.scan()
    for _ in range(2):
        assert house.index.find("our version") == [path]
        assert house.index.find("<<<<") == []
        assert [(one["path"], one["level"]) for one in house.reconciler.problems()] == [(path, "error")]
        assert [house.index.rows[path][0]] == [
            data for _, data, _ in house.reconciler.files() if b"our version" in data
        ]
        house.index.rows.clear()
        house.reconciler = house.new_reconciler()
        house.scan()
    house.settle()


@pytest.mark.parametrize("text", [b"<<<<<<< HEAD\na\n=======\nb\n>>>>>>> other\n", b"an edit of this moment\n"])
@pytest.mark.parametrize("rebasing", [True, False])
def test_without_an_index_a_file_that_is_not_at_rest_is_found_as_head_has_it(
    tmp_path: Path, text: bytes, rebasing: bool
) -> None:
    house = House(tmp_path / "vault", quiet=3600)
    path = house.remember("our version", title="Title", node_id=ONE)
    house.write(path, house.read(path) + text)
    if rebasing:
        (house.root / ".git/rebase-merge").mkdir()
    house.index.rows.clear()
    for _ in range(2):
        house.scan()
        assert house.index.nodes()[ONE] == path
        assert house.index.note(path).content.strip() == "our version"
    house.close()


def test_nothing_is_committed_during_a_merge(house: House) -> None:
    path = house.remember("base", title="Title", node_id=ONE)
    other = house.remember("other", title="Other", node_id=TWO)
    house.settle()
    house.git("switch", "-qc", "side")
    house.write(path, house.read(path).replace(b"base", b"theirs"))
    house.git("commit", "-qam", "theirs")
    house.git("switch", "-q", "main")
    house.write(path, house.read(path).replace(b"base", b"ours"))
    house.git("commit", "-qam", "ours")
    house.scan()
    house.git("merge", "side", ok=False)
    house.write(other, house.read(other) + b"edited meanwhile\n")
    head = house.git("rev-parse", "HEAD")
    result = house.scan()
    assert other in result.waiting
    assert result.waiting_until is not None
    assert house.git("rev-parse", "HEAD") == head
    house.git("checkout", "--ours", path)
    house.git("commit", "-qam", "merged")
    house.settle()
    assert house.index.find("edited meanwhile") == [other]
    assert house.clean()


def test_a_foreign_commit_in_the_middle_of_a_merge_of_branches(house: House) -> None:
    """`git pull` brings new, changed and removed notes at once: all of it is indexed, none committed again."""
    kept = house.remember("kept", title="Kept", node_id=ONE)
    gone = house.remember("gone", title="Gone", node_id=TWO)
    clone = house.root.with_name("clone")
    subprocess.run(["git", "clone", "-q", house.root, clone], check=True)
    (clone / kept).write_bytes((clone / kept).read_bytes().replace(b"kept\n", b"changed\n"))
    (clone / gone).unlink()
    (clone / "bare.md").write_text("from the other machine\n")
    subprocess.run(["git", "add", "-A"], cwd=clone, check=True)
    subprocess.run(["git", "commit", "-qm", "elsewhere"], cwd=clone, check=True)
    house.git("pull", "-q", str(clone), "main")
    result = house.scan()
    assert (result.indexed, result.removed, result.edited) == (1, 1, 1)
    assert house.index.find("changed") == [kept]
    assert TWO not in house.index.nodes()
    assert house.log() == ["Edit: bare"]
    house.settle()


@pytest.mark.parametrize("meanwhile", ["running", "stopped"])
@pytest.mark.parametrize("how", ["--mixed", "--soft"])
def test_a_branch_that_is_led_back_without_its_files_has_them_again(house: House, how: str, meanwhile: str) -> None:
    """Edited, made, moved and deleted since: nobody touched the files, so only the commits tell."""
    edited = house.remember("first version", title="Edited", node_id=ONE)
    moved = house.remember("moved away", title="Moved", node_id=TWO)
    deleted = house.remember("deleted since", title="Deleted", node_id=THREE)
    house.settle()
    past = house.git("rev-parse", "HEAD")
    house.write(edited, house.read(edited).replace(b"first", b"second"))
    made = house.remember("made since", title="Made", node_id=FOUR)
    (house.root / moved).rename(house.root / "elsewhere.md")
    (house.root / deleted).unlink()
    house.settle()
    nodes = house.index.nodes()
    house.git("reset", "-q", how, past)
    if meanwhile == "stopped":
        house.reconciler = house.new_reconciler()
    house.settle()
    assert house.git("status", "--porcelain") == ""
    assert house.index.nodes() == nodes
    assert nodes.items() >= {ONE: edited, TWO: "elsewhere.md", FOUR: made}.items()
    assert THREE not in nodes
    assert house.index.find("second version") == [edited]
    assert {path for path in house.vault.tree() if path.endswith(".md")} == set(nodes.values())


@pytest.mark.parametrize("step", ["locked", "objects", "ref", "placed", "held"])
def test_an_edit_that_is_put_back_while_it_is_committed_is_put_back(tmp_path: Path, step: str) -> None:
    """As by `git stash`: what was edited is seen, and when its commit comes about the file is as it was. `held`: git held the lock."""
    to_do: list[Callable[[], object]] = []

    def at(met: str) -> None:
        if met == step and to_do:
            to_do.pop()()

    house = House(tmp_path / "vault", at=at)
    path = house.remember("first version", title="Title", node_id=ONE)
    house.settle()
    before = house.read(path)
    lock = house.root / ".git/index.lock"
    if step == "held":
        lock.touch()
    else:
        to_do.append(lambda: house.write(path, before))
    house.write(path, before.replace(b"first", b"other"))
    house.scan()
    if step == "held":
        house.write(path, before)
        lock.unlink()
    assert not to_do
    house.settle()
    assert house.read(path) == before
    assert house.git("status", "--porcelain") == ""
    assert house.index.find("first version") == [path]
    assert house.index.find("other version") == []
    assert house.index.head == house.git("rev-parse", "HEAD")
    house.close()
