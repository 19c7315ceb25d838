"""The files of an earlier state, as they are to be indexed."""

from __future__ import annotations

from pathlib import Path

from ormahd.watch.identity import CommitFiles
from tests.vault.git_house import git
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
    state = CommitFiles(house.vault, house.reconciler.excluded, then)
    assert {path for path in state.files if not path.startswith("global/")} == {"a.md", "sub/B.MD"}
    assert [state.file(path) for path in ("a.md", "sub/B.MD")] == [NOTE.encode(), b"text\n"]
    assert state.file("e.txt") == b"text\n"
    assert state.file("later.md") is None
    house.close()
