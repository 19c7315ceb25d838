"""Six thread pools for requests, so that a slow request never delays a quick one.

- read: all other requests, which are quick, with 8 threads (`Limits.threads`).
- whisper: whispers only, because a person's prompt waits for them.
- write: writes, which wait for each other and perhaps for another git process.
- bulk: requests that read the whole vault, such as rebuild and import; two at a time.
- jobs: runs of jobs; one at a time.
- back: questions about an earlier state of the vault; two at a time.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from msgspec import Struct

from ormahd.api import Call, RunTaskParams
from ormahd.process import priority
from ormahd.rpc.connection import Channel, RequestHandler

log = logging.getLogger("ormahd.pools")

WHISPERING: Final = frozenset({"hook", "agent.whisper"})
WRITING: Final = frozenset(
    {
        *("agent.remember", "agent.update", "agent.forget", "agent.outdated", "agent.connect", "agent.feedback"),
        *("agent.undo_merge", "agent.resolve_proposal", "agent.assign_space", "history.undo"),
    }
)
BULK: Final = frozenset(
    {
        *("admin.import", "admin.rebuild", "admin.verify", "admin.export", "admin.doctor", "admin.purge"),
        *("agent.maintenance", "ingest.look", "ingest.sessions", "ingest.conversation", "ingest.file", "ingest.past"),
    }
)
NETWORK: Final = frozenset({"admin.sync", "admin.sync_setup", "admin.judge_test"})
"""Methods that wait for another machine, which may be silent: nothing else waits behind them."""
MAINTAINING: Final = frozenset({"admin.run_task", "admin.run_all"})
"""Methods that run jobs. They have a pool of their own: requests that wait for a long run must not block imports."""
SCAN: Final = "scan"
"""Name for a request to run the reconciler's scan (the job `index_updater`). It does not wait for runs of other jobs."""
BULK_NICE: Final = 5
"""Niceness of the bulk and jobs pools. It is moderate because these threads sometimes hold locks that others wait for."""
LOOKING_BACK: Final = "as of"
"""Name for any request with `as_of`. It first builds an index of that earlier state, which can take seconds."""
SEARCHING: Final = frozenset({"agent.recall", "ui.search"})
"""Searches. At most one per CPU core runs at a time, because they are CPU-bound and compete with whispers for the GIL.

Each search yields to running whispers before it begins.
"""
WHISPERERS: Final = 4
WRITERS: Final = 32
"""Threads of the write pool. Many are useful because ops that wait together are written and indexed as one batch."""
HEAVY: Final = 2
BACK: Final = 2
"""Threads of the back pool: one may build an earlier state while the other answers from one that is built."""


def lane_of(call: Call) -> str:
    """Return the name by which `Pools.put` chooses the pool for `call`: LOOKING_BACK, SCAN, or else the method's
    name."""
    if getattr(call.params, "as_of", None) is not None:
        return LOOKING_BACK
    return SCAN if is_scan(call.params) else call.method


def is_scan(params: Struct) -> bool:
    """Return whether these parameters ask for the reconciler's scan."""
    return isinstance(params, RunTaskParams) and params.name == "index_updater"


class PendingRequest(Struct, eq=False):
    """A frame in the queue of a pool. `content`: the call; the frame's body if it is a hook or a merge. `slot` is held
    while it is answered."""

    lane: str
    handler: RequestHandler
    channel: Channel
    kind: bytes
    content: Call | bytes
    slot: AbstractContextManager[object] = nullcontext()

    def run(self) -> None:
        """Answer the request, then let the connection take further ones. Holds `slot`, of which there are as many as searches
        may run at the same time."""
        with self.slot:
            try:
                if self.lane in SEARCHING or self.lane in WRITING:
                    priority.give()
                if isinstance(self.content, Call):
                    self.handler.answer_call(self.channel, self.kind, self.content)
                else:
                    self.handler.answer_opaque(self.channel, self.kind, self.content)
            finally:
                self.channel.done()
                if self.lane in SEARCHING:
                    priority.searched()


class WorkerPool:
    """Runs tasks from one queue in at most `threads` threads, which are started when needed."""

    def __init__(self, name: str, threads: int, *, nice: int = 0, eager: bool = False) -> None:
        self.name = name
        self._nice = nice
        self._eager = eager
        self._limit = threads
        self._tasks: queue.SimpleQueue[PendingRequest | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._idle = 0  # free threads minus queued tasks

    def put(self, task: PendingRequest) -> None:
        """Queue `task` for the next free thread. An exception that it raises is only logged."""
        with self._lock:
            if self._idle <= 0 and len(self._threads) < self._limit:
                name = f"{self.name}-{len(self._threads) + 1}"
                thread = threading.Thread(target=self._work, name=name, daemon=True)
                self._threads.append(thread)
                thread.start()
            else:
                self._idle -= 1
        self._tasks.put(task)

    def _work(self) -> None:
        """Run tasks from the queue until None is taken from it. The body of each thread."""
        (priority.eager if self._eager else priority.patient)()
        if self._nice:
            priority.step_back(self._nice)
        while (task := self._tasks.get()) is not None:
            try:
                task.run()
            except Exception:
                log.exception("a task of the pool %s broke", self.name)
            with self._lock:
                self._idle += 1

    def close(self, seconds: float) -> bool:
        """End the threads once the queue is empty. Return False if some still run after `seconds`."""
        end = time.monotonic() + seconds
        with self._lock:
            threads = list(self._threads)
        for _ in threads:
            self._tasks.put(None)
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))
        return not any(thread.is_alive() for thread in threads)


class Pools:
    """Puts each request into one of seven thread pools, chosen by its method. `threads`: number of threads of the read
    pool."""

    def __init__(self, threads: int) -> None:
        self._read = WorkerPool("read", threads)
        self._searches = threading.Semaphore(priority.cores())
        self._pool: Mapping[str, WorkerPool] = {
            **dict.fromkeys(WHISPERING, WorkerPool("whisper", min(WHISPERERS, threads), eager=True)),
            **dict.fromkeys(WRITING, WorkerPool("write", WRITERS)),
            **dict.fromkeys((*BULK, SCAN), WorkerPool("bulk", HEAVY, nice=BULK_NICE)),
            **dict.fromkeys(NETWORK, WorkerPool("network", HEAVY, nice=BULK_NICE)),
            **dict.fromkeys(MAINTAINING, WorkerPool("jobs", 1, nice=BULK_NICE)),
            LOOKING_BACK: WorkerPool("back", BACK),
        }

    def put(self, request: PendingRequest) -> None:
        """Have `request` answered by a thread of the pool that its lane chooses."""
        if request.lane in WHISPERING:
            request.slot = priority.first()  # bulk work yields from now on, not only once a thread has woken up
        elif request.lane in SEARCHING:
            request.slot = self._searches
        self._pool.get(request.lane, self._read).put(request)

    def close(self, seconds: float) -> bool:
        """Wait until all queued tasks have run. Return False if some threads still run after `seconds`."""
        end = time.monotonic() + seconds
        pools = {self._read, *self._pool.values()}
        return min([pool.close(end - time.monotonic()) for pool in pools])  # each is closed
