"""Build the replies for `status` and `doctor`: state of the vault, the index, the models, the jobs and the server."""

from __future__ import annotations

import os
import shutil
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ormahd import __version__
from ormahd.actions import admin
from ormahd.actions.admin import Progress
from ormahd.actions.views import iso
from ormahd.api import PROTOCOL, DoctorResult, HealthResult, IndexHealth, SyncHealth, VectorsHealth
from ormahd.git.remote import REMOTE
from ormahd.index.rows import MEMORIES, Filter
from ormahd.ingest.intake import Intake
from ormahd.jobs.judging import Judging
from ormahd.jobs.runner import Runner
from ormahd.model.node import Tier
from ormahd.ormah import Ormah
from ormahd.state import whispers
from ormahd.state.whispers import SPOKEN
from ormahd.vault import conflicts
from ormahd.vectors.chroma import server_of

if TYPE_CHECKING:
    from ormahd.rpc.handlers import Parts


def health(parts: Parts) -> HealthResult:
    """Return the health of the daemon. This reads from the index, so it fails if the index cannot be read."""
    ormah, index, runner = parts.ormah, parts.ormah.index, parts.timetable.runner
    nodes, degraded, last = index.count(MEMORIES), ormah.degraded(), whispers.last(ormah.state, spoken=SPOKEN)
    waiting = len(conflicts.waiting(ormah.vault.root))
    return HealthResult(
        status="degraded" if degraded else "ok", phase=ormah.phase, version=__version__, protocol=PROTOCOL,
        pid=os.getpid(), uptime_seconds=round((datetime.now(UTC) - ormah.started).total_seconds(), 3),
        vault=str(ormah.vault.root), vault_id=ormah.vault.id, socket=str(parts.socket),
        nodes=nodes, archived=index.count(Filter(tiers=(Tier.ARCHIVAL,))), index=IndexHealth(
            notes=nodes, pending_vectors=index.pending(), bytes=index.size(), model=ormah.settings.embedding.model,
            fresh=index.position == ormah.vault.head(),
        ), degraded=degraded,
        busy=ormah.vault.busy(), watcher=ormah.watcher_state(), rss_mb=admin.rss_mb(),
        threads=threading.active_count(), clients=parts.clients(), jobs={one.name: one for one in parts.timetable.tasks().tasks}, sync=_sync(ormah, waiting),
        warnings=[*ormah.warnings, *ormah.state.notices, *ormah.vault.notices()], proposals=runner.proposals.pending(), conflicts=waiting,
        last_whisper=None if last is None else iso(last.time), last_whisper_agent=None if last is None else last.agent,
        embedding=None if index.embedder is None else index.embedder.served,
        vectors=VectorsHealth(index.searched, server_of(ormah.settings.vectors.url), index.trouble),
        judge=parts.judging.health(), sources=parts.intake.health(), learning=parts.intake.extraction.health(),
        free_bytes=shutil.disk_usage(ormah.vault.root).free,
    )  # fmt: skip


def _sync(ormah: Ormah, waiting: int) -> SyncHealth | None:
    seen, chosen = ormah.syncing, ormah.settings.sync
    if not (chosen.interval_minutes or seen.last or seen.trouble):
        return None
    return SyncHealth(REMOTE, chosen.interval_minutes, iso(seen.last), iso(seen.offline_since), seen.trouble, waiting)


def findings(
    ormah: Ormah, runner: Runner, judging: Judging, intake: Intake, *, fix: bool, progress: Progress
) -> DoctorResult:
    """Return problems for a person to look at, worst first. With `fix`, first repair what needs no person's decision.
    `progress` is called with (done, total, stage)."""
    if fix:
        admin.fix(ormah)
    found = [*admin.doctor(ormah, progress), *runner.findings(), *judging.findings(), *intake.findings()]
    return DoctorResult(sorted(found, key=admin.worst_first))
