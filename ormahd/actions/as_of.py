"""Answer questions from the notes as they were at an earlier commit or time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ormahd.actions.views import iso
from ormahd.api import AsOf
from ormahd.model.strength import STRENGTH_FILE as STRENGTH
from ormahd.model.strength import read_strength
from ormahd.text.words import query_terms
from ormahd.vault.revisions import find_standing
from ormahd.watch.snapshot_files import State

if TYPE_CHECKING:
    from ormahd.index.snapshots import IndexSnapshot
    from ormahd.model.node import Strength
    from ormahd.ormah import Ormah

Progress = Callable[[int, int, str], None]


@contextmanager
def looking_back(
    ormah: Ormah, as_of: str, progress: Progress, *, query: str | None = None
) -> Iterator[tuple[IndexSnapshot, AsOf, datetime]]:
    """Provide the index of the state that `as_of` names, a description of that state, and its present time.

    `query`: the question that will be asked; notes that may match are embedded for it. `as_of`: see `vault.revisions`.

    Raises BadRequest, NotFound, Ambiguous: there is no such state. Unavailable: no room on the disk.
    """
    standing = find_standing(ormah.vault, as_of, ormah.ranking_clock())
    begun = time.perf_counter()

    def load() -> tuple[State, Mapping[str, Strength]]:
        state = State(ormah.vault, ormah.reconciler, standing.commit)
        return state, read_strength(state.file(STRENGTH) or b"")

    with ormah.pasts.at(standing.commit, standing.time, load, progress) as (past, cached):
        if query is not None:
            past.fill(query_terms(query), progress, quick=cached, stopped=ormah.pasts.stopped)
        seconds = round(time.perf_counter() - begun, 3)
        told = AsOf(
            standing.commit, standing.op, iso(standing.time) or "", iso(standing.moment.astimezone(UTC)) or "",
            past.count(), seconds, cached,
        )  # fmt: skip
        yield past, told, standing.moment
