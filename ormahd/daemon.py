"""The daemon: what starts, in order, and stops in reverse (DESIGN section 7, "Life cycle")."""

from __future__ import annotations

import functools
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, NoReturn

from ormahd import __version__, paths
from ormahd.actions.purge import resume
from ormahd.actions.sync import sync_by_itself
from ormahd.api import Call, HealthResult, Progress, Result
from ormahd.config import Config
from ormahd.errors import OrmahError
from ormahd.jobs.all import CHANGES_OF, JOBS
from ormahd.jobs.maintenance.issue import SEARCH
from ormahd.jobs.maintenance.maintenance import Maintenance
from ormahd.jobs.runner import LOW_PRIORITY, Runner
from ormahd.jobs.timetable import Timetable
from ormahd.logs import Logs
from ormahd.model.change import Clock
from ormahd.model.node import build
from ormahd.ormah import Ormah, present
from ormahd.process import priority
from ormahd.process.signals import BROKEN, STOP, Signals
from ormahd.process.supervisor import Supervisor
from ormahd.process.threads import Timer
from ormahd.rpc import sockets
from ormahd.rpc.dispatch import Dispatcher
from ormahd.rpc.handlers import Parts
from ormahd.rpc.hooks import Hooks
from ormahd.rpc.server import Limits, Server
from ormahd.search.rerank import Arriving
from ormahd.vault.conversion import BlobFiles
from ormahd.whisper.pipeline import Whisper

log = logging.getLogger("ormahd.daemon")

LOOP_SECONDS: Final = 30.0
"""A server whose loop has not gone round for so long does not work: the watchdog is not fed (it goes round every 10)."""
LOOK_OUT_EVERY: Final = 2.0
"""Seconds between two looks whether a pipe stands in git's folder, for which a git that is at work would wait for ever."""
LOOK_EVERY: Final = 600.0
"""Seconds between two looks whether an agent has something to judge; most of them find that it is not time yet."""
LOOK_FIRST: Final = 30.0
GLANCE: Final = 0.5
"""Seconds that one such look may take before the daemon is ready."""
TIDY_EVERY: Final = 6 * 3600.0
"""Seconds between two looks for what the journal has kept long enough; a fraction of a second of work."""
PACK_FIRST: Final = 30.0
PACK_EVERY: Final = 3600.0
"""Seconds between two looks whether git's objects are to be packed, which is so after some 700 memories."""
PACK_QUIET: Final = 10.0
"""Seconds without a write after which they may be: it takes a core for seconds, which those who write together have no more."""
PACK_PATIENCE: Final = 900.0
"""So long it waits for that: a git with many loose objects is slow."""
FIRST_SYNC: Final = 5.0
"""Seconds from being ready to the first sync, where syncing goes by itself."""
DRAIN_SECONDS: Final = 10.0
"""How long running requests may finish when the daemon stops."""
SWITCH_SECONDS: Final = 0.0005
"""How long a thread may go on before it lets another one have the interpreter (Python's default: 5 ms). A whisper asks for
it some hundred times (after each SQLite call, each product of matrices), so beside an import the default made it wait for
half a second; a switch costs some microseconds."""
DESCRIPTORS: Final = 8192
"""Open files wished for: connections, Chroma's segments, git. macOS grants 256 unless asked."""


