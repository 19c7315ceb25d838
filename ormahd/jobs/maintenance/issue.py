"""The questions of two-phase maintenance, and the check of an agent's results against them.

Phase one collects the questions for an agent, up to a limit of characters. Their candidates (pairs or clusters of
memories) come from the searches that the jobs use for a judge, without those that were judged before (`Verdicts`). A
receipt stores only the ids of memories and the keys of their texts; the texts that the agent sees are read from the
current memories.

In phase two the agent's results are not trusted (DESIGN section 12). Each item is validated separately, must answer a
question of the receipt, and its memories must be unchanged. An invalid item is refused with a reason; the others are
accepted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

import msgspec
from msgspec import Struct, field
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from ormahd.actions.views import iso
from ormahd.api import CandidateNode, CandidatePair, RefusedItem
from ormahd.errors import OrmahError, fault
from ormahd.jobs.conflicts import job as conflict_detector
from ormahd.jobs.consolidation import job as consolidator
from ormahd.jobs.duplicates import job as duplicates
from ormahd.jobs.job import Stopped
from ormahd.jobs.links import job as auto_linker
from ormahd.model.node import MAX_CONTENT, EdgeType, NodeType, Text, Title
from ormahd.state.proposals import text_key
from ormahd.text.quoting import shortened

if TYPE_CHECKING:
    from ormahd.index.index import Index
    from ormahd.index.rows import NodeRow
    from ormahd.jobs.job import RunContext
    from ormahd.judge.port import Pair, ShownMemory
    from ormahd.ormah import Ormah


LINKS: Final = "link_candidates"
CONFLICTS: Final = "conflict_candidates"
MERGES: Final = "merge_candidates"
CLUSTERS: Final = "consolidation_clusters"
PAIRED: Final = (MERGES, CONFLICTS, LINKS)
"""Batches whose questions are about pairs, in the order in which they are searched: most urgent first, in case
the time runs out."""
QUESTIONS: Final[Mapping[str, str]] = {
    LINKS: "link", CONFLICTS: "conflict", MERGES: "duplicate", CLUSTERS: "consolidate",
}  # fmt: skip
"""{batch: the name under which `Verdicts` remembers the answers to its questions}."""

MAX_PAIRS: Final = 8
"""Maximum number of pairs in each batch of pairs (links, conflicts, merges) per receipt."""
MAX_CLUSTERS: Final = 4
"""Maximum number of clusters per receipt."""
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


class QuestionSearch(Struct, frozen=True):
    """The jobs' searches for candidates to ask about. `pairs`: {batch: search for its pairs}. `clusters`: search for
    clusters.

    Each yields the best candidates first, without those that are already connected or judged.
    """

    pairs: Mapping[str, Callable[[RunContext], Iterable[Pair]]]
    clusters: Callable[[RunContext], Iterable[Sequence[ShownMemory]]]


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
        return tuple(self.keys)

    @property
    def texts(self) -> list[str]:
        return list(self.keys.values())


class Issued(Struct, frozen=True):
    """The questions of one receipt, by batch: all questions of one sort, such as pairs to link."""

    items: dict[str, list[Question]] = field(default_factory=dict)

    def of(self, batch: str) -> list[Question]:
        return self.items.get(batch, [])

    def __bool__(self) -> bool:
        return any(self.items.values())

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.to_builtins(self.items)
        return found

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Issued:
        return cls(
            msgspec.convert({batch: value[batch] for batch in QUESTIONS if batch in value}, dict[str, list[Question]])
        )


# ---------------------------------------------------------------- searching


def gather(turn: RunContext, search: QuestionSearch, *, enough: bool = False) -> Issued:
    """Search for questions until each batch is full or the time of `turn` is over. `enough`: stop at the first
    question."""
    found: dict[str, list[Question]] = {batch: [] for batch in (*PAIRED, CLUSTERS)}

    def look(batch: str, groups: Iterable[tuple[Sequence[ShownMemory], float]], most: int) -> None:
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

    most = {**dict.fromkeys(PAIRED, MAX_PAIRS), CLUSTERS: MAX_CLUSTERS}
    with contextlib.suppress(Stopped):  # the candidates found so far are used; the others can be found the next time
        for batch in (*PAIRED, CLUSTERS):
            if most[batch] and not (enough and any(found.values())):
                look(batch, _groups(turn, search, batch), 1 if enough else most[batch])
    return Issued(found)


def _groups(turn: RunContext, search: QuestionSearch, batch: str) -> Iterator[tuple[Sequence[ShownMemory], float]]:
    """Yield the candidates of a batch as (memories, similarity score). The score of a cluster is 0."""
    if batch == CLUSTERS:
        yield from ((cluster, 0.0) for cluster in search.clusters(turn))
    else:
        yield from (((pair.a, pair.b), round(float(pair.score), 4)) for pair in search.pairs[batch](turn))


def _keys(memories: Sequence[ShownMemory]) -> dict[str, str]:
    return {one.id: text_key(one.title, one.content) for one in memories}


def _open(turn: RunContext, batch: str, item: Question) -> bool:
    return turn.verdicts.known(QUESTIONS[batch], item.texts) is None


# ---------------------------------------------------------------- showing


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


NONE: Final = "none"
"""The verdict "no" in an item of edges or conflicts. Omitting the item has the same meaning."""
MOST: Final = 1_000
"""Maximum number of items in one list. A receipt has a few dozen questions."""
LIST: Final[Mapping[str, str]] = {
    "edges": LINKS, "conflicts": CONFLICTS, "merges": MERGES,
    "consolidations": CLUSTERS,
}  # fmt: skip
"""{list of results: the batch whose questions it mainly answers}, in the order in which the lists are applied.

