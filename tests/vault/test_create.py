"""How a vault begins, is recognised again, and says what is wrong with it."""

from __future__ import annotations

import os
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ormahd.errors import Incompatible, NotFound, Unavailable
from ormahd.note.read import parse
from ormahd.note.values import NoteKind
from ormahd.vault.create import check_folder, make_own_folder
from ormahd.vault.vault import Vault
from tests.vault.git_house import git, open_vault, sound


def self_note(vault: Vault) -> str:
    (path,) = [path for path in vault.tree() if "/person/" in path]
    return path


@pytest.mark.parametrize("exists", [False, True])
def test_an_absent_or_empty_folder_becomes_a_vault_of_our_own(tmp_path: Path, exists: bool) -> None:
    root = tmp_path / "deep/vault"
    if exists:
        root.mkdir(parents=True)
    with open_vault(root) as vault:
        assert git(root, "branch", "--show-current") == "main"
        assert git(root, "log", "--format=%s|%an") == "init: a vault for memories|system:self"
        path = self_note(vault)
        note = parse(vault.committed(path) or b"", path)
        assert (note.kind, note.id, note.title, note.type, note.tier) == (
            NoteKind.NOTE, vault.self_id, "Ada Example", "person", "core",
        )  # fmt: skip
        assert (note.tags, note.source, note.space) == (("about_self",), "system:self", None)
        assert path.startswith("global/person/2026-11/person_ada-example_")
    sound(root)


def test_two_daemons_may_lay_the_ground_at_once(tmp_path: Path) -> None:
    """The lock stands on it, so that none can be had before."""
    together = threading.Barrier(4)

    def lay(at: int) -> None:
        together.wait(120)
        make_own_folder(tmp_path / f"deep-{at}/vault")

    with ThreadPoolExecutor(4) as pool:
        for at in range(50):
            for one in [pool.submit(lay, at) for _ in range(4)]:
                one.result()
            assert os.listdir(tmp_path / f"deep-{at}/vault/.ormah") == [".gitignore"]


def test_neither_the_root_nor_the_home_folder_becomes_a_vault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    for root in (Path("/"), tmp_path / "home"):
        before = set(os.listdir(root))
        with pytest.raises(Unavailable, match="is no folder of notes"):
            check_folder(root)
        with pytest.raises(Unavailable), open_vault(root):
            pass
        assert set(os.listdir(root)) == before


def test_without_a_git_identity_the_self_node_is_you(tmp_path: Path, git_config: Path) -> None:
    git_config.write_text("")
    with open_vault(tmp_path / "v") as vault:
        path = self_note(vault)
        assert parse(vault.committed(path) or b"", path).title == "You"
    sound(tmp_path / "v")


def test_opening_again_changes_nothing(tmp_path: Path) -> None:
    with open_vault(tmp_path / "v") as vault:
        first = vault.id, vault.self_id, vault.head()
    with open_vault(tmp_path / "v", recover=False) as vault:
        assert vault.recover() == []
        assert (vault.id, vault.self_id, vault.head()) == first
    sound(tmp_path / "v")


def test_two_vaults_are_not_one(tmp_path: Path) -> None:
    with open_vault(tmp_path / "a") as a, open_vault(tmp_path / "b") as b:
        assert len({a.id, b.id, a.self_id, b.self_id}) == 4


def test_not_to_be_made(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no vault"):
        open_vault(tmp_path / "v", create=False)
    assert not (tmp_path / "v").exists()


def test_a_clone_is_the_same_vault(tmp_path: Path) -> None:
    with open_vault(tmp_path / "v") as vault:
        vault_id = vault.id
    git(tmp_path, "clone", "-q", str(tmp_path / "v"), "clone")
    with open_vault(tmp_path / "clone") as vault:
        assert vault.id == vault_id
    sound(tmp_path / "clone")


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("[broken", Unavailable, "cannot be read"),
        ("", Unavailable, "lacks format"),
        ("format = 1\n", Unavailable, "lacks format, id or self"),
        ("format = 2\n", Incompatible, "newer ormahd"),
        ("format = 1\nid = 'x'\nself = 'y'\n", Unavailable, "wrong one"),
    ],
)
def test_a_damaged_card(tmp_path: Path, text: str, error: type[Exception], says: str) -> None:
    open_vault(tmp_path / "v").close()
    card = tmp_path / "v/.ormah/vault.toml"
    card.write_text(text)
    with pytest.raises(error) as caught:
        open_vault(tmp_path / "v")
    assert says in f"{caught.value} {caught.value.hint}"  # type: ignore[attr-defined]
    git(tmp_path / "v", "restore", ".ormah/vault.toml")
    open_vault(tmp_path / "v").close()


def test_a_missing_card_is_not_a_new_vault(tmp_path: Path) -> None:
    open_vault(tmp_path / "v").close()
    head = git(tmp_path / "v", "rev-parse", "HEAD")
    (tmp_path / "v/.ormah/vault.toml").unlink()
    for _ in range(2):
        with pytest.raises(Unavailable, match="is missing") as caught:
            open_vault(tmp_path / "v")
    assert caught.value.hint is not None
    subprocess.run(caught.value.hint.split(), check=True)
    open_vault(tmp_path / "v").close()
    assert git(tmp_path / "v", "rev-parse", "HEAD") == head
    sound(tmp_path / "v")


@pytest.mark.parametrize("below", ["", "/deep/vault"])
def test_a_file_in_the_place_of_a_folder(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("a person's")
    with pytest.raises(Unavailable, match="/file is a file, not a folder"):
        open_vault(Path(f"{tmp_path}/file{below}"))
    assert (tmp_path / "file").read_text() == "a person's"


@pytest.mark.skipif(os.getuid() == 0, reason="nothing is read-only for root")
def test_a_read_only_folder(tmp_path: Path) -> None:
    (tmp_path / "v").mkdir(mode=0o500)
    with pytest.raises(Unavailable, match="nothing can be written"):
        open_vault(tmp_path / "v")


def test_a_folder_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "v").mkdir()
    (tmp_path / "v/.ormah").write_text("in the way")
    with pytest.raises(Unavailable, match="nothing can be written"):
        open_vault(tmp_path / "v")
