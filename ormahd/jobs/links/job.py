"""Connect memories that are near in meaning by edges (REFERENCE 3.2). Imported memories get edges only from this job.

Without a judge, two memories get a `related_to` edge if each is among the nearest neighbours of the other. A memory gets only a
few such edges, so that none becomes a hub. With a judge, the job asks once about every pair that is near enough; the judge
chooses a type of edge or none, and its answer is remembered.

Examined memories are remembered by their text, so a second run only examines new or changed memories.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from ormahd.actions.amend import clean
from ormahd.errors import OrmahError
from ormahd.index.rows import NodeRow
from ormahd.jobs.job import Done, Step, Turn
from ormahd.jobs.links.candidates import (
    CHUNK,
    JUDGED,
    LOOKED,
    QUESTION,
    TYPED,
    Look,
    Survey,
    ends,
    ids_of,
    keys,
    looks,
    verdict,
)
from ormahd.jobs.links.change import Draft, Wish, count_of
from ormahd.judge.port import JudgeGone, Linked, Pair
from ormahd.model.node import EdgeType
from ormahd.text.quoting import shortened

log = logging.getLogger("ormahd.jobs")

MOST = 500
"""Maximum number of edges per run (REFERENCE 3.2)."""
READ, REASON = 10_000, 300
"""Maximum number of characters of a judge's reason that are read, and that are kept."""
FEW = 3
"""Without a judge, a memory with this many `related_to` edges gets no more."""
BATCH = 20
"""Number of pairs in one request to the judge."""


class AutoLinker:
    """The job. It plans one change with all edges of a run."""

    name = "auto_linker"

    def plan(self, turn: Turn) -> Iterator[Step]:
        most = int(min(MOST, turn.limit))
        yield from _near_ones(turn, most) if turn.judge is None else _judged_ones(turn, most)


def candidates(turn: Turn) -> Iterator[Pair]:
    """Yield the pairs that a judge has not decided yet, newest memories first. `a` is the newer memory of a pair."""
    finished: list[tuple[str, str]] = []
    met: set[frozenset[str]] = set()
    try:
        for look in looks(turn):
            if not look.open and not look.ready and not turn.dry:
                finished.append((look.row.id, look.key))
            for pair in look.open:
                if ids_of(pair) not in met:
                    met.add(ids_of(pair))
                    yield pair
    finally:
        turn.verdicts.seen(JUDGED, finished)


# -------------------------------------------------------------------------------- without a judge


def _near_ones(turn: Turn, most: int) -> Iterator[Step]:
    survey, draft = Survey(turn), Draft(turn.ormah)
    lines: list[str] = []
    seen: list[tuple[str, str]] = []
    linked: list[tuple[str, str]] = []
    related: Counter[str] = Counter()
    met: set[frozenset[str]] = set()
    more, skipped = False, 0
    for row, key in survey.unseen(LOOKED):
        found = [hit for hit in _mutual(survey, row) if frozenset({row.id, hit[0].id}) not in met]
        if len(draft.made) + min(FEW, len(found)) > most:
            more = True
            break
        refused = False
        before = len(draft.made)
        for other, similarity, cosine in found:
            met.add(frozenset({row.id, other.id}))
            if any(_related(survey, node_id) + related[node_id] >= FEW for node_id in (row.id, other.id)):
                continue
            source, target = ends(row, other)
            wish = Wish(source.id, target.id, EdgeType.RELATED_TO, similarity)
            if not _added(draft, wish):
                refused = True
                skipped += 1
                continue
            related.update((row.id, other.id))
            lines.append(f"{draft.sentence(wish)}: {_told(cosine, similarity)}")
        if not refused:
            (linked if len(draft.made) > before else seen).append((row.id, key))
        if len(seen) >= CHUNK and not turn.dry:  # so that an interrupted run continues here
            turn.verdicts.seen(LOOKED, seen)
            seen.clear()
    if not turn.dry:
        turn.verdicts.seen(LOOKED, seen)
    if draft.made:
        yield draft.change(
            subject=f"Link {count_of(len(lines))} of memories",
            body="Each is among the nearest of the other in meaning.\n\n" + "\n".join(lines),
            done=lambda: turn.verdicts.seen(LOOKED, linked),
        )
    if skipped or more:
        yield Done(skipped=skipped, more=more)


def _mutual(survey: Survey, row: NodeRow) -> list[tuple[NodeRow, float, float]]:
    """Return the neighbours that are near enough, have `row` among their own nearest, and have no edge with it."""
    hits = survey.near_enough(row)
    survey.ahead([other.id for other, *_ in hits])
    return [
        hit for hit in hits
        if not survey.between(row.id, hit[0].id) and any(row.id == back for back, _ in survey.nearest(hit[0].id))
    ]  # fmt: skip


