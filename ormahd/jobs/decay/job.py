"""Strength and tiers: store uses, compute importance, archive unused memories ("fading"), and bring used ones back.

The importance scorer folds uses in: it writes the accesses and active days from the state, and the importance of
each memory, to `.ormah/strength.jsonl` and `.ormah/active_days.jsonl`, in one commit per run, or none if nothing
changed enough. Only this job writes these files. It also moves memories out of a core tier that has too many.
Formula: `model.strength`; source: REFERENCE C 3.8 and I.

The decay manager moves unused memories from working to the archive when their lease ends, and brings archived
memories back when used. Each move is one commit. Nothing is deleted and no text changes. Search still finds an
archived memory if no other memory fits as well. Source: seeds/data-model (tiers, FSRS), REFERENCE C 3.8 and I
("Lifecycle"). Deliberate differences:

- A lease is weeks for events and months for decisions (`model.strength`).
- A day without any request counts only a little towards a lease (`model.strength`).
- A memory that was quoted in full in a whisper, or was among the first results of a recall, starts its lease again.
  Only confirmed use makes the lease longer.
- The lease of an imported memory with an old date starts when the memory came into the vault.
- An important memory fades later, but not never (REFERENCE F 14).
- An archived memory comes back when it is opened or judged useful (F 13). A memory that had faded also comes back when
  it is whispered, because whispers from the archive need a higher gate. A recall brings nothing back, because it always
  finds something.
- The self node, memories about the user and valid preferences never fade. A memory that a person or agent edited lately
  counts as used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ormahd.actions.amend import core_notes, identities, leaving_core
from ormahd.actions.views import headline
from ormahd.errors import BadRequest, Conflict, NotFound
from ormahd.index.history import Op
from ormahd.index.rows import MEMORIES, Filter, NodeRow, moment
from ormahd.jobs.decay.accesses import NoteChanges, Waiting, days, settle, used, waiting
from ormahd.jobs.job import Edit, PlannedChange, RunContext, Step, note_edits
from ormahd.model import strength
from ormahd.model.change import Kind
from ormahd.model.node import EdgeType, NodeType, Tier
from ormahd.model.strength import STRENGTH_FILE, Access, ActiveDays, LastUses, Leases, Score, importance
from ormahd.note.read import digest
from ormahd.ormah import Ormah
from ormahd.process import priority, sql

MOVES: Final = {
    (Tier.WORKING, Tier.ARCHIVAL): (Kind.DECAY, "Fade"),
    (Tier.ARCHIVAL, Tier.WORKING): (Kind.PROMOTE, "Bring back"),
    (Tier.CORE, Tier.WORKING): (Kind.DECAY, "Leave core"),
}
"""{(tier before, tier after): (kind of the commit, verb of its subject)}."""


def move(ormah: Ormah, node_id: str, was: Tier, becomes: Tier, *, reason: str) -> PlannedChange:
    """Return the change that moves a memory from the tier `was` to `becomes`. `node_id`: a full id.

    Raises:
        NotFound: the id is unknown. BadRequest: it is the self node. Conflict: the memory is not in the tier `was`.
    """
    row, (kind, verb) = ormah.index.note(node_id), MOVES[was, becomes]
    name = headline(row.title, row.content)
    if row.id == ormah.vault.self_id:
        raise BadRequest(f"“{name}” is the self node, which stays in core", hint="choose another memory")
    if row.tier is not was:
        moved = f"{row.short_id} “{name}” is {row.tier.value}, not {was.value}"
        raise Conflict(moved, hint="nothing needs to be done")
    edits = partial(note_edits, ormah, row.id, set={"tier": becomes})
    return PlannedChange(kind, f"{verb}: {name}", reason, edits, {row.id: row.digest})


DAY = timedelta(days=1)


class ImportanceScorer:
    """The job that stores strength. It plans the change of the strength files, then one change for each memory that
    must leave a core tier with too many."""

    name = "importance_scorer"

    def plan(self, context: RunContext) -> Iterator[Step]:
        """Yield the change of the strength files, then changes that move memories out of core tiers with too many."""
        if not context.dry:
            settle(context.ormah)
        uses = waiting(context.ormah)
        scores = scored(context, uses)
        yield from _strength(context, uses, scores)
        yield from _core(context, scores)


def machine(ormah: Ormah) -> str:
    """Return the name of this machine in `strength.jsonl`: a hash that is the same as long as the machine's state
    exists."""
    return ormah.learned.seal.hash("strength")[:12]


def scored(context: RunContext, uses: Waiting) -> dict[str, float]:
    """Return `{node id: importance}` for every memory. `uses`: accesses that are not in the strength files yet; they
    count too."""
    ormah = context.ormah
    edges, fresh = ormah.index.degrees(), uses.of()
    scores = {}
    for node_id, node in ormah.index.candidates(ormah.index.ids(MEMORIES)).items():
        times, latest = fresh.get(node_id, (0, None))
        used = max((at for at in (latest, node.strength.last_accessed) if at), default=moment(node.created))
        days = (context.now - used) / DAY
        scores[node_id] = importance(node.strength.access_count + times, edges.get(node_id, 0), days)
    return scores


def _strength(context: RunContext, uses: Waiting, scores: Mapping[str, float]) -> Iterator[PlannedChange]:
    """Yield the change that adds `uses` and `scores` ({node id: importance}) to the strength files; nothing if the
    files stay the same.

    Accesses of deleted memories are dropped from the state with the commit, or at once if there is no commit.
    """
    ormah, state = context.ormah, context.ormah.state
    before = ormah.vault.read(STRENGTH_FILE)

    def folded(data: bytes | None) -> bytes:
        """Return the bytes of the strength file with the accesses and scores added. `data`: the file's present bytes."""
        rows = ormah.index.notes([event.node for event in uses.events])
        created = {node_id: row.created for node_id, row in rows.items()}
        found_only = {row.id for row in rows.values() if row.from_source}  # sections of sources have no strength
        events: list[Access | Score] = [one for one in uses.events if one.node not in found_only]
        events += [Score(node_id, context.now, score) for node_id, score in scores.items()]
        return strength.fold(data or b"", machine(ormah), events, created=created, pace=priority.giving)

    asked = state.active_days()

    def edits() -> Sequence[Edit]:
        """Return the edits of both files as they are at the commit."""
        changed = []
        for path, with_news in (
            (STRENGTH_FILE, folded),
            (strength.ACTIVE_DAYS_FILE, lambda data: strength.with_active_days(data or b"", asked)),
        ):
            data = ormah.vault.read(path)
            new = with_news(data)
            if new != (data or b""):
                changed.append(Edit(None, path, new, None if data is None else digest(data)))
        if changed:
            state.begin_folding(uses.last, context.run)
        return changed

    # Nothing to commit: accesses of deleted memories are dropped at once
    after = folded(before)
    new_days = asked - strength.read_active_days(ormah.vault.read(strength.ACTIVE_DAYS_FILE) or b"")
    if after == (before or b"") and not new_days:
        if uses.last and not context.dry:
            state.begin_folding(uses.last, context.run)
            state.end_folding(context.run)
        return

    # What changes, for the subject
    was, now = (strength.read_strength(one or b"", pace=priority.giving) for one in (before, after))
    moved = sum(node not in was or was[node].importance != one.importance for node, one in now.items())
    times = sum(event.times for event in uses.events)
    used = len({event.node for event in uses.events})
    done = [f"{_count_of(times, 'use')} of {_count_of(used, 'memory')}"] if times else []
    done += [f"{_count_of(moved, 'memory')} scored anew"] if moved else []
    done = done or ([f"{_count_of(len(new_days), 'day')} on which something was asked"] if new_days else [])
    subject = f"Strength: {', '.join(done) or 'lines in order'}"
    body = (
        "Uses since the last run, importance from use, connections and age, and the days on which something was asked. "
        "Notes are not touched."
    )
    yield PlannedChange(Kind.STRENGTH, subject, body, edits, {}, done=lambda: state.end_folding(context.run))


