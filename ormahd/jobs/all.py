"""Every job, in the order of the sleep cycle (seeds/api-surface)."""

from __future__ import annotations

from collections.abc import Mapping

from ormahd.jobs.auto_cluster import AutoCluster
from ormahd.jobs.auto_linker import AutoLinker
from ormahd.jobs.choosing import ChangeOf
from ormahd.jobs.conflict_detector import ConflictDetector, change_of
from ormahd.jobs.consolidator import Consolidator
from ormahd.jobs.decay_manager import DecayManager
from ormahd.jobs.duplicate_merger import DuplicateMerger
from ormahd.jobs.importance_scorer import ImportanceScorer
from ormahd.jobs.index_updater import IndexUpdater
from ormahd.jobs.job import Job, ProposalType
from ormahd.jobs.merging import from_payload

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
