"""The commit message of an undo: a sentence, what became of each note, and trailers that name what was undone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ormahd.actions.views import iso
from ormahd.git.oplog import UNDOES, UNDOES_PART
from ormahd.model.change import Kind
from ormahd.model.node import short_id

if TYPE_CHECKING:
    from ormahd.actions.taking_back import UndoTask
    from ormahd.api import UndoChange
    from ormahd.vault.history import Op

SAID = 40
"""Maximum number of changes that a commit message lists."""


def subject(op: Op) -> str:
    """Return `Undo: …`, or `Redo: …` for the undo of an undo, and so on alternately."""
    if op.kind == Kind.UNDO:
        for verb, other in (("Undo: ", "Redo: "), ("Redo: ", "Undo: ")):
            if op.subject.startswith(verb):
                return other + op.subject.removeprefix(verb)
    return f"Undo: {op.subject}"


def body(task: UndoTask, changes: Sequence[UndoChange], reasons: Sequence[str]) -> str:
    """Return what was undone, what became of each note, and where a merge rule decided."""
    op = task.op
    which = f"{op.kind}, {op.source}, {iso(op.time)}"
    lines = [f"Takes back {'a part of ' if task.parts else ''}{op.name} ({which})."]
    for change in changes[:SAID]:
        name = f"{change.title} ({short_id(change.node_id)})" if change.node_id else change.path
        did = "merged with later edits" if change.did == "merged" else change.did
        lines.append(f"{did.capitalize()}: {name}")
    if len(changes) > SAID:
        lines.append(f"And {len(changes) - SAID} more.")
    return "\n".join([*lines, *dict.fromkeys(reasons)])


def trailers(task: UndoTask) -> list[tuple[str, str]]:
    """Return the trailers by which `git.oplog` recognises what was undone."""
    if not task.parts:
        return [(UNDOES, task.op.name)]
    return [(UNDOES_PART, " ".join(word for word in part if word)) for part in task.parts]