def _core(context: RunContext, scores: Mapping[str, float]) -> Iterator[PlannedChange]:
    """If core has more memories than `tiers.core_cap`, yield a change for each that must move to working: the least
    important.

    A memory is among the last to move if a person undid an earlier move of it to a lower tier.
    """
    ormah, cap = context.ormah, context.ormah.settings.tiers.core_cap
    core = core_notes(ormah)
    if len(core) <= cap:
        return
    last = {row.id for row in core if NoteChanges(ormah.history, row).was_moved_back}
    for row in leaving_core(ormah, core, scores=scores, last=last)[: len(core) - cap]:
        reason = (
            f"Core holds {_count_of(len(core), 'memory')}, and {cap} is its cap (tiers.core_cap). "
            f"Of those that may leave it is the least important: {scores.get(row.id, row.strength.importance):.2f}."
        )
        yield move(ormah, row.id, Tier.CORE, Tier.WORKING, reason=reason)


def _count_of(count: int, what: str) -> str:
    """Return a count with its noun, in the plural unless it is 1. `what`: the noun in the singular."""
    if count == 1:
        return f"1 {what}"
    return f"{count} {what[:-1]}ies" if what.endswith("y") else f"{count} {what}s"


_REPLACES = (EdgeType.DERIVED_FROM, EdgeType.EVOLVED_FROM)
_NEVER = datetime.min.replace(tzinfo=UTC)
EVENT_SHARE = 28 / 90
"""Lease of an event or observation, as a share of a fact's. Decisions, procedures, persons, projects and preferences that
no longer hold have twice a fact's."""
IMPORTANT = 0.5
"""Minimum importance that delays fading."""
IMPORTANT_DAYS = 90.0
"""Importance delays fading until this many days after a memory was last found or opened."""