def run(
    config: Config, *, foreground: bool, told: Callable[[Path], None] = lambda _: None, clock: Clock = present
) -> int:
    """Run until a signal comes, and return the exit status. `told` is called with the socket's path once it answers;
    `clock` gives the present time, aware.

    Raises:
        OrmahError: it cannot start; what was begun has been taken back.
    """
    gc.freeze()  # what was imported
    gc.enable()
    with ExitStack() as house:
        logs = Logs(config.settings.log, foreground=foreground, environ=os.environ)
        house.callback(logs.close)
        house.push(_fell)
        supervisor = Supervisor(os.environ)
        handed = sockets.activated(os.environ)
        signals = Signals()
        _more_descriptors()
        sys.setswitchinterval(SWITCH_SECONDS)
        priority.patient()

        log.info("ormahd %s begins (pid %d)", __version__, os.getpid())
        ormah = Ormah.open(config, clock=clock)
        runner = Runner(ormah, JOBS, changes_of=CHANGES_OF)
        timetable = Timetable(runner, config.settings.jobs)
        maintenance = Maintenance(ormah, SEARCH)
        life = _Life(ormah, supervisor, timetable, maintenance)
        house.callback(life.close)
        logs.to_file(paths.state_dir(ormah.vault.root, ormah.vault.id))

        listening = handed or sockets.listen(socket_of(config, ormah.vault.root))
        paths.down_mark(listening.path).unlink(missing_ok=True)  # whoever started us wants us again
        reranker = Arriving(config.settings.whisper, ormah.warn)
        whisper = Whisper.of(ormah, reranker.get, maintenance.due)
        dispatcher = Dispatcher(Parts(ormah, whisper, timetable, maintenance, listening.path, lambda: server.clients))

        def answer(call: Call, progress: Callable[[Progress], None]) -> Result:
            reply = dispatcher.answer(call, progress)
            if isinstance(reply, HealthResult):  # what only the server and the log know
                reply.warnings = [*reply.warnings, *server.warnings()]
                reply.log_file = str(logs.file)
            return reply

        hook = Hooks(whisper).answer
        files = BlobFiles(ormah.vault.git)
        limits = Limits(threads=config.settings.daemon.threads)
        server = Server(listening, answer, limits, hook=hook, on_broken=signals.broken, files=files)
        house.callback(life.stop_serving, server)
        server.start()
        told(listening.path)
        ormah.socket = listening.path

        life.warm(whisper, reranker)
        house.callback(life.leave)
        life.status = _stay(signals, logs, supervisor, server)
    return life.status


def _fell(_kind: type[BaseException] | None, fault: BaseException | None, _: TracebackType | None) -> None:
    """On the way out by a fault of ours: the log has its traceback. An OrmahError is a sentence for whoever started us."""
    if fault is not None and not isinstance(fault, OrmahError):
        log.critical("the daemon fell", exc_info=fault)


