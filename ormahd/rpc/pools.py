"""Who waits for whom: six lanes of worker threads, so that a slow request never stands before a quick one.

Reading has the most threads. Writing goes through one vault anyway, and may wait seconds for somebody else's git.
What walks through everything (rebuild, import) is kept to two at a time, and so is looking back at an earlier state;
maintenance to one.
Whispers, for which a person's prompt waits, stand behind nothing but each other.
"""

from __future__ import annotations

import functools
import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Final

from ormahd.api import Call, RunTaskParams
from ormahd.process import priority

log = logging.getLogger("ormahd.lanes")

QUICK: Final = frozenset({
    "hello", "agent.recall", "agent.get", "agent.list", "agent.whispers", "agent.spaces", "agent.insights", "agent.proposals", "agent.merges", "agent.audit",
    "admin.health", "admin.stats", "admin.tasks", "admin.pause", "admin.resume", "admin.pause_all", "admin.resume_all",
    "ui.graph", "ui.node", "ui.search", "ui.insights", "history.list", "history.show", "history.life", "events.subscribe", "merge",
    "admin.sync_conflicts", "admin.sync_resolve", "admin.sync_take_back",
})  # fmt: skip
"""Methods that nobody should wait for; the ones that are not named anywhere are taken for such."""
WHISPERING: Final = frozenset({"hook", "agent.whisper"})
WRITING: Final = frozenset({
    "agent.remember", "agent.update", "agent.forget", "agent.outdated", "agent.connect", "agent.feedback",
    "agent.undo_merge", "agent.resolve_proposal", "agent.assign_space", "history.undo",
})  # fmt: skip
BULK: Final = frozenset({
    "admin.import", "admin.adopt", "admin.rebuild", "admin.verify", "admin.export", "admin.doctor", "admin.purge", "admin.release",
    "agent.maintenance", "ingest.conversation", "ingest.file", "admin.sync", "admin.sync_setup",
})  # fmt: skip
MAINTAINING: Final = frozenset({"admin.run_task", "admin.run_all"})
"""One run at a time anyway, and it may take minutes: those that wait for it must not take the places of an import."""
SCAN: Final = "scan"
"""The reconciling scan as a job (`index_updater`), which does not wait for a run."""
BULK_NICE: Final = 5
"""Niceness of threads that work in bulk. Not more: now and then they hold what others wait for."""
LOOKING_BACK: Final = "as of"
"""Any question about an earlier state (`as_of`): that is brought back first, which takes a second or some."""
SEARCHING: Final = frozenset({"agent.recall", "ui.search"})
"""Of these as many run beside each other as there are cores: they compute, so more of them only wait for each other, and all
that wait stand between a whisper and the interpreter. Each lets a whisper pass before it begins."""
WHISPERERS: Final = 4
WRITERS: Final = 32
"""They wait for the disk together: ops that are ready at once are promised, committed and indexed in one go, each with a commit of
its own."""
HEAVY: Final = 2
BACK: Final = 2
"""One may bring a state back while another is asked about one that is there."""


def lane_of(call: Call) -> str:
    """Under what a call is put into a lane: its method, unless it asks about an earlier state, or for a scan."""
    if getattr(call.params, "as_of", None) is not None:
        return LOOKING_BACK
    return SCAN if isinstance(call.params, RunTaskParams) and call.params.name == "index_updater" else call.method


class Lane:
    """Worker threads that start when they are needed, and a queue before them."""

    def __init__(self, name: str, threads: int, *, nice: int = 0, eager: bool = False) -> None:
        self.name = name
        self._nice = nice
        self._eager = eager
        self._limit = threads
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._idle = 0  # free threads less waiting tasks

    def put(self, task: Callable[[], None]) -> None:
        """Have `task` run by the next free thread. A task answers for its own errors."""
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
        (priority.eager if self._eager else priority.patient)()
        if self._nice:
            priority.step_back(self._nice)
        while (task := self._tasks.get()) is not None:
            try:
                task()
            except Exception:
                log.exception("a task of the lane %s broke", self.name)
            with self._lock:
                self._idle += 1

    def close(self, seconds: float) -> bool:
        """Let the threads end once their queue is empty; False when some are still at work after `seconds`."""
        end = time.monotonic() + seconds
        with self._lock:
            threads = list(self._threads)
        for _ in threads:
            self._tasks.put(None)
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))
        return not any(thread.is_alive() for thread in threads)


class Lanes:
    """The lanes, and which method goes where."""

    def __init__(self, threads: int) -> None:
        self._read = Lane("read", threads)
        self._searches = threading.Semaphore(priority.cores())
        self._whisper = Lane("whisper", min(WHISPERERS, threads), eager=True)
        self._write = Lane("write", WRITERS)
        self._bulk = Lane("bulk", HEAVY, nice=BULK_NICE)
        self._jobs = Lane("jobs", 1, nice=BULK_NICE)
        self._back = Lane("back", BACK)
        self._lane: Mapping[str, Lane] = {
            **dict.fromkeys(WHISPERING, self._whisper),
            **dict.fromkeys(WRITING, self._write),
            **dict.fromkeys((*BULK, SCAN), self._bulk),
            **dict.fromkeys(MAINTAINING, self._jobs),
            LOOKING_BACK: self._back,
        }

    def put(self, method: str, task: Callable[[], None]) -> None:
        if method in WHISPERING:
            turn = priority.first()  # bulk stops now, not when a thread of the lane has woken up
            task = functools.partial(_first, turn, task)
        elif method in SEARCHING:
            task = functools.partial(self._in_turn, task)
        elif method in WRITING:
            task = functools.partial(_after, task)
        self._lane.get(method, self._read).put(task)

    def _in_turn(self, task: Callable[[], None]) -> None:
        with self._searches:
            try:
                _after(task)
            finally:
                priority.searched()

    def close(self, seconds: float) -> bool:
        """Wait for all that was put; False when some threads are still at work after `seconds`."""
        end = time.monotonic() + seconds
        lanes = (self._read, self._whisper, self._write, self._bulk, self._jobs, self._back)
        ended = [lane.close(end - time.monotonic()) for lane in lanes]
        return all(ended)


def _after(task: Callable[[], None]) -> None:
    priority.give()
    task()


def _first(turn: AbstractContextManager[None], task: Callable[[], None]) -> None:
    with turn:
        task()
