"""The one writer: callers decide what a transaction means, and a thread promises it and sees it through, now or as soon as git is free."""

from __future__ import annotations

import contextlib
import functools
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from ormahd.errors import Conflict, Internal, OrmahError, Unavailable
from ormahd.git.locks import busy, clear_stale
from ormahd.git.refs import within
from ormahd.model.change import Clock, Committed, sha256
from ormahd.process import priority
from ormahd.vault import answers
from ormahd.vault.apply import HELD, Applier, Queued
from ormahd.vault.conversion import FilterFailed
from ormahd.vault.intents import Intent, Step
from ormahd.vault.rebase import give_up, on_today
from ormahd.vault.recovery import repair
from ormahd.vault.transaction import HistoryMoved, Transaction
from ormahd.vault.worktree import Displaced

POLL_S = 0.02
"""Between two looks at whether git is free, for a change that is not queued."""
BACKOFF = (0.005, 1.0)
"""Seconds between two tries while git is busy: the first (a `git status` is over in milliseconds) and the longest."""
PATIENCE = 2.0
"""Seconds that a mend of git's index waits for a write that is under way: the write mends it itself."""
MAX_BATCH = 64
"""Ops made durable in one go, so that the first of them does not wait for the hundredth."""

Listener = Callable[[Sequence[Committed]], None]
"""Told of ops that went together, in order."""

log = logging.getLogger(__name__)


