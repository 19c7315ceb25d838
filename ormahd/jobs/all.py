"""Every job, in the order of the sleep cycle (seeds/api-surface)."""

from __future__ import annotations

from ormahd.jobs.index_updater import IndexUpdater
from ormahd.jobs.job import Job

JOBS: tuple[Job, ...] = (
    # importance_scorer
    IndexUpdater(),
    # duplicate_merger
    # conflict_detector
    # auto_linker
    # auto_cluster
    # consolidator
    # decay_manager
)
