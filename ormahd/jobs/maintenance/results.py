"""Phase two of two-phase maintenance: check an agent's results against the questions of the receipt (DESIGN section 12).

The results are not trusted. Each item is validated separately, must answer a question of the receipt, and its memories must
be unchanged. An invalid item is refused with a reason; the others are accepted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

from msgspec import Struct, field
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from ormahd.api import RefusedItem
from ormahd.errors import OrmahError
from ormahd.faults import fault
from ormahd.jobs.maintenance import issue
from ormahd.jobs.maintenance.issue import Issued, Question, stale
from ormahd.model.node import MAX_CONTENT, EdgeType, NodeType, Text, Title

if TYPE_CHECKING:
    from ormahd.ormah import Ormah

NONE: Final = "none"
"""The verdict "no". Omitting the item has the same meaning."""
MOST: Final = 1_000
"""Maximum number of items in one list. A receipt has a few dozen questions."""
LIST: Final[Mapping[str, str]] = {
    "edges": issue.LINKS, "conflicts": issue.CONFLICTS, "merges": issue.MERGES,
    "consolidations": issue.CLUSTERS,
}  # fmt: skip
"""{list of results: the batch that it mainly answers}, in the order in which the lists are applied.

Edges are applied before changes that remove or archive memories. An agent may find that a pair is something else than it was
asked about, so a list may answer pairs of every batch.
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
    """The verdict that several memories are summed up, with the summary's title, text and type."""

    node_ids: Annotated[list[Id], Field(min_length=2, max_length=5)]
    title: Title = None
    content: Content
    type: NodeType


class JudgedConflict(JudgedItem):
    """The verdict on a pair in conflict. In an evolution, `source_id` is the newer memory, which replaces the other."""

    source_id: Id
    target_id: Id
    kind: Literal["evolution", "tension", "none"]


MODELS: Final[Mapping[str, type[JudgedItem]]] = {
    "edges": JudgedEdge, "conflicts": JudgedConflict, "merges": JudgedMerge, "consolidations": JudgedConsolidation,
}  # fmt: skip


class Taken(Struct, frozen=True):
    """An accepted item. `name`: its list and position. `result`: the item. `asked`, `batch`: the question that it answers."""

    name: str
    result: Any
    asked: Question
    batch: str


class Checked(Struct):
    """The outcome of the check of all lists. `taken`: accepted items by list. `said_none`: number of "none" verdicts."""

    taken: dict[str, list[Taken]] = field(default_factory=lambda: {name: [] for name in LIST})
    refused: list[RefusedItem] = field(default_factory=list)
    said_none: int = 0
    unread: set[str] = field(default_factory=set)
    """Batches whose list was no list or too long."""
    open: list[tuple[str, Question]] = field(default_factory=list)
    """(batch, question) whose answer was refused; they are asked again."""
    verdicts: dict[tuple[str, tuple[str, ...]], Mapping[str, Any]] = field(default_factory=dict)
    """{(batch, ids): verdict to remember} of the items that were applied."""

    def refuse(self, item: str, blamed: str, why: str, *asked: tuple[str, Question]) -> None:
        """Refuse an item. `blamed`: the id of the memory at fault. `asked`: (batch, question) that stay open because of it."""
        self.refused.append(RefusedItem(item, blamed[:100], why[:1_000]))
        self.open += asked


def check(ormah: Ormah, lists: Mapping[str, Any], issued: Issued) -> Checked:
    """Check all items of the results; each is either accepted or refused."""
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
    """Return all questions with their batches, those of the batch `first` before the others."""
    batches_ = sorted(issued.items, key=lambda batch: batch != first)
    return [(batch, one) for batch in batches_ for one in issued.of(batch)]


def _said_of_several(checked: Checked) -> None:
    """Refuse items of different lists about the same memories, unless each of them answers a question of its own batch."""
    verdicts: dict[frozenset[str], list[tuple[str, Taken]]] = {}
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
    """Checks the items of one list."""

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
                self.checked.taken[self.name].append(Taken(f"{self.name}[{number}]", result, item, batch))

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
        """Return the questions that an item with these ids may have been meant for."""
        known = self.known.intersection(ids)
        return ((batch, one) for batch, one in self.asked if known and known <= set(one.ids))

    def _question(self, number: int, result: JudgedItem) -> Asked | None:
        """Return the question that an item answers. If there is none, refuse the item and return None."""
        ids = _ids(result)
        unknown = next((one for one in ids if one not in self.known), None)
        if unknown is not None:
            self._refuse(number, unknown, "this id was not issued with this receipt", *self._about(ids))
            return None
        if len(set(ids)) > 1 or len(ids) > 2:
            for batch, item in self.asked:
                if set(ids) == set(item.ids) or (batch == issue.CLUSTERS and set(ids) <= set(item.ids)):
                    return batch, item
        whole = self.name == "consolidations"
        apart = "these memories are of different clusters" if whole else "these two were not issued as a pair"
        self._refuse(number, ids[0], apart if len(set(ids)) > 1 else "the same memory twice")
        return None

    def _wrong(self, result: JudgedItem, item: Question) -> tuple[str, str] | None:
        """Return (id at fault, reason) if an item that answers a question cannot be accepted; else None."""
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
    """Return `{position: (id, reason)}` of items to refuse because they are about the same memories as another one.

    If two such items say the same, the first is kept; if they differ, both are refused.
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
    """Return `{position: (id, reason)}` of merges or evolutions that together form a cycle, and so contradict each other.

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
