"""Which space a working directory means: stable for worktrees and clones, none for home, root and the vault."""

import subprocess
from pathlib import Path

import pytest

from ormahd.actions.caller import Caller, detect_space


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()


def git(folder: Path, *args: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", *args], cwd=folder, check=True, capture_output=True
    )


def make(folder: Path) -> Path:
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "x")
    return folder


def test_repository_worktree_clone_and_folder(tmp_path: Path) -> None:
    vault = tmp_path / "vault"
    repo = make(tmp_path / "src" / "ormah")
    (repo / "a" / "b").mkdir(parents=True)
    git(repo, "worktree", "add", "-q", str(tmp_path / "feature-x"))
    git(tmp_path, "clone", "-q", str(repo), str(tmp_path / "elsewhere"))
    for place in (repo, repo / "a" / "b", tmp_path / "feature-x", tmp_path / "elsewhere"):
        assert detect_space(str(place), vault) == "ormah", place
    git(repo, "remote", "add", "origin", "git@example.org:team/Better-Name.git")
    assert detect_space(str(repo), vault) == "Better-Name"
    (tmp_path / "plain folder").mkdir()
    assert detect_space(str(tmp_path / "plain folder"), vault) == "plain folder"


def test_no_space(tmp_path: Path) -> None:
    vault = tmp_path / "vault"
    for place in ("/", str(tmp_path / "home"), str(vault), str(vault / "sub"), None, "", "relative", "/x\x00y"):
        assert detect_space(place, vault) is None, place


def test_dotfiles_and_global(tmp_path: Path) -> None:
    home = tmp_path / "home"
    git(home, "init", "-q")
    (home / "notes").mkdir()
    assert detect_space(str(home / "notes"), tmp_path / "vault") == "notes"
    assert detect_space(str(make(tmp_path / "Global")), tmp_path / "vault") == "global-repo"


def test_a_broken_git_file_is_a_plain_folder(tmp_path: Path) -> None:
    folder = tmp_path / "odd"
    folder.mkdir()
    for junk in (b"", b"gitdir: /nowhere\n", b"\xff\xfe", b"gitdir: \x00"):
        (folder / ".git").write_bytes(junk)
        assert detect_space(str(folder), tmp_path / "vault") == "odd"


def test_sources() -> None:
    assert Caller("claude-code").source == "agent:claude-code"
    assert Caller().source == "agent:unknown"
    assert Caller("person").source == "person"
    assert Caller("job:decay").source == "job:decay"
    assert Caller("a\nOrmah-Kind: init").source == "agent:a Ormah-Kind: init"