Edges are applied before changes that remove or archive memories. An agent may find that a pair to link is a
duplicate, for example, so each list may also answer questions of the other batches.
"""

Id = Annotated[str, StringConstraints(max_length=100)]
Reason = Annotated[Text, Field(max_length=2_000)]
Content = Annotated[Text, Field(max_length=MAX_CONTENT)]


class JudgedItem(BaseModel):
    """One verdict of an agent. Unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)

    reason: Reason | None = None


class JudgedEdge(JudgedItem):
    """The verdict on a pair to link: a type of edge, or "none". Types that other code manages are not allowed."""

    source_id: Id
    target_id: Id
    edge_type: Literal["supports", "part_of", "depends_on", "related_to", "contradicts", "none"]
    weight: Annotated[float, Field(gt=0.0, le=1.0, allow_inf_nan=False)] | None = None


class JudgedMerge(JudgedItem):
    """The verdict that two memories become one. `title`, `content`: the merged text; None keeps that of `keep_id`."""

    keep_id: Id
    remove_id: Id
    title: Title = None
    content: Content | None = None


class JudgedConsolidation(JudgedItem):
    """The verdict that several memories are united into a summary, with the summary's title, text and type."""

    node_ids: Annotated[list[Id], Field(min_length=2, max_length=5)]
    title: Title = None
    content: Content
    type: NodeType


class JudgedConflict(JudgedItem):
    """The verdict on a pair in conflict. In an evolution, `source_id` is the newer memory, which replaces the
    other."""

    source_id: Id
    target_id: Id
    kind: Literal["evolution", "tension", "none"]


MODELS: Final[Mapping[str, type[JudgedItem]]] = {
    "edges": JudgedEdge, "conflicts": JudgedConflict, "merges": JudgedMerge, "consolidations": JudgedConsolidation,
}  # fmt: skip


class AcceptedItem(Struct, frozen=True):
    """An item of an agent's results that was accepted. `result`: the item. `name`: its list and position, such as
    "edges[3]".

    `asked`: the question that it answers. `batch`: the batch of that question.
    """

    name: str
    result: Any
    asked: Question
    batch: str


class Checked(Struct):
    """The outcome of the check of all lists of results. `taken`: {name of the list: accepted items}. `said_none`:
    number of verdicts "none"."""

    taken: dict[str, list[AcceptedItem]] = field(default_factory=lambda: {name: [] for name in LIST})
    refused: list[RefusedItem] = field(default_factory=list)
    said_none: int = 0
    unread: set[str] = field(default_factory=set)
    """Batches whose list of results was invalid as a whole: no list, or too long."""
    open: list[tuple[str, Question]] = field(default_factory=list)
    """(batch, question) of the questions whose answer was refused; they are asked again."""
    verdicts: dict[tuple[str, tuple[str, ...]], Mapping[str, Any]] = field(default_factory=dict)
    """{(batch, ids of the question): verdict to remember} of the items that were applied."""

    def refuse(self, item: str, blamed: str, why: str, *asked: tuple[str, Question]) -> None:
        """Record that an item is refused.

        `item`: its list and position. `blamed`: the id of the memory because of which it is refused. `why`: the
        reason. `asked`: questions that stay open because of it, as (batch, question).
        """
        self.refused.append(RefusedItem(item, blamed[:100], why[:1_000]))
        self.open += asked


