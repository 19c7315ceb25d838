"""The one writer: decides what a transaction means, promises it, and sees it through now or as soon as git is free."""

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
from ormahd.process.batcher import Line
from ormahd.vault import answers
from ormahd.vault.apply import HELD, Applier, Queued
from ormahd.vault.company import Company
from ormahd.vault.conversion import FilterFailed
from ormahd.vault.drainer import Drainer
from ormahd.vault.intents import Intent, Step
from ormahd.vault.rebase import give_up, on_today
from ormahd.vault.recovery import repair
from ormahd.vault.transaction import HistoryMoved, Transaction
from ormahd.vault.worktree import Displaced

POLL_S = 0.02
"""Between two looks at whether git is free, for a change that is not queued."""
PATIENCE = 2.0
"""Seconds that a mend of git's index waits for a write that is under way: the write mends it itself."""
MAX_BATCH = 64
"""Ops made durable in one go, so that the first of them does not wait for the hundredth."""

Listener = Callable[[Sequence[Committed]], None]
"""Told of ops that went together, in order."""

log = logging.getLogger(__name__)


class Writer:
    """Takes transactions from many threads. Two locks: the door (deciding, short) and the pen (promising and writing), before which
    they stand in line: whoever has the pen writes for all of them."""

    def __init__(self, applier: Applier, *, clock: Clock, wait: float) -> None:
        self._applier = applier
        self._clock = clock
        self._wait = wait
        self._door = threading.RLock()
        self._pen = threading.Lock()
        self._line = Line()
        self._holder: int | None = None
        self._queue: list[Queued] = []
        self.company = Company(lambda: len(self._queue))
        self._promised: dict[str, tuple[Queued, bytes | None]] = {}
        self._promising = threading.Lock()
        self._listeners: list[Listener] = []
        self._stood = False
        """Whether the last batch had to wait for somebody else's git."""
        self._closed = False
        self._wrote = -math.inf
        self._drainer = Drainer(self._keep_promises, lambda: len(self._queue))
        self.said: list[str] = []
        """Sentences about what was merged, set aside or cleaned; for the log."""

    def listen(self, callback: Listener) -> None:
        self._listeners.append(callback)

    def read(self, path: str) -> bytes | None:
        """What the file has, or will have once the promised ops are written."""
        with self._door:
            if path in self._promised:
                return self._promised[path][1]
        return self._applier.worktree.read(path)

    @property
    def rested(self) -> float:
        """Seconds since an op came through; endless, where none did."""
        return time.monotonic() - self._wrote

    def writes(self, path: str, data: bytes) -> bool:
        """Whether an op that waits leaves these bytes at `path`, and whoever listens is told of it then: what comes in by a sync is
        looked at like a pull by hand, and an uncertain op may turn out to be in the history."""
        with self._door:
            op, promised = self._promised.get(path, (None, None))
        return op is not None and op.intent.joins is None and not op.uncertain and promised == data

    @property
    def waiting(self) -> int:
        return len(self._queue)

    @property
    def writing(self) -> bool:
        """Whether another thread has the pen: HEAD may have moved by a commit that nobody was told of yet."""
        return self._holder not in {None, threading.get_ident()}

    def take_said(self) -> list[str]:
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
        self.company.arrived()
        try:
            why = self._in_line(op)
        except BaseException as exc:
            if not self._withdraw(op) and op.acknowledged:  # it could not be taken back, so it follows
                self._drainer.kick()
                raise answers.stored(intent, str(exc)) from exc
            if isinstance(exc, OSError):
                raise answers.unwritable(exc) from exc
            raise
        if not op.done.is_set():
            self._drainer.kick()
            op.done.wait(self._wait)
        if not tx.queue and self._withdraw(op):
            raise answers.held(why)
        if not op.done.is_set():
            try:
                self._promise([op])
            except OSError as exc:
                if self._withdraw(op):
                    raise answers.unwritable(exc) from exc
        with self._door:
            if not op.done.is_set():
                op.acknowledged = True
                raise answers.stored(intent, why)
        if isinstance(op.error, OSError):
            raise answers.unwritable(op.error) from op.error
        if op.error is not None:
            raise op.error
        return op.result

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
        def root() -> str | None:  # git is asked only about what is in doubt: everybody who writes waits for this
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

    def _promise(self, ops: Sequence[Queued]) -> None:
        """Make the intents of those durable that are not yet. Raises OSError: those that are not `promised` then have none."""
        with self._promising:
            new = [op for op in ops if not op.promised]
            if not new:
                return
            self._applier.at("promising")
            self._applier.intents.write_all([op.intent for op in new])
            for op in new:
                op.promised = True
            self._applier.at("promised")

    def _enqueue(self, op: Queued) -> None:
        self._queue.append(op)
        for step in op.intent.steps:
            self._promised[step.path] = (op, step.data)

    # The queue

    def resume(self, intents: list[Intent]) -> None:
        """Take in the promises of a life before this one."""
        with self._door:
            for intent in intents:
                self._enqueue(Queued(intent, promised=True, acknowledged=True, uncertain=True))

    def drain(self) -> str | None:
        """Write what waits; why it still waits, or None."""
        if why := self._drain():
            self._drainer.kick()
        return why

    def begin(self) -> str | None:
        """Write what a life before this one promised; why it still waits, or None. A full disk is waited for."""
        try:
            return self.drain()
        except (OrmahError, OSError) as exc:
            if not answers.is_full(exc):
                raise
            self._drainer.kick()
            return str(exc)

    def _in_line(self, op: Queued) -> str | None:
        """Have the op written, by us or by who writes at the moment; why it still waits, or None."""
        if not self._line.lead(op.place):
            return None
        try:
            return self._drain(op)
        finally:
            self._line.pass_on()

    def _drain(self, until: Queued | None = None) -> str | None:
        """Write batch after batch, up to the one with `until`; why what is left still waits, or None."""
        with self._pen:
            self._holder = threading.get_ident()
            try:
                while not (until is not None and until.done.is_set()):
                    priority.give()
                    self.company.wait()
                    with self._door:
                        batch = self._next_batch()
                    if not batch:
                        return None
                    why = self._write(batch)
                    if why:
                        return why
                return None
            finally:
                self._holder = None

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
            if not self._stood:  # lest each look at a git that others hold leaves objects behind
                self._applier.begin(batch)
            self._promise(batch)
            why = self._applier.apply(batch, self._refused)
            self._stood = why is not None
        except (OrmahError, OSError) as exc:
            if len(batch) > 1:  # one of them is at fault: each for itself
                return next((why for op in batch if (why := self._write([op]))), None)
            if self._failed(batch[0], exc):
                if isinstance(exc, FilterFailed):
                    return exc.message
                raise
            return None
        except BaseException as exc:
            for op in batch:
                self._failed(op, exc)
            raise
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

    def _failed(self, op: Queued, exc: BaseException) -> bool:
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

    def _withdraw(self, op: Queued) -> bool:
        """Its caller gets an error, so it must not happen later. False: it is done, or too far to be taken back."""
        with self._pen, self._door:
            if op.done.is_set() or op.acknowledged:
                return False
            self._applier.intents.remove(op.intent.op)
            self._leave(op)
            return True

    def wait_for_git(self) -> None:
        """Wait until nobody else holds git; raise VaultBusy after the bound. Nothing is promised meanwhile."""
        end = time.monotonic() + self._wait
        while why := busy(self._applier.git, self._applier.lock):
            if time.monotonic() >= end:
                raise answers.held(why)
            time.sleep(POLL_S)

    @contextlib.contextmanager
    def alone(self, op: str) -> Iterator[None]:
        """For the length of the block nobody writes: ops of ours wait, and index.lock is taken in the name of `op`. Raises
        VaultBusy where somebody else holds git for longer than the bound, or promises cannot be kept now."""
        self.wait_for_git()
        if why := self.drain():
            raise answers.held(why)
        with self._pen:
            self._holder = threading.get_ident()
            try:
                with self._door:
                    joining = any(queued.intent.joins for queued in self._queue)
                if joining or not self._applier.lock.take(op):
                    raise answers.held("another history is being joined" if joining else HELD)
                try:
                    yield
                finally:
                    self._applier.lock.release()
            finally:
                self._holder = None

    def between(self, op: str, work: Callable[[], bool]) -> bool:
        """Do `work` with index.lock held (in the name of `op`) and while no op is being written; what it says, or False where that
        cannot be had soon."""
        if self._holder == threading.get_ident():
            return work()
        end = time.monotonic() + PATIENCE
        while not self._pen.acquire(blocking=False):
            if time.monotonic() > end:
                return False
            time.sleep(POLL_S)
        try:
            self._holder = threading.get_ident()
            if not self._applier.lock.take(op):
                return False
            try:
                return work()
            finally:
                self._applier.lock.release()
        finally:
            self._holder = None
            self._pen.release()

    def _done(self, ops: Sequence[Queued]) -> None:
        """Ops that are through: whoever listens hears of all of them in order, then their callers go on."""
        self._wrote = time.monotonic()
        with self._door:
            for op in ops:
                self._leave(op)
        results = [op.result for op in ops if op.result is not None]
        for callback in self._listeners if results else ():
            try:
                callback(results)
            except Exception:  # the commits stand; whoever listens must catch up by its own means
                log.exception("a listener failed on %s", ", ".join(f"op {one.op} ({one.kind})" for one in results))
        self._over(ops)

    def _over(self, ops: Sequence[Queued]) -> None:
        for op in ops:
            op.done.set()
        self._line.done([op.place for op in ops])

    def _leave(self, op: Queued) -> None:
        self._queue.remove(op)
        for path in [path for path, (owner, _) in self._promised.items() if owner is op]:
            del self._promised[path]

    def _keep_promises(self) -> str | None:
        """What the drainer does: write what can be written, and see to stale locks where it cannot."""
        if why := self._drain():
            with self._door:
                self._applier.intents.renew([op.intent for op in self._queue if op.promised])
            self.said += clear_stale(self._applier.git, self._applier.lock, self._clock)
        for sentence in self.take_said():
            log.warning("%s", sentence)
        return why

    def rename(self, vault_id: str) -> None:
        """The vault has another id from now on: its lock is marked with that."""
        with self._pen:
            self._applier.rename(vault_id)

    def close(self) -> None:
        """Take nothing more, and stop the drainer; what still waits stays promised in its intent."""
        with self._door:
            self._closed = True
        self._drainer.close()
        with self._pen:
            pass
