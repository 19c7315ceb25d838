"""The daemon's parts wired together: one vault, its index, its state, its models. All commands and jobs use this.

`open` is quick and needs no model; `warm` does what takes seconds; `close` undoes both in reverse.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from ormahd import paths
from ormahd.api import Difference
from ormahd.config import Config
from ormahd.embedding.model import load
from ormahd.errors import BadRequest, NoRoom, NotFound, NotReady, OrmahError, Unavailable
from ormahd.index.history import History
from ormahd.index.index import Index
from ormahd.index.snapshots import Snapshots
from ormahd.index.verify import Progress
from ormahd.learned_state import Learned
from ormahd.model.change import Clock, Committed, FileState, Kind
from ormahd.process import own_files, priority
from ormahd.process.priority import KeyedLocks
from ormahd.process.supervisor import Supervisor
from ormahd.reworded import Reworded
from ormahd.sessions.archive import SessionArchive
from ormahd.state.events import EventStream
from ormahd.state.state import State
from ormahd.sync.state import SyncState
from ormahd.text.secrets import redact
from ormahd.vault import merge_driver
from ormahd.vault.spaces import Spaces
from ormahd.vault.vault import Vault
from ormahd.watch.reading import index_changes
from ormahd.watch.reconciler import Reconciler, ScanAborted
from ormahd.watch.watcher import VaultWatcher

log = logging.getLogger("ormah")

PATIENCE = 20.0
"""Maximum number of seconds that `warm` waits until texts without vectors are embedded."""
LOOKS = 3
"""Maximum number of times that index and vault are compared if the vault is written to meanwhile."""
LITTLE = 5_000_000
"""Free bytes below which a disk is reported as full: room for one commit and a batch of the index."""
AGAIN = 2.0
"""Seconds between two tries to give the model to the index."""
MEND_RETRY_S: Final = 2.0
"""Seconds from a failed try to bring the index up to date to the next."""
MENDER_NICE: Final = 10


def present() -> datetime:
    """Return the present time, in UTC."""
    return datetime.now(UTC)


class Ormah:
    """One person's memory: the vault with its index and state. Thread-safe: many readers, one writer (`writing`)."""

    def __init__(self, config: Config, vault: Vault, index: Index, state: State, clock: Clock) -> None:
        self.config = config
        self.settings = config.settings
        self.vault = vault
        self.index = index
        self.history = History(index.database, vault.git)
        self.pasts = Snapshots(index)
        self.state = state
        self.sessions = SessionArchive(
            lambda: vault.id, index.directory, keep_days=self.settings.sessions.keep_days, clock=clock
        )
        self.learned = Learned(vault, index, state)
        self.spaces = Spaces(vault)
        self.sources = config.settings.sources
        """The folders of the person that are found in place, as the configuration names them now."""
        self.renewed: Callable[[], None] = lambda: None
        """Called after the index was replaced. Set by the sources, which are read again then."""
        self.clock = clock
        self.events = EventStream(clock)
        self.ranking_clock = _fixed_clock(self.settings.daemon.fixed_time) or clock
        self.phase = "starting"
        self._entering = threading.Lock()
        self._publishing = threading.Lock()
        self.supervisor: Supervisor | None = None
        """The daemon's supervisor, which is notified of each phase."""
        self.started = clock()
        self.warnings: list[str] = []
        self.syncing = SyncState()
        self.mender = IndexMender(self)
        index.database.found_damaged = self.mender.rebuild
        index.lags.add("start")
        self.writing = threading.RLock()
        """Held by every edit of existing notes, from reading the note until its change is committed."""
        self.reconciler = Reconciler(
            vault,
            index,
            self.history,
            settings=self.settings.vault,
            clock=clock,
            observed=self._observed,
            check_secrets=self.settings.secrets.redact,
        )
        self.reworded = Reworded(self.history, index)
        self._watcher: VaultWatcher | None = None
        self.socket: Path | None = None
        """The path of the daemon's socket, once known: git's merge driver connects to it."""
        self.turns = KeyedLocks()
        vault.listen(self._committed)

    @classmethod
    def open(cls, config: Config, *, clock: Clock = present) -> Ormah:
        """Lock the vault, complete interrupted writes, and open the SQLite databases. Return the `Ormah`. Neither a
        model nor Chroma is loaded.

        Raises:
            Unavailable: another daemon has this vault, or it cannot be used; the message says what to do.
        """
        vault = Vault.open(config.settings.vault, clock=clock)
        try:
            recovered = vault.recover()
            if not paths.state_dir(vault.root, vault.id).exists() and (former := vault.former_id()) is not None:
                paths.inherit(vault.root, former, vault.id)
            state = State(paths.private_dir(paths.state_dir(vault.root, vault.id)), clock=clock)
            index = Index.open(
                paths.private_dir(paths.index_dir(vault.root, vault.id)),
                config.settings.vectors,
                clock=clock,
            )
        except BaseException:
            vault.close()
            raise
        ormah = cls(config, vault, index, state, clock)
        for sentence in recovered:
            log.info("%s", sentence)
        if index.dropped:
            log.warning("the index is made anew: %s", index.dropped)
        ormah.learned.read()
        return ormah

    # ------------------------------------------------------------ life

    def enter(self, phase: str) -> None:
        """Change the phase. Log it, notify the supervisor and publish the health as an event. No phase follows
        `stopping`."""
        with self._entering:
            stopping = self.phase == "stopping"
            self.phase = "stopping" if stopping else phase
        if phase in {"warming", "ready"}:
            self.index.lags.discard("start")
        if phase == "stopping":
            self.reconciler.stopping.set()
            self.pasts.stopping.set()
        elif not stopping:
            log.info("phase: %s", phase)
            if self.supervisor is not None:
                self.supervisor.status(phase)
        if not stopping:
            self.publish_health()

    def publish_health(self) -> None:
        """Publish the present health as an event. Events of several threads are published in order, so that the last
        one has the latest phase."""
        with self._publishing:
            phase = self.phase
            parts = ([], []) if phase == "stopping" else (self.degraded(), self.warnings)
            self.events.health(phase, *parts)

    def warm(self) -> None:
        """Reconcile with the vault and load the model, in parallel. The caller enters the phase `ready` after it.

        A model that cannot be loaded stops nothing: search then uses words only, and `degraded` says so.
        """
        self.enter("reconciling")
        model = threading.Thread(target=self._load_model, name="model", daemon=True)
        model.start()
        try:
            if fault := self.index.database.check():
                self.mender.rebuild(f"a check found: {fault}")
            self.scan_vault()
        except OrmahError as exc:
            self.warn(f"the vault could not be compared with the index: {exc.message}")
            self.mender.catch_up()
        self.enter("warming")
        while model.is_alive() and self.phase != "stopping":
            model.join(0.2)
        end = time.monotonic() + PATIENCE
        while self.phase != "stopping" and not self.index.wait_filled(0.2) and time.monotonic() < end:
            pass  # many texts continue in the background, and `degraded` says so

    def _load_model(self) -> None:
        """Load the embedding model and attach it to the index, which may first have to free or load its vectors. A
        failure becomes a warning."""
        try:
            priority.give()  # the question that started the daemon often waits already
            embedder = load(self.settings.embedding, paths.private_dir(paths.models_dir()))
            while self.phase != "stopping":
                try:
                    self.index.attach(embedder)
                    break
                except (NotReady, NoRoom) as exc:
                    log.info("the model waits for the index: %s", exc.message)
                    self.syncing.stopping.wait(AGAIN)
        except OrmahError as exc:
            self.warn(f"no vectors: {exc.message}")
        except Exception as exc:  # a broken library or model must not stop the daemon
            log.exception("the model could not be loaded")
            self.warn(f"no vectors: {exc}")
        priority.give()
        redact("")  # load its patterns now, so that the first memory need not wait

    def install_merge_driver(self) -> None:
        """Install Ormah's merge driver in the repository, so that git run by hand merges notes as Ormah does."""
        if self.socket is not None:
            for sentence in merge_driver.install(self.vault, merge_driver.command(self.socket)):
                log.info("%s", sentence)

    def watch(self) -> None:
        """Start to watch the folder, so that a person's edits are noticed at once."""
        watcher = VaultWatcher(self.vault, self.reconciler, self.settings.vault)
        watcher.watch.start()
        self._watcher = watcher  # only now: one that does not run yet would count as degraded

    def watch_again(self) -> None:
        """Watch the folder again after its git directory was replaced by another one."""
        if self._watcher is not None:
            self._watcher.watch.stop()
            self.watch()

    def close(self) -> None:
        """Stop what `watch` and `warm` started, then close index, state and vault."""
        self.enter("stopping")
        self.syncing.stopping.set()
        self.mender.stop()
        if self._watcher is not None:
            self._watcher.watch.stop()
        self.pasts.close()
        self.sessions.close()
        self.index.close()
        self.state.close()
        self.vault.close()

    def warn(self, sentence: str) -> None:
        """Log a warning, and keep it for `status`. Only the last 20 different warnings are kept."""
        log.warning(sentence)
        if sentence not in self.warnings:
            self.warnings = [*self.warnings, sentence][-20:]

    def degraded(self) -> list[str]:
        """Return the names of the parts that are unavailable at the moment."""
        parts = list(self.index.degraded)
        if "mender" in self.index.lags:
            parts.append("index")
        if self._watcher is not None and not self._watcher.alive:
            parts.append("watcher")
        return parts

    def lacking(self) -> list[str]:
        """Return ["index"] while the index may lack memories of the vault, else []. Call it before reading the index."""
        return ["index"] if self.index.lags else []

    def full_disks(self) -> list[str]:
        """Return a sentence about each disk with files of Ormah that is full."""
        disks: dict[Path, Path] = {}
        for place in (self.vault.root, self.index.directory, self.state.path.parent):
            with contextlib.suppress(OSError):
                disks.setdefault(own_files.mount_of(place), place)
        full = [place for mount, place in disks.items() if shutil.disk_usage(mount).free < LITTLE]
        return [f"a disk is as good as full: {own_files.room(place)}" for place in full]

    def watcher_state(self) -> str:
        """Return the state of the vault's watcher, in words."""
        return "not started" if self._watcher is None else self._watcher.state

    def why_polling(self) -> str | None:
        """Return why the vault's folder is scanned every few seconds instead of being watched; None while it is
        watched."""
        return None if self._watcher is None else self._watcher.watch.unwatched

    # ------------------------------------------------------------ the index follows the vault

    def _committed(self, batch: Sequence[Committed]) -> None:
        """Index the bytes of Ormah's own commits, before the writes are answered. Called after each batch of
        commits.

        Commits that a sync brought are skipped: the scan that follows decides what to index, as with a manual pull.
        """
        for done in batch:
            self.learned.committed(done)
        for _, group in itertools.groupby(batch, lambda done: done.kind is Kind.SYNC):
            try:
                self._index(list(group))
            except (OrmahError, OSError, sqlite3.Error) as exc:
                # The commit is acknowledged in any case; the next scan brings it to the index.
                log.warning("the index could not take in what was written: %s", exc)
                self.mender.catch_up()
        self.events.committed(batch)  # after the index: a reader that asks again finds what the event tells

    def _index(self, batch: Sequence[Committed]) -> None:
        """Index the files that these commits changed. Those of a sync are left to the reconciler.

        The index's position advances only if it has everything before these commits.
        """
        if batch[0].kind is Kind.SYNC:
            return
        changes = itertools.chain.from_iterable(done.changes for done in batch)
        upserts, removals = index_changes(self.vault.root, changes)
        known = batch[0].parent is not None and self.index.position == batch[0].parent
        whole = all(one.commit == other.parent for one, other in itertools.pairwise(batch))
        self.index.apply(upserts, removals, head=batch[-1].commit if known and whole else None)

    def scan_vault(self) -> None:
        """Scan the whole vault, and bring the index up to date with it.

        Raises:
            NoRoom: a disk is full.
            OrmahError: the scan failed for another reason.
        """
        try:
            self.reconciler.scan()
        except ScanAborted:
            log.info("the vault is not read to its end: the next start goes on")
        except (OSError, sqlite3.Error) as exc:
            if own_files.is_full(exc):
                raise NoRoom(f"the vault cannot be taken in: {own_files.room(self.vault.root)}") from exc
            raise Unavailable(f"the vault could not be taken in: {exc}") from exc

    def _observed(self, count: int, node_ids: Sequence[str]) -> None:
        """Take note of a scan that brought changes to the index: read strength and judgements again, and publish an
        event. `count`: number of changed files."""
        self.learned.read()
        self.events.observed(count, node_ids)

    def files(self) -> Iterator[tuple[str, bytes, FileState]]:
        """Yield (path, content, state of the file) for every file of the vault that belongs in the index, read now."""
        for file in self.reconciler.files():
            self._check_stopping()
            yield file

    def _check_stopping(self) -> None:
        """Raise ScanAborted if the daemon is stopping."""
        if self.phase == "stopping":
            raise ScanAborted

    def verify(self, progress: Progress = lambda *_: None) -> list[Difference]:
        """Return the differences between index and vault. Changes nothing.

        A change by a person that no scan has brought in yet is no difference: a recent edit, or a file that waits for
        the end of a merge or rebase. While notes are being written, the comparison is repeated, and only differences
        found each time count.

        Raises:
            ScanAborted: Ormah is stopping.
        """

        def report(done: int, total: int, what: str) -> None:
            """Report progress, or raise ScanAborted if the daemon is stopping."""
            self._check_stopping()
            progress(done, total, what)

        found: list[Difference] = []
        for look in range(LOOKS):
            head = self.vault.head()
            now = self.index.verify(self.reconciler.files(), progress=report)
            found = now if not look else [one for one in found if one in now]
            if not found or self.vault.head() == head:
                break
        if found:
            edited = self.reconciler.pending_paths({one.path for one in found if one.path is not None})
            edited |= self.reconciler.scan().waiting
            found = [one for one in found if one.path not in edited]
        if damage := [one.detail for one in found if one.what == "damaged"]:
            self.mender.rebuild(f"a check found: {damage[0]}")
        return found

    def rebuild(self, progress: Progress) -> int:
        """Rebuild the index from the vault, keeping cached embeddings. Return the number of nodes."""
        with self.writing:
            self.index.rebuild(self.files(), head=self.vault.head())
            self.history.follow(anew=True)
        self.renewed()
        while self.index.pending() and not self.index.wait_filled(0.5):
            progress(self.index.count() - self.index.pending(), self.index.count(), "embedding")
        return self.index.count()

    # ------------------------------------------------------------ names and places

    def full_id(self, prefix: str) -> str:
        """Return the full id of the memory whose id begins with `prefix`. A forgotten memory is found in the history."""
        try:
            return self.index.resolve(prefix)
        except NotFound:
            return self.history.find_node(prefix)

    def moment(self) -> datetime:
        """Return the present time in whole seconds, as notes store it."""
        return self.clock().replace(microsecond=0)

    def new_run(self) -> str:
        """Return a new id for a run: a series of ops that belong together (an import, a run of a job)."""
        return self.vault.new_op()