def check(ormah: Ormah, lists: Mapping[str, Any], issued: Issued) -> Checked:
    """Check all items of the results; each is accepted or refused. `lists`: {name of a list: its items, not
    validated}."""
    checked = Checked()
    for name, batch in LIST.items():
        value = lists.get(name)
        if value is None:
            continue
        if not isinstance(value, list) or len(value) > MOST:
            checked.refuse(name, "", f"it is no list of at most {MOST:,} items")
            checked.unread.add(batch)
            continue
        _List(ormah, name, _in_order(issued, batch), checked).check(value)
    _said_of_several(checked)
    return checked


Asked = tuple[str, Question]
"""(batch, question)."""


def _in_order(issued: Issued, first: str) -> list[Asked]:
    """Return (batch, question) for all questions, those of the batch `first` before the others."""
    batches_ = sorted(issued.items, key=lambda batch: batch != first)
    return [(batch, one) for batch in batches_ for one in issued.of(batch)]


def _said_of_several(checked: Checked) -> None:
    """Refuse accepted items of different lists about the same memories, unless each answers a question of the batch
    that its list is for (`LIST`)."""
    verdicts: dict[frozenset[str], list[tuple[str, AcceptedItem]]] = {}
    for name, taken in checked.taken.items():
        for one in taken:
            verdicts.setdefault(frozenset(_ids(one.result)), []).append((name, one))
    for said in verdicts.values():
        if len({name for name, _ in said}) < 2 or all(LIST[name] == one.batch for name, one in said):
            continue  # all are from one list, or each answers a question of its own batch
        names = " and ".join(one.name for _, one in said)
        for name, one in said:
            checked.taken[name].remove(one)
            why_ = f"of the same memories {names} say different things"
            checked.refuse(one.name, _ids(one.result)[0], why_, (one.batch, one.asked))


R = TypeVar("R", bound=JudgedItem)


class _List:
    """Checks the items of one list of results, and adds the outcome to `checked`. `asked`: all questions of the
    receipt, as (batch, question)."""

    def __init__(self, ormah: Ormah, name: str, asked: Sequence[Asked], checked: Checked) -> None:
        self.ormah = ormah
        self.name = name
        self.asked = asked
        self.checked = checked
        self.rows = ormah.index.notes([node_id for _, one in asked for node_id in one.ids], connections=False)
        self.known = {node_id for _, one in asked for node_id in one.ids}

    def check(self, values: Sequence[Any]) -> None:
        read = [(number, self._read(number, value)) for number, value in enumerate(values)]
        results = [(number, result) for number, result in read if result is not None]
        bad = {**_circles(self.name, results), **_repeated(self.name, results)}
        for number, result in results:
            found = self._question(number, result)
            if found is None:
                continue
            batch, item = found
            blame = bad.get(number) or self._wrong(result, item)
            if blame is not None:
                self._refuse(number, *blame, found)
            elif getattr(result, "edge_type", None) == NONE or getattr(result, "kind", None) == NONE:
                self.checked.said_none += 1
            else:
                self.checked.taken[self.name].append(AcceptedItem(f"{self.name}[{number}]", result, item, batch))

    def _refuse(self, number: int, blamed: str, why: str, *asked: Asked) -> None:
        self.checked.refuse(f"{self.name}[{number}]", blamed, why, *asked)

    def _read(self, number: int, value: Any) -> JudgedItem | None:
        if not isinstance(value, dict):
            self._refuse(number, "", "it is no map of fields")
            return None
        try:
            return MODELS[self.name].model_validate(value)
        except ValidationError as exc:
            found = fault(exc)
            # An unreadable answer is no answer, so its question stays open
            self._refuse(number, _first_id(value), str(found), *self._about(_ids_in(value)))
            return None

    def _about(self, ids: Iterable[str]) -> Iterator[Asked]:
        """Return the questions that an item about `ids` may be meant for: those with all of its known ids."""
        known = self.known.intersection(ids)
        return ((batch, one) for batch, one in self.asked if known and known <= set(one.ids))

    def _question(self, number: int, result: JudgedItem) -> Asked | None:
        """Return (batch, question) that `result` answers. If there is none, refuse the item and return None."""
        ids = _ids(result)
        unknown = next((one for one in ids if one not in self.known), None)
        if unknown is not None:
            self._refuse(number, unknown, "this id was not issued with this receipt", *self._about(ids))
            return None
        if len(set(ids)) > 1 or len(ids) > 2:
            for batch, item in self.asked:
                if set(ids) == set(item.ids) or (batch == CLUSTERS and set(ids) <= set(item.ids)):
                    return batch, item
        whole = self.name == "consolidations"
        apart = "these memories are of different clusters" if whole else "these two were not issued as a pair"
        self._refuse(number, ids[0], apart if len(set(ids)) > 1 else "the same memory twice")
        return None

    def _wrong(self, result: JudgedItem, item: Question) -> tuple[str, str] | None:
        """Return (memory id, reason) if `result`, which answers `item`, must be refused; else None."""
        if (changed := stale(self.rows, item)) is not None:
            return changed
        me = self.ormah.vault.self_id
        if isinstance(result, JudgedMerge):
            if result.remove_id == me:
                return me, "the self node is never removed"
            if result.content is not None and item.cut:
                return result.keep_id, "it was shown in part: leave the content out, and the kept memory's own stays"
        if isinstance(result, JudgedConsolidation) and len(set(result.node_ids)) < len(result.node_ids):
            return result.node_ids[0], "a memory is named twice"
        text = getattr(result, "content", None)
        if text is not None and not text.strip():
            return _ids(result)[0], "content: it is empty"
        return None


