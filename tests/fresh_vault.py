"""A vault in which nothing was done yet: made once in a process as every vault is, and copied. A copy costs a fifth of the CPU.

Copies have one id and one first commit, so these are not for tests of several vaults, nor of how one begins.
"""

from __future__ import annotations

import atexit
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from ormahd.settings import VaultSettings
from ormahd.vault.vault import Vault

_made: dict[str, Path] = {}


def copy_to(root: Path, kind: str, make: Callable[[Path], object]) -> None:
    """Make `root` such a vault; `make` makes the first of its `kind`, in a folder of its own, and no daemon runs there when it
    returns."""
    if kind not in _made:
        folder = Path(tempfile.mkdtemp(prefix="orm"))
        atexit.register(shutil.rmtree, folder)
        make(folder / "vault")
        _made[kind] = folder / "vault"
    shutil.copytree(_made[kind], root, symlinks=True)
    subprocess.run(
        ["git", "update-index", "-q", "--refresh"], cwd=root, check=True
    )  # git knows files by their inodes too


def begin(root: Path, now: datetime) -> None:
    """Make `root` a vault that was begun at `now`, unless there is one."""
    if not root.exists():
        copy_to(root, f"begun at {now}", lambda one: Vault.open(VaultSettings(path=one), clock=lambda: now).close())
