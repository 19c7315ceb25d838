"""What is made of the default model at its first load (its basis): made once in a run of the suite, and
given to every house and index directory that is not about the making."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
from collections.abc import Iterator
from pathlib import Path

kept: Path | None = None
"""A directory that all workers of this run share (set by tests/conftest.py); without one each load makes its own."""


@contextlib.contextmanager
def made_once(directory: Path) -> Iterator[None]:
    """Inside, the default model is loaded with `directory`: it finds there what the first load of this run made."""
    if kept is None or directory.exists():
        yield
        return
    kept.mkdir(exist_ok=True)
    whole = kept / "whole"
    with (kept / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not whole.exists():
            yield
            shutil.copytree(directory, new := kept / "new")
            new.rename(whole)
            return
    directory.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(whole, directory)
    directory.chmod(0o700)
    yield
