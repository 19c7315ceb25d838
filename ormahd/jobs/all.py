"""Every job, in the order of the sleep cycle (seeds/api-surface)."""

from __future__ import annotations

from collections.abc import Mapping

from ormahd.jobs.choosing import ChangeOf
from ormahd.jobs.clusters.job import AutoCluster
from ormahd.jobs.conflicts.job import ConflictDetector, change_of
from ormahd.jobs.consolidation.job import Consolidator
from ormahd.jobs.decay.importance import ImportanceScorer
from ormahd.jobs.decay.job import DecayManager
from ormahd.jobs.duplicates.change import from_payload
from ormahd.jobs.duplicates.job import DuplicateMerger
from ormahd.jobs.index_updater import IndexUpdater
from ormahd.jobs.job import Job
from ormahd.jobs.links.job import AutoLinker
from ormahd.model.node import ProposalType

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
"""Who makes the change of a proposal that was approved, by its type."""