def _related(survey: Survey, node_id: str) -> int:
    return sum(edge.edge is EdgeType.RELATED_TO for edge in survey.edges(node_id))


def _added(draft: Draft, wish: Wish) -> bool:
    """Add an edge to the draft. Return False if it cannot be added, for example because a note is being edited."""
    try:
        draft.add(wish)
    except OrmahError as exc:
        log.info("auto_linker: a pair was not linked (%s)", exc.code)
        return False
    return True


def _told(cosine: float, similarity: float) -> str:
    less = cosine - similarity
    return f"cosine {cosine:.2f}" + (f", less {less:.2f} for another space" if less > 0.005 else "")


# -------------------------------------------------------------------------------- with a judge


def _judged_ones(turn: Turn, most: int) -> Iterator[Step]:
    left, more = turn.ormah.settings.jobs.judge_questions, False
    chosen: list[Look] = []
    asked: dict[frozenset[str], Pair] = {}
    seen: list[tuple[str, str]] = []
    for look in looks(turn):
        if not look.open and not look.ready:
            seen.append((look.row.id, look.key))
            if len(seen) >= CHUNK and not turn.dry:
                _saw(turn, seen)
                seen.clear()
            continue
        new = {ids_of(pair): pair for pair in look.open}
        if len(asked.keys() | new.keys()) > left:
            more = True
            if asked:
                break
            new = dict(list(new.items())[:left])  # so that even a small limit makes progress
        asked.update(new)
        chosen.append(look)
    answers, gone = _ask(turn, list(asked.values()))
    draft = Draft(turn.ormah)
    lines: list[str] = []
    done: list[tuple[Pair, Linked]] = []
    linked: list[tuple[str, str]] = []
    refused: set[frozenset[str]] = set()
    for look in chosen:
        if len(draft.made) + len(look.open) + len(look.ready) > most:
            more = True
            break
        whole, before = True, len(draft.made)
        for pair, answer in [*look.ready, *((pair, answers.get(ids_of(pair))) for pair in look.open)]:
            if answer is None:
                whole = False
            elif answer.edge is not None:
                wish = Wish(pair.a.id, pair.b.id, answer.edge, pair.score, answer.reason or None)
                count = len(draft.made)
                if not _added(draft, wish):
                    whole = False
                    refused.add(ids_of(pair))
                elif len(draft.made) > count:
                    lines.append(
                        f"{draft.sentence(wish)}: similarity {pair.score:.2f}; {answer.reason or 'no reason given'}"
                    )
                    done.append((pair, answer))
        if whole:
            (linked if len(draft.made) > before else seen).append((look.row.id, look.key))
    if not turn.dry:
        _saw(turn, seen)

    def applied() -> None:
        for pair, answer in done:
            turn.verdicts.remember(QUESTION, keys(pair), verdict(pair, answer, made=True))
        _saw(turn, linked)

    if draft.made:
        judge = turn.judge.name if turn.judge is not None else ""
        yield draft.change(
            subject=f"Link {count_of(len(lines))} of memories",
            body=f"Judged by {judge}.\n\n" + "\n".join(lines), done=applied,
        )  # fmt: skip
    if refused or more or gone:
        yield Done(skipped=len(refused), more=more or gone)


def _saw(turn: Turn, nodes: Iterable[tuple[str, str]]) -> None:
    """Mark memories as examined, both with and without a judge."""
    nodes = list(nodes)
    for mark in (LOOKED, JUDGED):
        turn.verdicts.seen(mark, nodes)


def _ask(turn: Turn, pairs: Sequence[Pair]) -> tuple[dict[frozenset[str], Linked], bool]:
    """Ask the judge, and remember each answer. Return `{ids of the pair: answer}`, and whether the judge became unavailable."""
    answers: dict[frozenset[str], Linked] = {}
    for at in range(0, len(pairs), BATCH):
        turn.give()
        turn.progress(at, len(pairs), "questions")
        some = pairs[at : at + BATCH]
        try:
            said = [] if turn.judge is None else turn.judge.links(some)
        except JudgeGone:
            log.warning("auto_linker: the judge is gone")
            return answers, True
        for pair, answer in zip(some, said, strict=False):  # pairs without an answer stay open
            if answer is not None and (answer.edge is None or answer.edge in TYPED):
                answer = Linked(answer.edge, _tidy(turn, answer.reason))
                answers[ids_of(pair)] = answer
                if not turn.dry:
                    turn.verdicts.remember(QUESTION, keys(pair), verdict(pair, answer, made=False))
    return answers, False


def _tidy(turn: Turn, reason: str) -> str:
    """Return a judge's reason as one short line, without secrets and control characters."""
    text = reason[:READ].encode("utf-8", "replace").decode()
    text = "".join(one if one.isprintable() else " " for one in clean(turn.ormah, text, []) or "")
    return shortened(" ".join(text.split()), REASON)
