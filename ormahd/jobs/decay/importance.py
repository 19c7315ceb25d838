"""Store uses in the vault ("folding"), compute the importance of every memory, and keep the core tier within its cap.

Only this job writes `.ormah/strength.jsonl` and `.ormah/active_days.jsonl`. It adds the accesses and active days from the state,
and the importance scores, in one commit per run, or none if nothing changed enough. Formula: `model.strength`; source:
REFERENCE C 3.8 and I.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from ormahd.actions.amend import leaving_core
from ormahd.index.rows import moment
from ormahd.jobs.decay.accesses import Touches, Waiting, settle, waiting
from ormahd.jobs.decay.change import leave_core
from ormahd.jobs.job import Change, Edit, Step, Turn
from ormahd.model import strength
from ormahd.model.change import Kind
from ormahd.model.node import Tier
from ormahd.model.strength import STRENGTH_FILE, Access, Score, fold, importance, read_strength
from ormahd.note.note import digest
from ormahd.process import priority

if TYPE_CHECKING:
    from ormahd.ormah import Ormah

DAY = timedelta(days=1)


class ImportanceScorer:
    """The job. It plans the change of the strength files, then the moves of memories out of a full core."""

    name = "importance_scorer"

    def plan(self, turn: Turn) -> Iterator[Step]:
        if not turn.dry:
            settle(turn.ormah)
        uses = waiting(turn.ormah)
        scores = scored(turn, uses)
        yield from _strength(turn, uses, scores)
        yield from _core(turn, scores)


def machine(ormah: Ormah) -> str:
    """Return the name of this machine in `strength.jsonl`: a hash that stays the same as long as the machine's state exists."""
    return ormah.learned.seal.hash("strength")[:12]


def scored(turn: Turn, uses: Waiting) -> dict[str, float]:
    """Return `{node id: importance}` for every memory, counting also the uses that are not folded in yet."""
    ormah = turn.ormah
    edges, fresh = ormah.index.degrees(), uses.of()
    scores = {}
    for node_id, node in ormah.index.candidates(ormah.index.ids()).items():
        times, latest = fresh.get(node_id, (0, None))
        used = max((at for at in (latest, node.strength.last_accessed) if at), default=moment(node.created))
        days = (turn.now - used) / DAY
        scores[node_id] = importance(node.strength.access_count + times, edges.get(node_id, 0), days)
    return scores


def _strength(turn: Turn, uses: Waiting, scores: Mapping[str, float]) -> Iterator[Change]:
    """Yield the change of the strength files, if they change.

    Accesses of deleted memories are dropped from the state with the commit, or at once if there is no commit.
    """
    ormah, state = turn.ormah, turn.ormah.state
    before = ormah.vault.read(STRENGTH_FILE)

    def folded(data: bytes | None) -> bytes:
        rows = ormah.index.notes([event.node for event in uses.events], connections=False)
        created = {node_id: row.created for node_id, row in rows.items()}
        events: list[Access | Score] = [*uses.events]
        events += [Score(node_id, turn.now, score) for node_id, score in scores.items()]
        return fold(data or b"", machine(ormah), events, created=created, pace=priority.giving)

    asked = state.active_days()

    def edits() -> Sequence[Edit]:
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
            state.folding(uses.last, turn.run)
        return changed

    after = folded(before)
    new_days = asked - strength.read_active_days(ormah.vault.read(strength.ACTIVE_DAYS_FILE) or b"")
    if after == (before or b"") and not new_days:
        if uses.last and not turn.dry:
            state.folding(uses.last, turn.run)
            state.folded(turn.run)
        return
    was, now = (read_strength(one or b"", pace=priority.giving) for one in (before, after))
    moved = sum(node not in was or was[node].importance != one.importance for node, one in now.items())
    times = sum(event.times for event in uses.events)
    used = len({event.node for event in uses.events})
    done = [f"{_many(times, 'use')} of {_many(used, 'memory')}"] if times else []
    done += [f"{_many(moved, 'memory')} scored anew"] if moved else []
    done = done or ([f"{_many(len(new_days), 'day')} on which something was asked"] if new_days else [])
    subject = f"Strength: {', '.join(done) or 'lines in order'}"
    body = (
        "Uses since the last run, importance from use, connections and age, and the days on which something was asked. "
        "Notes are not touched."
    )
    yield Change(Kind.STRENGTH, subject, body, edits, {}, done=lambda: state.folded(turn.run))


def _core(turn: Turn, scores: Mapping[str, float]) -> Iterator[Change]:
    """If core is over its cap, yield moves to working for its least important memories, one commit each.

    Memories whose move to a lower tier was undone before go among the last.
    """
    ormah, cap = turn.ormah, turn.ormah.settings.tiers.core_cap
    core = ormah.in_tier(Tier.CORE, writable=True)
    if len(core) <= cap:
        return
    touches = Touches(ormah.vault)
    last = {row.id for row in core if touches.wanted(row.id)}
    for row in leaving_core(ormah, core, scores=scores, last=last)[: len(core) - cap]:
        reason = (
            f"Core holds {_many(len(core), 'memory')}, and {cap} is its cap (tiers.core_cap). "
            f"Of those that may leave it is the least important: {scores.get(row.id, row.strength.importance):.2f}."
        )
        yield leave_core(ormah, row.id, reason=reason)


def _many(count: int, what: str) -> str:
    if count == 1:
        return f"1 {what}"
    return f"{count} {what[:-1]}ies" if what.endswith("y") else f"{count} {what}s"
