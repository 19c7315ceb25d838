"""What Ormah does not take as its vault, and where it does not write: each is refused by one clear sentence."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ormahd.errors import Conflict, Unavailable
from tests.tables import rows
from tests.vault.git_house import git, open_vault, put, sound
from tests.vault.observed import House

NOTE = "global/fact/2026-11/fact_a_12345678.md"


def with_files(root: Path) -> None:
    root.mkdir()
    (root / "Note.md").write_text("mine\n")


def repository(root: Path) -> None:
    git(root.parent, "init", "-q", root.name)


def bare(root: Path) -> None:
    git(root.parent, "init", "-q", "--bare", root.name)


def worktree(root: Path) -> None:
    git(root.parent, "init", "-q", "main")
    git(root.parent / "main", "commit", "-q", "--allow-empty", "-m", "x")
    git(root.parent / "main", "worktree", "add", "-q", str(root))


def ours(root: Path) -> None:
    with open_vault(root) as vault:
        put(vault, (NOTE, b"1\n"))


def shallow(root: Path) -> None:
    ours(root.parent / "whole")
    git(root.parent, "clone", "-q", "--depth=1", f"file://{root.parent}/whole", root.name)


def sparse(root: Path) -> None:
    ours(root)
    git(root, "sparse-checkout", "set", "global")


def linked(root: Path) -> None:
    ours(root.parent / "whole")
    git(root.parent / "whole", "worktree", "add", "-q", str(root))


def submodule(root: Path) -> None:
    ours(root.parent / "whole")
    git(root.parent, "init", "-q", "outer")
    allowed = ("-c", "protocol.file.allow=always")
    git(root.parent / "outer", *allowed, "submodule", "add", "-q", str(root.parent / "whole"), "inner")
    root.symlink_to(root.parent / "outer/inner")


def no_repository(root: Path) -> None:
    ours(root)
    os.rename(root / ".git", root.parent / "elsewhere")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (with_files, "it has files that Ormah did not make"),
        (repository, "it is a git repository that Ormah did not make"),
        (bare, "it is a bare git repository"),
        (worktree, "it is a worktree or submodule of a git repository that Ormah did not make"),
        (shallow, "its repository is shallow"),
        (sparse, "checked out in part"),
        (linked, "it is a worktree or a submodule of another repository"),
        (submodule, "it is a worktree or a submodule of another repository"),
    ],
)
def test_a_folder_that_cannot_be_the_vault(tmp_path: Path, make: Callable[[Path], None], says: str) -> None:
    root = tmp_path / "v"
    make(root)
    before = sorted(path for path in root.rglob("*") if ".git" not in path.parts)
    with pytest.raises(Unavailable) as caught:
        open_vault(root)
    real = os.path.realpath(root)
    assert caught.value.message.startswith(f"{real} cannot be the vault: ")
    assert says in caught.value.message
    assert f"ormahctl sources add {real} --space NAME" in (caught.value.hint or "")
    assert f"ormahctl import {real}" in (caught.value.hint or "")
    assert [path for path in sorted(root.rglob("*")) if ".git" not in path.parts and ".ormah" not in path.parts] == [
        path for path in before if ".ormah" not in path.parts
    ]


def test_a_vault_without_its_repository(tmp_path: Path) -> None:
    no_repository(tmp_path / "v")
    with pytest.raises(Unavailable, match="its git repository is gone"):
        open_vault(tmp_path / "v")


def test_a_git_that_is_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "git"
    old.write_text("#!/bin/sh\necho git version 2.37.7\n")
    old.chmod(0o755)
    monkeypatch.setenv("GIT_PYTHON_GIT_EXECUTABLE", str(old))
    with pytest.raises(Unavailable, match=r"2\.37\.7 is too old") as caught:
        open_vault(tmp_path / "v")
    assert "2.38" in (caught.value.hint or "")


@pytest.mark.parametrize("name", ["vault", "my [notes]*"])
def test_inside_another_repository_the_vault_is_one_of_its_own(tmp_path: Path, name: str) -> None:
    git(tmp_path, "init", "-q", "outer")
    outer = tmp_path / "outer"
    root = outer / "docs" / name
    with open_vault(root, recover=False) as vault:
        assert any("is a repository of its own inside that of" in said for said in vault.recover())
        put(vault, (NOTE, b"1\n"))
    assert git(outer, "status", "--porcelain", "--untracked-files=all") == ""
    assert subprocess.run(["git", "ls-files"], cwd=outer, capture_output=True, check=True).stdout == b""
    sound(root)


@pytest.mark.parametrize(("line", "rule"), rows(__file__, "a_path_that_git_would_convert_is_not_written"))
@pytest.mark.parametrize("where", [".gitattributes", "global/.gitattributes", ".git/info/attributes"])
def test_a_path_that_git_would_convert_is_not_written(tmp_path: Path, line: str, rule: str, where: str) -> None:
    with open_vault(tmp_path / "v") as vault:
        put(vault, (NOTE, b"1\n"))
        file = vault.root / where
        file.parent.mkdir(parents=True, exist_ok=True)
        line = line.replace("global/**", "**") if where.startswith("global") else line
        file.write_text((file.read_text() if file.exists() else "") + line + "\n")
        with pytest.raises(Conflict, match="is not written: git's attributes have") as caught:
            put(vault, (NOTE, b"2\n"))
        assert caught.value.data == {"path": NOTE, "attribute": rule}
        assert vault.read(NOTE) == b"1\n"
        file.unlink()
        assert put(vault, (NOTE, b"2\n")) is not None


def test_a_note_that_git_would_convert_is_named_and_left_alone(house: House) -> None:
    (house.root / ".git/info").mkdir(exist_ok=True)
    (house.root / ".git/info/attributes").write_text("*.md filter=crypt\n")
    (house.root / "mine.md").write_text("text of a person\n")
    house.settle()
    assert (house.root / "mine.md").read_text() == "text of a person\n"
    [found] = [one for one in house.reconciler.problems() if one["path"] == "mine.md"]
    assert "git's attributes have filter=crypt for it" in found["what"]


def test_a_global_core_autocrlf_does_not_matter(tmp_path: Path, git_config: Path) -> None:
    git_config.write_text(git_config.read_text() + "[core]\n\tautocrlf = true\n\teol = crlf\n")
    with open_vault(tmp_path / "v") as vault:
        put(vault, (NOTE, b"one\r\ntwo\n"))
        git(vault.root, "checkout", "-q", "--", ".")
        assert vault.read(NOTE) == b"one\r\ntwo\n"
    sound(tmp_path / "v")
