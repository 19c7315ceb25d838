"""Pack the loose objects and small packs that Ormah's commits leave. This takes seconds, and is done when the daemon is
idle."""

from __future__ import annotations

import os

from ormahd.git.repository import Git
from ormahd.process.disk import sync_directory

LOOSE = 6000
"""The number of loose objects above which `tidy` packs them (git's own `gc.auto` is 6,700)."""
PACKS = 100
"""The number of packs above which `tidy` combines small ones, because git searches packs one after the other."""


def loose_objects(git: Git) -> int:
    """Return the approximate number of loose objects: 256 times the number in one of their 256 folders, as git
    estimates it."""
    try:
        return 256 * len(os.listdir(git.git_dir / "objects" / "17"))
    except FileNotFoundError:
        return 0


def packs(git: Git) -> int:
    """Return the number of packs."""
    return len(list((git.git_dir / "objects" / "pack").glob("*.pack")))


def tidy(git: Git, *, beyond: int = LOOSE) -> bool:
    """Pack the loose objects and combine small packs, if there are more than `beyond` loose objects or more than
    `PACKS` packs. Return whether that was done.

    Safe while Ormah or the person's git writes: no object is lost, not even an unreachable one.
    """
    if loose_objects(git) <= beyond and packs(git) <= PACKS:
        return False
    git.run("repack", "--geometric=2", "-d", "-l", "--write-midx", "--quiet")
    sync_directory(git.git_dir / "objects" / "pack")
    write_graph(git)
    return True


def write_graph(git: Git) -> None:
    """Add the commits since the last call to git's commit-graph, with the paths that they changed.

    Git then finds the history of one note much faster, for Ormah and for the person's `git log PATH`.
    """
    git.run("commit-graph", "write", "--reachable", "--changed-paths", "--split", "--no-progress")
