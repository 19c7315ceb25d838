"""Phase one of two-phase maintenance: collect the questions that an agent is asked to judge, up to a limit of characters.

Candidates come from the searches of the jobs that would ask a judge, without those that were judged before (`Verdicts`). What was
issued is kept as ids and keys of texts; what is shown is made from the memories as they are now.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct, field

from ormahd.actions.views import iso
from ormahd.api import CandidateNode, CandidatePair
from ormahd.jobs.job import Stopped
from ormahd.state.proposals import text_key
from ormahd.text.quoting import shortened

if TYPE_CHECKING:
    from ormahd.index.index import Index
    from ormahd.index.rows import NodeRow
    from ormahd.jobs.job import Turn
    from ormahd.judge.port import Pair, Shown
    from ormahd.settings.jobs import MaintenanceSettings
from ormahd.jobs.conflicts import job as conflict_detector
from ormahd.jobs.consolidation import job as consolidator
from ormahd.jobs.duplicates import candidates as duplicates
from ormahd.jobs.links import job as auto_linker

LINKS: Final = "link_candidates"
CONFLICTS: Final = "conflict_candidates"
MERGES: Final = "merge_candidates"
CLUSTERS: Final = "consolidation_clusters"
PAIRED: Final = (MERGES, CONFLICTS, LINKS)
"""Batches of pairs, the most urgent first: where room is short, the others give way."""
QUESTIONS: Final[Mapping[str, str]] = {
    LINKS: "link", CONFLICTS: "conflict", MERGES: "duplicate", CLUSTERS: "consolidate",
}  # fmt: skip
"""Under what a verdict on a batch's items is remembered (`Verdicts`)."""

MAX_CLUSTERS: Final = 4
"""Clusters that are handed out at once, at most (the seeds')."""
TITLE: Final = 160
"""Characters of a title that are shown."""
LEVELS: Final = ((1_600, 4_000), (800, 2_000), (400, 1_200), (400, 600), (250, 400), (120, 200))
"""Characters of a text that are shown, from generous to tight: of pairs to link or to oppose, which are only screened (the
seed: 400), and of pairs to merge, from which a text may be made. The first level at which all pairs fit is taken."""
FOR_CLUSTERS: Final = 0.35
"""Share of the ceiling that pairs leave to clusters. Their texts stand whole: a summary is made from them, and what a judge
was not shown he cannot keep."""
ENVELOPE: Final = 500
"""Characters of what stands around the batches: receipt, summary, names."""


class QuestionSearch(Struct, frozen=True):
    """Where candidates come from: the jobs' own searches, best first, without what is connected or judged already."""

    pairs: Mapping[str, Callable[[Turn], Iterable[Pair]]]
    clusters: Callable[[Turn], Iterable[Sequence[Shown]]]


class Question(Struct, frozen=True):
    """One question that was handed out: the memories it is about (id to the key of the text) and why it was asked."""

    keys: dict[str, str]
    score: float = 0.0
    cut: bool = False
    """A text of it was not shown whole."""

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(self.keys)

    @property
    def texts(self) -> list[str]:
        return list(self.keys.values())


