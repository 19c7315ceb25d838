"""What commits did to notes: followed by their ids, across moves, merges and what a person typed."""

from __future__ import annotations

import pytest

from ormahd.git.log import read_commits
from ormahd.git.process import GitFailed
from ormahd.index.history import Changed
from ormahd.model.change import Kind
from ormahd.vault.vault import Vault
from tests.vault.git_house import commit_by_hand, git, history_of, sha
from tests.vault.observed import uuid
from tests.vault.test_history import note

ONE, TWO = uuid(0x1A2B3C4D), uuid(0x22222222)
PATH = "work/fact/2026-11/fact_words_1a2b3c4d.md"


def store(vault: Vault, path: str, node_id: str, text: str) -> str:
    with vault.transaction("remember: a thing", kind=Kind.REMEMBER, source="agent:test") as tx:
        tx.put(path, note(node_id, text), node_id=node_id, expect=sha(vault.read(path)))
    assert tx.committed is not None
    return tx.committed.commit


def how(changes: list[Changed]) -> list[tuple[str | None, str | None]]:
    return [(one.old_path, one.path) for one in changes]


def test_added_edited_moved_and_removed(vault: Vault) -> None:
    first = store(vault, PATH, ONE, "a")
    second = store(vault, PATH, ONE, "b")
    moved = commit_by_hand(vault.root, {PATH: None, "mine.md": note(ONE, "b")})
    both = commit_by_hand(vault.root, {"mine.md": None, "else/where.md": note(ONE, "c")})
    last = commit_by_hand(vault.root, {"else/where.md": None})
    assert [how(history_of(vault).changed(commit)) for commit in (first, second, moved, both, last)] == [
        [(None, PATH)], [(PATH, PATH)], [(PATH, "mine.md")], [("mine.md", "else/where.md")], [("else/where.md", None)]
    ]  # fmt: skip
    before, after = history_of(vault).pair(history_of(vault).changed(both)[0])
    assert (before, after) == (("mine.md", note(ONE, "b")), ("else/where.md", note(ONE, "c")))


def test_the_first_commit_and_a_merge(vault: Vault) -> None:
    root = git(vault.root, "rev-list", "--max-parents=0", "HEAD")
    assert ".ormah/vault.toml" in [one.path for one in history_of(vault).changed(root)]
    store(vault, PATH, ONE, "a")
    git(vault.root, "switch", "-qc", "side")
    commit_by_hand(vault.root, {PATH: note(ONE, "side")})
    git(vault.root, "switch", "-q", "-")
    commit_by_hand(vault.root, {"other.md": note(TWO, "x")})
    git(vault.root, "merge", "-q", "--no-edit", "side")
    merge = git(vault.root, "rev-parse", "HEAD")
    assert how(history_of(vault).changed(merge)) == [(PATH, PATH)], "what the merge brought to this side"
    git(vault.root, "commit", "-q", "--allow-empty", "-m", "nothing")
    assert history_of(vault).changed(git(vault.root, "rev-parse", "HEAD")) == []


def test_a_look_alike_is_not_the_note_that_moved(vault: Vault) -> None:
    """Git's rename detection takes these two for one file; they are two memories."""
    text = "the same long text in both of them\n" * 20
    store(vault, PATH, ONE, text)
    commit = commit_by_hand(vault.root, {PATH: None, "twin.md": note(TWO, text)})
    assert how(history_of(vault).changed(commit)) == [(None, "twin.md"), (PATH, None)]
    assert history_of(vault).of_node(commit, ONE) == Changed(PATH, vault.git.oid("blob", note(ONE, text)), None, None)
    assert history_of(vault).of_node(commit, TWO) == Changed(
        None, None, "twin.md", vault.git.oid("blob", note(TWO, text))
    )
    assert history_of(vault).of_node(commit, uuid(0x33333333)) is None


def test_a_file_that_another_note_took_over(vault: Vault) -> None:
    store(vault, "a.md", ONE, "one")
    commit = commit_by_hand(vault.root, {"a.md": note(TWO, "two")})
    one, two = history_of(vault).of_node(commit, ONE), history_of(vault).of_node(commit, TWO)
    assert one is not None
    assert two is not None
    assert (one.old_path, one.path, two.old_path, two.path) == ("a.md", None, None, "a.md")


