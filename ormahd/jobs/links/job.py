"""The auto linker: connect memories that are near in meaning by edges (REFERENCE 3.2).

Without a judge, two memories get a `related_to` edge if each is among the nearest neighbours of the other. A memory
gets only a few such edges, so that no memory has very many. With a judge, the job asks once about every pair that is
near enough; the judge chooses a type of edge or none, and its answer is remembered.

The job remembers each examined memory with the key of its text, so the next run examines only new or changed memories.
Imported memories get edges only from this job.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct, field

from ormahd.actions.amend import clean
from ormahd.actions.remember import CROSS_SPACE_PENALTY, NEIGHBOURS
from ormahd.errors import OrmahError
from ormahd.index.rows import EdgeRow, Filter, NodeRow
from ormahd.jobs.job import Done, RunContext, Step
from ormahd.jobs.links.change import Draft, EdgeToAdd, count_of, plain
from ormahd.jobs.neighbours import AHEAD
from ormahd.judge.port import JudgeGone, Linked, Pair, ShownMemory
from ormahd.model.node import EdgeType, Tier
from ormahd.state.proposals import text_key
from ormahd.text.quoting import shortened

QUESTION: Final = "link"
"""The name under which `Verdicts` remembers a judge's answers."""
LOOKED, JUDGED = "auto_linker", "auto_linker: judged"
"""The names under which `Verdicts` remembers which memories were examined: LOOKED without, JUDGED with a judge."""
TYPED: Final = (EdgeType.SUPPORTS, EdgeType.PART_OF, EdgeType.DEPENDS_ON, EdgeType.RELATED_TO)
"""The types of edges that a judge may choose."""
CHUNK: Final = 500
"""Number of notes read at once."""


class LinkSurvey:
    """Gives the memories that one run may link, with their neighbours and edges. `ids`: the ids of these memories,
    newest first."""

    def __init__(self, turn: RunContext) -> None:
        self._turn = turn
        self._index = turn.ormah.index
        self._linking = turn.ormah.settings.linking
        # No archived or outdated memories: an edge would lead searches from current memories to them
        part = Filter(tiers=(Tier.CORE, Tier.WORKING), alive_at=turn.now, writable=True)
        self.ids = [
            node_id for node_id in self._index.newest(part, max(1, self._index.count(part)))
            if node_id != turn.ormah.vault.self_id
        ]  # fmt: skip
        self._part = set(self.ids)
        self._edges: dict[str, list[EdgeRow]] = {}

    def unseen(self, mark: str) -> Iterator[tuple[NodeRow, str]]:
        """Yield (memory, key of its text) for each memory that is not marked as examined under the name `mark`,
        newest first.

        Memories without vectors are skipped.
        """
        for at in range(0, len(self.ids), CHUNK):
            rows = self._index.notes(self.ids[at : at + CHUNK], connections=False)
            keys = {row.id: text_key(row.title, row.content) for row in rows.values()}
            unseen = self._turn.verdicts.unseen(mark, keys)
            for done, node_id in enumerate(unseen):
                self._turn.give()
                if not done % AHEAD:
                    self._turn.progress(at + done, len(self.ids), "memories")
                    self._turn.near.ahead(unseen[done : done + AHEAD])
                if self._index.vectors(node_id) is not None:
                    yield rows[node_id], keys[node_id]

    def nearest(self, node_id: str) -> list[tuple[str, float]]:
        """Return the nearest neighbours that may be linked, as (id, cosine), nearest first."""
        hits = [hit for hit in self._turn.near.of(node_id) if hit[0] in self._part and hit[0] != node_id]
        return hits[:NEIGHBOURS]

    def ahead(self, ids: list[str]) -> None:
        """Search the neighbours of these memories in one batch, before `nearest` is called for each."""
        self._turn.near.ahead(ids)

    def near_enough(self, row: NodeRow) -> list[tuple[NodeRow, float, float]]:
        """Return the neighbours that are similar enough as (other, similarity, cosine), most similar first.

        The similarity is the cosine minus a penalty if the spaces differ.
        """
        hits = self.nearest(row.id)
        others = self._index.notes([node_id for node_id, _ in hits], connections=False)
        out = []
        for node_id, cosine in hits:
            other = others.get(node_id)
            if other is not None:
                similarity = cosine - (CROSS_SPACE_PENALTY if other.space != row.space else 0.0)
                if self._linking.near(similarity):
                    out.append((other, min(1.0, similarity), cosine))
        return sorted(out, key=lambda hit: (-hit[1], hit[0].id))

    def edges(self, node_id: str) -> list[EdgeRow]:
        if node_id not in self._edges:
            self._edges[node_id] = self._index.edges_of([node_id])
        return self._edges[node_id]

    def between(self, one: str, other: str) -> list[EdgeRow]:
        return [edge for edge in self.edges(one) if other in {edge.source, edge.target}]


def ends(one: NodeRow, other: NodeRow) -> tuple[NodeRow, NodeRow]:
    """Return two memories as (newer, older), which is the direction of an edge between them."""
    return (one, other) if (one.created, one.id) >= (other.created, other.id) else (other, one)


class Examined(Struct, frozen=True):
    """A memory with its pairs. `key`: the key of its text.

    `open`: pairs that no judge has decided. `ready`: pairs that a judge decided, but whose edge was not written,
    with the answer.
    """

    row: NodeRow
    key: str
    open: list[Pair] = field(default_factory=list)
    ready: list[tuple[Pair, Linked]] = field(default_factory=list)


