"""Batches forward passes: concurrent callers with a text or two each share one pass, since embedding texts together is
faster.

The first caller runs a pass at once. Callers that arrive meanwhile wait for its end; then the first of them runs one
pass for all that wait.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from msgspec import Struct, field

from ormahd.process import priority

W = TypeVar("W")
M = TypeVar("M")
X = TypeVar("X")


def fitting(waiting: list[X], lengths: Callable[[X], Sequence[int]], most: int) -> list[X]:
    """Remove from the front of `waiting`, and return, as many items as fit into one pass of `most` tokens; at least
    one.

    `lengths`: the tokens of each window of an item. Padding counts. The caller must keep other threads from changing
    `waiting`.
    """
    batch: list[X] = []
    count = longest = 0
    for one in waiting:
        windows = lengths(one)
        count += len(windows)
        longest = max([longest, *windows])
        if batch and count * longest > most:
            break
        batch.append(one)
    del waiting[: len(batch)]
    return batch


class _Ticket(Struct, Generic[W, M], eq=False):
    windows: Sequence[W]
    turn: threading.Event = field(default_factory=threading.Event)
    """Set when the call is `over`, or its caller has to run the next pass."""
    over: bool = False
    made: list[M] | None = None
    error: BaseException | None = None


class Together(Generic[W, M]):
    """Batches calls of `forward`, which takes windows and returns as many results, in order. Safe from any thread."""

    def __init__(self, forward: Callable[[Sequence[W]], list[M]], length: Callable[[W], int], *, most: int) -> None:
        """`length`: tokens of a window; `most`: tokens in one pass, padding included."""
        self._forward = forward
        self._length = length
        self._most = most
        self._lock = threading.Lock()
        self._busy = False
        """Whether a pass is running; if not, no call waits."""
        self._waiting: list[_Ticket[W, M]] = []

    def __call__(self, windows: Sequence[W]) -> list[M]:
        """Return the results of `windows`. Raises what `forward` raised in the pass that they were part of."""
        ticket: _Ticket[W, M] = _Ticket(windows)
        with self._lock:
            self._waiting.append(ticket)
            first, self._busy = not self._busy, True
        if not first:
            ticket.turn.wait()
        if not ticket.over:
            priority.give()
            self._run()
        if ticket.error is not None:
            raise ticket.error
        assert ticket.made is not None
        return ticket.made

    def _run(self) -> None:
        """Run one pass for as many waiting calls as fit, at least one; then wake the caller that runs the next."""
        with self._lock:
            batch = fitting(self._waiting, lambda ticket: [*map(self._length, ticket.windows)], self._most)
        try:
            made = self._forward([window for ticket in batch for window in ticket.windows])
        except BaseException as exc:  # noqa: BLE001  # each caller raises it
            for ticket in batch:
                ticket.error = exc
        else:
            at = 0
            for ticket in batch:
                ticket.made = made[at : at + len(ticket.windows)]
                at += len(ticket.windows)
        with self._lock:
            self._busy = bool(self._waiting)
            if self._waiting:
                self._waiting[0].turn.set()
        for ticket in batch:
            ticket.over = True
            ticket.turn.set()
