"""The questions of two-phase maintenance: which are handed out, and how much of the texts is shown.

Phase one collects the questions for an agent, up to a limit of characters. Their candidates (pairs or clusters of
memories) come from the searches that the jobs use for a judge, without those that were judged before (`Verdicts`). A
receipt stores only the ids of memories and the keys of their texts; the texts that the agent sees are read from the
current memories.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from ormahd.actions.views import of_row
from ormahd.api import CandidateNode, CandidatePair
from ormahd.index.index import Index
from ormahd.index.rows import NodeRow
from ormahd.jobs.job import RunContext, Stopped
from ormahd.jobs.maintenance.kinds import CLUSTERS, CONFLICTS, KINDS, LINKS, MERGES, QuestionKind
from ormahd.jobs.questions import key_of
from ormahd.text.quoting import shortened

PAIRED: Final = (MERGES, CONFLICTS, LINKS)
"""Batches whose questions are about pairs, in the order in which they are searched: most urgent first, in case
the time runs out."""
TITLE: Final = 160
"""Maximum number of characters of a title that are shown."""
LEVELS: Final = ((1_600, 4_000), (800, 2_000), (400, 1_200), (400, 600), (250, 400), (120, 200))
"""Maximum numbers of characters of a shown text, by level: (in a pair to link or in conflict, in a pair to merge).

The first level at which all pairs fit into the reply is used. Texts of pairs to merge are longer, because the agent
may write a merged text.
"""
FOR_CLUSTERS: Final = 0.35
"""Share of the limit of characters that is reserved for clusters.

The texts of clusters are never cut, because the agent writes a summary from them.
"""
ENVELOPE: Final = 500
"""Characters reserved for the rest of the reply: receipt, summary, names of fields."""


class Question(Struct, frozen=True):
    """One question for an agent, about a pair or a cluster of memories.

    `keys`: {id of each memory: key of its text}. `score`: similarity of a pair; 0 for clusters.
    """

    keys: dict[str, str]
    score: float = 0.0
    cut: bool = False
    """Whether one of the texts was shown only in part."""

    @property
    def ids(self) -> tuple[str, ...]:
        """Return the ids of the memories."""
        return tuple(self.keys)

    @property
    def texts(self) -> list[str]:
        """Return the keys of the memories' texts."""
        return list(self.keys.values())


class Issued(Struct, frozen=True):
    """The questions of one receipt, by batch: all questions of one sort, such as pairs to link."""

    items: dict[str, list[Question]] = field(default_factory=dict)

    def of(self, batch: str) -> list[Question]:
        """Return the questions of one batch, empty if there are none."""
        return self.items.get(batch, [])

    def __bool__(self) -> bool:
        """Return whether there is any question."""
        return any(self.items.values())

    def as_json(self) -> dict[str, Any]:
        """Return the questions as plain values, {batch: questions}."""
        found: dict[str, Any] = msgspec.to_builtins(self.items)
        return found

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Issued:
        """Return the questions that `as_json` made plain. Batches of unknown kinds are left out."""
        batches = {kind.batch: value[kind.batch] for kind in KINDS if kind.batch in value}
        return cls(msgspec.convert(batches, dict[str, list[Question]]))


def gather(context: RunContext, kinds: Sequence[QuestionKind], *, enough: bool = False) -> Issued:
    """Search for questions until each batch is full or the time of `context` is over. `enough`: stop at the first
    question."""
    order = (*PAIRED, CLUSTERS)
    found: dict[str, list[Question]] = {batch: [] for batch in order}
    with contextlib.suppress(Stopped):  # the candidates found so far are used; the others can be found the next time
        for kind in sorted(kinds, key=lambda kind: order.index(kind.batch)):
            yielded: set[frozenset[str]] = set()
            for one in kind.candidates(context):
                context.give()
                decided = context.verdicts.known(kind.task.name, one.texts) is not None
                if len(one.ids) > 1 and one.ids not in yielded and not decided:
                    found[kind.batch].append(Question(one.keys, round(one.score, 4)))
                yielded.add(one.ids)
                if len(found[kind.batch]) >= (1 if enough else kind.limit):
                    break
            if enough and any(found.values()):
                break
    return Issued(found)


