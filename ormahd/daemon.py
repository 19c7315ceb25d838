"""The daemon: starts its parts in order, and stops them in reverse (DESIGN section 7, "Life cycle")."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, NoReturn

from ormahd import __version__, paths
from ormahd.actions.purge import resume
from ormahd.actions.sync import sync_by_itself
from ormahd.config import Config
from ormahd.errors import OrmahError
from ormahd.ingest.by_agent import AgentReading
from ormahd.ingest.extraction import Extraction
from ormahd.ingest.intake import Intake
from ormahd.jobs.conflicts.job import ConflictDetector
from ormahd.jobs.judging import Judging
from ormahd.jobs.maintenance.maintenance import Maintenance
from ormahd.jobs.memories import propose_learned
from ormahd.jobs.runner import JOBS, LOW_PRIORITY, Runner
from ormahd.jobs.timetable import Timetable
from ormahd.logs import Logs
from ormahd.model.change import Clock
from ormahd.model.node import build
from ormahd.ormah import Ormah, present
from ormahd.process import priority
from ormahd.process.priority import Timer
from ormahd.process.supervisor import BROKEN, STOP, Signals, Supervisor
from ormahd.rpc import sockets
from ormahd.rpc.handlers import Dispatcher, Parts
from ormahd.rpc.hooks import Hooks
from ormahd.rpc.server import Server
from ormahd.state import whispers
from ormahd.whisper.pipeline import Whisper

log = logging.getLogger("ormahd.daemon")

LOOP_SECONDS: Final = 30.0
"""Once the server's loop has not run for this many seconds, the supervisor's watchdog is no longer notified. The loop
runs at least every 10 seconds."""
HEALTH_EVERY: Final = 2.0
"""Seconds between two checks whether the daemon's health changed; a change is published to readers of events."""
SEARCH_EVERY: Final = 600.0
"""Seconds between two checks whether there are questions for an agent to judge. Most end at once, because no
maintenance is due yet."""
SEARCH_FIRST: Final = 30.0
START_SEARCH: Final = 0.5
"""Maximum number of seconds that the check for questions takes while the daemon starts."""
TIDY_EVERY: Final = 6 * 3600.0
"""Seconds between two deletions of old entries of the whisper log."""
PACK_FIRST: Final = 30.0
PACK_EVERY: Final = 3600.0
"""Seconds between two checks whether git's objects should be packed."""
PACK_QUIET: Final = 10.0
"""Packing waits until nothing was written for this many seconds, because it uses a core for seconds."""
PACK_PATIENCE: Final = 900.0
"""Maximum number of seconds that packing waits for a time without writes. Then it runs anyway."""
FIRST_SYNC: Final = 5.0
"""Seconds from ready to the first automatic sync."""
DRAIN_SECONDS: Final = 10.0
"""Seconds that running requests have to finish when the daemon stops."""
INTAKE_SECONDS: Final = 5.0
"""Seconds that each part that reads transcripts or files has to finish when the daemon stops. The next start continues
where it ended."""
SWITCH_SECONDS: Final = 0.0005
"""Python's thread switch interval (default: 5 ms). A whisper acquires the GIL hundreds of times: with the
default, each time would take long while an import runs."""
DESCRIPTORS: Final = 8192
"""The limit of open files that the daemon asks for: for connections, Chroma and git. The default of macOS is 256."""


