"""Without a daemon and without a vault, each finding names a mend that leads on, and not to a command that refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from ormahd.config import Config, load
from ormahd.offline_check import vault_findings


def at(root: Path) -> Config:
    return load(environ={"ORMAH_VAULT": str(root)})


def test_where_the_daemon_would_make_a_vault_it_is_to_be_started(tmp_path: Path) -> None:
    (found,) = vault_findings(at(tmp_path / "new" / "vault"))
    assert found.what == f"there is no vault at {tmp_path / 'new' / 'vault'}"
    assert found.mend.endswith("ormahctl up")


@pytest.mark.parametrize("below", ["", "vault"])
def test_a_path_that_is_no_folder_is_to_be_changed_where_it_is_set(tmp_path: Path, below: str) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"")
    (found,) = vault_findings(at(file / below))
    assert (found.level, found.what) == ("error", f"there can be no vault at {file / below}: {file} is no folder")
    assert found.mend == "set vault.path to a folder; it is set in ORMAH_VAULT"
