"""Finish a write that a crash or an error interrupted: bring the folder and git's index in line with its commits. If it
made no commit, remove what it left."""

from __future__ import annotations

import os
from pathlib import Path

from ormahd.errors import Conflict
from ormahd.git.index import NextIndex, blobs_in_index, busy
from ormahd.git.objects import REGULAR, TreeEntry
from ormahd.git.refs import within
from ormahd.model.change import sha256
from ormahd.process import own_files
from ormahd.process.disk import set_aside, sync_directory
from ormahd.vault.apply import Applier
from ormahd.vault.conflicts import merge_late_save
from ormahd.vault.op import FileChange
from ormahd.vault.worktree import STAGING, Write

UNKNOWN_OP = "unclaimed"
"""Stands for the op's id of a save that is found after a crash: the op that wrote the file is unknown."""


def finish_write(applier: Applier, sentences: list[str]) -> str | None:
    """Finish a write that was interrupted, if its `index.lock` is left. Return None, or the reason why this must wait:
    another git program runs.

    Sentences on what was done are added to `sentences`.
    """
    if not applier.lock.is_ours():
        return None
    if why := busy(applier.git, applier.lock):
        return why
    noted = applier.lock.noted_move()
    made = noted is not None and applier.git.resolve(noted[1]) is not None
    if noted is not None and made and within(applier.git, noted[1], applier.git.head()):
        sentences += _complete(applier, *noted)
    else:
        sentences.append("removed the index.lock of a write that was interrupted before it was committed")
    staging = applier.worktree.root / STAGING
    for path in staging.glob("*"):  # versions that were staged, and never placed
        own_files.remove(path)
    applier.lock.release()
    return None


def _complete(applier: Applier, head: str | None, tip: str) -> list[str]:
    """Complete a write that has moved HEAD from `head` to `tip`. Return sentences on what a person should know.

    A file that equals the version in `head` gets the version in `tip`; one that a person has saved since is merged. A
    file whose new version is in git's index is complete already.
    """
    git, worktree = applier.git, applier.worktree

    # The files that the commits changed, and what git's index has of them.
    differing = applier.objects.differences(applier.objects.root_tree(head), applier.objects.root_tree(tip))
    files = [one for one in differing if all(entry is None or entry.mode in REGULAR for entry in one[1:])]
    known = blobs_in_index(git, [path for path, *_ in files])
    sentences: list[str] = []
    index: dict[bytes, TreeEntry | None] = {}
    for path, old, new in files:
        base, data = (None if one is None else git.read(one.oid, "blob") for one in (old, new))
        change = FileChange(os.fsdecode(path), None, base, data)
        write = Write(change.path, None, None)
        late = worktree.read_staged(write)
        try:
            if late is not None and late not in (base, data):
                sentences.append(merge_late_save(worktree, change, late, UNKNOWN_OP))
            if known.get(path) == (new and new.oid):  # git's index was written last, so the file is complete
                continue
            sentences += _complete_file(applier, change)
            for folder in worktree.folders(write):
                sync_directory(folder)
        except (OSError, Conflict) as exc:
            if own_files.is_full(exc):
                raise
            sentences.append(f"{change.path} is committed, but cannot be brought into the folder: {exc}")
            if late is not None and late not in (base, data):
                _set_aside(worktree.root / STAGING / write.token, worktree.root)
        if known.get(path) == (old and old.oid):  # else a person has staged it, who removed the lock
            index[path] = new

    # Bring git's index in line, except what a person has staged since.
    if index:
        made = NextIndex(git, index)
        try:
            made.publish()
        finally:
            made.drop()
    return sentences


def _complete_file(applier: Applier, change: FileChange) -> list[str]:
    """Write the new version of one file into the folder, or merge it into what a person has saved. Return sentences on
    merges."""
    worktree = applier.worktree
    try:
        found = worktree.read(change.path)
        if found == change.base:
            write = Write(change.path, None if found is None else sha256(found), change.data)
            late = worktree.replace(write)
            return [] if late is None else [merge_late_save(worktree, change, late, UNKNOWN_OP)]
        if found is not None and found != change.data:
            return [merge_late_save(worktree, change, found, UNKNOWN_OP)]
    except Conflict:  # no file, or a person saves it just now: the next scan takes it in
        pass
    return []


def _set_aside(staged: Path, root: Path) -> None:
    """Move a staged file to `.ormah/conflicts/unclaimed`."""
    set_aside(staged, root / ".ormah/conflicts/unclaimed", staged.name)


def set_aside_unclaimed(applier: Applier) -> list[str]:
    """Set aside the staged files that belong to no write any more, because its `index.lock` was removed. Return
    sentences on what was done."""
    folder = applier.worktree.root / STAGING
    sentences = []
    for path in sorted(folder.glob("*")) if folder.is_dir() else []:
        _set_aside(path, applier.worktree.root)
        sentences.append(f"set {STAGING}/{path.name} aside in .ormah/conflicts/unclaimed: no write claims it")
    return sentences