def _ids(result: Any) -> tuple[str, ...]:
    if isinstance(result, JudgedConsolidation):
        return tuple(result.node_ids)
    if isinstance(result, JudgedMerge):
        return result.keep_id, result.remove_id
    return result.source_id, result.target_id


def _ids_in(value: Mapping[str, Any]) -> Iterator[str]:
    for name in ("source_id", "target_id", "keep_id", "remove_id", "node_ids"):
        found = value.get(name)
        yield from (one for one in (found if isinstance(found, list) else [found]) if isinstance(one, str))


def _first_id(value: Mapping[str, Any]) -> str:
    return next(_ids_in(value), "")


def _repeated(name: str, results: Sequence[tuple[int, Any]]) -> dict[int, tuple[str, str]]:
    """Return `{position: (id, reason)}` of items to refuse because another item of the list is about the same
    memories.

    If both items have the same verdict, only the later one is refused; if the verdicts differ, both are.
    """
    first: dict[frozenset[str], tuple[int, Any]] = {}
    bad: dict[int, tuple[str, str]] = {}
    for number, result in results:
        ids = frozenset(_ids(result))
        if ids not in first:
            first[ids] = (number, result)
            continue
        before, other = first[ids]
        if _verdict(result) == _verdict(other):
            bad[number] = (_ids(result)[0], f"{name}[{before}] says the same already")
        else:
            bad[number] = (_ids(result)[0], f"{name}[{before}] says otherwise of the same memories")
            bad.setdefault(before, (_ids(other)[0], f"{name}[{number}] says otherwise of the same memories"))
    return bad


def _verdict(result: Any) -> tuple[Any, ...]:
    """Return an item's verdict without its reason, to compare two items."""
    if isinstance(result, JudgedConsolidation):
        return (result.type, result.title, result.content)
    if isinstance(result, JudgedMerge):
        return (result.keep_id, result.title, result.content)
    kind = result.edge_type if isinstance(result, JudgedEdge) else result.kind
    directed = kind not in (EdgeType.RELATED_TO, EdgeType.CONTRADICTS, "tension", NONE)
    return (kind, result.source_id if directed else None)


def _circles(name: str, results: Sequence[tuple[int, Any]]) -> dict[int, tuple[str, str]]:
    """Return `{position: (id, reason)}` of items to refuse: merges or evolutions that form a cycle, such as A into
    B, B into A.

    Cycles with edges in the vault, and cycles of links, are detected when the changes are made.
    """
    arrows: list[tuple[int, str, str]] = [
        (number, _ids(result)[0], _ids(result)[1]) for number, result in results
        if isinstance(result, JudgedMerge) or (isinstance(result, JudgedConflict) and result.kind == "evolution")
    ]  # fmt: skip
    return {
        number: (source, f"with others of {name} this leads round in a circle")
        for number, source, target in arrows
        if source != target and source in _reached(target, [(one, other) for _, one, other in arrows])
    }


def _reached(start: str, arrows: Sequence[tuple[str, str]]) -> set[str]:
    met, ahead = {start}, {start}
    while ahead:
        ahead = {target for source, target in arrows if source in ahead} - met
        met |= ahead
    return met


def why(error: OrmahError) -> str:
    """Return the message of an error, with its hint, as the reason of a refusal."""
    return error.message if error.hint is None else f"{error.message} ({error.hint})"
