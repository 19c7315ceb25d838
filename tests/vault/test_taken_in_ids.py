"""The reconciler and ids: a memory keeps its own when files are renamed, swapped and copied, and loses it by deletion."""

from __future__ import annotations

import shutil

import pytest

from ormahd.errors import Unavailable
from tests.vault.observed import ONE, TWO, House, trailers, uuid


def test_a_path_keeps_its_id_when_an_editor_saves_without_our_block(house: House) -> None:
    path = house.remember("old", title="Title", node_id=ONE)
    house.write(path, "only what the open editor knew\n")
    assert house.scan().edited == 1
    assert house.index.nodes()[ONE] == path
    assert house.read(path).endswith(b"only what the open editor knew\n")
    house.settle()


def test_an_emptied_file_is_not_committed_and_gets_its_id_back(house: House) -> None:
    path = house.remember("old", title="Title", node_id=ONE)
    house.write(path, "")
    house.write("Untitled.md", "")
    result = house.scan()
    assert result.edited == 0
    assert house.read(path) == house.read("Untitled.md") == b""
    house.settle()
    house.write(path, "typed at last")
    assert house.scan().edited == 1
    assert house.index.nodes()[ONE] == path


def test_a_rename_is_one_commit_with_both(house: House) -> None:
    path = house.remember("words", title="Title", node_id=ONE)
    house.settle()
    (house.root / path).rename(house.root / "My name.md")
    result = house.scan()
    assert (result.edited, result.removed) == (1, 0)
    assert house.index.nodes() == {**house.index.nodes(), ONE: "My name.md"}
    assert path not in house.index.rows
    assert house.log() == ["Move: Title"]
    assert house.git("show", "--format=", "--name-status", "-M", "HEAD").split("\t") == ["R100", path, "My name.md"]
    house.settle()


def test_a_whole_folder_moves_and_one_note_is_edited_on_the_way(house: House) -> None:
    paths = [house.remember(f"text {n}", title=f"T{n}", node_id=uuid(n + 1)) for n in range(4)]
    house.settle()
    (house.root / "work").rename(house.root / "elsewhere")
    moved = [path.replace("work/", "elsewhere/", 1) for path in paths]
    house.write(moved[0], house.read(moved[0]) + b"and more\n")
    assert house.scan().edited == 4
    nodes = house.index.nodes()
    assert [nodes[uuid(n + 1)] for n in range(4)] == moved
    assert house.log() == ["Move 4 notes: T0, T1 and 2 more"]
    assert house.clean()
    house.settle()


def test_two_notes_that_swap_their_names_stay_themselves(house: House) -> None:
    a = house.remember("first", title="A", node_id=ONE)
    b = house.remember("second", title="B", node_id=TWO)
    house.settle()
    (house.root / a).rename(house.root / "spare")
    (house.root / b).rename(house.root / a)
    (house.root / "spare").rename(house.root / b)
    house.scan()
    assert (house.index.nodes()[ONE], house.index.nodes()[TWO]) == (b, a)
    assert house.clean()
    house.settle()


def test_a_deletion_is_committed(house: House) -> None:
    path = house.remember("words", title="Title", node_id=ONE)
    house.settle()
    (house.root / path).unlink()
    assert house.scan().removed == 1
    assert ONE not in house.index.nodes()
    assert house.log() == ["Delete: Title"]
    assert trailers(house)["Ormah-Nodes"] == ONE
    assert house.clean()
    house.settle()
    house.git("revert", "--no-edit", "HEAD")
    assert house.scan().indexed == 1
    assert house.index.nodes()[ONE] == path
    house.settle()


def test_what_was_deleted_while_nobody_looked_is_found_without_an_index(house: House) -> None:
    path = house.remember("words", title="Title", node_id=ONE)
    kept = house.remember("other", title="Kept", node_id=TWO)
    (house.root / path).unlink()
    house.index.rows.clear()
    house.reconciler = house.new_reconciler()
    result = house.scan()
    assert result.removed == 1
    assert house.log() == ["Delete: Title"]
    assert house.index.nodes()[TWO] == kept
    house.settle()


def test_a_copy_does_not_take_the_id_and_gets_it_when_the_first_goes(house: House) -> None:
    path = house.remember("words", title="Title", node_id=ONE)
    house.settle()
    shutil.copy(house.root / path, house.root / "a copy.md")
    house.scan()
    assert house.index.nodes()[ONE] == path
    assert house.index.find("words") == sorted(["a copy.md", path])
    assert [problem["path"] for problem in house.reconciler.problems()] == ["a copy.md"]
    assert house.git("status", "--porcelain") == '?? "a copy.md"'
    house.settle()
    house.reconciler = house.new_reconciler()
    house.settle()
    (house.root / path).unlink()
    house.scan()
    house.settle()
    assert house.index.nodes()[ONE] == "a copy.md"
    assert house.reconciler.problems() == []
    assert house.clean()


@pytest.mark.parametrize("clock", ["2030", "2001"])
def test_a_note_that_git_puts_back_where_it_stood_before_it_moved_is_a_copy(house: House, clock: str) -> None:
    path = house.remember("words", title="Title", node_id=ONE)
    house.settle()
    house.git("rm", "-q", path)
    house.git("commit", "-qm", "gone")
    house.scan()
    house.git("revert", "--no-edit", "HEAD")
    house.scan()
    (house.root / path).rename(house.root / "moved.md")
    house.scan()
    house.settle()
    house.write(path, house.read("moved.md"))
    house.git("add", path)
    house.git("commit", "-qm", "it came back", env={"GIT_COMMITTER_DATE": f"{clock}-01-01T00:00:00"})
    house.scan()
    assert house.index.nodes()[ONE] == "moved.md"
    assert [problem["path"] for problem in house.reconciler.problems()] == [path]
    house.settle()


def test_a_file_that_loses_its_id_to_a_new_one_is_known_as_a_copy_though_nobody_touched_it(house: House) -> None:
    path = house.remember("words", title="Title", node_id=ONE)
    house.settle()
    blob = house.git("hash-object", path)
    tree = house.git("mktree", stdin=f"100644 blob {blob}\ta.md\n")
    before = dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), "2001-01-01T00:00:00")
    older = house.git("commit-tree", "-m", "a history from before everything", tree, env=before)
    house.git("merge", "-q", "--allow-unrelated-histories", "--no-edit", older)
    house.scan()
    assert house.index.nodes()[ONE] == "a.md"
    assert [problem["path"] for problem in house.reconciler.problems()] == [path]
    house.settle()


def test_many_deletions_are_taken_in(house: House) -> None:
    for number in range(30):
        house.remember(f"text {number}", title=f"T{number}", node_id=uuid(number + 1))
    house.settle()
    shutil.rmtree(house.root / "work")
    assert house.scan().removed == 30
    assert house.log() == ["Delete 30 notes: T0, T1 and 28 more"]
    house.git("revert", "--no-edit", "HEAD")
    assert house.scan().indexed == 30
    house.settle()


def test_a_vault_that_vanishes_is_not_deleted(house: House) -> None:
    house.remember("text", node_id=ONE)
    house.root.rename(house.root.with_name("away"))
    with pytest.raises(Unavailable):
        house.scan()
    house.root.with_name("away").rename(house.root)
    house.settle()
    assert ONE in house.index.nodes()