class Faded(Struct, frozen=True):
    """A memory whose lease has ended, with the numbers from which this follows. `lease`: the length of the lease in
    days."""

    node: str
    days: float
    """Days since the last use, as leases count them: a day without a request counts only a little."""
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
        """Return the reason for the commit, as sentences."""
        counted = f"Not used for {self.calendar:.1f} days"
        if self.calendar - self.days >= 1:
            counted += f", which count {self.days:.1f}: on the others nothing was asked"
        return f"{counted}. Its lease was {self.lease:.1f} days; importance {self.importance:.2f}."


class DecayManager:
    """The job that moves memories between working and the archive. It first brings used memories back from the
    archive, then moves unused ones there."""

    name = "decay_manager"

    def plan(self, context: RunContext) -> Iterator[Step]:
        """Yield changes that bring used memories back, then changes that move unused ones to the archive."""
        uses, time = used(context.ormah), days(context.ormah)
        yield from self._back(context, uses, time)
        yield from self._fading(context, uses, time)

    def _back(self, context: RunContext, uses: dict[str, LastUses], time: ActiveDays) -> Iterator[PlannedChange]:
        """Yield changes that move memories to working which were used since they were archived. Each use is examined
        once.

        `uses`: {node id: last uses}. `time`: counts days for leases.
        """
        ormah, rule = context.ormah, leases(context.ormah)
        archival = ormah.index.ids(Filter(tiers=(Tier.ARCHIVAL,), writable=True))
        found = {node_id: (uses[node_id].use, uses[node_id].whisper) for node_id in archival if node_id in uses}
        marks = {node_id: max(at for at in times if at) for node_id, times in found.items() if any(times)}
        archived = ormah.index.notes(list(marks))
        texts = {node_id: marks[node_id].isoformat() for node_id in archived}
        for node_id in context.verdicts.unexamined(self.name, texts):
            context.give()
            row, last = archived[node_id], marks[node_id]
            mark = partial(context.verdicts.mark_examined, self.name, [(node_id, texts[node_id])])
            lasts = rule.days(row.type, row.strength.stability, row.id)
            late = row.expired(context.now) or time.between(last, context.now) > lasts
            if not late and not replaced(ormah, row, context.now):
                reason = _brought_back(uses[node_id], NoteChanges(ormah.history, row).archived())
                if reason is not None:
                    yield replace(move(ormah, node_id, Tier.ARCHIVAL, Tier.WORKING, reason=reason), done=mark)
                    continue
            if not context.dry:
                mark()

    def _fading(self, context: RunContext, uses: dict[str, LastUses], time: ActiveDays) -> Iterator[PlannedChange]:
        """Yield changes that move memories whose lease has ended to the archive. `uses`: {node id: last uses}. `time`:
        counts days for leases."""
        ormah = context.ormah
        found = list(fading(context, uses, time))
        # Memories that were found lately fade last: if the limit of the run is reached, the memories that remain are those
        # that searches still find.
        found.sort(key=lambda one: (one.found, -one.over, one.importance, one.node))
        for done, one in enumerate(found):
            context.progress(done, len(found), "fading")
            try:
                change = move(ormah, one.node, Tier.WORKING, Tier.ARCHIVAL, reason=one.reason)
            except (Conflict, NotFound):  # the memory was moved or deleted since the search
                continue
            yield change