def test_thousands_that_move_at_once(vault: Vault) -> None:
    count = 2_100
    files: dict[str, bytes | None] = {
        f"a/fact_n_{number:08x}.md": note(uuid(number), f"n {number}") for number in range(count)
    }
    commit_by_hand(vault.root, files)
    wanted = {path.replace("a/", "b/"): data for path, data in files.items()}
    edited = f"b/fact_n_{7:08x}.md"
    wanted[edited] = note(uuid(7), "edited on the way")
    commit = commit_by_hand(vault.root, dict.fromkeys(files) | wanted)
    changed = history_of(vault).changed(commit)
    assert len(changed) == count
    assert all(one.old_path and one.path and one.old_path[1:] == one.path[1:] for one in changed)
    found = history_of(vault).of_node(commit, uuid(7))
    assert found is not None
    assert found.path == edited


def test_a_life_in_commits_by_hand_alone(vault: Vault) -> None:
    """No op names the note, and no file name tells its id."""
    commit_by_hand(vault.root, {"Rivers.md": note(ONE, "a")}, "written")
    commit_by_hand(vault.root, {"Rivers.md": None, "Waters.md": note(ONE, "a and more")}, "renamed and edited")
    commit_by_hand(vault.root, {"Hills.md": note(TWO, "b")}, "of another")
    commit_by_hand(vault.root, {"Waters.md": note(ONE, "c")}, "edited")
    assert [op.subject for op in history_of(vault).ops(node_id=ONE)] == ["edited", "renamed and edited", "written"]
    commit_by_hand(vault.root, {"Hills.md": None, "Rivers.md": note(TWO, "b")}, "another took the name")
    assert history_of(vault).ops(node_id=ONE)[0].subject == "edited"
    assert [op.subject for op in history_of(vault).ops(node_id=TWO)] == ["another took the name", "of another"]


def test_a_note_that_came_and_went_by_hand_is_found_by_its_short_id(vault: Vault) -> None:
    commit_by_hand(vault.root, {PATH: note(ONE, "a")}, "came")
    commit_by_hand(vault.root, {PATH: None}, "went")
    assert history_of(vault).find_node("1a2b3c4d") == ONE
    assert [op.subject for op in history_of(vault).ops(node_id=ONE)] == ["went", "came"]


def test_which_of_two_files_had_the_id_first(vault: Vault) -> None:
    conflict = b"<<<<<<< x\n=======\n>>>>>>> y\n"
    steps: list[tuple[str, bytes | None, str]] = [
        ("b.md", note(ONE, "b"), "b.md"), ("a.md", note(ONE, "copy"), "b.md"), ("b.md", conflict, "b.md"),
        ("b.md", note(ONE, "b"), "b.md"), ("b.md", note(TWO, "b"), "a.md"), ("b.md", note(ONE, "b"), "a.md"),
        ("a.md", None, "b.md"), ("a.md", note(ONE, "copy"), "b.md"),
    ]  # fmt: skip
    for number, (path, data, first) in enumerate(steps):
        commit_by_hand(vault.root, {path: data})
        history_of(vault).follow()
        assert history_of(vault).first_path(ONE, ["a.md", "b.md", "never.md"]) == first, number
    assert history_of(vault).first_path(TWO, ["a.md", "b.md"]) is None


def test_an_import_too_large_to_name_its_notes(vault: Vault) -> None:
    with vault.transaction("import: many", kind=Kind.IMPORT, source="person") as tx:
        for number in range(1001):
            tx.put(f"w/fact_n_{number:08x}.md", note(uuid(number), str(number)), node_id=uuid(number), expect=None)
    assert history_of(vault).ops(limit=1)[0].nodes == ()
    assert [op.kind for op in history_of(vault).ops(node_id=uuid(1000))] == ["import"]
    assert tx.committed is not None
    found = history_of(vault).of_node(tx.committed.commit, uuid(1000))
    assert found is not None
    assert found.path == f"w/fact_n_{1000:08x}.md"


def test_links_and_executables(vault: Vault) -> None:
    (vault.root / "run.md").write_bytes(note(ONE, "a"))
    (vault.root / "run.md").chmod(0o755)
    (vault.root / "link.md").symlink_to("run.md")
    git(vault.root, "add", "-A")
    git(vault.root, "commit", "-qm", "odd files")
    assert how(history_of(vault).changed(git(vault.root, "rev-parse", "HEAD"))) == [(None, "run.md")]


def test_a_commit_that_is_missing_is_an_error_and_not_an_empty_answer(vault: Vault) -> None:
    with pytest.raises(GitFailed):
        list(read_commits(vault.git, f"{'1' * 40}...HEAD"))