def end(status: int) -> NoReturn:
    """End the process now: all is closed and on the disk, and taking torch and Chroma apart costs seconds for nothing."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(status)


def socket_of(config: Config, root: Path) -> Path:
    """Where to listen: as the settings say, else by the vault; as `paths.find_socket` finds it (DESIGN section 3)."""
    if config.settings.daemon.socket is not None:
        return paths.expand(config.settings.daemon.socket)
    configured = paths.configured({}, config.file).get("vault")
    return paths.socket_path(root, usual=Path(configured) if configured else paths.default_vault())


def _stay(signals: Signals, logs: Logs, supervisor: Supervisor, server: Server) -> int:
    """Wait for a signal; meanwhile feed the watchdog as long as the server really goes round."""
    while True:
        came = signals.wait(supervisor.watchdog_seconds)
        if BROKEN in came:
            return 70
        if came & STOP:
            log.info("stopping: %s", signal.Signals(min(came & STOP)).name)
            return 0
        if signal.SIGHUP in came:
            try:
                logs.reopen()
            except OSError as exc:
                log.warning("the log file could not be opened again: %s", exc.strerror)
            log.info("the log file was opened again")
        if supervisor.watchdog_seconds is not None and server.alive(LOOP_SECONDS):
            supervisor.watchdog()


class _Life:
    """The phases of one `Ormah` between opening and closing."""

    def __init__(
        self,
        ormah: Ormah,
        supervisor: Supervisor,
        timetable: Timetable,
        maintenance: Maintenance,
    ) -> None:
        self._ormah = ormah
        self._maintenance = maintenance
        self._timetable = timetable
        self._supervisor = supervisor
        self._leaving = threading.Event()
        self._warming: threading.Thread | None = None
        minutes = ormah.config.settings.sync.interval_minutes
        self._sync = Timer("sync", lambda: sync_by_itself(ormah), first=FIRST_SYNC, every=minutes * 60)
        self._syncs = minutes > 0
        self._tidy = Timer("journal", self._tidy_journal, first=0.0, every=TIDY_EVERY)
        self._pack = Timer("packing", self._pack_repository, first=PACK_FIRST, every=PACK_EVERY)
        self._look_out = Timer("git-look-out", ormah.vault.git.look_out, first=LOOK_OUT_EVERY, every=LOOK_OUT_EVERY)
        self._tells = ormah.config.settings.whisper.maintenance
        self._look = Timer("maintenance_due", self._look_through, first=LOOK_FIRST, every=LOOK_EVERY)
        self._left: list[str] = []
        self.status = 0

    def warm(self, whisper: Whisper, reranker: Arriving) -> None:
        """Reconcile and load models in threads of their own: the main thread hears signals."""
        self._warming = threading.Thread(target=self._warm, args=(whisper,), name="warm", daemon=True)
        self._warming.start()
        self._look_out.start()
        reranker.start()

    def _warm(self, whisper: Whisper) -> None:
        self._try("prepared for git", self._ormah.mend_git)
        ready_to_whisper = functools.partial(self._try, "made ready to whisper", whisper.warm)

        def last() -> None:
            ready_to_whisper()
            if self._tells:
                self._try("looked through for an agent", lambda: self._maintenance.look(GLANCE))

        self._try("warmed", lambda: self._ormah.warm(self._phase, last=last))
        self._try("purged", lambda: resume(self._ormah))
        if self._leaving.is_set():
            return
        self._try("watched", self._ormah.watch)
        self._ormah.mender.start()
        gc.freeze()  # the libraries' million objects stay until the end: no collection need stop an answer to look at them
        nodes, parts = self._ormah.index.count(), self._ormah.degraded()
        sentence = f"ready, {nodes} memories" + (f", without {', '.join(parts)}" if parts else "")
        log.info("%s", sentence)
        self._supervisor.ready(sentence)
        self._try("opened with GitPython", self._ormah.vault.git.check)
        self._try("prepared for requests", build)
        self._try("prepared", self._ormah.vault.oplog.view)  # else the first who looks back reads all of the history
        gc.freeze()  # nor need one look at the history, and what reads it
        if self._leaving.is_set():
            return
        self._tidy.start()
        self._pack.start()
        self._timetable.start()
        if self._tells:
            self._look.start()
        if self._syncs:
            self._sync.start()

    def _try(self, done: str, step: Callable[[], object]) -> None:
        """The daemon goes on without what fails here: words are searched, edits are seen by the next scan."""
        try:
            step()
        except Exception:
            log.exception("not everything could be %s", done)
            self._ormah.warn(f"not everything could be {done}; the log says why")

    def _phase(self, phase: str) -> None:
        log.info("phase: %s", phase)
        self._supervisor.status(phase)

    def _tidy_journal(self) -> None:
        days = self._ormah.settings.whisper.keep_days
        self._ormah.learned.tidy(days, stopping=self._leaving.is_set)

    def _pack_repository(self) -> None:
        priority.step_back(LOW_PRIORITY)  # git, as its child, too
        if self._ormah.vault.wait_rested(PACK_QUIET, PACK_PATIENCE, self._leaving):
            self._ormah.pack()

    def _look_through(self) -> None:
        priority.step_back(LOW_PRIORITY)
        self._maintenance.look()

    def leave(self) -> None:
        """The first step of stopping: nothing new begins."""
        self._leaving.set()
        self._timetable.runner.stop()
        self._ormah.phase = "stopping"
        self._ormah.syncing.stopping.set()
        self._supervisor.stopping()

    def stop_serving(self, server: Server) -> None:
        if not server.stop(DRAIN_SECONDS):
            self._left.append("requests")

    def close(self) -> None:
        """Close the house. With something of it still at work it is not closed but left as a crash would leave it, which
        the next start mends; closing under a running write would not be mended by anybody."""
        self._leaving.set()
        if self._warming is not None:
            self._warming.join(DRAIN_SECONDS)
            if self._warming.is_alive():
                self._left.append("warming")
        working = (
            (self._timetable, "maintenance"), (self._sync, "a sync"), (self._tidy, "tidying the journal"),
            (self._look, "a look for what an agent may judge"), (self._pack, "packing the repository"),
            (self._look_out, "a look at git's folder"),
        )  # fmt: skip
        for timer, name in working:
            if not timer.stop(DRAIN_SECONDS):
                self._left.append(name)
        if self._left:
            log.warning("stopped with %s still at work", " and ".join(self._left))
            logging.shutdown()
            os._exit(self.status)
        self._ormah.close()
        log.info("stopped")


def _more_descriptors() -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wished = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wished:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wished, hard))
