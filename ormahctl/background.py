"""A connection with a thread of its own, so that a call can be under way while the next one is prepared."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from ormahctl.client import Client
from ormahd.api import Params, Result

R = TypeVar("R", bound=Result)
HEAR_S = 0.2
"""How often whoever waits for an answer looks for Ctrl-C."""


def answer(future: Future[R]) -> R:
    """The result of a call, or its error; for the main thread, which is the one that hears of Ctrl-C.

    A wait without end would not always be woken by it: when the signal comes just before the wait begins, or another
    thread happens to take it, Python only notes it down for the main thread (https://docs.python.org/3/library/signal.html,
    "Execution of Python signal handlers"). So this one looks up now and then.
    """
    while not future.done():
        wait([future], timeout=HEAR_S)
    return future.result()


class Lane:
    """Calls are made one after the other, in the order they were given.

    The thread is a daemon thread (not an executor's, which the interpreter waits for), so that Ctrl-C always ends us.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, daemon=True).start()

    def call(
        self, method: str, params: Params, result: type[R], *, timeout: float, note: Callable[[Future[R]], None]
    ) -> None:
        """Make the call as soon as the one before has its answer; `timeout` in seconds. `note` is given its future before it can
        begin, so that Ctrl-C, whenever it comes, never leaves a call that nobody knows of; one that has not begun can be
        cancelled."""
        future: Future[R] = Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(self._client.call(method, params, result, timeout=timeout))
            except BaseException as exc:  # noqa: BLE001 - handed on to whoever waits for the future
                future.set_exception(exc)

        note(future)
        self._work.put(work)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()

    def close(self) -> None:
        """No more calls. One that is under way goes on in the daemon."""
        self._work.put(None)