class Writer:
    """Takes transactions from many threads; a thread of its own writes them, all that wait in one batch.

    `_door` guards the queue and is held briefly. `_pen` is held by the thread that writes, or that must not be written beside.
    """

    def __init__(self, applier: Applier, *, clock: Clock, wait: float) -> None:
        """`wait`: seconds until a caller is told that its change is stored and follows."""
        self._applier = applier
        self._clock = clock
        self._wait = wait
        self._door = threading.RLock()
        self._changed = threading.Condition(self._door)
        self._pen = threading.Lock()
        self._asking = 0
        """Threads that wait for the pen: the writer lets them have it between two batches."""
        self._holder: int | None = None
        self._standing: str | None = None
        """Why nothing is written for longer than a batch takes."""
        self._queue: list[Queued] = []
        self._batch: list[Queued] = []
        """Of the queue what is being written."""
        self._promised: dict[str, tuple[Queued, bytes | None]] = {}
        self._listeners: list[Listener] = []
        self._closed = False
        self._wrote = -math.inf
        self.said: list[str] = []
        """Sentences about what was merged, set aside or cleaned; for the log."""
        self._thread = threading.Thread(target=self._run, name="vault-writer", daemon=True)
        self._thread.start()

    def listen(self, callback: Listener) -> None:
        """Call back with the commits of each batch."""
        self._listeners.append(callback)

    def read(self, path: str) -> bytes | None:
        """Return what the file has, or will have once the promised ops are written."""
        with self._door:
            if path in self._promised:
                return self._promised[path][1]
        return self._applier.worktree.read(path)

    @property
    def rested(self) -> float:
        """Seconds since an op came through; endless, where none did."""
        return time.monotonic() - self._wrote

    def writes(self, path: str, data: bytes) -> bool:
        """Whether an op that waits leaves these bytes at `path`, and listeners are told of it then: what comes in by a sync is
        looked at like a pull by hand, and an uncertain op may turn out to be in the history."""
        with self._door:
            op, promised = self._promised.get(path, (None, None))
        return op is not None and op.intent.joins is None and not op.uncertain and promised == data

    @property
    def waiting(self) -> int:
        """Ops that are not written yet."""
        return len(self._queue)

    @property
    def writing(self) -> bool:
        """Whether another thread has the pen: HEAD may have moved by a commit that no listener was told of yet."""
        return self._holder not in {None, threading.get_ident()}

    def take_said(self) -> list[str]:
        """Return the sentences that were gathered since the last call."""
        with self._door:
            said, self.said = self.said, []
        return said

    # A transaction

    def commit(self, tx: Transaction) -> Committed | None:
        """See Transaction. Raises Conflict (nothing changed) or VaultBusy (promised, follows; without `queue` nothing is)."""
        if self._holder == threading.get_ident():
            raise Internal("a listener cannot start a transaction: the writer is still busy with the last one")
        if not tx.queue:
            self.wait_for_git()
        with self._door:
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
            refused = self._promise(op) if tx.queue else answers.held(op.why)
            if refused is not None and self._withdraw(op):
                raise refused
        with self._door:
            if not op.done.is_set():
                op.acknowledged = True
                raise answers.stored(intent, op.why)
        if isinstance(op.error, OSError):
            raise answers.unwritable(op.error) from op.error
        if op.error is not None:
            raise op.error
        return op.result

    def _promise(self, op: Queued) -> OrmahError | None:
        """Make the intent durable, so that the caller may be told that it is stored; why that failed, or None."""
        try:
            self._applier.promise([op])
        except OSError as exc:
            error = answers.unwritable(exc)
            error.__cause__ = exc
            return error
        return None

    def _decide(self, tx: Transaction) -> Intent | None:
        """Check every expectation and leave out what is already so."""
        applier = self._applier
        if (
            tx.joins is not None
            and tx.joined_on is not None
            and not within(applier.git, tx.joined_on, applier.git.head())
        ):
            raise HistoryMoved("HEAD was moved to another history meanwhile", hint="look at it again and repeat")

        @functools.cache
        def root() -> str | None:  # git is asked only about what is in doubt: all other callers wait for this
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
            same = now == wish.data and not (promised and wish.apart)
            if same and (promised or in_head(path, wish.in_history)):
                continue
            steps.append(Step(path, wish.node_id, now, wish.data, wish.first, wish.apart, wish.held))
        if not steps and tx.joins is None:
            return None
        nodes = [step.node_id for step in steps if step.node_id]
        text, first = tx.messages(nodes)
        subject = text.split("\n", 1)[0]
        return Intent(
            tx.op, tx.kind, tx.source, subject, text, tx.person, self._clock(), str(applier.lock.path), tuple(steps),
            tx.joins, tx.entries, first,
        )  # fmt: skip

    def _withdraw(self, op: Queued) -> bool:
        """Take an op back whose caller gets an error. False: it is done, or too far to be taken back."""
        with self._door:
            if op not in self._batch:
                return self._take_out(op)
        with self._held(), self._door:  # once it is not being written any more
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

    def resume(self, intents: list[Intent]) -> None:
        """Take in the promises of a life before this one."""
        with self._door:
            for intent in intents:
                self._enqueue(Queued(intent, promised=True, acknowledged=True, uncertain=True))

    def begin(self) -> str | None:
        """Write what a life before this one promised; why it still waits, or None. A full disk is waited for."""
        try:
            return self.drain()
        except (OrmahError, OSError) as exc:
            if not answers.is_full(exc):
                raise
            return str(exc)

    def drain(self) -> str | None:
        """Write what waits, in the calling thread; why it still waits, or None. The writer's thread goes on trying."""
        try:
            return self._write_all()
        finally:
            with self._door:
                self._changed.notify_all()

    # The thread

    def _run(self) -> None:
        """Write what is in the queue; while git is busy, try again with growing pauses, and whenever an op comes."""
        priority.eager()  # callers wait for this thread
        pause = BACKOFF[0]
        while True:
            with self._door:
                while not self._queue and not self._closed:
                    self._changed.wait()
                last = self._closed
            why = self._try()
            with self._door:
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
        """Write what can be written, and see to stale locks where it cannot; why it must wait, or None."""
        try:
            if why := self._write_all():
                with self._door:
                    self._applier.intents.renew([op.intent for op in self._queue if op.promised])
                self.said += clear_stale(self._applier.git, self._applier.lock, self._clock)
            for sentence in self.take_said():
                log.warning("%s", sentence)
        except (OrmahError, OSError) as exc:
            log.warning("%d writes still wait: %s", self.waiting, exc)
            return str(exc)
        except Exception as exc:  # a fault of ours must not end the thread that keeps our promises
            log.exception("%d writes still wait", self.waiting)
            return repr(exc)
        return why

    def _write_all(self) -> str | None:
        """Write batch after batch; why what is left still waits, or None."""
        while True:
            priority.give()
            with self._door:
                self._changed.wait_for(lambda: not self._asking)
            with self._held():
                with self._door:
                    batch = self._next_batch()
                why = self._write(batch) if batch else None
            if why or not batch:
                return why

    def _next_batch(self) -> list[Queued]:
        """The longest beginning of the queue whose ops do not touch the same file; an uncertain one goes alone."""
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
                if batch[0].uncertain:  # found in the history, or nothing of it is left
                    self._done(batch)
                    return None
            why = self._applier.apply(batch, self._refused)
        except (OrmahError, OSError) as exc:
            if len(batch) > 1:  # one of them is at fault: each for itself
                return next((why for op in batch if (why := self._write([op]))), None)
            if not self._failed(batch[0], exc):
                return None
            if isinstance(exc, FilterFailed):
                return exc.message
            raise
        except Exception as exc:  # a fault of ours: callers get it
            left = [op for op in batch if self._failed(op, exc)]
            if left:
                raise
            return None
        if why is None:
            self._done(batch)
        return why

    def _refused(self, op: Queued, conflict: Conflict, last: bool) -> Intent | None:
        with self._door:
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
        """Nothing of the op was done. Its caller gets the error; True when it was acknowledged and must stay queued.
        One that this file system will never take is set aside, lest everything after it waits for ever."""
        with self._door:
            if op.acknowledged and not answers.never(exc):
                return True
            if op.acknowledged:
                self.said += give_up(self._applier.worktree, op.intent)
            op.error = op.error or exc
            self._applier.intents.remove(op.intent.op)
            self._leave(op)
            self._over([op])
            return False

    def _done(self, ops: Sequence[Queued]) -> None:
        """Tell listeners of ops that are through, in order; then their callers go on."""
        self._wrote = time.monotonic()
        with self._door:
            for op in ops:
                self._leave(op)
        results = [op.result for op in ops if op.result is not None]
        for callback in self._listeners if results else ():
            try:
                callback(results)
            except Exception:  # the commits stand; listeners must catch up by their own means
                log.exception("a listener failed on %s", ", ".join(f"op {one.op} ({one.kind})" for one in results))
        self._over(ops)

    @staticmethod
    def _over(ops: Sequence[Queued]) -> None:
        for op in ops:
            op.done.set()
            op.tried.set()

    # Beside the thread

    def wait_for_git(self) -> None:
        """Wait until nobody else holds git; raise VaultBusy after the bound. Nothing is promised meanwhile."""
        end = time.monotonic() + self._wait
        while why := busy(self._applier.git, self._applier.lock):
            if time.monotonic() >= end:
                raise answers.held(why)
            time.sleep(POLL_S)

    @contextlib.contextmanager
    def _held(self, patience: float = -1) -> Iterator[bool]:
        """Hold the pen within the block. Gives False, without it, where it is not to be had within `patience` seconds."""
        with self._door:
            self._asking += 1
        got = self._pen.acquire(timeout=patience)
        with self._door:
            self._asking -= 1
            self._changed.notify_all()
        try:
            if got:
                self._holder = threading.get_ident()
            yield got
        finally:
            if got:
                self._holder, self._batch = None, []
                self._pen.release()

    @contextlib.contextmanager
    def alone(self, op: str, why: str) -> Iterator[None]:
        """For the length of the block nobody writes: index.lock is taken in the name of `op`, and callers are told after the
        bound that their change is stored, `why` being what it waits for. Raises VaultBusy where somebody else holds git for
        longer than the bound, or promises cannot be kept now."""
        self.wait_for_git()
        self._stands(why)
        try:
            with self._held():
                left = {*map(id, self._queue)}
                while left & {*map(id, self._queue)}:
                    with self._door:
                        batch = self._next_batch()
                    if held := self._write(batch):
                        raise answers.held(held)
                with self._door:
                    self._batch = []
                    joining = any(queued.intent.joins for queued in self._queue)
                if joining or not self._applier.lock.take(op):
                    raise answers.held("another history is being joined" if joining else HELD)
                try:
                    yield
                finally:
                    self._applier.lock.release()
        finally:
            self._stands(None)

    def _stands(self, why: str | None) -> None:
        """Tell callers, also those that are to come, that nothing is written for now; None: that it goes on."""
        with self._door:
            self._standing = why
            for op in self._queue if why else ():
                op.why = why
                op.tried.set()
            self._changed.notify_all()

    def between(self, op: str, work: Callable[[], bool]) -> bool:
        """Do `work` with index.lock held (in the name of `op`) and while no op is being written; what it says, or False where that
        cannot be had soon."""
        if self._holder == threading.get_ident():
            return work()
        with self._held(PATIENCE) as got:
            if not got or not self._applier.lock.take(op):
                return False
            try:
                return work()
            finally:
                self._applier.lock.release()

    def rename(self, vault_id: str) -> None:
        """Mark the vault's lock with another id from now on."""
        with self._held():
            self._applier.rename(vault_id)

    def close(self) -> None:
        """Take nothing more, and end the thread; what still waits stays promised in its intent."""
        with self._door:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()