def run(
    config: Config, *, foreground: bool, on_listening: Callable[[Path], None] = lambda _: None, clock: Clock = present
) -> int:
    """Run the daemon until a signal ends it, and return the exit status.

    `on_listening` is called with the socket's path once the daemon answers there; `clock` returns the present time,
    timezone-aware.

    Raises:
        OrmahError: the daemon cannot start; everything already started was stopped again.
    """
    gc.freeze()  # the imported modules
    gc.enable()
    with ExitStack() as cleanup:  # runs what was pushed last first
        # The process: the log first, because all that follows may fail
        logs = Logs(config.settings.log, foreground=foreground, environ=os.environ)
        cleanup.callback(logs.close)
        cleanup.push(_log_crash)
        supervisor = Supervisor(os.environ)
        activated = sockets.activated(os.environ)
        signals = Signals()
        _raise_descriptor_limit()
        sys.setswitchinterval(SWITCH_SECONDS)
        priority.patient()
        log.info("ormahd %s begins (pid %d)", __version__, os.getpid())

        # The vault, and the jobs that maintain it
        ormah = _open_ormah(config, clock)
        judging = Judging(ormah)
        runner = Runner(ormah, JOBS, judging.judge)
        timetable = Timetable(runner, config.settings.jobs)

        # Sessions are read for memories by the judge; if none is configured, agents get them with the questions
        find_conflicts = partial(timetable.soon, ConflictDetector.name)
        propose = partial(propose_learned, ormah, runner.proposals)
        reading = AgentReading(ormah, judge=judging.asker is not None, conflicts=find_conflicts, hold=propose)
        maintenance = Maintenance(ormah, reading)
        life = _Life(ormah, supervisor, timetable, maintenance)
        cleanup.callback(life.close)
        logs.to_file(paths.state_dir(ormah.vault.root, ormah.vault.id))

        # The server, built while its socket already listens: clients wait in the backlog
        listening = activated or sockets.listen(socket_of(config, ormah.vault.root))
        paths.down_mark(listening.path).unlink(missing_ok=True)  # the daemon is wanted again
        whisper = Whisper(ormah, maintenance.due)
        extraction = Extraction(ormah, asker=judging.asker, conflicts=find_conflicts, hold=propose)
        intake = Intake(ormah, lambda: hooks.answer_spooled(paths.spool_dir(listening.path)), extraction)
        hooks = Hooks(whisper, intake.capture)
        server = Server(listening, on_broken=signals.broken, events=ormah.events)
        parts = Parts(
            ormah=ormah,
            vault=ormah.vault,
            index=ormah.index,
            archive=ormah.sessions,
            pipeline=whisper,
            timetable=timetable,
            runner=runner,
            proposals=runner.proposals,
            maintenance=maintenance,
            judging=judging,
            intake=intake,
            server=server,
            log_file=logs.file,
        )
        cleanup.callback(life.stop_serving, server)
        server.start(Dispatcher(parts).answer, hooks.answer)
        on_listening(listening.path)
        ormah.socket = listening.path

        # Everything else runs in threads. At the end, `begin_stopping` comes first, so that no thread begins new work
        intake.start()
        cleanup.callback(intake.stop, INTAKE_SECONDS)
        life.warm(whisper, intake)
        cleanup.callback(life.begin_stopping)
        life.status = _handle_signals(signals, logs, supervisor, server)
    return life.status


def _open_ormah(config: Config, clock: Clock) -> Ormah:
    """Open the vault, its index and its state as an `Ormah`, and return it. An interrupted purge is completed before,
    so that no answer contains what it was to remove. If that fails, warn and continue."""
    ormah = Ormah.open(config, clock=clock)
    try:
        resume(ormah)
    except Exception:
        log.exception("an interrupted purge could not be completed")
        ormah.warn("an interrupted purge could not be completed; the log says why. Try again: ormahctl restart")
    return ormah


def _log_crash(_kind: type[BaseException] | None, fault: BaseException | None, _: TracebackType | None) -> None:
    """Log the traceback of an unexpected exception that ends the daemon. An OrmahError is not logged: the command that
    started the daemon prints it. The parameters are those of `__exit__`."""
    if fault is not None and not isinstance(fault, OrmahError):
        log.critical("the daemon fell", exc_info=fault)


