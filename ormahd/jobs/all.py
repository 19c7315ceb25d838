"""Every job, in the order of the sleep cycle (seeds/api-surface)."""

from __future__ import annotations

from collections.abc import Mapping

from ormahd.jobs.consolidator import Consolidator
from ormahd.jobs.decay_manager import DecayManager
from ormahd.jobs.importance_scorer import ImportanceScorer
from ormahd.jobs.index_updater import IndexUpdater
from ormahd.jobs.job import Job, ProposalType
from ormahd.jobs.proposals import ChangeOf

JOBS: tuple[Job, ...] = (
    ImportanceScorer(),
    IndexUpdater(),
    # duplicate_merger
    # conflict_detector
    # auto_linker
    # auto_cluster
    Consolidator(),
    DecayManager(),
)

CHANGES_OF: Mapping[ProposalType, ChangeOf] = {
    # merge: duplicate_merger
    # conflict: conflict_detector
    # decay: decay_manager
}
"""Who makes the change of a proposal that was approved, by its type."""