def looks(turn: RunContext) -> Iterator[Examined]:
    """Yield each memory that was not yet examined for a judge, newest first, with its pairs that are near enough."""
    survey = LinkSurvey(turn)
    for row, key in survey.unseen(JUDGED):
        look = Examined(row, key)
        for other, similarity, _ in survey.near_enough(row):
            if all(plain(edge) for edge in survey.between(row.id, other.id)):
                newer, older = ends(row, other)
                pair = Pair(_shown(newer), _shown(older), round(similarity, 4))
                known = turn.verdicts.known(QUESTION, keys(pair))
                if known is None:
                    look.open.append(pair)
                elif (answer := _undone(pair, known)) is not None:
                    look.ready.append((pair, answer))
        yield look


def verdict(pair: Pair, answer: Linked, *, made: bool) -> dict[str, str | bool | None]:
    """Return an answer in the form in which `Verdicts` stores it.

    `made`: the edge was written. If such an edge is missing later, a person removed it, and it is not written again.
    """
    return {
        "edge": answer.edge,
        "reason": answer.reason,
        "source": text_key(pair.a.title, pair.a.content),
        "made": made,
    }


def _undone(pair: Pair, known: dict[str, object]) -> Linked | None:
    """Return the remembered answer `known` on a pair if it names an edge that was never written; else None.

    An edge was not written if the run ended before, or if a note was being edited.
    """
    edge = known.get("edge")
    if known.get("made") is not False or edge not in TYPED or known.get("source") != keys(pair)[0]:
        return None
    return Linked(EdgeType(str(edge)), str(known.get("reason") or ""))


def keys(pair: Pair) -> tuple[str, str]:
    return text_key(pair.a.title, pair.a.content), text_key(pair.b.title, pair.b.content)


def ids_of(pair: Pair) -> frozenset[str]:
    return frozenset({pair.a.id, pair.b.id})


def _shown(row: NodeRow) -> ShownMemory:
    return ShownMemory(row.id, row.type, row.space, row.title, row.content, row.created)


log = logging.getLogger("ormahd.jobs")

MOST = 500
"""Maximum number of edges per run (REFERENCE 3.2)."""
READ, REASON = 10_000, 300
"""Maximum number of characters of a judge's reason that are read (READ), and that are stored (REASON)."""
FEW = 3
"""Without a judge, a memory with this many `related_to` edges gets no more of them."""
BATCH = 20
"""Number of pairs in one request to the judge."""


class AutoLinker:
    """The job that connects memories near in meaning. It plans one change with all edges of a run."""

    name = "auto_linker"

    def plan(self, turn: RunContext) -> Iterator[Step]:
        most = int(min(MOST, turn.limit))
        yield from _near_ones(turn, most) if turn.judge is None else _judged_ones(turn, most)


def candidates(turn: RunContext) -> Iterator[Pair]:
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


def _near_ones(turn: RunContext, most: int) -> Iterator[Step]:
    survey, draft = LinkSurvey(turn), Draft(turn.ormah)
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
            wish = EdgeToAdd(source.id, target.id, EdgeType.RELATED_TO, similarity)
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


def _mutual(survey: LinkSurvey, row: NodeRow) -> list[tuple[NodeRow, float, float]]:
    """Return the neighbours of `row` that are near enough, have `row` among their own nearest neighbours, and no
    edge with it.

    Each as (neighbour, similarity, cosine).
    """
    hits = survey.near_enough(row)
    survey.ahead([other.id for other, *_ in hits])
    return [
        hit for hit in hits
        if not survey.between(row.id, hit[0].id) and any(row.id == back for back, _ in survey.nearest(hit[0].id))
    ]  # fmt: skip


def _related(survey: LinkSurvey, node_id: str) -> int:
    return sum(edge.edge is EdgeType.RELATED_TO for edge in survey.edges(node_id))


def _added(draft: Draft, wish: EdgeToAdd) -> bool:
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


def _judged_ones(turn: RunContext, most: int) -> Iterator[Step]:
    left, more = turn.questions, False
    chosen: list[Examined] = []
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
                wish = EdgeToAdd(pair.a.id, pair.b.id, answer.edge, pair.score, answer.reason or None)
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


def _saw(turn: RunContext, nodes: Iterable[tuple[str, str]]) -> None:
    """Mark memories as examined, under the names for runs with and without a judge. `nodes`: (id, key of its
    text)."""
    nodes = list(nodes)
    for mark in (LOOKED, JUDGED):
        turn.verdicts.seen(mark, nodes)


def _ask(turn: RunContext, pairs: Sequence[Pair]) -> tuple[dict[frozenset[str], Linked], bool]:
    """Ask the judge about these pairs, and remember each answer.

    Return `{ids of the pair: answer}`, and whether the judge became unavailable.
    """
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


def _tidy(turn: RunContext, reason: str) -> str:
    """Return a judge's reason as one short line, without secrets and control characters."""
    text = reason[:READ].encode("utf-8", "replace").decode()
    text = "".join(one if one.isprintable() else " " for one in clean(turn.ormah, text, []) or "")
    return shortened(" ".join(text.split()), REASON)