class Payload(Struct, frozen=True):
    """The questions as an agent gets them, and as the receipt keeps them (`issued`)."""

    batches: dict[str, list[Any]]
    """{batch: list of `CandidatePair`}; for clusters, each item is a list of `CandidateNode`."""
    issued: Issued


def show(index: Index, issued: Issued, characters: int) -> Payload:
    """Return the questions with the texts of the memories, in at most `characters` characters of JSON.

    Questions that do not fit are omitted, as are questions about a memory that was deleted or changed since the
    search.
    """
    ids = [node_id for questions in issued.items.values() for question in questions for node_id in question.ids]
    rows = index.notes(ids)
    fresh = {batch: [item for item in items if stale(rows, item) is None] for batch, items in issued.items.items()}
    clusters = [(one, [_candidate_node(rows[node_id], None) for node_id in one.ids]) for one in fresh.pop(CLUSTERS, [])]
    room = characters - ENVELOPE
    reserved = 0
    for _, texts in clusters:
        if reserved + size(texts) + 1 <= room * FOR_CLUSTERS:
            reserved += size(texts) + 1

    # The pairs, with as much of their texts as fits; even the titles alone can exceed a small limit
    drawn: dict[str, list[tuple[Question, Any]]] = {}
    for level in LEVELS:
        drawn = {batch: _draw(rows, fresh.get(batch, []), level[batch == MERGES]) for batch in PAIRED}
        if _json_size(drawn) <= room - reserved:
            break
    while _json_size(drawn) > room - reserved:
        max(drawn.values(), key=len).pop()

    # The clusters, in the room that is left
    free = room - _json_size(drawn | {CLUSTERS: []})
    drawn[CLUSTERS] = []
    for one, texts in clusters:
        if size(texts) + 1 <= free:
            free -= size(texts) + 1
            drawn[CLUSTERS].append((one, texts))
    batches = {batch: [texts for _, texts in items] for batch, items in drawn.items()}
    return Payload(batches, Issued({batch: [one for one, _ in items] for batch, items in drawn.items()}))


def stale(rows: Mapping[str, NodeRow], item: Question) -> tuple[str, str] | None:
    """Return (id, reason) of the first memory of a question that was deleted or changed; None if there is none."""
    for node_id, key in item.keys.items():
        row = rows.get(node_id)
        if row is None:
            return node_id, "it is not in the vault any more"
        if key_of(row) != key:
            return node_id, "its text was changed since it was handed out"
    return None


def _draw(rows: Mapping[str, NodeRow], questions: Sequence[Question], limit: int) -> list[tuple[Question, Any]]:
    """Return each pair's question with the two texts that the agent sees. `limit`: maximum number of characters of a
    text."""
    drawn: list[tuple[Question, Any]] = []
    for one in questions:
        a, b = (_candidate_node(rows[node_id], limit) for node_id in one.ids)
        drawn.append((Question(one.keys, one.score, a.cut or b.cut), CandidatePair(a, b, one.score)))
    return drawn


def _candidate_node(row: NodeRow, limit: int | None) -> CandidateNode:
    """Return a memory as an agent sees it. `limit`: maximum number of characters of its content; None: all."""
    content = row.content if limit is None else shortened(row.content, limit)
    title = None if row.title is None else shortened(row.title, TITLE)
    return of_row(CandidateNode, row, title=title, content=content, cut=content != row.content)


def size(value: Any) -> int:
    """Return the number of characters of a value as JSON."""
    return len(msgspec.json.encode(value).decode())


def _json_size(drawn: Mapping[str, list[tuple[Question, Any]]]) -> int:
    """Return the number of bytes of all texts as JSON."""
    return size({batch: [texts for _, texts in items] for batch, items in drawn.items()})
