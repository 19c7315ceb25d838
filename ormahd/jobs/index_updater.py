"""The reconciling scan as a job: what the watcher missed is brought in (DESIGN section 12).

It plans nothing: a scan commits what people did in their own names, which no limit may hold up.
"""

from __future__ import annotations

from collections.abc import Iterator

from ormahd.jobs.job import Done, Step, Turn


class IndexUpdater:
    name = "index_updater"

    def plan(self, turn: Turn) -> Iterator[Step]:
        if not turn.dry:
            found = turn.ormah.reconciler.scan(progress=lambda done, total: turn.progress(done, total, "files"))
            yield Done(found.adopted + found.edited + found.removed + found.indexed, len(found.skipped))
