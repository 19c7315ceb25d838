"""Several callers with a text or two each, embedded in one pass: a dozen texts together take half as long as one by one.

Whoever comes first goes at once and alone. Who comes while a pass is under way waits for its end, and then all that
wait go together: nobody waits for company.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from msgspec import Struct, field

from ormahd.process import priority
from ormahd.process.batcher import Line, Place

W = TypeVar("W")
M = TypeVar("M")
X = TypeVar("X")


def fitting(waiting: list[X], lengths: Callable[[X], Sequence[int]], most: int) -> list[X]:
    """Take from `waiting` the longest beginning that fits into one pass of `most` tokens, padding counted; at least one. `lengths`:
    tokens of each window that one of them brings. Callers see to it that nobody else changes `waiting` meanwhile."""
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
    place: Place = field(default_factory=Place)
    made: list[M] | None = None
    error: BaseException | None = None


class Together(Generic[W, M]):
    """`forward` takes windows and gives as many results, in order."""

    def __init__(self, forward: Callable[[Sequence[W]], list[M]], length: Callable[[W], int], *, most: int) -> None:
        """`length`: tokens of a window; `most`: tokens in one pass, padding counted."""
        self._forward = forward
        self._length = length
        self._most = most
        self._line = Line()
        self._lock = threading.Lock()
        self._waiting: list[_Ticket[W, M]] = []

    def __call__(self, windows: Sequence[W]) -> list[M]:
        """The results of `windows`; whatever `forward` raised for the pass that they were in."""
        ticket: _Ticket[W, M] = _Ticket(windows)
        with self._lock:
            self._waiting.append(ticket)
        if self._line.lead(ticket.place):
            try:
                while not ticket.place.done:
                    priority.give()
                    self._run(self._take())
            finally:
                self._line.pass_on()
        if ticket.error is not None:
            raise ticket.error
        assert ticket.made is not None
        return ticket.made

    def _take(self) -> list[_Ticket[W, M]]:
        """The longest beginning of those that wait that fits into one pass; at least one."""
        with self._lock:
            return fitting(self._waiting, lambda ticket: [*map(self._length, ticket.windows)], self._most)

    def _run(self, batch: Sequence[_Ticket[W, M]]) -> None:
        try:
            made = self._forward([window for ticket in batch for window in ticket.windows])
        except BaseException as exc:  # noqa: BLE001  # each of those who wait for it gets it
            for ticket in batch:
                ticket.error = exc
        else:
            at = 0
            for ticket in batch:
                ticket.made = made[at : at + len(ticket.windows)]
                at += len(ticket.windows)
        self._line.done(ticket.place for ticket in batch)
