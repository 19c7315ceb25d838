"""`admin.*`: health, the index, jobs, in and out."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from ormahd import __version__, api
from ormahd.actions import admin
from ormahd.actions.adopting import Wish, adopt
from ormahd.actions.caller import Caller
from ormahd.actions.exporting import export
from ormahd.actions.importing import import_lines
from ormahd.actions.purge import purge
from ormahd.actions.releasing import release
from ormahd.actions.views import iso
from ormahd.index.rows import Filter
from ormahd.model.node import Tier
from ormahd.ormah import Ormah
from ormahd.rpc.answer_jobs import JobMethods
from ormahd.rpc.handling import Handler, ProgressFn, result, steps
from ormahd.state import whisper_log
from ormahd.state.whispers import SPOKEN
from ormahd.vault import conflicts
from ormahd.vectors.chroma import server_of


class AdminMethods:
    """One method here answers one method of the wire; nothing is decided."""

    def __init__(self, ormah: Ormah, *, socket: Path, clients: Callable[[], int], jobs: JobMethods) -> None:
        self.ormah = ormah
        self._jobs = jobs
        self._socket = socket
        self._clients = clients

    def table(self) -> dict[str, Handler]:
        return {
            "admin.health": self.health,
            "admin.stats": self.stats,
            "admin.rebuild": self.rebuild,
            "admin.verify": self.verify,
            "admin.doctor": self.doctor,
            "admin.adopt": self.adopt,
            "admin.import": self.import_,
            "admin.export": self.export,
            "admin.purge": self.purge,
            "admin.release": self.release,
        }

    def health(self, _params: api.NoParams, _caller: Caller, _: ProgressFn) -> api.Result:
        ormah = self.ormah
        position, nodes = ormah.index.position, ormah.index.count()
        degraded, last = ormah.degraded(), whisper_log.last(ormah.state, spoken=SPOKEN)
        return api.HealthResult(
            status="degraded" if degraded else "ok", phase=ormah.phase, version=__version__, protocol=api.PROTOCOL,
            pid=os.getpid(), uptime_seconds=round((datetime.now(UTC) - ormah.started).total_seconds(), 3),
            vault=str(ormah.vault.root), vault_id=ormah.vault.id, socket=str(self._socket),
            nodes=nodes, archived=len(ormah.index.ids(Filter(tiers=(Tier.ARCHIVAL,)))), index=api.IndexHealth(
                directory=str(ormah.index.directory), notes=nodes, pending_vectors=ormah.index.pending(),
                bytes=ormah.index.size(), model=ormah.settings.embedding.model, head=position,
                fresh=position == ormah.vault.head(),
            ), degraded=degraded,
            queued=ormah.vault.waiting, busy=ormah.vault.busy(), watcher=ormah.watcher_state(), rss_mb=admin.rss_mb(),
            threads=threading.active_count(), clients=self._clients(), jobs=self._jobs.health(), sync=self._sync(),
            warnings=[*ormah.warnings, *ormah.vault.notices()], proposals=self._jobs.pending(),
            conflicts=len(conflicts.waiting(ormah.vault.root)),
            last_whisper=None if last is None else iso(last.time), last_whisper_agent=None if last is None else last.agent,
            embedding=None if ormah.index.embedder is None else result(ormah.index.embedder.served, api.EmbeddingHealth),
            vectors=api.VectorsHealth(
                searched=ormah.index.searched, server=server_of(ormah.settings.vectors.url), trouble=ormah.index.trouble
            ),
        )  # fmt: skip

    def _sync(self) -> api.SyncHealth | None:
        state, chosen = self.ormah.syncing, self.ormah.settings.sync
        if not (chosen.interval_minutes or state.last or state.trouble):
            return None
        return api.SyncHealth(
            remote=chosen.remote, interval_minutes=chosen.interval_minutes, last=iso(state.last),
            offline_since=iso(state.offline_since), trouble=state.trouble,
            conflicts=len(conflicts.waiting(self.ormah.vault.root)),
        )  # fmt: skip

    def stats(self, _params: api.NoParams, _caller: Caller, _: ProgressFn) -> api.Result:
        return result(admin.stats(self.ormah), api.StatsResult)

    def rebuild(self, _params: api.NoParams, _caller: Caller, progress: ProgressFn) -> api.Result:
        return result(admin.rebuild(self.ormah, steps(progress)), api.RebuildResult)

    def verify(self, _params: api.NoParams, _caller: Caller, progress: ProgressFn) -> api.Result:
        differences = [
            api.Difference(what=one.what, path=one.path, id=one.node_id, detail=one.detail)
            for one in self.ormah.verify(steps(progress))
        ]
        return api.VerifyResult(ok=not differences, differences=differences)

    def doctor(self, params: api.DoctorParams, _caller: Caller, progress: ProgressFn) -> api.Result:
        if params.fix:
            admin.fix(self.ormah)
        found = [result(finding, api.Finding) for finding in admin.doctor(self.ormah, steps(progress))]
        return api.DoctorResult(findings=sorted([*found, *self._jobs.findings()], key=admin.worst_first))

    def adopt(self, params: api.AdoptParams, _caller: Caller, progress: ProgressFn) -> api.Result:
        wish = Wish(
            tuple(params.paths), tuple(params.folders), tuple(params.patterns), params.everything, params.space,
            "index" if params.index else "all",
        )  # fmt: skip
        return result(
            adopt(self.ormah, wish, dry_run=params.dry_run, yes=params.yes, progress=steps(progress)),
            api.AdoptResult,
        )

    def import_(self, params: api.ImportParams, caller: Caller, progress: ProgressFn) -> api.Result:
        done = import_lines(
            self.ormah, params.lines, caller, first_line=params.first_line, run=params.run, progress=steps(progress)
        )
        return result(done, api.ImportResult)

    def export(self, params: api.ExportParams, _caller: Caller, _: ProgressFn) -> api.Result:
        return result(export(self.ormah, after=params.after, limit=params.limit), api.ExportResult)

    def release(self, params: api.ReleaseParams, caller: Caller, progress: ProgressFn) -> api.Result:
        done = release(
            self.ormah, params.paths, caller, steps(progress), everything=params.everything,
            remove_data=params.remove_data, dry_run=params.dry_run,
        )  # fmt: skip
        return result(done, api.ReleaseResult)

    def purge(self, params: api.PurgeParams, caller: Caller, progress: ProgressFn) -> api.Result:
        done = purge(
            self.ormah, params.node_id, params.texts, caller, dry_run=params.dry_run,
            rewrite_foreign=params.rewrite_foreign, progress=steps(progress),
        )  # fmt: skip
        return result(done, api.PurgeResult)
