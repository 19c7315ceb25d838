"""The table of what two-phase maintenance asks an agent: candidates, form of an answer, and change, for each kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, ClassVar, Final, Literal

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from ormahd.actions.amend import PERSON, clean
from ormahd.errors import BadRequest
from ormahd.jobs.conflicts import job as conflicts
from ormahd.jobs.conflicts.change import conflict_change
from ormahd.jobs.consolidation import job as consolidation
from ormahd.jobs.consolidation.change import consolidate
from ormahd.jobs.duplicates import job as duplicates
from ormahd.jobs.duplicates.change import meaning, merge, repeated
from ormahd.jobs.job import PlannedChange, RunContext
from ormahd.jobs.links import job as links
from ormahd.jobs.questions import MemoryGroup
from ormahd.judge import model_judge as judge
from ormahd.judge.port import NONE, Task
from ormahd.model.node import MAX_CONTENT, NodeType, Text, Title
from ormahd.ormah import Ormah
from ormahd.text.diff import clip
from ormahd.text.facts import lost_facts

LONGEST: Final = 2
"""Maximum length of a merged text, as a multiple of the longer source text."""
SPARE: Final = 500
"""Number of characters that a merged text may always have, even if the sources are short."""
READ: Final = 100_000
"""If two memories together have more characters than this, the commit does not list the facts that the merged
text leaves out, because finding them takes too long."""
NAMED: Final = 12
"""Maximum number of facts that the commit lists as left out by the merged text."""

Id = Annotated[str, StringConstraints(max_length=100)]
Content = Annotated[Text, Field(max_length=MAX_CONTENT)]


class JudgedItem(BaseModel):
    """One verdict of an agent. Unknown fields are ignored.

    `ids`: the memories that it is about. `verdict`: what is remembered of it. `decision`: the verdict without its
    reason, equal for two items that decide the same. `direction`: (id, id) of the memories in the order in which such
    items must not form a cycle, or None.
    """

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)

    id_fields: ClassVar[tuple[str, str]] = ("source_id", "target_id")
    reason: Annotated[Text, Field(max_length=2_000)] | None = None

    @property
    def ids(self) -> tuple[str, ...]:
        """Return the ids of the memories that the verdict is about."""
        return tuple(getattr(self, name) for name in self.id_fields)


class JudgedEdge(JudgedItem):
    """The verdict on a pair to link: a type of edge, or "none". Types that other code manages are not allowed."""

    source_id: Id
    target_id: Id
    edge_type: Literal["supports", "part_of", "depends_on", "related_to", "contradicts", "none"]
    weight: Annotated[float, Field(gt=0.0, le=1.0, allow_inf_nan=False)] | None = None
    direction: ClassVar[None] = None

    @property
    def verdict(self) -> dict[str, Any]:
        return {"edge": self.edge_type}

    @property
    def decision(self) -> tuple[Any, ...]:
        """The type, and the source unless the type is symmetric."""
        return self.edge_type, self.edge_type in ("related_to", "contradicts", NONE) or self.source_id


class JudgedMerge(JudgedItem):
    """The verdict that two memories become one. `title`, `content`: the merged text; None keeps that of `keep_id`."""

    keep_id: Id
    remove_id: Id
    title: Title = None
    content: Content | None = None
    id_fields: ClassVar = ("keep_id", "remove_id")
    verdict: ClassVar = {"same": True}

    @property
    def direction(self) -> tuple[str, str]:
        return self.keep_id, self.remove_id

    @property
    def decision(self) -> tuple[Any, ...]:
        return self.keep_id, self.title, self.content


class JudgedConsolidation(JudgedItem):
    """The verdict that several memories are united into a summary, with the summary's title, text and type."""

    node_ids: Annotated[list[Id], Field(min_length=2, max_length=5)]
    title: Title = None
    content: Content
    type: NodeType
    direction: ClassVar[None] = None
    verdict: ClassVar = {"united": True}

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(self.node_ids)

    @property
    def decision(self) -> tuple[Any, ...]:
        return self.type, self.title, self.content


class JudgedConflict(JudgedItem):
    """The verdict on a pair in conflict. In an evolution, `source_id` is the newer memory, which replaces the
    other."""

    source_id: Id
    target_id: Id
    kind: Literal["evolution", "tension", "none"]

    @property
    def verdict(self) -> dict[str, Any]:
        return {"kind": self.kind}

    @property
    def direction(self) -> tuple[str, str] | None:
        """(newer memory, older memory) in an evolution, else None."""
        return (self.source_id, self.target_id) if self.kind == "evolution" else None

    @property
    def decision(self) -> tuple[Any, ...]:
        """The kind, and in an evolution the newer memory."""
        return self.kind, self.kind != "evolution" or self.source_id


