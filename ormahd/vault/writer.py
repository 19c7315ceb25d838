"""The writer: the only thread that commits.

A transaction is checked in the caller's thread and queued. The writer's thread takes batches from the queue, promises
and commits them, at once or when git is free. Also holds the errors for callers whose change was not written, or is
promised and not written yet.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from ormahd.errors import Conflict, Internal, NoRoom, OrmahError, Unavailable, VaultBusy
from ormahd.git.index import busy
from ormahd.git.process import GitFailed
from ormahd.git.refs import within
from ormahd.model.change import Clock, Committed, sha256
from ormahd.process import own_files, priority
from ormahd.vault.apply import HELD, Applier, Queued
from ormahd.vault.conflicts import give_up, on_today
from ormahd.vault.conversion import FilterFailed
from ormahd.vault.intents import FileStep, WriteIntent
from ormahd.vault.recovery import repair
from ormahd.vault.transaction import HistoryMoved, Transaction
from ormahd.vault.worktree import Displaced

_NEVER = {errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ}
"""Error numbers with which a file system refuses a name or a size for good."""


def stored(intent: WriteIntent, why: str | None) -> VaultBusy:
    """Return the error for a change that is promised and will be written once no other program holds git's locks.
    `why`: what the change waits for."""
    return VaultBusy(
        f"the change is stored and will be written when git is free: {why}",
        hint="finish or abort the other git operation; nothing needs to be repeated",
        data={"stored": True, "node_ids": intent.node_ids, "op": intent.op},
    )


def withheld(why: str | None) -> VaultBusy:
    return VaultBusy(
        f"nothing can be committed in the vault: {why}; nothing was changed",
        hint="finish or abort the other git operation, and repeat",
        data={"stored": False},
    )


def unwritable(exc: OSError) -> Unavailable:
    mend = (
        "make the vault's folders writable for the user that runs the daemon (ormahctl doctor names those that are not), and repeat"
        if exc.errno in {errno.EACCES, errno.EPERM, errno.EROFS}
        else "make room, or make the folder writable, and repeat"
    )
    return Unavailable(f"the vault cannot be written: {exc.strerror or exc}; nothing was changed", hint=mend)


def unwritable_folders(folders: Iterable[Path]) -> list[str]:
    """Return a sentence for each of these folders that exists and in which this user may not write."""
    return [
        f"nothing can be written in {folder}: {'the disk is mounted to be read only' if _is_mounted_so(folder) else os.strerror(errno.EACCES)}"
        for folder in folders
        if folder.is_dir() and not os.access(folder, os.W_OK | os.X_OK)
    ]


def _is_mounted_so(folder: Path) -> bool:
    return bool(os.statvfs(folder).f_flag & os.ST_RDONLY)


def is_full(exc: BaseException | None) -> bool:
    """Whether an error, or one that caused it, says that the disk is full or the quota reached: as an errno, or in
    git's stderr."""
    if exc is None:
        return False
    said = exc.stderr if isinstance(exc, GitFailed) else ""
    full = any(os.strerror(number) in said for number in (errno.ENOSPC, errno.EDQUOT))
    return full or own_files.is_full(exc) or is_full(exc.__cause__)


def no_room(root: Path) -> NoRoom:
    return NoRoom(
        f"the vault cannot be written: {os.strerror(errno.ENOSPC)}; nothing was changed, {own_files.room(root)}",
        hint="make room and repeat; nothing needs to be mended",
        data={"reason": "no_room", "path": str(root)},
    )


def never(exc: BaseException) -> bool:
    """Whether the error is permanent: the same write would fail again however often it is repeated."""
    return isinstance(exc, OSError) and exc.errno in _NEVER


POLL_S = 0.02
"""Seconds between two checks whether git is free, for a change that is not queued."""
BACKOFF = (0.005, 1.0)
"""Seconds between two tries while git is busy: (the first pause, since a `git status` takes milliseconds; the
longest pause)."""
MAX_BATCH = 64
"""Most ops in one batch, so that the first op does not wait for a long queue."""

