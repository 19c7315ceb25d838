"""Recovers promised ops after a crash: finds out how far each one got, and turns what is left of it into an ordinary
op."""

from __future__ import annotations

import os

from ormahd.errors import Conflict
from ormahd.git.index import NextIndex, busy, entries
from ormahd.git.objects import TreeEntry
from ormahd.git.refs import find_commit, is_of
from ormahd.model.change import Committed, sha256
from ormahd.vault.apply import HELD, Applier, Queued
from ormahd.vault.conflicts import late_save, on_today, save_aside, take_back
from ormahd.vault.conversion import FilterFailed
from ormahd.vault.intents import FileStep, WriteIntent, op_of
from ormahd.vault.worktree import STAGING, Write


def repair(applier: Applier, op: Queued, said: list[str]) -> str | None:
    """Find out how far an uncertain op got, and prepare it or end it. Return None, or the reason why this must wait:
    another git program runs, and nothing was done.

    If the op is not `uncertain` afterwards, it must be applied like any other. If it still is, the op is over: it was
    found in the history, or its new bytes were set aside. Sentences on what was done are added to `said`.
    """
    if why := busy(applier.git, applier.lock):
        return why
    if not applier.lock.take(op.intent.op):
        return HELD
    intent = op.intent
    commit = find_commit(applier.git, intent.op)
    if commit is not None:
        applier.settle(intent)
        _complete_index(applier, intent, commit)
        said += _late_saves(applier, intent)
        op.result = Committed(
            intent.op, commit, intent.kind, intent.source, intent.subject, intent.time,
            tuple(step.change() for step in intent.steps),
        )  # fmt: skip
        applier.intents.done(intent.op)
    else:
        _bring_back(applier, intent, said)
        today, sentences = on_today(applier.worktree, intent)
        if today is not None and intent.joins is not None and applier.git.resolve(f"{intent.joins}^{{commit}}") is None:
            sentences = take_back(applier.worktree, intent, today.steps)  # the commit to join was pruned
            today = None
        said += sentences
        if today is not None:
            applier.intents.write(today)
            op.intent = today
            op.uncertain = False
            said.append(f"wrote {intent.name}, which was promised before")
            return None  # index.lock stays held until `apply`, so that no other program commits in between
        applier.intents.remove(intent.op)
    applier.lock.release()
    return None


def _bring_back(applier: Applier, intent: WriteIntent, said: list[str]) -> None:
    """Examine the files that the op displaced before the crash. If one of them is a version that a person had just
    saved, it is put back at its path, or set aside when the person has saved the file again."""
    for number, step in enumerate(intent.steps):
        write = Write(step.path, step.old, step.data, intent.token(number))
        out = applier.worktree.displaced(write)
        if out is None:
            continue
        try:
            now = applier.worktree.read(step.path)
        except Conflict:
            now = None
        half = step.data is not None and step.data.startswith(out)
        if out not in (step.base, step.data):
            if now == step.data:
                theirs = Write(step.path, None if now is None else sha256(now), out, f"{intent.op}.back{number}")
                applier.worktree.stage(theirs)
                applier.worktree.place(theirs)
                applier.worktree.finish(theirs)
                said.append(f"{step.path} was saved in the moment of a crash; the save was kept")
            elif now != out and not half:
                where = save_aside(applier.worktree.root, intent.op, step.path, out)
                said.append(f"{step.path} was saved twice in the moment of a crash; the earlier save waits in {where}")
        applier.worktree.finish(write)


def _late_saves(applier: Applier, intent: WriteIntent) -> list[str]:
    said = []
    for number, step in enumerate(intent.steps):
        write = Write(step.path, step.old, step.data, intent.token(number))
        out = applier.worktree.displaced(write)
        if out is not None and out not in (step.base, step.data):
            said.append(late_save(applier.worktree, intent, number, out))
        applier.worktree.finish(write)
    return said


def _before(applier: Applier, intent: WriteIntent, commit: str) -> str | None:
    """Return the tree of the commit before the op's first commit. `commit`: the op's own commit."""
    parent = applier.git.resolve(f"{commit}^1")
    if parent is not None and intent.first is not None and is_of(applier.git, parent, intent.op):
        parent = applier.git.resolve(f"{parent}^1")
    return applier.objects.root(parent)


def _complete_index(applier: Applier, intent: WriteIntent, commit: str) -> None:
    """Update git's index for the op's commit, to which HEAD had moved before the crash. A path that a person has
    staged after the crash is left alone."""
    root = applier.objects.root(applier.git.head())
    paths = [applier.where(step.path) for step in intent.steps]
    known = entries(applier.git, paths)
    told: dict[bytes, TreeEntry | None] = {}
    earlier = _before(applier, intent, commit)
    for step, path in zip(intent.steps, paths, strict=True):
        entry = applier.objects.find(root, path)
        was = applier.objects.find(earlier, path)
        before = _blob_id(applier, step)
        if known.get(path) != (entry.oid if entry else None) and known.get(path) in {before, was and was.oid, None}:
            told[path] = entry
    for line in intent.entries:
        told[applier.where(line.path)] = applier.objects.find(root, applier.where(line.path))
    if told:
        NextIndex(applier.git, applier.lock.vault_id, told).publish()


def _blob_id(applier: Applier, step: FileStep) -> str | None:
    """Return the blob id of the file before the op; None: there was no file, or git cannot convert it."""
    try:
        return None if step.base is None else applier.conversion.blob_id(step.path, step.base)
    except FilterFailed:  # the caller also compares with the blob of the op's parent
        return None


def sweep(applier: Applier, ops: set[str]) -> list[str]:
    """Set aside staged files that belong to no intent, because the intent was damaged. Staged files of these `ops`
    are left alone. Return sentences on what was done."""
    folder = applier.worktree.root / STAGING
    said = []
    for path in sorted(folder.glob("*")) if folder.is_dir() else []:
        if op_of(path.name) in ops:
            continue
        where = applier.worktree.root / ".ormah/conflicts/unclaimed" / path.name
        where.parent.mkdir(parents=True, exist_ok=True)
        os.replace(path, where)
        said.append(f"set {STAGING}/{path.name} aside in .ormah/conflicts/unclaimed: no intent claims it")
    return said
