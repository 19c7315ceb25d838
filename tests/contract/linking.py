"""What the tests of links share."""

from __future__ import annotations

from collections.abc import Sequence

from ormahd.jobs.job import PlannedChange
from ormahd.jobs.links.change import Draft, EdgeToAdd
from ormahd.ormah import Ormah


def link(ormah: Ormah, wishes: Sequence[EdgeToAdd], *, subject: str, body: str) -> PlannedChange:
    """The commit that draws these edges."""
    draft = Draft(ormah)
    for wish in wishes:
        draft.add(wish)
    return draft.change(subject=subject, body=body)
