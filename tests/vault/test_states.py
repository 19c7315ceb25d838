"""The files of an earlier state, as they are to be indexed."""

from __future__ import annotations

from pathlib import Path

from ormahd.note.read import parse
from ormahd.note.values import NoteKind
from ormahd.watch.snapshot_files import CommitFiles
from tests.vault.git_house import git, put
from tests.vault.observed import House, uuid

NOTE = f"---\nid: {uuid(0x1A2B3C4D)}\ntype: fact\n---\nmine\n"


def commit(house: House, message: str) -> str:
    git(house.root, "add", "-A")
    git(house.root, "commit", "-qm", message)
    return git(house.root, "rev-parse", "HEAD")


def test_notes_of_then_and_nothing_that_is_never_looked_at(tmp_path: Path) -> None:
    house = House(tmp_path / "vault")
    for path in ("a.md", "sub/B.MD", ".obsidian/c.md", "templates/d.md", "e.txt", ".hidden.md"):
        house.write(path, NOTE if path == "a.md" else "text\n")
    then = commit(house, "then")
    (house.root / "a.md").unlink()
    house.write("later.md", "later\n")
    commit(house, "now")
    state = CommitFiles(house.vault, house.reconciler, then)
    assert {path for path in state.files if not path.startswith("global/")} == {"a.md", "sub/B.MD"}
    files = [(path, state.files[path]) for path in ("a.md", "sub/B.MD")]
    assert list(state.read(files)) == [NOTE.encode(), b"text\n"]
    assert state.indexed("a.md", NOTE.encode()) == NOTE.encode()
    assert state.file("e.txt") == b"text\n"
    assert state.file("later.md") is None
    house.close()


def test_in_a_folder_that_was_there_only_ours_were_memories(tmp_path: Path) -> None:
    """`vault.adopt = ours`: a person's note with an id of our shape is text, one that we wrote and they moved is not."""
    root = tmp_path / "notes"
    root.mkdir()
    (root / "theirs.md").write_text(NOTE)
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "theirs")
    house = House(root)
    assert house.vault.home
    own = f"{house.vault.home}/fact/2026-11/fact_x_2a2b3c4d.md"
    put(house.vault, (own, NOTE.replace("1a2b3c4d", "2a2b3c4d").encode()))
    git(root, "mv", own, "moved.md")
    git(root, "commit", "-qm", "moved out")
    put(house.vault, (f"{house.vault.home}/plain.md", b"plain\n"))
    state = CommitFiles(house.vault, house.reconciler, "HEAD")
    assert {"theirs.md", f"{house.vault.home}/plain.md", "moved.md"} <= set(state.files)
    theirs = state.indexed("theirs.md", NOTE.encode())
    assert parse(theirs, "theirs.md").kind is NoteKind.BARE
    assert b"mine" in theirs
    assert parse(state.indexed(own, NOTE.encode()), own).kind is NoteKind.NOTE
    house.close()
