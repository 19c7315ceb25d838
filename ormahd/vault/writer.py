"""The writer: the only thread that commits.

A transaction is checked in the caller's thread and queued. The writer's thread takes batches from the queue and commits
them. Also holds the errors for callers whose change was not written.
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

from ormahd.errors import Internal, NoRoom, OrmahError, Unavailable, VaultBusy
from ormahd.git.index import busy
from ormahd.git.process import GitFailed
from ormahd.git.refs import within
from ormahd.model.change import Clock, Committed, sha256
from ormahd.process import own_files, priority
from ormahd.vault.apply import HELD, Applier, Queued
from ormahd.vault.op import FileChange, PlannedOp
from ormahd.vault.recovery import finish_write
from ormahd.vault.transaction import HistoryMoved, Transaction
from ormahd.vault.worktree import Displaced


def busy_error(why: str | None) -> VaultBusy:
    """Return the error for a change that was not written because another git operation is under way. `why`: its
    clause."""
    return VaultBusy(
        f"nothing can be committed in the vault: {why}; nothing was changed",
        hint="finish or abort the other git operation, and repeat",
    )


def unwritable_error(exc: OSError) -> Unavailable:
    """Return the error for a change that was not written because a file operation failed with `exc`."""
    mend = (
        "make the vault's folders writable for the user that runs the daemon (ormahctl doctor names those that are not), and repeat"
        if exc.errno in {errno.EACCES, errno.EPERM, errno.EROFS}
        else "make room, or make the folder writable, and repeat"
    )
    return Unavailable(f"the vault cannot be written: {exc.strerror or exc}; nothing was changed", hint=mend)


def unwritable_folders(folders: Iterable[Path]) -> list[str]:
    """Return a sentence for each of these folders that exists and in which this user may not write."""
    sentences = []
    for folder in folders:
        if folder.is_dir() and not os.access(folder, os.W_OK | os.X_OK):
            read_only = os.statvfs(folder).f_flag & os.ST_RDONLY
            why = "the disk is mounted to be read only" if read_only else os.strerror(errno.EACCES)
            sentences.append(f"nothing can be written in {folder}: {why}")
    return sentences


def is_full(exc: BaseException | None) -> bool:
    """Whether an error, or one that caused it, says that the disk is full or the quota reached: as an errno, or in
    git's stderr."""
    if exc is None:
        return False
    stderr = exc.stderr if isinstance(exc, GitFailed) else ""
    full = any(os.strerror(number) in stderr for number in (errno.ENOSPC, errno.EDQUOT))
    return full or own_files.is_full(exc) or is_full(exc.__cause__)


def no_room_error(root: Path) -> NoRoom:
    """Return the error for a change that was not written because the disk is full."""
    return NoRoom(
        f"the vault cannot be written: {os.strerror(errno.ENOSPC)}; nothing was changed, {own_files.room(root)}",
        hint="make room and repeat; nothing needs to be mended",
        data={"reason": "no_room", "path": str(root)},
    )


POLL_S = 0.02
"""Seconds between two checks whether git is free."""
BACKOFF = (0.005, 1.0)
"""Seconds between two tries while git is busy: (the first pause, since a `git status` takes milliseconds; the
longest pause)."""
MAX_BATCH = 64
"""Most ops in one batch, so that the first op does not wait for a long queue."""

Listener = Callable[[Sequence[Committed]], None]
"""Called with the commits of a batch, in order."""

log = logging.getLogger(__name__)


