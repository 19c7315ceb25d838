"""Move unused memories from working to the archive when their lease ends ("fading"), and bring archived memories back when used.

Source: seeds/data-model (tiers, FSRS), REFERENCE C 3.8 and I ("Lifecycle"). Deliberate differences:

- A lease is weeks for events and months for decisions (`model.strength`).
- A day without any request counts only a little towards a lease (`model.strength`).
- A memory that was quoted in full in a whisper, or was among the first results of a recall, starts its lease again. Only
  confirmed use makes the lease longer.
- The lease of a memory with an old date (imported or adopted) starts when it came into the vault.
- Importance delays fading, but not for ever (REFERENCE F 14).
- An archived memory comes back when it is opened or judged useful (F 13). A memory that had faded also comes back when it is
  whispered, because whispers from the archive need a higher gate. A recall brings nothing back, because it always finds something.
- The self node, memories about the user and valid preferences never fade. A memory that a person or agent edited lately counts
  as used.
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
"""Minimum importance that delays fading."""
IMPORTANT_DAYS = 90.0
"""Importance delays fading only until this many days after the memory was last found or opened."""


class Faded(Struct, frozen=True):
    """A memory whose lease has ended, with the numbers behind that decision. Times are in days."""

    node: str
    days: float
    """Days since the last use, as leases count them: days without requests count only a little."""
    calendar: float
    """Calendar days since the last use."""
    lease: float
    importance: float
    found: datetime
    """When it was last among the first results of a recall or opened; if never, when it was created."""

    @property
    def over(self) -> float:
        """The unused days as a multiple of the lease; at least 1."""
        return self.days / self.lease

    @property
    def reason(self) -> str:
        counted = f"Not used for {self.calendar:.1f} days"
        if self.calendar - self.days >= 1:
            counted += f", which count {self.days:.1f}: on the others nothing was asked"
        return f"{counted}. Its lease was {self.lease:.1f} days; importance {self.importance:.2f}."


class DecayManager:
    """The job. It first brings used memories back from the archive, then fades unused ones."""

    name = "decay_manager"

    def plan(self, turn: Turn) -> Iterator[Step]:
        uses, time = used(turn.ormah), days(turn.ormah)
        yield from self._back(turn, uses, time)
        yield from self._fading(turn, uses, time)

    def _back(self, turn: Turn, uses: dict[str, LastUses], time: ActiveDays) -> Iterator[Change]:
        """Yield changes that bring back memories used since they were archived. Each use is examined once."""
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
        # Memories that were found lately fade last: if the limit of the run is reached, the memories that remain are those
        # that searches still find.
        found.sort(key=lambda one: (one.found, -one.over, one.importance, one.node))
        for done, one in enumerate(found):
            turn.progress(done, len(found), "fading")
            try:
                change = fade(ormah, one.node, reason=one.reason)
            except (Conflict, NotFound):  # the memory was moved or deleted since the search
                continue
            yield change


def _reason(uses: LastUses | None) -> datetime | None:
    """Return the time of the last use that may bring a memory back: a confirmed use or a whisper; None if there is none."""
    return None if uses is None else max((at for at in (uses.use, uses.whisper) if at is not None), default=None)


def _brought_back(uses: LastUses, since: Entry | None) -> str | None:
    """Return the reason why a memory archived by the commit `since` comes back; None if it stays.

    A whisper brings back only memories that had faded, not those that were archived in another way.
    """
    began = None if since is None else datetime.fromtimestamp(since.time, UTC)
    where = "it was in the archive" if began is None else f"in the archive since {began:%Y-%m-%d}"
    if uses.use is not None and (began is None or uses.use >= began):
        return f"Used on {uses.use:%Y-%m-%d}; {where}."
    faded = since is not None and since.kind == Kind.DECAY
    if faded and began is not None and uses.whisper is not None and uses.whisper >= began:
        return f"Whispered from the archive on {uses.whisper:%Y-%m-%d}; {where}."
    return None


def replaced(ormah: Ormah, row: NodeRow, now: datetime) -> bool:
    """Whether a valid memory outside the archive replaces this one: its summary, or the memory that evolved from it."""
    sources = [edge.source for edge in ormah.index.edges(row.id)[1] if edge.edge in _REPLACES]
    successors = ormah.index.notes(sources, connections=False).values()
    return any(one.tier is not Tier.ARCHIVAL and not one.expired(now) for one in successors)


def fading(turn: Turn, uses: dict[str, LastUses], time: ActiveDays) -> Iterator[Faded]:
    """Yield the memories in working whose lease has ended, in no particular order."""
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
    for some in sql.chunks(stale):  # in chunks, because the rows include the texts
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
    """Whether a memory never fades or not yet: it is about the user, a valid preference, or important and found lately.

    `weight`: its importance. `idle`: days since it was last found or opened.
    """
    if row.about_self or (row.type is NodeType.PREFERENCE and not row.expired(turn.now)):
        return True
    return weight >= IMPORTANT and idle <= IMPORTANT_DAYS


def leases(ormah: Ormah) -> Leases:
    """Return the rule for the length of leases, from the settings."""
    decay = ormah.settings.decay
    return Leases(decay.event_days, decay.fact_days, decay.decision_days, decay.archive_below)


def _last(uses: dict[str, LastUses], node_id: str) -> datetime:
    found = uses.get(node_id)
    return (found.last if found is not None else None) or _NEVER
