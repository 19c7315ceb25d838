"""Finishes the batches that a crash or an error interrupted: an op whose commit is in the history is completed, and the
files of all others are put back as they were."""

from __future__ import annotations

import os

from ormahd.errors import Conflict
from ormahd.git.index import NextIndex, busy, entries
from ormahd.git.objects import TreeEntry
from ormahd.git.refs import find_commit, within
from ormahd.model.change import sha256
from ormahd.vault.apply import HELD, Applier
from ormahd.vault.conflicts import late_save
from ormahd.vault.intents import FileStep, WriteIntent
from ormahd.vault.worktree import STAGING, Write


def finish(applier: Applier, said: list[str]) -> str | None:
    """Finish the interrupted batches. Return None, or the reason why this must wait: another git program runs.

    Sentences on what was done are added to `said`.
    """
    while applier.interrupted:
        batch = applier.interrupted[0]
        if why := busy(applier.git, applier.lock):
            return why
        if not applier.lock.take(batch.ops[0].op):
            return HELD
        try:
            for intent in batch.ops:
                committed = find_commit(applier.git, intent.op) is not None or (
                    intent.joins is not None and within(applier.git, intent.joins, applier.git.head())
                )  # a join that was a fast-forward has no commit of its own
                said += _complete(applier, intent) if committed else _roll_back(applier, intent)
            applier.intents.done(batch)
            applier.interrupted.pop(0)
        finally:
            applier.lock.release()
    return None


def _complete(applier: Applier, intent: WriteIntent) -> list[str]:
    """Bring git's index and the folder in line with the op's commit, to which HEAD had moved."""
    said = []
    _complete_index(applier, intent)
    for number, step in enumerate(intent.steps):
        write = Write(step.path, step.old, step.data, intent.token(number))
        out = applier.worktree.displaced(write)
        if out is not None and out not in (step.base, step.data):
            said.append(late_save(applier.worktree, intent, number, out))
        applier.worktree.finish(write)
    return said


def _complete_index(applier: Applier, intent: WriteIntent) -> None:
    """Update git's index for the op's commit. A path that a person has staged since is left alone."""
    root = applier.objects.root(applier.git.head())
    paths = [os.fsencode(step.path) for step in intent.steps]
    known = entries(applier.git, paths)
    changes: dict[bytes, TreeEntry | None] = {}
    for step, path in zip(intent.steps, paths, strict=True):
        entry = applier.objects.find(root, path)
        was = None if step.base is None else applier.git.oid("blob", step.base)
        if known.get(path) != (entry and entry.oid) and known.get(path) in {was, None}:
            changes[path] = entry
    if changes:
        NextIndex(applier.git, changes).publish()


def _roll_back(applier: Applier, intent: WriteIntent) -> list[str]:
    """Put the files of an op back that was never committed. A file that a person has changed since stays as it is."""
    for number, step in enumerate(intent.steps):
        write = Write(step.path, step.old, step.data, intent.token(number))
        out = applier.worktree.displaced(write)
        if step.data != step.base and _is_written(applier, step):
            # What the write displaced is the base, or a person's save of that moment.
            back = out if out is not None and out != step.data else step.base
            undo = Write(step.path, None if step.data is None else sha256(step.data), back, f"{intent.op}.back{number}")
            try:
                applier.worktree.stage(undo)
                applier.worktree.place(undo)
                applier.worktree.finish(undo)
            except Conflict:  # the person has just saved the file
                applier.worktree.take_back(undo)
        applier.worktree.finish(write)
    return [f"took {intent.name} back, which was interrupted before it was committed"]


def _is_written(applier: Applier, step: FileStep) -> bool:
    """Whether the file has the op's bytes."""
    try:
        return applier.worktree.read(step.path) == step.data
    except Conflict:  # something that is no file
        return False


def sweep(applier: Applier) -> list[str]:
    """Set aside staged files that belong to no intent, because the intent was damaged. Return sentences on what was
    done."""
    folder = applier.worktree.root / STAGING
    said = []
    for path in sorted(folder.glob("*")) if folder.is_dir() else []:
        where = applier.worktree.root / ".ormah/conflicts/unclaimed" / path.name
        where.parent.mkdir(parents=True, exist_ok=True)
        os.replace(path, where)
        said.append(f"set {STAGING}/{path.name} aside in .ormah/conflicts/unclaimed: no intent claims it")
    return said
