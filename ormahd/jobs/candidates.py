"""Where the questions of two-phase maintenance come from: the searches of the jobs that would ask a judge."""

from __future__ import annotations

from typing import Final

from ormahd.jobs import auto_linker, conflict_detector, consolidator, duplicates
from ormahd.jobs.batches import CONFLICTS, LINKS, MERGES, Search

SEARCH: Final = Search(
    pairs={LINKS: auto_linker.candidates, CONFLICTS: conflict_detector.candidates, MERGES: duplicates.candidates},
    clusters=consolidator.clusters,
)