def _fixed_clock(time: str | None) -> Clock | None:
    """Return a clock that always returns `time` (ISO 8601; UTC if without an offset), or None if `time` is None.

    Raises:
        BadRequest: `time` is invalid.
    """
    if time is None:
        return None
    try:
        stands = datetime.fromisoformat(time)
    except ValueError:
        raise BadRequest(
            f"daemon.fixed_time = {time!r} is no ISO time", hint="for example 2026-11-21T20:00:00Z"
        ) from None
    stands = stands.replace(tzinfo=UTC) if stands.tzinfo is None else stands.astimezone(UTC)
    return lambda: stands


class IndexMender:
    """Rebuilds a damaged index, and scans the vault again until the index has all of it. `rebuild` and `catch_up` may be
    called from any thread, with any lock held."""

    def __init__(self, ormah: Ormah) -> None:
        self._ormah = ormah
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._damage: str | None = None
        self._reports = 0

    def rebuild(self, why: str) -> None:
        """Rebuild the index in another thread, because its file cannot be used. `why`: the reason."""
        with self._lock:
            self._damage = self._damage or why
        self.catch_up()

    def catch_up(self) -> None:
        """Scan the vault in another thread, because a change of it did not reach the index. If the thread runs already, it
        scans once more."""
        with self._lock:
            self._reports += 1
            if self._thread is None and not self._stopping.is_set():
                self._ormah.index.lags.add("mender")
                self._thread = threading.Thread(target=self._run, name="mender", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """Stop after the current step, and wait for the thread."""
        self._stopping.set()
        if (thread := self._thread) is not None:
            thread.join()

    def _run(self) -> None:
        """Rebuild a damaged index, then reconcile, and repeat until that succeeds and nothing new was reported. The
        body of the thread."""
        priority.step_back(MENDER_NICE)
        logged = ""
        while not self._stopping.is_set():
            reports = self._reports
            try:
                if (why := self._damage) is not None:
                    self._ormah.index.begin_anew(why)
                    self._damage = None
                    self._ormah.learned.forget()  # strength is read again, for the new index
                    self._ormah.renewed()
                    dropped = self._ormah.index.dropped or why
                    self._ormah.warn(f"the index was made anew from the vault: {dropped}")
                self._ormah.scan_vault()
            except OrmahError as error:
                log.log(
                    logging.DEBUG if error.message == logged else logging.WARNING, "the index lags: %s", error.message
                )
                logged = error.message
                self._stopping.wait(MEND_RETRY_S)
                continue
            except Exception:
                # The top of a thread: after any exception it tries again.
                log.exception("the index could not be brought up to date; it is tried again")
                self._stopping.wait(MEND_RETRY_S)
                continue

            # Done, unless something was reported meanwhile
            with self._lock:
                if reports == self._reports:  # else something was reported during the scan, and may have come too late
                    self._thread = None
                    self._ormah.index.lags.discard("mender")
                    log.info("the index has all of the vault again, %d memories", self._ormah.index.count())
                    return
