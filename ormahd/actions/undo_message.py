"""What an undo's commit says: a sentence for people, what became of each note, and what was taken back, for programs."""

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
"""Changes that a commit's message lists; a large import has thousands."""


def subject(op: Op) -> str:
    """`Undo: …`, and of an undo `Redo: …`, however often it goes back and forth."""
    if op.kind == Kind.UNDO:
        for verb, other in (("Undo: ", "Redo: "), ("Redo: ", "Undo: ")):
            if op.subject.startswith(verb):
                return other + op.subject.removeprefix(verb)
    return f"Undo: {op.subject}"


def body(task: UndoTask, changes: Sequence[UndoChange], reasons: Sequence[str]) -> str:
    """What was taken back, what became of each note, and where a rule chose between two changes."""
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
    """What `git.oplog` knows it by."""
    if not task.parts:
        return [(UNDOES, task.op.name)]
    return [(UNDOES_PART, " ".join(word for word in part if word)) for part in task.parts]
