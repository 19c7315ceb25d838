"""A vault in which nothing was done yet: made once in a process as every vault is, and copied. A copy costs a fifth of the CPU.

Copies have one id and one first commit, so these are not for tests of several vaults, nor of how one begins.
"""

from __future__ import annotations

import atexit
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

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
