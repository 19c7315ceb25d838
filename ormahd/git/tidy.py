"""Pack the loose objects and small packs that our commits leave: git becomes slow with thousands of them."""

from __future__ import annotations

import os

from ormahd.git.repository import Git
from ormahd.process.disk import sync_directory

LOOSE = 6000
"""The number of loose objects from which packing is worthwhile (git's own `gc.auto` is 6,700)."""
PACKS = 100
"""The number of packs from which small ones are combined: git searches packs one after the other."""


def loose_objects(git: Git) -> int:
    """Return the approximate number of loose objects, estimated from one of the 256 folders, as git does."""
    try:
        return 256 * len(os.listdir(git.common / "objects" / "17"))
    except FileNotFoundError:
        return 0


def packs(git: Git) -> int:
    return len(list((git.common / "objects" / "pack").glob("*.pack")))


def tidy(git: Git, *, beyond: int = LOOSE) -> bool:
    """Pack loose objects and small packs if there are many of either. Return whether it was done.

    Safe beside our writer and the person's git: only packed objects are deleted, and unreachable objects stay.
    """
    if loose_objects(git) <= beyond and packs(git) <= PACKS:
        return False
    git.run("repack", "--geometric=2", "-d", "-l", "--write-midx", "--quiet")
    sync_directory(git.common / "objects" / "pack")
    write_graph(git)
    return True


def write_graph(git: Git) -> None:
    """Have git write its commit-graph with changed paths, which makes the history of one note much faster.

    Helps Ormah's queries and the person's `git log`. Only commits since the last call are added.
    """
    git.run("commit-graph", "write", "--reachable", "--changed-paths", "--split", "--no-progress")
