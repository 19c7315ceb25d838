"""For tests of the vault: git that knows one person and nothing of the machine, an observed house, two machines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ormahd.vault.vault import Vault
from tests import fresh_vault
from tests.vault.git_house import open_vault
from tests.vault.observed import House
from tests.vault.sync_house import FILES, Two, two_machines


@pytest.fixture(autouse=True)
def git_config(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path_factory.mktemp("git") / "config"
    file.write_text("[user]\n\tname = Ada Example\n\temail = ada@example.org\n[init]\n\tdefaultBranch = trunk\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(file))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    return file


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """An observed vault in which there is nothing left to do."""
    fresh_vault.copy_to(tmp_path / "vault", "observed", lambda root: House(root).close())
    house = House(tmp_path / "vault")
    house.settle()
    yield house
    house.close()


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Two]:
    """Two machines with one vault, and `FILES` in it."""
    one, other = two_machines(tmp_path, FILES)
    yield one, other
    one.vault.close()
    other.vault.close()


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[Vault]:
    """A vault of our own, with nothing in it but its first files."""
    with open_vault(tmp_path / "own") as vault:
        yield vault
