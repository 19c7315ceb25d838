"""Many packs under one index of git's own, so that a git that starts need not open each of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ormahd.git import packs
from ormahd.vault.vault import Vault
from tests.vault.git_house import batch, git, open_vault, sound


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packs, "EVERY", 3)


def listed(vault: Vault) -> Path:
    return vault.root / ".git/objects/pack/multi-pack-index"


def begun(vault: Vault) -> None:
    """Wait for what was begun beside us."""
    thread = vault._packs._thread
    if thread is not None:
        thread.join(120)


def test_every_so_many_packs_are_listed(tmp_path: Path) -> None:
    with open_vault(tmp_path / "v") as vault:
        for turn in range(2):
            batch(vault, turn)
        assert not listed(vault).exists()
        batch(vault, 2)
        begun(vault)
        git(vault.root, "multi-pack-index", "verify")
        before = listed(vault).stat().st_mtime_ns
        for turn in range(3, 6):
            batch(vault, turn)
        begun(vault)
        assert listed(vault).stat().st_mtime_ns > before
        git(vault.root, "multi-pack-index", "verify")
        assert [vault.committed(f"t{turn}/7.md") for turn in range(6)] == [b"%d 7\n" % turn for turn in range(6)]
        sound(vault.root)


def test_packs_of_an_earlier_life_count(tmp_path: Path) -> None:
    with open_vault(tmp_path / "v") as vault:
        for turn in range(2):
            batch(vault, turn)
    with open_vault(tmp_path / "v") as vault:
        batch(vault, 2)
        begun(vault)
        assert listed(vault).exists()
        sound(vault.root)


def test_not_while_packs_are_replaced(tmp_path: Path) -> None:
    with open_vault(tmp_path / "v") as vault:
        with vault.lineage:
            for turn in range(4):
                batch(vault, turn)
                begun(vault)
            assert not listed(vault).exists()
        for turn in range(4, 7):
            batch(vault, turn)
        begun(vault)
        assert listed(vault).exists()
        sound(vault.root)


def test_a_person_puts_all_together(tmp_path: Path) -> None:
    """`git gc` beside us drops the packs that are listed: nothing is missed, and the next ones are listed again."""
    with open_vault(tmp_path / "v") as vault:
        for turn in range(3):
            batch(vault, turn)
        begun(vault)
        git(vault.root, "gc", "--quiet", "--prune=now")
        for turn in range(3, 7):
            batch(vault, turn)
        begun(vault)
        assert [vault.committed(f"t{turn}/7.md") for turn in range(7)] == [b"%d 7\n" % turn for turn in range(7)]
        git(vault.root, "multi-pack-index", "verify")
        sound(vault.root)


def test_one_that_cannot_be_written_harms_nothing(tmp_path: Path) -> None:
    with open_vault(tmp_path / "v") as vault:
        (vault.root / ".git/objects/pack/multi-pack-index.lock").touch()  # another git writes it
        for turn in range(4):
            batch(vault, turn)
            begun(vault)
        assert not listed(vault).exists()
        assert vault.committed("t3/7.md") == b"3 7\n"
        (vault.root / ".git/objects/pack/multi-pack-index.lock").unlink()
        sound(vault.root)


def test_tidying_puts_them_together_and_lists_what_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ormahd.git import packs as tidy

    with open_vault(tmp_path / "v") as vault:
        for turn in range(5):
            batch(vault, turn)
        begun(vault)
        monkeypatch.setattr(tidy, "PACKS", 3)
        assert vault.tidy()
        assert tidy.packs(vault.git) == 1
        git(vault.root, "multi-pack-index", "verify")
        assert vault.committed("t4/7.md") == b"4 7\n"
        sound(vault.root)
