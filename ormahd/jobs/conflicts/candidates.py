"""Search for pairs of memories that may be in conflict: near in meaning, without a SETTLED edge, not decided before.

A memory is marked as examined (`Verdicts.seen`) once all its pairs are decided. A verdict is stored under the keys
of both texts. So a pair is examined again if one of its texts changes, but not if only tags change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ormahd.index.rows import Filter
from ormahd.judge.port import Pair, ShownMemory
from ormahd.model.node import EdgeType
from ormahd.state.proposals import CONFLICT, text_key
from ormahd.text.standing import Compared, Relation, comparable, compare
from ormahd.text.statement import Statement, read

if TYPE_CHECKING:
    from ormahd.index.rows import NodeRow
    from ormahd.jobs.job import RunContext

NAME = "conflict_detector"
JUDGED, RULED = CONFLICT, "conflict by rule"
"""Names under which `Verdicts` stores verdicts: JUDGED for those of a judge or an agent, RULED for those of rules."""
NEIGHBOURS = 15
"""Number of nearest neighbours that a memory is compared with (REFERENCE C 3.3)."""
ALIKE = 0.4
"""Minimum cosine of a pair that a judge is asked about (REFERENCE C 3.3)."""
FAR = 0.2
"""Minimum cosine of a pair whose words are compared. It is lower than ALIKE, because short texts that differ only
in a name have a low cosine."""
CHUNK = 200
"""Number of memories examined per chunk."""
SETTLED = frozenset({EdgeType.CONTRADICTS, EdgeType.EVOLVED_FROM, EdgeType.DERIVED_FROM})
"""Types of edges that already state how two memories relate, so the pair is not examined."""
SERIES = 3
"""If the words suggest a replacement in this many pairs of a memory, the memory counts as one of a series, such
as one note per server. Then its pairs are no conflicts."""


class ConflictCandidate(Struct, frozen=True):
    """Two memories that may be in conflict.

    `by_words`: the comparison of their words, if it says that one replaced the other. `judged`: the verdict of an
    earlier run, if that run did not apply it.
    """

    looked_at: str
    """The id of the memory, `one` or `other`, from which the search found the pair."""
    one: NodeRow
    other: NodeRow
    cosine: float
    by_words: Compared | None
    judged: Mapping[str, Any] | None = None

    @property
    def keys(self) -> tuple[str, str]:
        return key_of(self.one), key_of(self.other)

    @property
    def rank(self) -> tuple[object, ...]:
        """The sort key, best first: pairs already judged, then by how clearly the words suggest a replacement, then
        by cosine."""
        replaced = self.by_words.replaced if self.by_words is not None else 0.0
        return (self.judged is None, -replaced, -self.cosine, self.one.id, self.other.id)

    @property
    def pair(self) -> Pair:
        return Pair(_shown(self.one), _shown(self.other), self.cosine)


class ConflictSearch:
    """Finds the candidates of one run, and remembers what was decided about them.

    `judged` True: all near pairs are candidates, for a judge to decide. False: only the pairs whose words suggest a
    replacement.
    """

    def __init__(self, turn: RunContext, *, judged: bool) -> None:
        self._turn = turn
        self._index = turn.ormah.index
        self._judged = judged
        self._looked = f"{NAME} judged" if judged else NAME
        self._question = JUDGED if judged else RULED
        self._self_id = turn.ormah.vault.self_id
        self._rows: dict[str, NodeRow] = {}
        self._reads: dict[str, Statement] = {}
        self._open: Counter[str] = Counter()
        self._found: Counter[str] = Counter()

    def chunks(self) -> Iterator[list[ConflictCandidate]]:
        """Yield lists of candidates, each for CHUNK memories that were not yet examined with their current text,
        newest first."""
        texts = self._texts()
        fresh = self._turn.verdicts.unseen(self._looked, texts)
        met: set[tuple[str, str]] = set()
        for at in range(0, len(fresh), CHUNK):
            self._turn.progress(at, len(fresh), "looking for conflicts")
            some = fresh[at : at + CHUNK]
            near: dict[str, list[tuple[str, float]]] = {}
            for node_id in some:
                self._turn.give()
                near[node_id] = [hit for hit in self._turn.near.of(node_id)[:NEIGHBOURS] if hit[1] >= FAR]
            self._load(near)
            yield self._among(near, met)
            waiting = {node_id for node_id in some if not near[node_id] and self._index.vectors(node_id) is None}
            self._seen([one for one in some if not self._open[one] and one not in waiting], texts)

    def series(self, candidate: ConflictCandidate) -> bool:
        """Whether one of the two memories belongs to a series, such as one note per server: the words of at least
        SERIES of its pairs suggest a replacement."""
        return max(self._found[candidate.one.id], self._found[candidate.other.id]) >= SERIES

    def answered(self, candidate: ConflictCandidate, verdict: Mapping[str, Any]) -> None:
        """Remember a judge's verdict before it is applied, so that the judge is not asked about this pair again."""
        if not self._turn.dry:
            self._turn.verdicts.remember(self._question, candidate.keys, {**verdict, "open": True})

    def settle(self, candidate: ConflictCandidate, verdict: Mapping[str, Any]) -> None:
        """Remember that a pair is decided: its change was committed or proposed, or the verdict was no."""
        if self._turn.dry:
            return
        self._turn.verdicts.remember(self._question, candidate.keys, verdict)
        node_id = candidate.looked_at
        self._open[node_id] -= 1
        if not self._open[node_id]:
            row = candidate.one if candidate.one.id == node_id else candidate.other
            self._seen([node_id], {node_id: key_of(row)})

    def fresh(self, candidate: ConflictCandidate) -> tuple[NodeRow, NodeRow] | None:
        """Return the current rows of the pair as (newer, older); None if a text changed or the two can no longer
        be in conflict."""
        rows = self._index.notes([candidate.one.id, candidate.other.id], connections=False)
        both = [rows.get(row.id) for row in (candidate.one, candidate.other)]
        one, other = both
        if one is None or other is None or not self._fit(one, other):
            return None
        if (key_of(one), key_of(other)) != candidate.keys:
            return None
        return (one, other) if _age(one) > _age(other) else (other, one)

    # ------------------------------------------------------------ details

    def _texts(self) -> dict[str, str]:
        """Return `{id: key of the text}` for all memories that are valid now, newest first."""
        found: list[tuple[Any, str, str]] = []
        ids = self._index.ids(Filter(alive_at=self._turn.now, writable=True))
        for at in range(0, len(ids), CHUNK):
            self._turn.give()
            rows = self._index.notes(ids[at : at + CHUNK], connections=False).values()
            found += [(row.created, row.id, key_of(row)) for row in rows if row.id != self._self_id]
        return {node_id: key for _, node_id, key in sorted(found, reverse=True)}

    def _load(self, near: Mapping[str, Sequence[tuple[str, float]]]) -> None:
        """Load the rows of the memories in `near` (node id -> neighbours) and of their neighbours into the cache.

        If the cache has too many rows, empty it first.
        """
        if len(self._rows) > 20 * CHUNK:
            self._rows, self._reads = {}, {}
        wanted = dict.fromkeys([*near, *(other for hits in near.values() for other, _ in hits)])
        missing = [node_id for node_id in wanted if node_id not in self._rows]
        self._rows |= self._index.notes(missing, connections=False)

    def _among(
        self, near: Mapping[str, Sequence[tuple[str, float]]], met: set[tuple[str, str]]
    ) -> list[ConflictCandidate]:
        edges = self._index.edges_of(list(near))
        between = {_pair(edge.source, edge.target) for edge in edges if edge.edge in SETTLED}
        found: list[ConflictCandidate] = []
        for node_id, hits in near.items():
            self._turn.give()
            for other_id, cosine in hits:
                pair = _pair(node_id, other_id)
                one, other = self._rows.get(node_id), self._rows.get(other_id)
                if one is None or other is None or pair in met or pair in between or not self._fit(one, other):
                    continue
                met.add(pair)
                by_words = self._compare(one, other, cosine)
                if by_words is not None:
                    self._found.update((node_id, other_id))
                elif not self._judged or cosine < ALIKE:
                    continue
                candidate = self._asked(ConflictCandidate(node_id, one, other, cosine, by_words))
                if candidate is not None:
                    self._open[node_id] += 1
                    found.append(candidate)
        return sorted(found, key=lambda candidate: candidate.rank)

    def _asked(self, candidate: ConflictCandidate) -> ConflictCandidate | None:
        """Return the candidate, with its verdict if a remembered one was not applied yet; None if the pair is
        already decided."""
        verdict = self._turn.verdicts.known(JUDGED, candidate.keys)
        if verdict is None and not self._judged:
            verdict = self._turn.verdicts.known(RULED, candidate.keys)
        if verdict is None:
            return candidate
        if not verdict.get("open"):
            return None
        return ConflictCandidate(
            candidate.looked_at, candidate.one, candidate.other, candidate.cosine, candidate.by_words, verdict
        )

    def _fit(self, one: NodeRow, other: NodeRow) -> bool:
        """Whether the two can be in conflict: both are valid now, neither is the self node, and they share a
        space or one is global."""
        now = self._turn.now
        return (
            not one.expired(now) and not other.expired(now)
            and self._self_id not in (one.id, other.id)
            and (one.space == other.space or one.space is None or other.space is None)
        )  # fmt: skip

    def _compare(self, one: NodeRow, other: NodeRow, cosine: float) -> Compared | None:
        """Return the comparison of the words of two memories if it says that the newer one replaced the older
        one, else None."""
        if not comparable(one.type, one.space, other.type, other.space):
            return None
        for row in (one, other):
            if row.id not in self._reads:
                self._reads[row.id] = read(row.title, row.content, row.type)
        older, newer = sorted((one, other), key=_age)
        found = compare(
            self._reads[older.id], self._reads[newer.id], cosine
        )  # fmt: skip
        return found if found.verdict is Relation.REPLACED else None

    def _seen(self, ids: Sequence[str], texts: Mapping[str, str]) -> None:
        if not self._turn.dry:
            self._turn.verdicts.seen(self._looked, [(node_id, texts[node_id]) for node_id in ids])


def key_of(row: NodeRow) -> str:
    return text_key(row.title, row.content)


def _pair(one: str, other: str) -> tuple[str, str]:
    return min(one, other), max(one, other)


def _age(row: NodeRow) -> tuple[Any, ...]:
    return row.created, row.updated, row.id


def _shown(row: NodeRow) -> ShownMemory:
    return ShownMemory(row.id, row.type, row.space, row.title, row.content, row.created)
