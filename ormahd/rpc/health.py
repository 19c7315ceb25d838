"""Build the replies for `status` and `doctor`: state of the vault, the index, the models, the jobs and the server."""

from __future__ import annotations

import os
import shutil
import threading
from datetime import UTC, datetime
from pathlib import Path

from ormahd import __version__
from ormahd.actions import admin
from ormahd.actions.amend import Progress
from ormahd.actions.views import iso, of_row
from ormahd.api import PROTOCOL, DoctorParams, DoctorResult, HealthResult, IndexHealth, SyncHealth, VectorsHealth
from ormahd.git.remote import REMOTE
from ormahd.index.rows import MEMORIES, Filter
from ormahd.ingest.intake import Intake
from ormahd.jobs.judging import Judging
from ormahd.jobs.proposals import Proposals
from ormahd.jobs.runner import Runner
from ormahd.jobs.timetable import Timetable
from ormahd.model.node import Tier
from ormahd.ormah import Ormah
from ormahd.rpc.server import Server
from ormahd.state import whispers
from ormahd.state.whispers import SPOKEN
from ormahd.vault import conflicts
from ormahd.vectors.chroma import server_of


def health(
    ormah: Ormah,
    timetable: Timetable,
    proposals: Proposals,
    judging: Judging,
    intake: Intake,
    server: Server,
    log_file: Path | None,
) -> HealthResult:
    """Return the health of the daemon. Each field is read from the part that it is about.

    Raises:
        OrmahError: the index cannot be read.
    """
    vault, index, settings, seen = ormah.vault, ormah.index, ormah.settings, ormah.syncing
    nodes, degraded, last = index.count(MEMORIES), ormah.degraded(), whispers.last(ormah.state, spoken=SPOKEN)
    waiting = len(conflicts.waiting(vault.root))
    sync = None
    if settings.sync.interval_minutes or seen.last or seen.trouble:
        interval = settings.sync.interval_minutes
        sync = of_row(SyncHealth, seen, remote=REMOTE, interval_minutes=interval, conflicts=waiting)
    return HealthResult(
        status="degraded" if degraded else "ok",
        phase=ormah.phase,
        version=__version__,
        protocol=PROTOCOL,
        pid=os.getpid(),
        uptime_seconds=round((datetime.now(UTC) - ormah.started).total_seconds(), 3),
        vault=str(vault.root),
        vault_id=vault.id,
        socket=str(server.path),
        nodes=nodes,
        archived=index.count(Filter(tiers=(Tier.ARCHIVAL,))),
        index=IndexHealth(
            notes=nodes,
            pending_vectors=index.pending(),
            bytes=index.size(),
            model=settings.embedding.model,
            fresh=index.position == vault.head(),
        ),
        degraded=degraded,
        busy=vault.busy(),
        watcher=ormah.watcher_state(),
        rss_mb=admin.rss_mb(),
        threads=threading.active_count(),
        clients=server.clients,
        jobs={one.name: one for one in timetable.tasks().tasks},
        sync=sync,
        warnings=[*ormah.warnings, *ormah.state.notices, *vault.notices(), *server.warnings()],
        log_file=None if log_file is None else str(log_file),
        proposals=proposals.pending(),
        conflicts=waiting,
        last_whisper=None if last is None else iso(last.time),
        last_whisper_agent=None if last is None else last.agent,
        embedding=None if index.embedder is None else index.embedder.served,
        vectors=of_row(VectorsHealth, index, server=server_of(settings.vectors.url)),
        judge=judging.health(),
        sources=intake.health(),
        learning=intake.extraction.health(),
        free_bytes=shutil.disk_usage(vault.root).free,
    )


def findings(
    ormah: Ormah, runner: Runner, judging: Judging, intake: Intake, params: DoctorParams, progress: Progress
) -> DoctorResult:
    """Return problems for a person to look at, worst first. With `fix`, first repair what needs no person's decision."""
    if params.fix:
        admin.fix(ormah)
    found = [*admin.doctor(ormah, progress), *runner.findings(), *judging.findings(), *intake.findings()]
    return DoctorResult(findings=sorted(found, key=admin.worst_first))
