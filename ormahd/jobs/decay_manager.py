"""Fading: a memory that nobody used for as long as its stability lasts leaves working for the archive, and comes back with use.

Source: seeds/data-model (tiers, FSRS), REFERENCE C 3.8 and I ("Lifecycle"). Different on purpose:

- A memory that was never used has 14 days, as the seeds say in words; their initial stability of 1.0 was 1.2 days.
- What came with an old date (an import, a folder that was adopted) has its days from when it came: nobody could use it before.
- Importance spares a memory for a while and not for ever (REFERENCE F 14): what was much used once fades in the end.
- The archive is no one-way door (F 13): what is opened there comes back.
- The self node, what is about the user and standing preferences never fade, and what somebody had in hand lately counts as used.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from math import log
from typing import TYPE_CHECKING

from msgspec import Struct

from ormahd.core import sql
from ormahd.core.importance import importance
from ormahd.core.node import EdgeType, NodeType, Tier
from ormahd.core.strength import lease, retrievability
from ormahd.errors import Conflict, NotFound
from ormahd.index.rows import Filter, moment
from ormahd.jobs.fading import bring_back, fade
from ormahd.jobs.job import Change, Step, Turn
from ormahd.jobs.touches import Touches
from ormahd.jobs.uniting import identities
from ormahd.jobs.uses import confirmed

if TYPE_CHECKING:
    from ormahd.index.rows import Candidate, NodeRow
    from ormahd.ormah import Ormah

_REPLACES = (EdgeType.DERIVED_FROM, EdgeType.EVOLVED_FROM)
_NEVER = datetime.min.replace(tzinfo=UTC)
DAY = timedelta(days=1)


class Faded(Struct, frozen=True):
    """A memory whose lease is over, with the numbers it was decided by. Days."""

    node: str
    days: float
    stability: float
    importance: float
    found: datetime
    """When it was last among the results of a search, or opened; else when it was made."""

    @property
    def retrievability(self) -> float:
        return retrievability(self.days, self.stability)


class DecayManager:
    name = "decay_manager"

    def plan(self, turn: Turn) -> Iterator[Step]:
        uses = confirmed(turn.ormah)
        yield from self._back(turn, uses)
        yield from self._fading(turn, uses)

    def _back(self, turn: Turn, uses: dict[str, datetime]) -> Iterator[Change]:
        """Archived memories that were used since they are there. Each use is looked at once."""
        ormah, touches = turn.ormah, None
        archived = ormah.index.notes(
            [node_id for node_id in ormah.index.ids(Filter(tiers=(Tier.ARCHIVAL,))) if node_id in uses],
            connections=False,
        )
        marks = {node_id: uses[node_id].isoformat() for node_id in archived}
        for node_id in turn.verdicts.unseen(self.name, marks):
            turn.give()
            row, used = archived[node_id], uses[node_id]
            mark = partial(turn.verdicts.seen, self.name, [(node_id, marks[node_id])])
            late = row.expired(turn.now) or turn.now - used > _lease(ormah, row)
            if not late and not replaced(ormah, row, turn.now):
                touches = touches or Touches(ormah.vault)
                since = touches.archived(row)
                if since is None or used >= since:
                    when = "it was in the archive" if since is None else f"in the archive since {since:%Y-%m-%d}"
                    yield bring_back(ormah, node_id, reason=f"Used on {used:%Y-%m-%d}; {when}.", done=mark)
                    continue
            if not turn.dry:
                mark()

    def _fading(self, turn: Turn, uses: dict[str, datetime]) -> Iterator[Change]:
        ormah = turn.ormah
        found = list(fading(turn, uses))
        # What was found lately goes last, though being found is no use that strengthens: a run that may not fade all of them
        # takes those that nobody comes across, and no answer is worse for it.
        found.sort(key=lambda one: (one.found, one.retrievability, one.importance, one.node))
        for done, one in enumerate(found):
            turn.progress(done, len(found), "fading")
            reason = (
                f"Not used for {one.days:.1f} days. Stability {one.stability:.1f} days, so retrievability is "
                f"{one.retrievability:.2f}, below {ormah.settings.decay.archive_below:g}; importance {one.importance:.2f}."
            )
            try:
                change = fade(ormah, one.node, reason=reason)
            except (Conflict, NotFound):  # moved or gone since the plan was made: there is nothing to fade
                continue
            yield change


def replaced(ormah: Ormah, row: NodeRow, now: datetime) -> bool:
    """Whether a living successor says what this memory said: the sum of a consolidation, or a newer belief."""
    sources = [edge.source for edge in ormah.index.edges(row.id)[1] if edge.edge in _REPLACES]
    successors = ormah.index.notes(sources, connections=False).values()
    return any(one.tier is not Tier.ARCHIVAL and not one.expired(now) for one in successors)


def fading(turn: Turn, uses: dict[str, datetime]) -> Iterator[Faded]:
    """The memories of working whose lease is over, in no order."""
    ormah = turn.ormah
    ids = ormah.index.ids(Filter(tiers=(Tier.WORKING,)))
    stale = [
        node_id for node_id, node in ormah.index.candidates(ids).items()
        if turn.now - max(moment(node.created), uses.get(node_id, _NEVER)) > _lease(ormah, node)
    ]  # fmt: skip
    if not stale:
        return
    me = {ormah.vault.self_id, *identities(ormah)}
    edges, touches = ormah.index.degrees(), Touches(ormah.vault)
    for some in sql.chunks(stale):  # with their texts: not all at once
        turn.give()
        rows = ormah.index.notes(some, connections=False)
        came = touches.came(rows.values())
        for row in rows.values():
            weight = importance(row.strength.access_count, edges.get(row.id, 0), (turn.now - row.last_accessed) / DAY)
            if row.id in me or spared(turn, row, weight):
                continue
            used = max(row.created, came.get(row.id, _NEVER), uses.get(row.id, _NEVER))
            lasts = _lease(ormah, row)
            if turn.now - used > lasts and touches.last(row, turn.now - lasts) is None:
                yield Faded(row.id, (turn.now - used) / DAY, _stability(ormah, row), weight, row.last_accessed)


def spared(turn: Turn, row: NodeRow, weight: float) -> bool:
    """Whether a memory stays although nobody used it: it is about the user, a preference that holds, or important."""
    decay = turn.ormah.settings.decay
    if row.about_self or (row.type is NodeType.PREFERENCE and not row.expired(turn.now)):
        return True
    return weight >= decay.important and turn.now - row.last_accessed <= timedelta(days=decay.important_days)


def _stability(ormah: Ormah, node: NodeRow | Candidate) -> float:
    """Days. Never less than what a memory has that was never used."""
    decay = ormah.settings.decay
    return max(node.strength.stability, decay.days / log(1 / decay.archive_below))


def _lease(ormah: Ormah, node: NodeRow | Candidate) -> timedelta:
    decay = ormah.settings.decay
    return timedelta(days=lease(node.strength.stability, days=decay.days, below=decay.archive_below))
