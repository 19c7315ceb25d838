"""The paths of the files in which git keeps refs. They are watched, fsynced, and examined for locks and times.

Their content is read and written by git only, because there are two formats: one file per ref and `packed-refs`
(`files`), or tables of all refs (`reftable`).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

FILES: Final = "files"
"""Git's name of the format with one file per ref, the only format before git 2.45."""


class RefFiles:
    """Tells in which files git stores the refs of one repository, and the paths of their lock files."""

    def __init__(self, git_dir: Path, common: Path, ref_format: str) -> None:
        self._git_dir = git_dir
        self._common = common
        self.plain = ref_format == FILES
        """Whether the format is `files`, so that a ref's file has the ref's name."""
        self._head = git_dir / "HEAD" if self.plain else git_dir / "reftable" / "tables.list"

    def mark(self) -> object:
        """Return a value that changes whenever HEAD names another branch: times, size and inode of HEAD's file.

        None if that file's stat cannot be read; the caller then has to ask git.
        """
        try:
            found = os.stat(self._head)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino

    def locks(self, branch: str | None) -> list[Path]:
        """Return the paths of the lock files that would block moving HEAD, which is on `branch` (None: detached)."""
        if not self.plain:
            return [folder / "tables.list.lock" for folder in self._stacks()]
        locks = [self._git_dir / "HEAD.lock", self._common / "packed-refs.lock"]
        return [*locks, self._common / f"{branch}.lock"] if branch else locks

    def lock(self, name: str) -> Path:
        """Return the path of the lock file of the ref `name`."""
        return self._common / f"{name}.lock" if self.plain else self._common / "reftable" / "tables.list.lock"

    def has_file(self, name: str) -> bool:
        """Whether something other than a folder is at the path of the ref's file."""
        return self.plain and os.path.lexists(self._common / name) and not (self._common / name).is_dir()

    def folder(self, name: str | None) -> Path:
        """Return the folder to fsync after the ref `name` (None: HEAD itself) was moved."""
        if not self.plain:
            return self._common / "reftable"
        return self._git_dir if name is None else (self._common / name).parent

    def moved_ns(self) -> int:
        """Return the time at which HEAD moved last, in nanoseconds since 1970; -1 if unknown."""
        try:
            return os.stat(self._git_dir / "logs" / "HEAD" if self.plain else self._head).st_mtime_ns
        except OSError:
            return -1

    def _stacks(self) -> list[Path]:
        """Return the folders with reftables: one, or in a linked worktree two (its own, and that of the main
        worktree)."""
        return list(dict.fromkeys((self._git_dir / "reftable", self._common / "reftable")))