Listener = Callable[[Sequence[Committed]], None]
"""Called with the commits of a batch, in order."""

log = logging.getLogger(__name__)


class Writer:
    """Takes transactions from many threads; its own thread writes them, in batches.

    `_queue_lock` guards the queue and is held briefly. `_writing_lock` is held by the thread that writes a batch, or
    that has to keep all others from writing.
    """

    def __init__(self, applier: Applier, *, clock: Clock, wait: float) -> None:
        """`wait`: seconds after which a caller gets the answer that its change is stored and will be written later."""
        self._applier = applier
        self._clock = clock
        self._wait = wait
        self._queue_lock = threading.RLock()
        self._changed = threading.Condition(self._queue_lock)
        self._writing_lock = threading.Lock()
        self._asking = 0
        """Number of threads that wait for `_writing_lock`; the writer thread lets them take it between two batches."""
        self._holder: int | None = None
        self._standing: str | None = None
        """Why writing is suspended for longer than a batch takes, or None."""
        self._queue: list[Queued] = []
        self._batch: list[Queued] = []
        """The ops of the queue that are being written."""
        self._promised: dict[str, tuple[Queued, bytes | None]] = {}
        self._listeners: list[Listener] = []
        self._closed = False
        self._wrote = -math.inf
        self.said: list[str] = []
        """Sentences for the log, on ops that were merged, set aside or cleaned up."""
        self._thread = threading.Thread(target=self._run, name="vault-writer", daemon=True)
        self._thread.start()

    def listen(self, callback: Listener) -> None:
        """Register `callback`, which is called with the commits of each batch."""
        self._listeners.append(callback)

    def read(self, path: str) -> bytes | None:
        """Return the file's bytes, or those that it will have once the waiting ops are written; None: there is no
        file."""
        with self._queue_lock:
            if path in self._promised:
                return self._promised[path][1]
        return self._applier.worktree.read(path)

    @property
    def rested(self) -> float:
        """Seconds since the last op was written; infinite before the first."""
        return time.monotonic() - self._wrote

    def writes(self, path: str, data: bytes) -> bool:
        """Whether a waiting op leaves these bytes at `path` and will then be passed to the listeners.

        False for a sync, whose files the reconciler examines like a manual pull's, and for an uncertain op, which may
        be in the history already.
        """
        with self._queue_lock:
            op, promised = self._promised.get(path, (None, None))
        return op is not None and op.intent.joins is None and not op.uncertain and promised == data

    @property
    def waiting(self) -> int:
        """Number of ops that are not written yet."""
        return len(self._queue)

    @property
    def writing(self) -> bool:
        """Whether another thread is writing: HEAD may already have a commit that no listener knows of."""
        return self._holder not in {None, threading.get_ident()}

    def take_said(self) -> list[str]:
        """Return the sentences for the log that were added to `said` since the last call, and empty `said`."""
        with self._queue_lock:
            said, self.said = self.said, []
        return said

    # A transaction

    def commit(self, tx: Transaction) -> Committed | None:
        """Write a transaction. Return its commit; None when it changes nothing.

        Raises Conflict (nothing was changed) or VaultBusy (the change is stored and will be written later; if
        `tx.queue` is False, nothing was changed or stored).
        """
        if self._holder == threading.get_ident():
            raise Internal("a listener cannot start a transaction: the writer is still busy with the last one")
        if not tx.queue:
            self.wait_for_git()
        with self._queue_lock:
            if self._closed:
                raise Unavailable("the vault is closed", hint="open it again")
            intent = self._decide(tx)
            if intent is None:
                return None
            op = Queued(intent)
            self._enqueue(op)
            if self._standing:
                op.why = self._standing
                op.tried.set()
            self._changed.notify_all()
        op.tried.wait()
        op.done.wait(self._wait)
        if not op.done.is_set():
            refused = self._promise(op) if tx.queue else withheld(op.why)
            if refused is not None and self._withdraw(op):
                raise refused
        with self._queue_lock:
            if not op.done.is_set():
                op.acknowledged = True
                raise stored(intent, op.why)
        if isinstance(op.error, OSError):
            raise unwritable(op.error) from op.error
        if op.error is not None:
            raise op.error
        return op.result

    def _promise(self, op: Queued) -> OrmahError | None:
        """Make the op's intent durable, so that its caller can get the answer that the change is stored. Return the
        error when that failed, or None."""
        try:
            self._applier.promise([op])
        except OSError as exc:
            error = unwritable(exc)
            error.__cause__ = exc
            return error
        return None

    def _decide(self, tx: Transaction) -> WriteIntent | None:
        """Check that each file of `tx` is the version that `tx` expects. Return the intent, without the files that
        would not change; None when no change is left."""
        applier = self._applier
        if (
            tx.joins is not None
            and tx.joined_on is not None
            and not within(applier.git, tx.joined_on, applier.git.head())
        ):
            raise HistoryMoved("HEAD was moved to another history meanwhile", hint="look at it again and repeat")

        @functools.cache
        def root() -> str | None:  # git is asked only if needed, because all other callers wait meanwhile
            return applier.objects.root(applier.git.head())

        def in_head(path: str, data: bytes | None) -> bool:
            entry = applier.objects.find(root(), applier.where(path))
            if entry is None or data is None:
                return entry is None and data is None
            return applier.conversion.is_version(path, data, entry.oid)

        steps = []
        for path, wish in tx.wishes.items():
            promised = path in self._promised
            now = None if wish.expect is None and not promised and applier.worktree.absent(path) else self.read(path)
            digest = None if now is None else sha256(now)
            if digest != wish.expect:
                gone = wish.data is None and now is None and not promised
                entry = applier.objects.file(root(), applier.where(path)) if gone else None
                blob = None if entry is None else applier.conversion.in_folder(path, entry.oid)
                if blob is None or sha256(blob) != wish.expect:
                    raise Displaced(path, now)
            if now == wish.data and (promised or in_head(path, wish.data)):
                continue
            steps.append(FileStep(path, wish.node_id, now, wish.data))
        if not steps and tx.joins is None:
            return None
        # a memory whose file stays as it is (the keeper of a merge that adds nothing to it) is named as well
        nodes = [wish.node_id for wish in tx.wishes.values() if wish.node_id]
        text = tx.message(nodes)
        subject = text.split("\n", 1)[0]
        return WriteIntent(
            tx.op, tx.kind, tx.source, subject, text, tx.person, self._clock(), str(applier.lock.path), tuple(steps),
            tx.joins, tx.entries,
        )  # fmt: skip

    def _withdraw(self, op: Queued) -> bool:
        """Take an op out of the queue, because its caller gets an error. Return False when the op is done, or is
        `acknowledged` and must stay."""
        with self._queue_lock:
            if op not in self._batch:
                return self._take_out(op)
        with self._held(), self._queue_lock:  # wait until the batch is finished
            return self._take_out(op)

    def _take_out(self, op: Queued) -> bool:
        if op.done.is_set() or op.acknowledged:
            return False
        self._applier.intents.remove(op.intent.op)
        self._leave(op)
        return True

    # The queue

    def _enqueue(self, op: Queued) -> None:
        self._queue.append(op)
        for step in op.intent.steps:
            self._promised[step.path] = (op, step.data)

    def _leave(self, op: Queued) -> None:
        self._queue.remove(op)
        for path in [path for path, (owner, _) in self._promised.items() if owner is op]:
            del self._promised[path]

    def resume(self, intents: list[WriteIntent]) -> None:
        """Add to the queue the ops that an earlier process promised, as `uncertain`."""
        with self._queue_lock:
            for intent in intents:
                self._enqueue(Queued(intent, promised=True, acknowledged=True, uncertain=True))

    def begin(self) -> str | None:
        """Write the ops that an earlier process promised. Return why they still wait, or None; a full disk is such a
        reason, not an error."""
        try:
            return self.drain()
        except (OrmahError, OSError) as exc:
            if not is_full(exc):
                raise
            return str(exc)

    def drain(self) -> str | None:
        """Write all ops of the queue in the calling thread. Return the reason why some still wait, or None. The
        writer thread keeps trying to write these."""
        try:
            return self._write_all()
        finally:
            with self._queue_lock:
                self._changed.notify_all()

    # The thread

    def _run(self) -> None:
        """Write the ops of the queue until the writer is closed; this is the writer thread. While another program
        holds git's locks, try again after growing pauses, and whenever an op is added."""
        pause = BACKOFF[0]
        while True:
            with self._queue_lock:
                while not self._queue and not self._closed:
                    self._changed.wait()
                last = self._closed
            why = self._try()
            with self._queue_lock:
                for op in self._queue if why or last else ():
                    op.why = why or "the vault is being closed"
                    op.tried.set()
                if last:
                    return
                if why is None:
                    pause = BACKOFF[0]
                else:
                    self._changed.wait(pause)
                    pause = min(pause * 2, BACKOFF[1])

    def _try(self) -> str | None:
        """Write all ops of the queue. Return the reason why some must wait, or None."""
        try:
            if why := self._write_all():
                with self._queue_lock:
                    self._applier.intents.renew([op.intent for op in self._queue if op.promised])
            for sentence in self.take_said():
                log.warning("%s", sentence)
        except (OrmahError, OSError) as exc:
            log.warning("%d writes still wait: %s", self.waiting, exc)
            return str(exc)
        except Exception as exc:  # a bug must not end the writer thread
            log.exception("%d writes still wait", self.waiting)
            return repr(exc)
        return why

    def _write_all(self) -> str | None:
        """Write batch after batch. Return why the remaining ops still wait, or None."""
        while True:
            priority.give()
            with self._queue_lock:
                self._changed.wait_for(lambda: not self._asking)
            with self._held():
                with self._queue_lock:
                    batch = self._next_batch()
                why = self._write(batch) if batch else None
            if why or not batch:
                return why

    def _next_batch(self) -> list[Queued]:
        """Return the first ops of the queue as the next batch. It ends before an op that touches a file of an
        earlier op. An uncertain op is a batch of its own."""
        batch: list[Queued] = []
        paths: set[str] = set()
        for op in self._queue[:MAX_BATCH]:
            touched = {step.path for step in op.intent.steps}
            if batch and (op.uncertain or batch[0].uncertain or paths & touched):
                break
            batch.append(op)
            paths |= touched
        self._batch = batch
        return batch

    def _write(self, batch: list[Queued]) -> str | None:
        try:
            if batch[0].uncertain:
                why = repair(self._applier, batch[0], self.said)
                if why:
                    return why
                if batch[0].uncertain:  # it was in the history, or was set aside
                    self._done(batch)
                    return None
            why = self._applier.apply(batch, self._refused)
        except (OrmahError, OSError) as exc:
            if len(batch) > 1:  # one of the ops failed: try each by itself
                return next((why for op in batch if (why := self._write([op]))), None)
            if not self._failed(batch[0], exc):
                return None
            if isinstance(exc, FilterFailed):
                return exc.message
            raise
        except Exception as exc:  # a bug: the callers get the exception
            left = [op for op in batch if self._failed(op, exc)]
            if left:
                raise
            return None
        if why is None:
            self._done(batch)
        return why

    def _refused(self, op: Queued, conflict: Conflict, last: bool) -> WriteIntent | None:
        with self._queue_lock:
            if not op.acknowledged:
                self._applier.intents.remove(op.intent.op)
                op.error = conflict
                return None
            intent, said = (None, []) if last else on_today(self._applier.worktree, op.intent)
            if intent is None or intent == op.intent:
                self.said += said or give_up(self._applier.worktree, op.intent)
                self._applier.intents.remove(op.intent.op)
                return None
            self.said += said
            self._applier.intents.write(intent)
            return intent

    def _failed(self, op: Queued, exc: Exception) -> bool:
        """Decide on an op that failed without any effect. Return True when it must stay queued, because it was
        acknowledged.

        Otherwise its caller gets the error. An acknowledged op that this file system can never write is not kept: its
        new bytes are saved under `.ormah/conflicts`, so that it does not block the queue.
        """
        with self._queue_lock:
            if op.acknowledged and not never(exc):
                return True
            if op.acknowledged:
                self.said += give_up(self._applier.worktree, op.intent)
            op.error = op.error or exc
            self._applier.intents.remove(op.intent.op)
            self._leave(op)
            self._over([op])
            return False

    def _done(self, ops: Sequence[Queued]) -> None:
        """Call the listeners with the commits of finished ops, in order; then let the ops' callers return."""
        self._wrote = time.monotonic()
        with self._queue_lock:
            for op in ops:
                self._leave(op)
        results = [op.result for op in ops if op.result is not None]
        for callback in self._listeners if results else ():
            try:
                callback(results)
            except Exception:  # the commits are made; a listener must catch up by itself
                log.exception("a listener failed on %s", ", ".join(f"op {one.op} ({one.kind})" for one in results))
        self._over(ops)

    @staticmethod
    def _over(ops: Sequence[Queued]) -> None:
        for op in ops:
            op.done.set()
            op.tried.set()

    # Called from other threads

    def wait_for_git(self) -> None:
        """Wait until no other program holds git's locks; raise VaultBusy after `wait` seconds. The caller's change is
        not promised before this returns."""
        end = time.monotonic() + self._wait
        while why := busy(self._applier.git, self._applier.lock):
            if time.monotonic() >= end:
                raise withheld(why)
            time.sleep(POLL_S)

    @contextlib.contextmanager
    def _held(self, patience: float = -1) -> Iterator[bool]:
        """Context manager: hold `_writing_lock`. Yields False, without holding it, if it was not free within
        `patience` seconds (-1: wait without limit)."""
        with self._queue_lock:
            self._asking += 1
        got = self._writing_lock.acquire(timeout=patience)
        with self._queue_lock:
            self._asking -= 1
            self._changed.notify_all()
        try:
            if got:
                self._holder = threading.get_ident()
            yield got
        finally:
            if got:
                self._holder, self._batch = None, []
                self._writing_lock.release()

    @contextlib.contextmanager
    def alone(self, op: str, why: str) -> Iterator[None]:
        """Context manager: keep all other writers out, and hold index.lock, marked with the id `op`.

        After `wait` seconds, callers that want to write get the answer that their change is stored and waits because
        of `why`. Raises VaultBusy when another program holds git's locks for too long, or when promised ops cannot be
        written now.
        """
        self.wait_for_git()
        self._stands(why)
        try:
            with self._held():
                left = {*map(id, self._queue)}
                while left & {*map(id, self._queue)}:
                    with self._queue_lock:
                        batch = self._next_batch()
                    if held := self._write(batch):
                        raise withheld(held)
                with self._queue_lock:
                    self._batch = []
                    joining = any(queued.intent.joins for queued in self._queue)
                if joining or not self._applier.lock.take(op):
                    raise withheld("another history is being joined" if joining else HELD)
                try:
                    yield
                finally:
                    self._applier.lock.release()
        finally:
            self._stands(None)

    def _stands(self, why: str | None) -> None:
        """Tell the callers that wait now, and those that come later, that writing is suspended because of `why`;
        None: writing continues."""
        with self._queue_lock:
            self._standing = why
            for op in self._queue if why else ():
                op.why = why
                op.tried.set()
            self._changed.notify_all()

    def rename(self, vault_id: str) -> None:
        """Use another vault id from now on in index.lock, where it marks the lock as Ormah's."""
        with self._held():
            self._applier.rename(vault_id)

    def close(self) -> None:
        """Accept no more changes, and end the writer thread. Ops that still wait keep their intents, so that the next
        process writes them."""
        with self._queue_lock:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()
