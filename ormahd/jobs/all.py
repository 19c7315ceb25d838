"""The list of all jobs, in the order in which `run all` runs them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ormahd.jobs.clusters.job import AutoCluster
from ormahd.jobs.conflicts.job import ConflictDetector, change_of
from ormahd.jobs.consolidation.job import Consolidator
from ormahd.jobs.decay.importance import ImportanceScorer
from ormahd.jobs.decay.job import DecayManager
from ormahd.jobs.duplicates.change import from_payload
from ormahd.jobs.duplicates.job import DuplicateMerger
from ormahd.jobs.job import Done, Job, Step, Turn
from ormahd.jobs.links.job import AutoLinker
from ormahd.jobs.proposals import ChangeOf
from ormahd.model.node import ProposalType


class IndexUpdater:
    """Run the reconciler's scan as a job. It plans no changes: the scan commits by itself."""

    name = "index_updater"

    def plan(self, turn: Turn) -> Iterator[Step]:
        if not turn.dry:
            found = turn.ormah.reconciler.scan(progress=lambda done, total: turn.progress(done, total, "files"))
            yield Done(found.adopted + found.edited + found.removed + found.indexed, len(found.skipped))


JOBS: tuple[Job, ...] = (
    ImportanceScorer(),
    IndexUpdater(),
    DuplicateMerger(),
    ConflictDetector(),
    AutoLinker(),
    AutoCluster(),
    Consolidator(),
    DecayManager(),
)

CHANGES_OF: Mapping[ProposalType, ChangeOf] = {
    ProposalType.MERGE: from_payload,
    ProposalType.CONFLICT: change_of,
    # decay: decay_manager
}
"""{type of proposal: function that makes the change of an approved proposal from its payload}."""
