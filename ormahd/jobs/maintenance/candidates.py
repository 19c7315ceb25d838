"""Where the questions of two-phase maintenance come from: the searches of the jobs that would ask a judge."""

from __future__ import annotations

from typing import Final

from ormahd.jobs.conflicts import job as conflict_detector
from ormahd.jobs.consolidation import job as consolidator
from ormahd.jobs.duplicates import candidates as duplicates
from ormahd.jobs.links import job as auto_linker
from ormahd.jobs.maintenance.issue import CONFLICTS, LINKS, MERGES, QuestionSearch

SEARCH: Final = QuestionSearch(
    pairs={LINKS: auto_linker.candidates, CONFLICTS: conflict_detector.candidates, MERGES: duplicates.candidates},
    clusters=consolidator.clusters,
)