class Writer:
    """Takes transactions from many threads, and writes them in batches in a thread of its own.

    `_queue_lock` guards the queue and is held briefly. `_writing_lock` is held by a thread that writes a batch, or that
    keeps all others from writing.
    """

    def __init__(self, applier: Applier, *, clock: Clock, wait: float) -> None:
        """`wait`: seconds after which a change is refused while another program holds git's locks."""
        self._applier = applier
        self._clock = clock
        self._wait = wait
        self._queue_lock = threading.RLock()
        self._changed = threading.Condition(self._queue_lock)
        self._writing_lock = threading.Lock()
        self._waiting_threads = 0
        """Number of threads that wait for `_writing_lock`; the writer thread lets them take it between two batches."""
        self._holding_thread: int | None = None
        self._suspended_because: str | None = None
        """Why writing is suspended for longer than a batch takes, or None."""
        self._queue: list[Queued] = []
        self._batch: list[Queued] = []
        """The ops of the queue that are being written."""
        self._listeners: list[Listener] = []
        self._closed = False
        self._wrote = -math.inf
        self._thread = threading.Thread(target=self._run, name="vault-writer", daemon=True)
        self._thread.start()

    def listen(self, callback: Listener) -> None:
        """Register `callback`, which is called with the commits of each batch."""
        self._listeners.append(callback)

    @property
    def seconds_since_write(self) -> float:
        """Seconds since the last op was written; infinite before the first."""
        return time.monotonic() - self._wrote

    # A transaction

    def commit(self, tx: Transaction) -> Committed | None:
        """Write a transaction. Return its commit; None when it changes nothing.

        Raises Conflict, or VaultBusy if another program holds git's locks for too long. Nothing was changed then.
        """
        if self._holding_thread == threading.get_ident():
            raise Internal("a listener cannot start a transaction: the writer is still busy with the last one")
        end = time.monotonic() + self._wait
        plan = self._planned_op(tx)
        if plan is None:
            return None

        # Queue the op, and wait until it is done or the time is over.
        op = Queued(plan)
        with self._queue_lock:
            if self._closed:
                raise Unavailable("the vault is closed", hint="open it again")
            self._queue.append(op)
            if self._suspended_because:
                op.why = self._suspended_because
                op.tried.set()
            self._changed.notify_all()
        op.tried.wait()
        if not op.done.wait(max(0.0, end - time.monotonic())) and self._withdraw(op):
            raise busy_error(op.why)

        # It is done, or has failed.
        if isinstance(op.error, OSError):
            raise unwritable_error(op.error) from op.error
        if op.error is not None:
            raise op.error
        return op.result

    def _planned_op(self, tx: Transaction) -> PlannedOp | None:
        """Check that each file of `tx` is the version that `tx` expects. Return the op, without the files that would
        not change; None when no change is left. Raises Displaced, HistoryMoved."""
        applier = self._applier
        if (
            tx.joins is not None
            and tx.joined_on is not None
            and not within(applier.git, tx.joined_on, applier.git.head())
        ):
            raise HistoryMoved("HEAD was moved to another history meanwhile", hint="look at it again and repeat")

        @functools.cache
        def root() -> str | None:  # git is asked only if needed
            """Return the tree of HEAD. Git is asked only at the first call."""
            return applier.objects.root_tree(applier.git.head())

        def in_head(path: str) -> str | None:
            """Return the blob id of the file at `path` in HEAD; None: HEAD does not have it."""
            entry = applier.objects.file_entry(root(), os.fsencode(path))
            return None if entry is None else entry.oid

        # Compare each file with the expected version, and leave out the files that would not change.
        changes = []
        for path, wish in tx.wishes.items():
            absent = wish.expect is None and applier.worktree.is_absent(path)
            now = None if absent else applier.worktree.read(path)
            if (None if now is None else sha256(now)) != wish.expect:
                # A file that a person has deleted: the removal is committed if HEAD has the expected version.
                oid = in_head(path) if wish.data is None and now is None else None
                if oid is None or sha256(applier.git.read(oid, "blob")) != wish.expect:
                    raise Displaced(path, now)
            if now == wish.data:
                known = None if now is None else applier.git.oid("blob", now)
                if in_head(path) == known:
                    continue
            changes.append(FileChange(path, wish.node_id, now, wish.data))
        if not changes and tx.joins is None:
            return None

        # The message also names memories whose file does not change, such as the target of a merge that adds nothing.
        message = tx.message([wish.node_id for wish in tx.wishes.values() if wish.node_id])
        return PlannedOp(
            op=tx.op,
            kind=tx.kind,
            source=tx.source,
            subject=message.split("\n", 1)[0],
            message=message,
            person=tx.person,
            time=self._clock(),
            changes=tuple(changes),
            joins=tx.joins,
        )

    def _withdraw(self, op: Queued) -> bool:
        """Remove an op from the queue, because its caller gets an error. Return False if the op is done already."""
        with self._queue_lock:
            if op not in self._batch:
                return self._take_out(op)
        with self.held(), self._queue_lock:  # wait until the batch is finished
            return self._take_out(op)

    def _take_out(self, op: Queued) -> bool:
        """Do what `_withdraw` does, for an op that is not being written. The caller holds `_queue_lock`."""
        if op.done.is_set():
            return False
        self._queue.remove(op)
        return True

    # The queue

    def begin(self) -> tuple[str | None, list[str]]:
        """Finish the write that an earlier process left. Return (why it must wait, or None; sentences on what was
        done). A full disk is such a reason, not an error."""
        sentences: list[str] = []
        try:
            with self.held():
                return finish_write(self._applier, sentences), sentences
        except (OrmahError, OSError) as exc:
            if not is_full(exc):
                raise
            return str(exc), sentences

    # The thread

    def _run(self) -> None:
        """Write the ops of the queue until the writer is closed; this is the writer thread. While another program holds
        git's locks, try again after growing pauses, and whenever an op is added."""
        pause = BACKOFF[0]
        while True:
            with self._queue_lock:
                while not self._queue and not self._closed:
                    self._changed.wait()
                last = self._closed
            why = self._write_batches()
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

    def _write_batches(self) -> str | None:
        """Write batch after batch until the queue is empty, and return None; or return the reason why the remaining ops
        must wait."""
        while True:
            priority.give()
            with self._queue_lock:
                self._changed.wait_for(lambda: not self._waiting_threads)
            with self.held():
                with self._queue_lock:
                    batch = self._next_batch()
                why = self._write(batch) if batch else None
            if why or not batch:
                return why

    def _next_batch(self) -> list[Queued]:
        """Return the first ops of the queue as the next batch. It ends before an op that touches a file of an
        earlier op."""
        batch: list[Queued] = []
        paths: set[str] = set()
        for op in self._queue[:MAX_BATCH]:
            touched = {change.path for change in op.plan.changes}
            if paths & touched:
                break
            batch.append(op)
            paths |= touched
        self._batch = batch
        return batch

    def _write(self, batch: list[Queued]) -> str | None:
        """Write a batch, and call its listeners and end its ops. Return None when the ops are over, otherwise the
        reason why they must wait. If the batch fails, each of its ops is written alone; an op that fails gets an
        error."""
        sentences: list[str] = []
        try:
            why = finish_write(self._applier, sentences) or self._applier.apply(batch)
            if self._applier.unfinished:
                with contextlib.suppress(OrmahError, OSError):  # the next write tries again
                    finish_write(self._applier, sentences)
            for sentence in sentences:
                log.warning("%s", sentence)
        except Exception as exc:
            if len(batch) > 1 and isinstance(exc, OrmahError | OSError):  # one of the ops failed: try each by itself
                return next((why for op in batch if (why := self._write([op]))), None)
            if not isinstance(exc, OrmahError | OSError):  # a bug must not end the writer thread
                log.exception("%d writes failed", len(batch))
            for op in batch:
                op.error = op.error or exc
            why = None
        if why is None:
            self._end_ops(batch)
        return why

    def _end_ops(self, ops: Sequence[Queued]) -> None:
        """Call the listeners with the commits of finished ops, in order; then let the ops' callers return."""
        self._wrote = time.monotonic()
        with self._queue_lock:
            for op in ops:
                self._queue.remove(op)
        results = [op.result for op in ops if op.result is not None]
        for callback in self._listeners if results else ():
            try:
                callback(results)
            except Exception:  # the commits are made; a listener must catch up by itself
                log.exception("a listener failed on %s", ", ".join(f"op {one.op} ({one.kind})" for one in results))
        for op in ops:
            op.done.set()
            op.tried.set()

    # Called from other threads

    def wait_for_git(self) -> None:
        """Wait until no other program holds git's locks; raise VaultBusy after `wait` seconds."""
        end = time.monotonic() + self._wait
        while why := busy(self._applier.git, self._applier.lock):
            if time.monotonic() >= end:
                raise busy_error(why)
            time.sleep(POLL_S)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Context manager: hold `_writing_lock`. No batch is being written then, and the listeners have all commits."""
        with self._queue_lock:
            self._waiting_threads += 1
        self._writing_lock.acquire()
        with self._queue_lock:
            self._waiting_threads -= 1
            self._changed.notify_all()
        self._holding_thread = threading.get_ident()
        try:
            yield
        finally:
            self._holding_thread, self._batch = None, []
            self._writing_lock.release()

    @contextlib.contextmanager
    def exclusively(self, op: str, why: str) -> Iterator[None]:
        """Context manager: keep all other writers out, and hold index.lock, which is marked with the id `op`.

        Callers that want to write during the block wait as they do for another git program. After too long they get an
        error that names `why`. Raises VaultBusy when another program holds git's locks for too long.
        """
        self.wait_for_git()
        self._suspend(why)
        try:
            with self.held():
                sentences: list[str] = []
                held = finish_write(self._applier, sentences)
                if held or not self._applier.lock.take(op):
                    raise busy_error(held or HELD)
                try:
                    yield
                finally:
                    self._applier.lock.release()
        finally:
            self._suspend(None)

    def _suspend(self, why: str | None) -> None:
        """Suspend writing because of `why`, or continue it (None). Callers that wait now are told, as are those that
        come later."""
        with self._queue_lock:
            self._suspended_because = why
            for op in self._queue if why else ():
                op.why = why
                op.tried.set()
            self._changed.notify_all()

    def close(self) -> None:
        """Accept no more changes, and end the writer thread. Ops that still wait are refused."""
        with self._queue_lock:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()