AnyItem = JudgedEdge | JudgedMerge | JudgedConsolidation | JudgedConflict


class AgentVerdict(Struct, frozen=True):
    """An agent's item, and what the commit says of it. `reason`: cleaned, on one line. `by`: who judged."""

    item: Any
    reason: str
    by: str

    @property
    def body(self) -> str:
        """Return the body of the commit: the reason and who judged."""
        return f"{self.reason}\nJudged by {self.by}.".lstrip()


def conflict(ormah: Ormah, one: AgentVerdict) -> PlannedChange:
    """Return the change for a `JudgedConflict`, or for a `JudgedEdge` of the type contradicts."""
    kind, (newer, older) = getattr(one.item, "kind", "tension"), one.item.ids
    by_person = one.by == PERSON
    return conflict_change(ormah, newer, older, kind, reason=one.reason, body=one.body, by_person=by_person)


def _merge(ormah: Ormah, one: AgentVerdict) -> PlannedChange:
    """Return the change that merges two memories as the agent decided.

    Raises:
        BadRequest: the merged text is too long, or has a sentence twice.
    """
    title, content = clean(ormah, one.item.title, []), clean(ormah, one.item.content, [])
    rows, body = ormah.index.notes(one.item.ids), one.body
    keep, removed = rows[one.item.keep_id], rows[one.item.remove_id]
    if content is not None:
        longest = max(SPARE, LONGEST * max(len(keep.content), len(removed.content)))
        if len(content) > longest:
            raise BadRequest(f"content: it has {len(content):,} characters; {longest:,} are enough for these two")
        if (twice := repeated(content, keep, removed, meaning(ormah))) is not None:
            raise BadRequest(f"content: it says the same twice: “{clip(twice)}”", hint="say it once")
    both = [(row.title, row.content) for row in (keep, removed)]
    if sum(len(text) for _, text in both) <= READ:
        text = "\n".join((title or keep.title or "", keep.content if content is None else content))
        if missing := lost_facts(both, text):
            body += "\nSaid only before: " + ", ".join(missing[:NAMED])
    return merge(ormah, keep, removed, title=title, content=content, body=body, across=False)


def _consolidate(ormah: Ormah, one: AgentVerdict) -> PlannedChange:
    """Return the change that unites memories into the summary that the agent wrote."""
    text = {"title": one.item.title, "content": one.item.content, "kind": one.item.type}
    return consolidate(ormah, one.item.node_ids, **text, body=one.body, source=one.by)


class QuestionKind(Struct, frozen=True):
    """A kind of question to an agent.

    `batch`: the list in which its questions are handed out, and `named` the name of one and of several of them.
    `results`: the list in which their answers come back, and `item` the form of an answer. `task`: the question to a
    judge, under whose name answers are remembered. `no`: the answer no, as remembered. `limit`: maximum number of
    questions in a receipt. `candidates`: finds what to ask, best first. `change`: makes the change of an answer; None:
    all edges become one change.
    """

    batch: str
    named: tuple[str, str]
    results: str
    item: type[AnyItem]
    task: Task
    no: Mapping[str, Any]
    limit: int
    candidates: Callable[[RunContext], Iterable[MemoryGroup]]
    change: Callable[[Ormah, AgentVerdict], PlannedChange] | None


LINKS, CONFLICTS, MERGES = "link_candidates", "conflict_candidates", "merge_candidates"
CLUSTERS: Final = "consolidation_clusters"
KINDS: Final = (
    QuestionKind(
        LINKS, ("pair to link", "pairs to link"), "edges", JudgedEdge,
        judge.LINKS, {"edge": NONE}, 8, links.candidates, None,
    ),
    QuestionKind(
        CONFLICTS, ("pair that may conflict", "pairs that may conflict"), "conflicts", JudgedConflict,
        judge.CONFLICTS, {"kind": NONE}, 8, conflicts.candidates, conflict,
    ),
    QuestionKind(
        MERGES, ("pair to merge", "pairs to merge"), "merges", JudgedMerge,
        judge.DUPLICATES, {"same": False}, 8, duplicates.candidates, _merge,
    ),
    QuestionKind(
        CLUSTERS, ("cluster to unite", "clusters to unite"), "consolidations", JudgedConsolidation,
        judge.SUMMARIES, {"united": False}, 4, consolidation.candidates, _consolidate,
    ),
)  # fmt: skip
"""All kinds, in the order in which their answers are applied: edges before changes that remove or archive memories. An
agent may find that a pair to link is a duplicate, for example, so each list may also answer questions of the others."""
