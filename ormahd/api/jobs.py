"""Types of jobs (`admin.tasks` and others), proposals (`agent.proposals`) and two-phase maintenance
(`agent.maintenance`)."""

from __future__ import annotations

from typing import Any, Final

from msgspec import UNSET, UnsetType

from ormahd.api.base import NoParams, Params, Result


class TaskRow(Result):
    """A job. Times in ISO 8601; `next_run` null: not by itself."""

    name: str
    last_run: str | None
    next_run: str | None
    paused: bool
    paused_since: str | None
    running: bool
    last_error: str | None
    """Null when the last run went well."""
    last_success: str | None
    run_count: int
    error_count: int
    last_duration_ms: float | None


class TasksResult(Result):
    tasks: list[TaskRow]


class RunTaskParams(Params):
    """`name`: a job. `dry_run`: nothing is changed, `planned` says what would be. `force`: without the limits of one run."""

    name: str
    dry_run: bool = False
    force: bool = False


class RunTaskResult(Result):
    """`proposals`: what was planned; `applied` of it; `skipped`: dropped, or over the limit. Commits are full ids."""

    job: str
    proposals: int
    applied: int
    skipped: int
    commits: list[str]
    asked: int = 0
    """Of what was planned, what a person has to decide on (`agent.proposals`)."""
    run: str | None = None
    """By which all that was committed can be taken back at once (`history.undo`); the jobs of one run have one."""
    error: str | None = None
    more: bool = False
    """There is more to do than one run may; run it again, or with `force`."""
    planned: list[str] = []
    """The first 1,000 sentences."""
    dropped: list[str] = []


class RunAllParams(Params):
    dry_run: bool = False
    force: bool = False


class RunAllResult(Result):
    results: list[RunTaskResult]


class TaskParams(Params):
    name: str


class PausedResult(Result):
    """The jobs that are paused now."""

    paused: list[str]


class ProposalsParams(Params):
    """`status`: pending, approved, rejected, stale or all. `type`: merge, conflict or decay."""

    status: str = "pending"
    type: str | None = None
    limit: int = 200


class ProposalNode(Result):
    """A memory that a proposal is about, as it is now."""

    id: str
    short_id: str
    type: str
    tier: str
    space: str | None
    title: str | None
    content: str
    created: str
    updated: str | None


class ProposalRow(Result):
    """What a job would like to do. `source_nodes`: full ids of the memories that it is about; `nodes`: those of them that
    are there. `preview`: what the change would come to; `evidence`: the numbers by which it was found."""

    id: str
    short_id: str
    type: str
    status: str
    source_nodes: list[str]
    proposed_action: str
    reason: str | None
    created: str
    resolved: str | None
    preview: str
    evidence: dict[str, Any]
    nodes: list[ProposalNode]
    resolved_by: str | None = None
    op: str | None = None
    """Of the commit that the decision came to, where it was made on this machine."""
    title: str | None = None
    content: str | None = None
    """The title and the text that an approval leaves, to be edited; null where it leaves none."""


class ProposalsResult(Result):
    """Newest first. `pending`: all that wait; `behind`: of these, more than are put before you at a time."""

    proposals: list[ProposalRow]
    pending: int
    behind: int


class ResolveProposalParams(Params):
    """`proposal_id`: the id, or a beginning of it that no other proposal has. `action`: approved or rejected."""

    proposal_id: str
    action: str
    keep: str | None = None
    """With approved, of two memories: `newer` or `older`, whose words hold, or `both`: both hold, and neither a merge nor a
    conflict of them is proposed again. Null: as it was proposed."""
    title: str | None = None
    content: str | None = None
    """With approved: the words of the memory that stays, in place of those that were proposed."""
    request_id: str | None = None


class ResolveProposalResult(Result):
    """`status`: approved or rejected. `commit` null: nothing was left to do, or git is busy and it follows (`stored`)."""

    text: str
    proposal_id: str
    type: str
    status: str
    nodes: list[str]
    op: str | None
    commit: str | None
    stored: bool
    degraded: list[str]


JOBS: Final[dict[str, tuple[type[Params], type[Result]]]] = {
    "admin.tasks": (NoParams, TasksResult),
    "admin.run_task": (RunTaskParams, RunTaskResult),
    "admin.run_all": (RunAllParams, RunAllResult),
    "admin.pause": (TaskParams, PausedResult),
    "admin.resume": (TaskParams, PausedResult),
    "admin.pause_all": (NoParams, PausedResult),
    "admin.resume_all": (NoParams, PausedResult),
    "agent.proposals": (ProposalsParams, ProposalsResult),
    "agent.resolve_proposal": (ResolveProposalParams, ResolveProposalResult),
}


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
