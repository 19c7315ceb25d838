"""Several callers with a text or two each, embedded in one pass: a dozen texts together take half as long as one by one.

Whoever comes first goes at once and alone. Who comes while passes are under way waits for one to end, and then all that
wait go together: nobody waits for company.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

W = TypeVar("W")
M = TypeVar("M")


@dataclass(eq=False, slots=True)
class _Ticket(Generic[W, M]):
    windows: Sequence[W]
    made: list[M] | None = None
    error: BaseException | None = None
    taken: bool = field(default=False)

    @property
    def done(self) -> bool:
        return self.made is not None or self.error is not None


class Together(Generic[W, M]):
    """`forward` takes windows and gives as many results, in order."""

    def __init__(
        self, forward: Callable[[Sequence[W]], list[M]], length: Callable[[W], int], *, passes: int, most: int
    ) -> None:
        """`length`: tokens of a window; `passes`: how many run beside each other; `most`: tokens in one of them, padding counted."""
        self._forward = forward
        self._length = length
        self._passes = passes
        self._most = most
        self._turn = threading.Condition()
        self._waiting: list[_Ticket[W, M]] = []
        self._running = 0

    def __call__(self, windows: Sequence[W]) -> list[M]:
        """The results of `windows`; whatever `forward` raised for the pass that they were in."""
        ticket: _Ticket[W, M] = _Ticket(windows)
        with self._turn:
            self._waiting.append(ticket)
        while True:
            with self._turn:
                while not ticket.done and (ticket.taken or self._running >= self._passes):
                    self._turn.wait()
                if ticket.done:
                    break
                batch = self._take()
                self._running += 1
            self._run(batch)
        if ticket.error is not None:
            raise ticket.error
        assert ticket.made is not None
        return ticket.made

    def _take(self) -> list[_Ticket[W, M]]:
        """The longest beginning of those that wait that fits into one pass; at least one."""
        batch: list[_Ticket[W, M]] = []
        count = longest = 0
        for ticket in self._waiting:
            count += len(ticket.windows)
            longest = max([longest, *map(self._length, ticket.windows)])
            if batch and count * longest > self._most:
                break
            batch.append(ticket)
        del self._waiting[: len(batch)]
        for ticket in batch:
            ticket.taken = True
        return batch

    def _run(self, batch: Sequence[_Ticket[W, M]]) -> None:
        error: BaseException | None = None
        made: list[M] = []
        try:
            made = self._forward([window for ticket in batch for window in ticket.windows])
        except BaseException as exc:  # noqa: BLE001  # each of those who wait for it gets it
            error = exc
        with self._turn:
            at = 0
            for ticket in batch:
                ticket.made, ticket.error = (
                    (made[at : at + len(ticket.windows)], None) if error is None else (None, error)
                )
                at += len(ticket.windows)
            self._running -= 1
            self._turn.notify_all()
