"""Two-phase maintenance: `agent.maintenance` (seeds/api-surface, "Maintenance Endpoint")."""

from __future__ import annotations

from typing import Any, Final

from msgspec import UNSET, UnsetType

from ormahd.api.base import Params, Result


class MaintenanceParams(Params):
    """Phase one: no parameters. Phase two: `receipt` and any of the four lists, either here or within `results`.

    Items are read one by one, and one that is wrong is refused by itself. Ids are full ones, as they were handed out. What
    was handed out and stands in no list counts as judged: no.
    """

    receipt: str | None = None
    """What phase one gave; good for one hour, and once."""
    edges: Any = None
    """A list of `{source_id, target_id, edge_type, weight?, reason?}` for `link_candidates`. `edge_type`: supports, part_of,
    depends_on, related_to, contradicts; none says no. `weight`: above 0, up to 1; left out: the similarity."""
    merges: Any = None
    """A list of `{keep_id, remove_id, title?, content?, reason?}` for `merge_candidates`. Without `title` and `content` the
    kept memory's own stay; no `content` where one of the two was `cut`."""
    consolidations: Any = None
    """A list of `{node_ids, title?, content, type, reason?}` for `consolidation_clusters`: 2 to 5 memories of one cluster."""
    conflicts: Any = None
    """A list of `{source_id, target_id, kind, reason?}` for `conflict_candidates`. `kind`: evolution (the source is the
    newer belief, which replaced the target), tension (both stand), none."""
    results: dict[str, Any] | None = None
    """`{receipt, edges, merges, consolidations, conflicts}`, in place of the fields above."""
    request_id: str | None = None


class CandidateNode(Result):
    id: str
    title: str | None
    type: str
    space: str | None
    created: str
    content: str
    cut: bool
    """The content is not all of it: `agent.get` gives the rest."""


class CandidatePair(Result):
    node_a: CandidateNode
    node_b: CandidateNode
    similarity: float


class MaintenanceCounts(Result):
    """What was applied. `skipped`: items that came to nothing."""

    edges: int
    merges: int
    consolidations: int
    conflicts: int
    skipped: int


class RefusedItem(Result):
    """`item`: where it stood (`merges[2]`). `id`: the memory that is to blame; may be empty."""

    item: str
    id: str
    why: str


class MaintenanceResult(Result):
    """Phase one: `status` is `issued`, with the four batches; phase two: `applied`, with counts."""

    status: str
    receipt: str
    summary: str | MaintenanceCounts
    """Phase one: a sentence for people. Phase two: counts."""
    expires: str | UnsetType = UNSET
    link_candidates: list[CandidatePair] | UnsetType = UNSET
    conflict_candidates: list[CandidatePair] | UnsetType = UNSET
    merge_candidates: list[CandidatePair] | UnsetType = UNSET
    consolidation_clusters: list[list[CandidateNode]] | UnsetType = UNSET
    """Their texts are never cut."""
    refused: list[RefusedItem] | UnsetType = UNSET
    run: str | UnsetType | None = UNSET
    """By which all of it is undone at once; null where nothing was changed."""
    commits: list[str] | UnsetType = UNSET


MAINTENANCE: Final[dict[str, tuple[type[Params], type[Result]]]] = {
    "agent.maintenance": (MaintenanceParams, MaintenanceResult),
}