class Issued(Struct, frozen=True):
    """What one receipt stands for, batch by batch."""

    items: dict[str, list[Question]] = field(default_factory=dict)

    def of(self, batch: str) -> list[Question]:
        return self.items.get(batch, [])

    def __bool__(self) -> bool:
        return any(self.items.values())

    def as_json(self) -> dict[str, Any]:
        return {
            batch: [{"keys": one.keys, "score": one.score, "cut": one.cut} for one in items]
            for batch, items in self.items.items()
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Issued:
        return cls({
            batch: [Question(dict(one["keys"]), float(one["score"]), bool(one["cut"])) for one in items]
            for batch, items in value.items()
        })  # fmt: skip


# ---------------------------------------------------------------- looking


def gather(turn: Turn, search: QuestionSearch, settings: MaintenanceSettings, *, enough: bool = False) -> Issued:
    """Look for candidates until each batch is full or the turn is stopped (its time is over). `enough`: one of them will do."""
    found: dict[str, list[Question]] = {batch: [] for batch in (*PAIRED, CLUSTERS)}

    def look(batch: str, groups: Iterable[tuple[Sequence[Shown], float]], most: int) -> None:
        met: set[frozenset[str]] = set()
        for group, score in groups:
            turn.give()
            item = Question(_keys(group), score)
            ids = frozenset(item.ids)
            if len(ids) > 1 and ids not in met and _open(turn, batch, item):
                found[batch].append(item)
            met.add(ids)
            if len(found[batch]) >= most:
                return

    most = {**dict.fromkeys(PAIRED, settings.pairs), CLUSTERS: MAX_CLUSTERS}
    with contextlib.suppress(Stopped):  # what was found by then is handed out; the rest is there the next time
        for batch in (*PAIRED, CLUSTERS):
            if most[batch] and not (enough and any(found.values())):
                look(batch, _groups(turn, search, batch), 1 if enough else most[batch])
    return Issued(found)


def _groups(turn: Turn, search: QuestionSearch, batch: str) -> Iterator[tuple[Sequence[Shown], float]]:
    """What a search finds, with its score; clusters have none."""
    if batch == CLUSTERS:
        yield from ((cluster, 0.0) for cluster in search.clusters(turn))
    else:
        yield from (((pair.a, pair.b), round(float(pair.score), 4)) for pair in search.pairs[batch](turn))


def _keys(memories: Sequence[Shown]) -> dict[str, str]:
    return {one.id: text_key(one.title, one.content) for one in memories}


def _open(turn: Turn, batch: str, item: Question) -> bool:
    return turn.verdicts.known(QUESTIONS[batch], item.texts) is None


# ---------------------------------------------------------------- showing


class Payload(Struct, frozen=True):
    """The batches as an agent gets them, and what of the issued is among them."""

    batches: dict[str, list[Any]]
    """Lists of `CandidatePair`; of clusters, of lists of `CandidateNode`."""
    issued: Issued


def show(index: Index, issued: Issued, characters: int) -> Payload:
    """What was issued, as JSON of at most so many characters. Left out: what does not fit, and what is about a
    memory that is gone or reads otherwise than when it was issued."""
    rows = index.notes([node_id for batch in issued.items.values() for one in batch for node_id in one.ids], connections=False)  # fmt: skip
    fresh = {batch: [one for one in items if stale(rows, one) is None] for batch, items in issued.items.items()}
    pairs = {batch: fresh.get(batch, []) for batch in PAIRED}
    clusters = [(one, [_shown(rows[node_id], None) for node_id in one.ids]) for one in fresh.get(CLUSTERS, [])]
    room = characters - ENVELOPE
    reserved = 0
    for _, shown in clusters:
        if reserved + size(shown) + 1 <= room * FOR_CLUSTERS:
            reserved += size(shown) + 1
    drawn, kept = _fit(rows, pairs, room - reserved)
    left = room - size({**drawn, CLUSTERS: []})
    drawn[CLUSTERS], kept[CLUSTERS] = [], []
    for item, shown in clusters:
        if size(shown) + 1 <= left:
            left -= size(shown) + 1
            drawn[CLUSTERS].append(shown)
            kept[CLUSTERS].append(item)
    return Payload(drawn, Issued(kept))


def stale(rows: Mapping[str, NodeRow], item: Question) -> tuple[str, str] | None:
    """The first memory of an item that is not what it was, and why."""
    for node_id, key in item.keys.items():
        row = rows.get(node_id)
        if row is None:
            return node_id, "it is not in the vault any more"
        if text_key(row.title, row.content) != key:
            return node_id, "its text was changed since it was handed out"
    return None


def _fit(
    rows: Mapping[str, NodeRow], pairs: Mapping[str, list[Question]], room: int
) -> tuple[dict[str, list[Any]], dict[str, list[Question]]]:
    drawn, kept = _draw(rows, pairs, LEVELS[0])
    for level in LEVELS[1:]:
        if size(drawn) <= room:
            break
        drawn, kept = _draw(rows, pairs, level)
    while size(drawn) > room:  # titles alone can be too much for a small ceiling
        batch = max(drawn, key=lambda one: len(drawn[one]))
        drawn[batch].pop()
        kept[batch].pop()
    return drawn, kept


def _draw(
    rows: Mapping[str, NodeRow], pairs: Mapping[str, list[Question]], level: tuple[int, int]
) -> tuple[dict[str, list[Any]], dict[str, list[Question]]]:
    drawn: dict[str, list[Any]] = {}
    kept: dict[str, list[Question]] = {}
    for batch, items in pairs.items():
        limit = level[1] if batch == MERGES else level[0]
        drawn[batch], kept[batch] = [], []
        for one in items:
            a, b = (_shown(rows[node_id], limit) for node_id in one.ids)
            drawn[batch].append(CandidatePair(a, b, one.score))
            kept[batch].append(Question(one.keys, one.score, a.cut or b.cut))
    return drawn, kept


def _shown(row: NodeRow, limit: int | None) -> CandidateNode:
    content = row.content if limit is None else shortened(row.content, limit)
    return CandidateNode(
        row.id, None if row.title is None else shortened(row.title, TITLE), row.type, row.space, iso(row.created) or "",
        content, content != row.content,
    )  # fmt: skip


def size(value: Any) -> int:
    """Characters of a value as JSON."""
    return len(msgspec.json.encode(value).decode())


def counted(batches: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    for batch in (LINKS, CONFLICTS, MERGES, CLUSTERS):
        yield batch, len(batches.get(batch, []))


SEARCH: Final = QuestionSearch(
    pairs={LINKS: auto_linker.candidates, CONFLICTS: conflict_detector.candidates, MERGES: duplicates.candidates},
    clusters=consolidator.clusters,
)
