"""Tell whether a person wrote a memory's guard. An agent's or a job's counts for nothing."""

from __future__ import annotations

from typing import Final

from ormahd.actions.amend import PERSON
from ormahd.index.rows import NodeRow
from ormahd.note.read import parse
from ormahd.ormah import Ormah

VERSIONS: Final = 50
"""Maximum number of versions by a person that are read, the newest first."""


def by_a_person(ormah: Ormah, row: NodeRow) -> bool:
    """Return whether a commit by a person has the note as it is: its guard, what it guards, and the text that says why.

    After an agent or a job changed one of these, the guard waits until a person writes it again.
    """
    today = (row.guard, row.paths, row.commands, row.space, row.title, row.content)
    for op in ormah.history.ops(node_id=row.id, source=PERSON, limit=VERSIONS):
        changed = ormah.history.of_node(op.commit, row.id)
        after = None if changed is None else ormah.history.pair(changed)[1]
        if after is None:
            continue
        note = parse(after[1], after[0])
        if today == (note.guard, note.paths, note.commands, note.space, note.title, note.content):
            return True
    return False
