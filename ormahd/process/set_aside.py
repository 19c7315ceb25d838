"""Move out of the way whatever is in the place of a file or folder of the vault and is neither. It is never deleted
or opened."""

from __future__ import annotations

import contextlib
import logging
import os
import stat
from pathlib import Path
from typing import Final

from ormahd.process.disk import sync_directory

FOLDER: Final = ".ormah/conflicts/damaged"
"""Folder in the vault for things set aside from `.ormah`. Those from the git directory are in its `IN_GIT`."""
IN_GIT: Final = "ormah-damaged"

TOLD: Final = "README.txt"
"""The file that has a line on each thing set aside, in the same folder."""

log = logging.getLogger(__name__)


def set_aside(path: Path, into: Path, name: str) -> Path | None:
    """Move what is at `path` into the folder `into`, as `name` and a number. Return its new path, or None if nothing
    was there.

    A process that waits to read a pipe at `path` (such as a git that opened it) gets end of file, and continues.
    """
    into.mkdir(mode=0o700, parents=True, exist_ok=True)
    plain = name.strip("/.").replace("/", "-")
    number = 1
    while os.path.lexists(target := into / f"{plain}.{number}"):
        number += 1
    try:
        os.rename(path, target)
    except FileNotFoundError:
        return None
    if stat.S_ISFIFO(target.lstat().st_mode):
        with contextlib.suppress(OSError):  # ENXIO: no reader waits
            os.close(os.open(target, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC))
    sync_directory(into)
    sync_directory(path.parent)
    return target


def make_way(root: Path, name: str, why: str) -> None:
    """Set aside what is at `name` in the vault at `root`, if it exists, and log it. `why`: "was no file"."""
    where = set_aside(root / name, root / FOLDER, Path(name).name)
    if where is not None:
        log.warning("%s %s; what stood there is %s now", root / name, why, where)
        note(root / FOLDER, name, f"{why}, and was set aside")


def is_file(path: Path) -> bool:
    """Whether a regular file, or nothing, is at `path`. A pipe would block each process that opens it."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return not os.path.lexists(path)


def make_folder(root: Path, name: str) -> Path:
    """Return the folder `name` of the vault at `root`, created if needed. A file, link or pipe in its place is set
    aside."""
    folder = root / name
    for path in (
        (folder.parent, folder) if folder.parent != root else (folder,)
    ):  # a vault that is gone is not created again
        try:
            if stat.S_ISDIR(os.lstat(path).st_mode):
                continue
            make_way(root, path.relative_to(root).as_posix(), "was no folder")
        except FileNotFoundError:
            pass
        path.mkdir(mode=0o700, exist_ok=True)
        sync_directory(path.parent)
    return folder


def note(folder: Path, name: str, why: str) -> None:
    """Append a line for `findings`, which also a later process reads."""
    folder.mkdir(mode=0o700, exist_ok=True)
    with (folder / TOLD).open("a", encoding="utf-8", errors="surrogateescape") as file:
        file.write(f"{name} {why}\n")


def findings(root: Path, git_dir: Path) -> list[tuple[str, str]]:
    """Return (what was repaired or set aside, what a person can do about it); empty once the person has deleted the
    folders."""
    found = []
    for folder in (git_dir / IN_GIT, root / FOLDER):
        mend = f"look whether anything is missing (ormahctl verify), then: rm -r {folder}"
        try:
            lines = (folder / TOLD).read_text("utf-8", "replace").splitlines()
        except OSError:
            continue
        found += [(line, mend) for line in dict.fromkeys(lines)]
    return found
