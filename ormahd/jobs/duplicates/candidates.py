"""Search for pairs to merge: memories of one type and one space with a high similarity score (REFERENCE 3.4).

Each memory that was not examined yet is compared with its nearest neighbours only, not with all memories.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from ormahd.index.rows import Filter
from ormahd.jobs.duplicates.change import is_event, why_apart
from ormahd.jobs.neighbours import COSINE, Likeness, likeness
from ormahd.judge.port import Pair, Shown
from ormahd.model.change import Kind
from ormahd.model.node import NodeType, ProposalType
from ormahd.process import sql
from ormahd.state import proposals as book
from ormahd.state.proposals import text_key
from ormahd.text.sameness import Same, contrast, same
from ormahd.text.standing import Relation, compare
from ormahd.text.statement import read

if TYPE_CHECKING:
    from ormahd.index.rows import NodeRow
    from ormahd.jobs.job import Turn
    from ormahd.ormah import Ormah

QUESTION = "duplicate"
"""The name under which `Verdicts` remembers verdicts on pairs: {"same": bool, …}."""
NEIGHBOURS = 6
"""Nearest memories of the same type and space that a memory is compared with (REFERENCE 3.4)."""
LEAST_COSINE = 0.25
"""Cosine below which two memories are not compared at all (REFERENCE 3.4)."""
LEAST_LIKENESS = 0.6
"""Minimum similarity score (0.6 cosine + 0.2 titles + 0.2 common words) of a candidate pair (REFERENCE 3.4)."""
READ = 500
"""Number of notes read at once."""

Two = frozenset[str]
"""The ids of a pair."""


class Found(Struct, frozen=True):
    """A candidate pair. `how`: in what way the words are the same; None if they are not."""

    one: NodeRow
    other: NodeRow
    like: Likeness
    how: Same | None

    @property
    def ids(self) -> Two:
        return frozenset({self.one.id, self.other.id})

    @property
    def texts(self) -> list[str]:
        return [text_key(row.title, row.content) for row in (self.one, self.other)]

    @property
    def shown(self) -> Pair:
        return Pair(_shown(self.one), _shown(self.other), self.like.composite)


class Search(Struct):
    """The candidates of one run of the job, and which of them are settled.

    `under`: the name under which memories are marked as examined. A memory is marked once all its pairs are settled.
    """

    turn: Turn
    under: str
    _looked: dict[str, str] = field(default_factory=dict)
    _open: dict[Two, Found] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Found]:
        """Yield candidate pairs, chunk by chunk of READ memories, most similar first within a chunk."""
        index = self.turn.ormah.index
        undone = taken_back(self.turn.ormah)
        kinds: dict[str, tuple[NodeType, str | None]] = {}
        texts: dict[str, str] = {}
        ids = [
            node_id for node_id in sorted(index.ids(Filter(writable=True))) if node_id != self.turn.ormah.vault.self_id
        ]
        for some in sql.chunks(ids, READ):
            self.turn.give()
            for row in index.notes(some, connections=False).values():
                kinds[row.id] = row.type, row.space
                texts[row.id] = text_key(row.title, row.content)
        unseen = self.turn.verdicts.unseen(self.under, texts)
        for at, some in enumerate(sql.chunks(unseen, READ)):
            self.turn.progress(at * READ, len(unseen), "memories compared")
            near = list(self._near(some, kinds))
            rows = index.notes(list({node_id for one, other, _ in near for node_id in (one, other)}), connections=False)
            found = [
                pair for one, other, cosine in near
                if one in rows and other in rows and (pair := self._pair(rows[one], rows[other], cosine)) is not None
                and pair.ids not in undone
            ]  # fmt: skip
            self._open |= {pair.ids: pair for pair in found}
            self._looked |= {node_id: texts[node_id] for node_id in some if index.vectors(node_id) is not None}
            yield from sorted(found, key=lambda pair: (-pair.like.composite, sorted(pair.ids)))

    def settle(self, pair: Found) -> None:
        """Mark a pair as settled: nothing is left to do or to ask about it."""
        self._open.pop(pair.ids, None)

    def close(self) -> None:
        """Mark the memories without open pairs as examined. Do nothing in a dry run."""
        if not self.turn.dry:
            waiting = {node_id for two in self._open for node_id in two}
            self.turn.verdicts.seen(self.under, [one for one in self._looked.items() if one[0] not in waiting])

    def _near(
        self, ids: Iterable[str], kinds: dict[str, tuple[NodeType, str | None]]
    ) -> Iterator[tuple[str, str, float]]:
        met: set[Two] = set()
        floor = max(LEAST_COSINE, (LEAST_LIKENESS - (1 - COSINE)) / COSINE)
        for node_id in ids:
            self.turn.give()
            kin = [hit for hit in self.turn.near.of(node_id) if kinds.get(hit[0]) == kinds[node_id]]
            for other, cosine in kin[:NEIGHBOURS]:
                two = frozenset({node_id, other})
                if cosine >= floor and two not in met and two not in self._open:
                    met.add(two)
                    yield node_id, other, cosine

    def _pair(self, one: NodeRow, other: NodeRow, cosine: float) -> Found | None:
        like = likeness(one, other, cosine)
        if like.composite < LEAST_LIKENESS:
            return None
        if why_apart(self.turn.ormah, one, other) is not None:
            return None
        how = None if is_event(one, other) else same(one.title, one.content, other.title, other.content)
        return Found(one, other, like, how)


def differ(pair: Found) -> bool:
    """Whether the words of a pair show that it is no duplicate: a changed fact, or a different number, name or negation.

    Whether the two contradict each other is left to the conflict detector.
    """
    if pair.how is not None:
        return False
    older, newer = sorted((pair.one, pair.other), key=lambda row: (row.created, row.updated, row.id))
    if contrast(*(f"{row.title or ''}\n{row.content}" for row in (older, newer))) is not None:
        return True
    texts = [read(row.title, row.content, row.type) for row in (older, newer)]
    return compare(texts[0], texts[1], pair.like.cosine).verdict is Relation.REPLACED


def candidates(turn: Turn) -> Iterator[Pair]:
    """Yield the pairs to ask an agent about: not judged yet, not in a pending proposal, and without a clear difference.

    Memories without open pairs are marked as examined at the end.
    """
    search = Search(turn, "duplicate_merger agent")
    asked = waiting(turn.ormah)
    try:
        for pair in search:
            if turn.verdicts.known(QUESTION, pair.texts) is not None or differ(pair):
                search.settle(pair)
            elif not pair.ids & asked:
                yield pair.shown
    finally:
        search.close()


def waiting(ormah: Ormah) -> set[str]:
    """Return the ids of the memories in pending proposals to merge."""
    rows = book.rows(ormah.state, (book.PENDING,))
    return {node_id for row in rows if row.type == ProposalType.MERGE for node_id in row.nodes}


def taken_back(ormah: Ormah) -> set[Two]:
    """Return the pairs whose merge was undone. They are not merged or proposed again."""
    view = ormah.vault.oplog.view()
    merges = [entry for entry in view.entries if entry.kind == Kind.MERGE and view.undone_by(entry) is not None]
    return {frozenset(entry.nodes[:2]) for entry in merges}


def _shown(row: NodeRow) -> Shown:
    return Shown(row.id, row.type, row.space, row.title, row.content, row.created)


def shown(pairs: Sequence[Found]) -> list[Pair]:
    return [pair.shown for pair in pairs]
