"""Packing what our commits leave: each writes about eight loose objects, and thousands of those make git slow."""

from __future__ import annotations

import os

from ormahd.git.repository import Git
from ormahd.process.disk import sync_directory

LOOSE = 6000
"""Loose objects from which packing is worth it (git's own `gc.auto` is 6,700)."""
PACKS = 100
"""Packs from which the small ones are put together: git looks an object up in one after the other."""


def loose_objects(git: Git) -> int:
    """About how many there are, from one of the 256 folders, as git itself estimates it."""
    try:
        return 256 * len(os.listdir(git.common / "objects" / "17"))
    except FileNotFoundError:
        return 0


def packs(git: Git) -> int:
    return len(list((git.common / "objects" / "pack").glob("*.pack")))


def tidy(git: Git, *, beyond: int = LOOSE) -> bool:
    """Pack loose objects, and small packs with them, when there are many of either; True when it was done.

    Safe beside our writer and the person's git: nothing that is not in a pack is removed, and unreachable objects stay.
    """
    if loose_objects(git) <= beyond and packs(git) <= PACKS:
        return False
    git.run("repack", "--geometric=2", "-d", "-l", "--write-midx", "--quiet")
    sync_directory(git.common / "objects" / "pack")
    write_graph(git)
    return True


def write_graph(git: Git) -> None:
    """Have git note which commit is on which, and what paths each changed: what became of one note is then a matter of
    milliseconds among 30,000 commits, where it takes half a second, for our questions and for the person's `git log`. Only
    what came since the last time is added."""
    git.run("commit-graph", "write", "--reachable", "--changed-paths", "--split", "--no-progress")