def end(status: int) -> NoReturn:
    """End the process at once, after all was closed: unloading torch and Chroma would take seconds."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(status)


def socket_of(config: Config, root: Path) -> Path:
    """Return the path of the socket to listen on: the setting `daemon.socket`, or else one derived from `root`, the
    vault's path. `paths.find_socket` derives the same path for clients."""
    if config.settings.daemon.socket is not None:
        return paths.expand(config.settings.daemon.socket)
    configured = paths.configured({}, config.file).get("vault")
    return paths.socket_path(root, usual=Path(configured) if configured else paths.default_vault())


def _handle_signals(signals: Signals, logs: Logs, supervisor: Supervisor, server: Server) -> int:
    """Handle signals until one ends the daemon, and return the exit status: 0, or 70 if the server's loop failed.

    SIGHUP opens the log file again. The supervisor's watchdog is notified as long as the server's loop runs.
    """
    while True:
        received = signals.wait(supervisor.watchdog_seconds)
        if BROKEN in received:
            return 70
        if received & STOP:
            log.info("stopping: %s", signal.Signals(min(received & STOP)).name)
            return 0
        if signal.SIGHUP in received:
            try:
                logs.reopen()
            except OSError as exc:
                log.warning("the log file could not be opened again: %s", exc.strerror)
            log.info("the log file was opened again")
        if supervisor.watchdog_seconds is not None and server.alive(LOOP_SECONDS):
            supervisor.watchdog()


