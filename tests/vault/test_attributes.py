"""Where git changes a file on its way into the history (git-crypt, LFS, an encoding), nothing of ours is committed past it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ormahd.errors import Conflict
from ormahd.vault.vault import Vault
from tests.vault.git_house import git, open_vault, put, sound
from tests.vault.observed import House

NOTE = "ormah/global/fact/2026-11/fact_x_12345678.md"


def repository(root: Path, attributes: str = "") -> Path:
    """A person's repository with a filter that makes capitals of a note, as git-crypt makes it unreadable."""
    root.mkdir(exist_ok=True)
    git(root, "init", "-q")
    git(root, "config", "filter.crypt.clean", "tr a-z A-Z")
    git(root, "config", "filter.crypt.smudge", "tr A-Z a-z")
    git(root, "config", "filter.crypt.required", "true")
    (root / ".gitattributes").write_text(attributes)
    (root / "diary.md").write_text("met the cardiologist\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "theirs")
    return root


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ("*.md filter=crypt\n", "filter=crypt"),
        ("* filter=crypt\n", "filter=crypt"),
        ("[attr]secret filter=crypt\n*.md secret\n", "filter=crypt"),
        ("ormah/** filter=crypt\n", "filter=crypt"),
        ("*.md working-tree-encoding=ISO-8859-1\n", "working-tree-encoding=ISO-8859-1"),
        ("*.md ident\n", "ident=set"),
        (".ormah/** filter=lfs\n", "filter=lfs"),
    ],
)
def test_no_vault_begins_where_its_notes_would_pass_a_filter_by(tmp_path: Path, attributes: str, said: str) -> None:
    root = repository(tmp_path / "notes", attributes)
    head = git(root, "rev-parse", "HEAD")
    with pytest.raises(Conflict, match=said):
        open_vault(root)
    assert git(root, "rev-parse", "HEAD") == head
    assert git(root, "ls-files").split() == [".gitattributes", "diary.md"]


@pytest.mark.parametrize(
    "attributes",
    [
        "*.png filter=lfs\n",
        "*.md filter=crypt\normah/** !filter\n.ormah/** !filter\n",
        "*.md filter=crypt\normah/** -filter\n.ormah/** -filter\n",
        "# filter=crypt\n",
    ],
)
def test_what_a_filter_leaves_out_is_written_as_ever(tmp_path: Path, attributes: str) -> None:
    with open_vault(repository(tmp_path / "notes", attributes)) as vault:
        put(vault, (NOTE, b"1\n"))
        assert git(vault.root, "cat-file", "blob", f"HEAD:{NOTE}") == "1"
        assert git(vault.root, "status", "--porcelain") == ""
        sound(vault.root)


@pytest.mark.parametrize("where", [".gitattributes", "ormah/.gitattributes", ".git/info/attributes", "home"])
def test_a_filter_that_comes_later_stops_the_next_write_and_nothing_else(
    tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    root = repository(tmp_path / "notes")
    with open_vault(root) as vault:
        put(vault, (NOTE, b"1\n"))
        before = git(root, "rev-parse", "HEAD")
        file = tmp_path / "config/git/attributes" if where == "home" else root / where
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("*.md filter=crypt\n")
        with pytest.raises(Conflict, match=r"fact_x_12345678\.md is not written: .*filter=crypt.*nothing was changed"):
            put(vault, (NOTE, b"2\n"))
        assert git(root, "rev-parse", "HEAD") == before
        assert vault.read(NOTE) == b"1\n"
        put(vault, ("ormah/plain.txt", b"no note\n"))
        os.utime(file, ns=(1, 1))
        file.write_text("")
        put(vault, (NOTE, b"2\n"))
        assert vault.committed(NOTE) == b"2\n"


def test_a_persons_encrypted_notes_are_found_and_not_touched(tmp_path: Path) -> None:
    root = repository(tmp_path / "notes", "*.md filter=crypt\normah/** !filter\n.ormah/** !filter\n")
    house = House(root, adopt="all")
    try:
        house.settle()
        house.write("later.md", "a second secret\n")
        house.settle()
        assert house.read("diary.md") == b"met the cardiologist\n"
        assert house.git("cat-file", "blob", "HEAD:diary.md") == "MET THE CARDIOLOGIST"
        assert house.git("status", "--porcelain") == "?? later.md"
        assert {"diary.md", "later.md"} <= set(house.index.nodes().values())
    finally:
        house.close()


def test_git_is_not_asked_where_no_attributes_speak_of_it(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []
    run = vault.git.run
    monkeypatch.setattr(vault.git, "run", lambda *words, **more: (asked.append(words), run(*words, **more))[1])
    for number in range(5):
        put(vault, (NOTE, b"%d\n" % number))
    assert [words for words in asked if words[0] == "check-attr"] == []
