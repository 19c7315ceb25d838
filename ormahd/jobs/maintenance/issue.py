"""Phase one of two-phase maintenance: collect the questions for an agent, up to a limit of characters.

The candidates come from the same searches that the jobs use for a judge, without those that were judged before (`Verdicts`). A
receipt stores only ids and keys of texts; the texts that the agent sees are read from the current memories.
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
"""Batches of pairs, in the order in which candidates are searched: most urgent first, in case the time runs out."""
QUESTIONS: Final[Mapping[str, str]] = {
    LINKS: "link", CONFLICTS: "conflict", MERGES: "duplicate", CLUSTERS: "consolidate",
}  # fmt: skip
"""{batch: the name under which `Verdicts` remembers verdicts on its items}."""

MAX_CLUSTERS: Final = 4
"""Maximum number of clusters per receipt."""
TITLE: Final = 160
"""Maximum number of characters of a title that are shown."""
LEVELS: Final = ((1_600, 4_000), (800, 2_000), (400, 1_200), (400, 600), (250, 400), (120, 200))
"""Maximum numbers of characters of a shown text, from generous to tight: (pairs to link or in conflict, pairs to merge).

Texts of pairs to merge are longer, because the agent may write a merged text. The first level at which all pairs fit is used.
"""
FOR_CLUSTERS: Final = 0.35
"""Share of the limit of characters that is reserved for clusters.

The texts of clusters are never cut, because the agent writes a summary from them.
"""
ENVELOPE: Final = 500
"""Characters reserved for the rest of the reply: receipt, summary, names of fields."""


class QuestionSearch(Struct, frozen=True):
    """The searches for candidates, which the jobs provide: `pairs` by batch, and `clusters`.

    They yield the best candidates first, without those that are connected or judged already.
    """

    pairs: Mapping[str, Callable[[Turn], Iterable[Pair]]]
    clusters: Callable[[Turn], Iterable[Sequence[Shown]]]


class Question(Struct, frozen=True):
    """One question for an agent. `keys`: {id of a memory: key of its text}. `score`: similarity of a pair; 0 for clusters."""

    keys: dict[str, str]
    score: float = 0.0
    cut: bool = False
    """Whether a text was shown in part only."""

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(self.keys)

    @property
    def texts(self) -> list[str]:
        return list(self.keys.values())


class Issued(Struct, frozen=True):
    """The questions of one receipt, by batch."""

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


# ---------------------------------------------------------------- searching


def gather(turn: Turn, search: QuestionSearch, settings: MaintenanceSettings, *, enough: bool = False) -> Issued:
    """Search for candidates until each batch is full or the time of `turn` is over. `enough`: stop at the first candidate."""
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
    with contextlib.suppress(Stopped):  # the candidates found so far are used; the others can be found the next time
        for batch in (*PAIRED, CLUSTERS):
            if most[batch] and not (enough and any(found.values())):
                look(batch, _groups(turn, search, batch), 1 if enough else most[batch])
    return Issued(found)


def _groups(turn: Turn, search: QuestionSearch, batch: str) -> Iterator[tuple[Sequence[Shown], float]]:
    """Yield the candidates of a batch as (memories, score). The score of a cluster is 0."""
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
    """The batches as an agent gets them, and the questions that they contain."""

    batches: dict[str, list[Any]]
    """{batch: list of `CandidatePair`}; for clusters, each item is a list of `CandidateNode`."""
    issued: Issued


def show(index: Index, issued: Issued, characters: int) -> Payload:
    """Return the questions with the texts of the memories, in at most `characters` characters of JSON.

    Questions that do not fit are omitted, and so are questions about a memory that was deleted or changed since it was found.
    """
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
    """Return (id, reason) of the first memory of a question that was deleted or changed; None if there is none."""
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
    while size(drawn) > room:  # even the titles alone can exceed a small limit
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
    """Return the number of characters of a value as JSON."""
    return len(msgspec.json.encode(value).decode())


def counted(batches: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    for batch in (LINKS, CONFLICTS, MERGES, CLUSTERS):
        yield batch, len(batches.get(batch, []))


SEARCH: Final = QuestionSearch(
    pairs={LINKS: auto_linker.candidates, CONFLICTS: conflict_detector.candidates, MERGES: duplicates.candidates},
    clusters=consolidator.clusters,
)
