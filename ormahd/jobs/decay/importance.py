"""What use made of the memories: folded into the vault, scored, and core kept to its size by it.

The only writer of `.ormah/strength.jsonl` and `.ormah/active_days.jsonl`: the accesses and the days that the journal gathered, and
the importance of every memory, in one commit a run, none where nothing is worth one. Formula: `model.strength`; source: REFERENCE C 3.8 and I.
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
    name = "importance_scorer"

    def plan(self, turn: Turn) -> Iterator[Step]:
        if not turn.dry:
            settle(turn.ormah)
        uses = waiting(turn.ormah)
        scores = scored(turn, uses)
        yield from _strength(turn, uses, scores)
        yield from _core(turn, scores)


def machine(ormah: Ormah) -> str:
    """The name under which this machine writes its lines: the same for as long as its state lives, and it tells nothing."""
    return ormah.learned.seal.hash("strength")[:12]


def scored(turn: Turn, uses: Waiting) -> dict[str, float]:
    """The importance of every memory, with the uses that wait to be folded in."""
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
    """One commit of the file of lines. Events of memories that are gone go with it, or by themselves."""
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
    """Core over its cap: the least important leave, one commit each. Whose leaving was taken back is asked among the last."""
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
