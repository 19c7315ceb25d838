"""What stands in the place of a file or folder of ours and is none is moved out of the way, never deleted and never opened."""

from __future__ import annotations

import contextlib
import logging
import os
import stat
from pathlib import Path
from typing import Final

from ormahd.process.disk import sync_directory

FOLDER: Final = ".ormah/conflicts/damaged"
"""In the vault, for what was in `.ormah`. What was in git's folder lies in `IN_GIT` there."""
IN_GIT: Final = "ormah-damaged"

TOLD: Final = "README.txt"
"""A line on each, beside what was set aside."""

log = logging.getLogger(__name__)


def set_aside(path: Path, into: Path, name: str) -> Path | None:
    """Move what is at `path` into the folder `into`, under `name` and a number; where it is now, or None when nothing was there.
    Whoever waits for a pipe there (a git that opened it just before) reads an empty file, and goes on."""
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
        with contextlib.suppress(OSError):  # ENXIO: nobody waits
            os.close(os.open(target, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC))
    sync_directory(into)
    sync_directory(path.parent)
    return target


def make_way(root: Path, name: str, why: str) -> None:
    """Set aside what is at `name` in the vault at `root`, if anything is, and tell of it; `why`: "was no file"."""
    where = set_aside(root / name, root / FOLDER, Path(name).name)
    if where is not None:
        log.warning("%s %s; what stood there is %s now", root / name, why, where)
        note(root / FOLDER, name, f"{why}, and was set aside")


def is_file(path: Path) -> bool:
    """Whether a regular file can be opened at `path`, or nothing is there. A pipe would hold up each process that opens it."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return not os.path.lexists(path)


def make_folder(root: Path, name: str) -> Path:
    """Return the folder `name` of the vault at `root`, made where it is not. A file, a link or a pipe in its place is set aside."""
    folder = root / name
    for path in (
        (folder.parent, folder) if folder.parent != root else (folder,)
    ):  # a vault that is gone is not made again
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
    """Leave a line for `findings`, also of a later life."""
    folder.mkdir(mode=0o700, exist_ok=True)
    with (folder / TOLD).open("a", encoding="utf-8", errors="surrogateescape") as file:
        file.write(f"{name} {why}\n")


def findings(root: Path, git_dir: Path) -> list[tuple[str, str]]:
    """Return what was mended or set aside, each with what a person does about it; nothing once they have removed it."""
    found = []
    for folder in (git_dir / IN_GIT, root / FOLDER):
        mend = f"look whether anything is missing (ormahctl verify), then: rm -r {folder}"
        try:
            lines = (folder / TOLD).read_text("utf-8", "replace").splitlines()
        except OSError:
            continue
        found += [(line, mend) for line in dict.fromkeys(lines)]
    return found
