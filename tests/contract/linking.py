"""What the tests of links share."""

from __future__ import annotations

from collections.abc import Sequence

from ormahd.jobs.job import Change
from ormahd.jobs.links.change import Draft, Wish
from ormahd.ormah import Ormah


def link(ormah: Ormah, wishes: Sequence[Wish], *, subject: str, body: str) -> Change:
    """The commit that draws these edges."""
    draft = Draft(ormah)
    for wish in wishes:
        draft.add(wish)
    return draft.change(subject=subject, body=body)
