"""Rewrites an op whose files have changed since it was decided: merges where possible, and never loses a person's
version.

For acknowledged ops (`vault_busy` with `stored: true`, or found after a crash), which can no longer be refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from ormahd.errors import Conflict
from ormahd.model.change import sha256
from ormahd.note.merge import merge_file
from ormahd.vault.conflicts import drop, save_aside
from ormahd.vault.intents import Intent, Step
from ormahd.vault.worktree import Worktree, Write


def on_today(worktree: Worktree, intent: Intent) -> tuple[Intent | None, list[str]]:
    """Return (the op rewritten to start from the files as they are now, sentences on what was set aside). None: nothing
    of it is left.

    A step that conflicts with a person's change is dropped, and its bytes are set aside under `.ormah/conflicts`. An op
    that removes a file, or that joins another history, is applied as a whole or not at all: after a merge of two
    memories, the one must not be removed without the other's new text, and a join must not count as complete with a
    part missing.
    """
    steps: list[Step] = []
    lost: list[Step] = []
    for step in intent.steps:
        try:
            now = worktree.read(step.path)
        except Conflict:
            lost.append(step)
            continue
        rewritten = _step_today(step, now)
        (lost if rewritten is None else steps).append(rewritten or step)
    whole = intent.joins is not None or any(step.data is None or step.apart for step in intent.steps)
    if lost and whole:
        return None, take_back(worktree, intent, steps)
    said = [_set_aside(worktree.root, intent, step) for step in lost]
    return (replace(intent, steps=tuple(steps)) if steps or intent.joins is not None else None), said


def take_back(worktree: Worktree, intent: Intent, steps: Sequence[Step]) -> list[str]:
    """Give up a whole op after a crash: undo its `steps`, as rewritten by `on_today`, and set its content aside. Return
    sentences."""
    for number, step in enumerate(steps):
        _as_before(worktree, intent, step, number)
    return give_up(worktree, intent)


def give_up(worktree: Worktree, intent: Intent) -> list[str]:
    """Set the content of a whole op aside. Return sentences on what was done. A join is only dropped: the other history
    is unchanged, and the next sync joins it again."""
    if intent.joins is not None:
        drop(worktree.root, intent.op)
        return [f"{intent.name} was taken back: a file was changed meanwhile; the next sync brings it in"]
    return [_set_aside(worktree.root, intent, step) for step in intent.steps]


def _step_today(step: Step, now: bytes | None) -> Step | None:
    if now in (step.base, step.data):
        return replace(step, base=now)
    if now is None or step.data is None:
        return None  # one side removed the file, the other changed it
    merged = merge_file(step.base, now, step.data, step.path).data
    return None if merged is None else replace(step, base=now, data=merged)


def _as_before(worktree: Worktree, intent: Intent, step: Step, number: int) -> None:
    """Undo a step that was written before the crash, when its op cannot be completed."""
    before = next(old.base for old in intent.steps if old.path == step.path)
    if step.base == before or step.base != step.data:
        return
    write = Write(step.path, step.old, before, f"{intent.op}.undo{number}")
    worktree.stage(write)
    worktree.place(write)
    worktree.finish(write)


def _set_aside(root: Path, intent: Intent, step: Step) -> str:
    if step.data is None:
        return f"kept {step.path}: it changed before {intent.name} could remove it"
    where = save_aside(root, intent.op, step.path, step.data)
    return f"kept {step.path} as it is: {intent.name} could not be merged into it and waits in {where}"


def late_save(worktree: Worktree, intent: Intent, number: int, late: bytes) -> str:
    """Bring a late save into today's file, uncommitted, for the watcher to find: an editor that had the file open wrote
    into the displaced version (`late`: its bytes). Return a sentence on what was done."""
    step = intent.steps[number]
    merged = late if step.data is None else merge_file(step.base, late, step.data, step.path).data
    new = late if merged is None else merged
    write = Write(step.path, None if step.data is None else sha256(step.data), new, f"{intent.op}.late{number}")
    try:
        worktree.stage(write)
        worktree.place(write)
    except Conflict:
        worktree.take_back(write)
        where = save_aside(worktree.root, intent.op, step.path, late)
        return f"{step.path} was saved twice while {intent.name} was written; the earlier save waits in {where}"
    worktree.finish(write)
    return f"{step.path} was saved while {intent.name} was written; the save was brought into the file"