def _brought_back(uses: LastUses, since: Op | None) -> str | None:
    """Return the reason why an archived memory returns to working; None if it stays in the archive. `uses`: its last
    uses. `since`: the op that archived it.

    A whisper brings back only a memory that the decay manager archived.
    """
    began = None if since is None else since.time
    where = "it was in the archive" if began is None else f"in the archive since {began:%Y-%m-%d}"
    if uses.use is not None and (began is None or uses.use >= began):
        return f"Used on {uses.use:%Y-%m-%d}; {where}."
    faded = since is not None and since.kind == Kind.DECAY
    if faded and began is not None and uses.whisper is not None and uses.whisper >= began:
        return f"Whispered from the archive on {uses.whisper:%Y-%m-%d}; {where}."
    return None


def replaced(ormah: Ormah, row: NodeRow, now: datetime) -> bool:
    """Return whether a valid memory outside the archive replaces `row`: its summary, or the memory that evolved from
    it."""
    sources = [edge.source for edge in ormah.index.edges(row.id)[1] if edge.edge in _REPLACES]
    successors = ormah.index.notes(sources).values()
    return any(one.tier is not Tier.ARCHIVAL and not one.expired(now) for one in successors)


def fading(context: RunContext, uses: dict[str, LastUses], time: ActiveDays) -> Iterator[Faded]:
    """Yield the memories in working whose lease has ended and which may fade, in no particular order."""
    ormah, rule = context.ormah, leases(context.ormah)

    # First by lease alone, which the index answers quickly
    stale = []
    for node_type in NodeType:
        ids = ormah.index.ids(Filter(types=(node_type,), tiers=(Tier.WORKING,), writable=True))
        for node_id, node in ormah.index.candidates(ids).items():
            since = max(moment(node.created), _last_use(uses, node_id))
            if time.between(since, context.now) > rule.days(node_type, node.strength.stability, node_id):
                stale.append(node_id)
    if not stale:
        return

    # Then with the history of each: when it came and was changed
    me = {ormah.vault.self_id, *identities(ormah)}
    edges = ormah.index.degrees()
    for chunk in sql.chunks(stale):  # in chunks, because the rows include the texts
        context.give()
        rows = ormah.index.notes(chunk)
        for row in rows.values():
            idle = time.between(row.last_accessed, context.now)
            weight = importance(row.strength.access_count, edges.get(row.id, 0), idle)
            if row.id in me or row.guard or spared(context, row, weight, idle):
                continue
            changes = NoteChanges(ormah.history, row)
            since = max(row.created, changes.came or _NEVER, _last_use(uses, row.id))
            lasts = rule.days(row.type, row.strength.stability, row.id)
            unused = time.between(since, context.now)
            if unused > lasts and changes.last(time.back(context.now, lasts)) is None:
                yield Faded(row.id, unused, (context.now - since) / DAY, lasts, weight, row.last_accessed)


def spared(context: RunContext, row: NodeRow, weight: float, idle: float) -> bool:
    """Return whether a memory must not fade now: it is about the user, a valid preference, or important and found
    lately.

    `weight`: its importance. `idle`: days since it was last found or opened.
    """
    if row.about_self or (row.type is NodeType.PREFERENCE and not row.expired(context.now)):
        return True
    return weight >= IMPORTANT and idle <= IMPORTANT_DAYS


def leases(ormah: Ormah) -> Leases:
    """Return the rule for the length of leases, with the numbers from the settings."""
    days = ormah.settings.decay.days
    return Leases(EVENT_SHARE * days, days, 2.0 * days)


def _last_use(uses: dict[str, LastUses], node_id: str) -> datetime:
    """Return when a memory was last used; a time before all others if it never was."""
    found = uses.get(node_id)
    return (found.last if found is not None else None) or _NEVER