class _Life:
    """Moves an open `Ormah` from one phase to the next until it is closed, and runs the daemon's timers."""

    def __init__(self, ormah: Ormah, supervisor: Supervisor, timetable: Timetable, maintenance: Maintenance) -> None:
        self._ormah = ormah
        self._maintenance = maintenance
        self._timetable = timetable
        self._supervisor = ormah.supervisor = supervisor
        self._stopping = threading.Event()
        self._warming: threading.Thread | None = None
        minutes = ormah.config.settings.sync.interval_minutes
        self._sync_timer = Timer("sync", lambda: sync_by_itself(ormah), first=FIRST_SYNC, every=minutes * 60)
        self._syncs_by_itself = minutes > 0
        self._journal_timer = Timer("journal", self._tidy_journal, first=0.0, every=TIDY_EVERY)
        # git inherits the low priority of the thread that starts it
        self._packing_timer = Timer(
            "packing", self._pack_repository, first=PACK_FIRST, every=PACK_EVERY, nice=LOW_PRIORITY
        )
        self._tells_agents = ormah.config.settings.whisper.maintenance
        search = maintenance.search_if_due
        self._search_timer = Timer("maintenance_due", search, first=SEARCH_FIRST, every=SEARCH_EVERY, nice=LOW_PRIORITY)
        self._health_timer = Timer("health-events", self._publish_health, first=HEALTH_EVERY, every=HEALTH_EVERY)
        self._unstopped: list[str] = []
        """Names of the parts that did not stop in time."""
        self.status = 0

    def warm(self, whisper: Whisper, intake: Intake) -> None:
        """Start threads that reconcile and load the models, so that the main thread stays free for signals."""
        self._warming = threading.Thread(target=self._warm, args=(whisper, intake), name="warm", daemon=True)
        self._warming.start()
        self._health_timer.start()

    def _warm(self, whisper: Whisper, intake: Intake) -> None:
        """Reconcile the vault, load the models and start the watchers, then the timers. A step that fails becomes a
        warning.

        The supervisor is notified as soon as requests can be answered fast. What follows may take its time.
        """
        self._try("prepared for git", self._ormah.install_merge_driver)
        self._try("warmed", self._ormah.warm)
        self._try("made ready to whisper", whisper.warm)
        if self._tells_agents:
            self._try("looked through for an agent", lambda: self._maintenance.search_if_due(START_SEARCH))
        self._ormah.enter("ready")  # in any case: requests use the parts that work
        if self._stopping.is_set():
            return
        self._try("watched", self._ormah.watch)
        self._try("watched for sessions", intake.watch)
        gc.freeze()  # the libraries' objects live until the end: keep collections from visiting them
        count, missing = self._ormah.index.count(), self._ormah.degraded()
        sentence = f"ready, {count} {'memory' if count == 1 else 'memories'}" + (
            f", without {', '.join(missing)}" if missing else ""
        )
        log.info("%s", sentence)
        self._supervisor.ready(sentence)
        self._try("opened with GitPython", self._ormah.vault.git.check)
        self._try("prepared for requests", build)
        self._try("prepared", self._ormah.history.follow)
        if self._stopping.is_set():
            return
        self._journal_timer.start()
        self._packing_timer.start()
        self._timetable.start()
        if self._tells_agents:
            self._search_timer.start()
        if self._syncs_by_itself:
            self._sync_timer.start()

    def _try(self, done: str, step: Callable[[], object]) -> None:
        """Run `step`. If it fails, log and warn that not everything could be `done` (a participle), and return."""
        try:
            step()
        except Exception:
            log.exception("not everything could be %s", done)
            self._ormah.warn(f"not everything could be {done}; the log says why")

    def _publish_health(self) -> None:
        """Publish the health as an event if it changed and a client reads events."""
        if self._ormah.events.readers:
            self._ormah.publish_health()

    def _tidy_journal(self) -> None:
        """Delete old and excluded entries of the whisper log, then embed prompts of judgements again if the model
        changed."""
        days, exclude = self._ormah.settings.whisper.keep_days, self._ormah.settings.sessions.exclude
        if exclude:
            whispers.delete_excluded(self._ormah.state, exclude)
        whispers.prune(self._ormah.state, days)
        self._ormah.learned.embed_again(self._stopping)

    def _pack_repository(self) -> None:
        """Pack the repository's loose objects if there are many. Commits by Ormah start no gc, so that no commit
        waits for one."""
        rested = self._ormah.vault.wait_until_quiet(PACK_QUIET, PACK_PATIENCE, self._stopping)
        try:
            if rested and self._ormah.phase == "ready" and self._ormah.vault.tidy():
                log.info("the repository's loose objects were packed")
        except OrmahError as exc:
            log.info("the repository was not packed: %s", exc.message)

    def begin_stopping(self) -> None:
        """Begin to stop: let timers, jobs and syncs begin nothing new, and enter the phase `stopping`."""
        self._stopping.set()
        self._timetable.runner.stop()
        self._ormah.enter("stopping")
        self._ormah.syncing.stopping.set()
        self._supervisor.stopping()

    def stop_serving(self, server: Server) -> None:
        """Stop the server. If requests are still running after DRAIN_SECONDS, record that."""
        if not server.stop(DRAIN_SECONDS):
            self._unstopped.append("requests")

    def close(self) -> None:
        """Stop the timers, and close the `Ormah`.

        If a part is still running, end the process without closing, as a crash would. The next start can repair
        the effects of a crash, but not those of closing during a write.
        """
        self._stopping.set()
        if self._warming is not None:
            self._warming.join(DRAIN_SECONDS)
            if self._warming.is_alive():
                self._unstopped.append("warming")
        working = (
            (self._timetable, "maintenance"),
            (self._sync_timer, "a sync"),
            (self._journal_timer, "tidying the journal"),
            (self._search_timer, "a look for what an agent may judge"),
            (self._packing_timer, "packing the repository"),
            (self._health_timer, "a look at what is degraded"),
        )
        for timer, name in working:
            if not timer.stop(DRAIN_SECONDS):
                self._unstopped.append(name)
        if self._unstopped:
            log.warning("stopped with %s still at work", " and ".join(self._unstopped))
            logging.shutdown()
            os._exit(self.status)
        self._ormah.close()
        log.info("stopped")


def _raise_descriptor_limit() -> None:
    """Raise the limit of open files of this process."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wished = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wished:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wished, hard))
