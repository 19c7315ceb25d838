"""Fading: a memory that nobody used for as long as its lease lasts leaves working for the archive, and comes back with use.

Source: seeds/data-model (tiers, FSRS), REFERENCE C 3.8 and I ("Lifecycle"). Different on purpose:

- A lease lasts weeks for what happened and months for what was decided (`model.strength`); the seeds' initial stability of 1.0 was 1.2
  days for everything.
- A day on which nobody asked anything hardly counts (`model.strength`).
- What stood in full in a whisper, or among the first of a recall, begins its lease anew; only confirmed use makes it longer.
- What came with an old date (an import, a folder that was adopted) has its days from when it came: nobody could use it before.
- Importance spares a memory for a while and not for ever (REFERENCE F 14): what was much used once fades in the end.
- The archive is no one-way door (F 13): what is opened there comes back, and so does what had faded and is whispered from there,
  because that takes more than the usual gate. Being found by a recall brings nothing back: a recall always finds something.
- The self node, what is about the user and standing preferences never fade, and what somebody had in hand lately counts as used.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from ormahd.errors import Conflict, NotFound
from ormahd.index.rows import Filter, moment
from ormahd.jobs.consolidation.change import identities
from ormahd.jobs.decay.accesses import Touches, days, used
from ormahd.jobs.decay.change import bring_back, fade
from ormahd.jobs.job import Change, Step, Turn
from ormahd.model.change import Kind
from ormahd.model.node import EdgeType, NodeType, Tier
from ormahd.model.strength import Leases, importance
from ormahd.process import sql

if TYPE_CHECKING:
    from ormahd.git.oplog import Entry
    from ormahd.index.rows import NodeRow
    from ormahd.model.strength import ActiveDays, LastUses
    from ormahd.ormah import Ormah

_REPLACES = (EdgeType.DERIVED_FROM, EdgeType.EVOLVED_FROM)
_NEVER = datetime.min.replace(tzinfo=UTC)
DAY = timedelta(days=1)
IMPORTANT = 0.5
"""Importance from which a memory is spared for a while (the seeds')."""
IMPORTANT_DAYS = 90.0
"""Days since it was last found or opened until which importance spares it: without an end 50 uses kept one for ever."""


class Faded(Struct, frozen=True):
    """A memory whose lease is over, with the numbers it was decided by. Days."""

    node: str
    days: float
    """Unused, as its lease counts them."""
    calendar: float
    """The same by the calendar."""
    lease: float
    importance: float
    found: datetime
    """When it was last among the first of a recall, or opened; else when it was made."""

    @property
    def over(self) -> float:
        """Leases that have passed: from 1."""
        return self.days / self.lease

    @property
    def reason(self) -> str:
        counted = f"Not used for {self.calendar:.1f} days"
        if self.calendar - self.days >= 1:
            counted += f", which count {self.days:.1f}: on the others nothing was asked"
        return f"{counted}. Its lease was {self.lease:.1f} days; importance {self.importance:.2f}."


class DecayManager:
    name = "decay_manager"

    def plan(self, turn: Turn) -> Iterator[Step]:
        uses, time = used(turn.ormah), days(turn.ormah)
        yield from self._back(turn, uses, time)
        yield from self._fading(turn, uses, time)

    def _back(self, turn: Turn, uses: dict[str, LastUses], time: ActiveDays) -> Iterator[Change]:
        """Archived memories that were used since they are there. Each use is looked at once."""
        ormah, touches, rule = turn.ormah, None, leases(turn.ormah)
        archived = ormah.index.notes(
            [
                node_id
                for node_id in ormah.index.ids(Filter(tiers=(Tier.ARCHIVAL,), writable=True))
                if _reason(uses.get(node_id))
            ],
            connections=False,
        )
        marks = {node_id: _reason(uses[node_id]) for node_id in archived}
        for node_id in turn.verdicts.unseen(
            self.name, {node_id: at.isoformat() for node_id, at in marks.items() if at}
        ):
            turn.give()
            row, last = archived[node_id], marks[node_id] or _NEVER
            mark = partial(turn.verdicts.seen, self.name, [(node_id, last.isoformat())])
            lasts = rule.days(row.type, row.strength.stability, row.id)
            late = row.expired(turn.now) or time.between(last, turn.now) > lasts
            if not late and not replaced(ormah, row, turn.now):
                touches = touches or Touches(ormah.vault)
                reason = _brought_back(uses[node_id], touches.archived(row))
                if reason is not None:
                    yield bring_back(ormah, node_id, reason=reason, done=mark)
                    continue
            if not turn.dry:
                mark()

    def _fading(self, turn: Turn, uses: dict[str, LastUses], time: ActiveDays) -> Iterator[Change]:
        ormah = turn.ormah
        found = list(fading(turn, uses, time))
        # What was found lately goes last, though being found strengthens nothing: a run that may not fade all of them
        # takes those that nobody comes across, and no answer is worse for it.
        found.sort(key=lambda one: (one.found, -one.over, one.importance, one.node))
        for done, one in enumerate(found):
            turn.progress(done, len(found), "fading")
            try:
                change = fade(ormah, one.node, reason=one.reason)
            except (Conflict, NotFound):  # moved or gone since the plan was made: there is nothing to fade
                continue
            yield change


def _reason(uses: LastUses | None) -> datetime | None:
    """The last use that may bring a memory back: a confirmed one, or a whisper."""
    return None if uses is None else max((at for at in (uses.use, uses.whisper) if at is not None), default=None)


def _brought_back(uses: LastUses, since: Entry | None) -> str | None:
    """Why a memory comes back that `since` moved to the archive; None: it stays. A whisper brings back what had faded, not what
    somebody put there."""
    began = None if since is None else datetime.fromtimestamp(since.time, UTC)
    where = "it was in the archive" if began is None else f"in the archive since {began:%Y-%m-%d}"
    if uses.use is not None and (began is None or uses.use >= began):
        return f"Used on {uses.use:%Y-%m-%d}; {where}."
    faded = since is not None and since.kind == Kind.DECAY
    if faded and began is not None and uses.whisper is not None and uses.whisper >= began:
        return f"Whispered from the archive on {uses.whisper:%Y-%m-%d}; {where}."
    return None


def replaced(ormah: Ormah, row: NodeRow, now: datetime) -> bool:
    """Whether a living successor says what this memory said: the sum of a consolidation, or a newer belief."""
    sources = [edge.source for edge in ormah.index.edges(row.id)[1] if edge.edge in _REPLACES]
    successors = ormah.index.notes(sources, connections=False).values()
    return any(one.tier is not Tier.ARCHIVAL and not one.expired(now) for one in successors)


def fading(turn: Turn, uses: dict[str, LastUses], time: ActiveDays) -> Iterator[Faded]:
    """The memories of working whose lease is over, in no order."""
    ormah, rule = turn.ormah, leases(turn.ormah)
    stale = []
    for node_type in NodeType:
        ids = ormah.index.ids(Filter(types=(node_type,), tiers=(Tier.WORKING,), writable=True))
        for node_id, node in ormah.index.candidates(ids).items():
            since = max(moment(node.created), _last(uses, node_id))
            if time.between(since, turn.now) > rule.days(node_type, node.strength.stability, node_id):
                stale.append(node_id)
    if not stale:
        return
    me = {ormah.vault.self_id, *identities(ormah)}
    edges, touches = ormah.index.degrees(), Touches(ormah.vault)
    for some in sql.chunks(stale):  # with their texts: not all at once
        turn.give()
        rows = ormah.index.notes(some, connections=False)
        came = touches.came(rows.values())
        for row in rows.values():
            idle = time.between(row.last_accessed, turn.now)
            weight = importance(row.strength.access_count, edges.get(row.id, 0), idle)
            if row.id in me or spared(turn, row, weight, idle):
                continue
            since = max(row.created, came.get(row.id, _NEVER), _last(uses, row.id))
            lasts = rule.days(row.type, row.strength.stability, row.id)
            unused = time.between(since, turn.now)
            if unused > lasts and touches.last(row, time.back(turn.now, lasts)) is None:
                yield Faded(row.id, unused, (turn.now - since) / DAY, lasts, weight, row.last_accessed)


def spared(turn: Turn, row: NodeRow, weight: float, idle: float) -> bool:
    """Whether a memory stays although nobody used it: it is about the user, a preference that holds, or important and found or
    opened lately (`idle`: days since)."""
    if row.about_self or (row.type is NodeType.PREFERENCE and not row.expired(turn.now)):
        return True
    return weight >= IMPORTANT and idle <= IMPORTANT_DAYS


def leases(ormah: Ormah) -> Leases:
    """The rule as the settings have it."""
    decay = ormah.settings.decay
    return Leases(decay.event_days, decay.fact_days, decay.decision_days, decay.archive_below)


def _last(uses: dict[str, LastUses], node_id: str) -> datetime:
    found = uses.get(node_id)
    return (found.last if found is not None else None) or _NEVER
