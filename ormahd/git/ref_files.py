"""The paths where git keeps refs, for watching, waiting on locks, fsync and comparing times.

Only git reads and writes their content, because there are two formats: one file per ref and `packed-refs` (`files`),
or tables of all refs (`reftable`).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

FILES: Final = "files"
"""Git's name of the first format, and the only one before git 2.45."""


class RefFiles:
    """The ref files of one repository."""

    def __init__(self, git_dir: Path, common: Path, ref_format: str) -> None:
        self._git_dir = git_dir
        self._common = common
        self.plain = ref_format == FILES
        """Whether each ref is a file. Otherwise no file is named after a ref."""
        self._head = git_dir / "HEAD" if self.plain else git_dir / "reftable" / "tables.list"

    def mark(self) -> object:
        """Return a value that changes whenever HEAD names another branch: HEAD's times, size and inode. None if it
        cannot be read: the caller then has to ask git."""
        try:
            found = os.stat(self._head)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino

    def locks(self, branch: str | None) -> list[Path]:
        """Return the lock files that would block moving HEAD."""
        if not self.plain:
            return [folder / "tables.list.lock" for folder in self._stacks()]
        locks = [self._git_dir / "HEAD.lock", self._common / "packed-refs.lock"]
        return [*locks, self._common / f"{branch}.lock"] if branch else locks

    def lock(self, name: str) -> Path:
        """Return the lock file of one ref."""
        return self._common / f"{name}.lock" if self.plain else self._common / "reftable" / "tables.list.lock"

    def has_file(self, name: str) -> bool:
        """Whether something is where the file of the ref `name` would be."""
        return self.plain and os.path.lexists(self._common / name) and not (self._common / name).is_dir()

    def folder(self, name: str | None) -> Path:
        """Return the folder whose names change when the ref `name` (None: HEAD itself) moves."""
        if not self.plain:
            return self._common / "reftable"
        return self._git_dir if name is None else (self._common / name).parent

    def moved_ns(self) -> int:
        """Return when HEAD moved last, in nanoseconds; -1 if that is not known."""
        try:
            return os.stat(self._git_dir / "logs" / "HEAD" if self.plain else self._head).st_mtime_ns
        except OSError:
            return -1

    def _stacks(self) -> list[Path]:
        """Return the folders of reftables: a linked worktree has its own besides the common one."""
        return list(dict.fromkeys((self._git_dir / "reftable", self._common / "reftable")))
