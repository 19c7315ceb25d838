"""What a text that is about to become a note is near to, and what becomes of that, worked out for all who ask at once.

One by one, each of many writers embedded its text, asked the cache for it, compared it with every note and composed its note, and took
turns with all others at each of these steps. Together a step is one turn for all of them: whoever comes first does it for those who
wait. While he composes the notes the next one embeds, for which nobody needs the interpreter.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from msgspec import Struct, field

from ormahd.embedding.batcher import fitting
from ormahd.embedding.token_vectors import Float
from ormahd.process import priority
from ormahd.process.batcher import Line, Place

MOST_TOKENS = 1024
"""In one turn, padding counted: about a forward pass on each of two cores."""
CHARACTERS = 4
"""In one token, about."""
COMPANY_S = 0.003
"""How long the first of a turn waits for one more, where one of the last turns had several: those who were answered together come again
together, one after the other. Without that the first went by himself, and all others waited for the end of his turn."""
LONGEST_S = 0.02
"""How long he waits in all, while more and more come."""
LATELY = 4
"""Turns that tell whether there is company."""

Near = list[tuple[str, float]]
"""Nodes, each with its cosine, best first."""
Embed = Callable[[Sequence[tuple[str | None, str]]], list[Float] | None]
Search = Callable[[Float, int], list[Near]]
T = TypeVar("T")


class _Asked(Struct, eq=False):
    title: str | None
    content: str
    limit: int
    work: Callable[[Near], Any]
    place: Place = field(default_factory=Place)
    near: Near | None = None
    made: Any = None
    error: BaseException | None = None

    @property
    def tokens(self) -> int:
        """About how many."""
        return 2 + (len(self.title or "") + len(self.content)) // CHARACTERS


class Neighbours:
    """Safe from any thread."""

    def __init__(self, embed: Embed, search: Search) -> None:
        """`embed`: vectors of texts (title, content), or None without a model; `search`: of each vector the nearest nodes."""
        self._embed = embed
        self._search = search
        self._line = Line()
        self._lock = threading.Lock()
        self._waiting: list[_Asked] = []
        self._sizes: deque[int] = deque(maxlen=LATELY)
        """How many the last turns had."""
        self._working = threading.Lock()
        """Held by whoever does the `work` of a turn."""

    def __call__(self, title: str | None, content: str, limit: int, work: Callable[[Near], T]) -> T:
        """What `work` makes of the nodes nearest in meaning to a text (none without a model). It runs in the thread of one of those who
        ask, one at a time, and must not wait for any of them. Whatever went wrong, with it or before it, is raised here."""
        asked = _Asked(title, content, limit, work)
        with self._lock:
            self._waiting.append(asked)
        if self._line.lead(asked.place):
            self._lead(asked)
        if asked.error is not None:
            raise asked.error
        made: T = asked.made
        return made

    def _lead(self, until: _Asked) -> None:
        """Turn after turn, up to the one with `until`; then the next one leads, while the work of these turns is done."""
        turns: list[_Asked] = []
        try:
            if any(size > 1 for size in self._sizes):
                self._gather()
            while until not in turns:
                priority.give()
                turn = self._take()
                self._sizes.append(len(turn))
                turns += turn
                self._look_up(turn)
        finally:
            self._line.pass_on()
        with self._working:
            for one in priority.giving(turns):
                if one.near is not None:
                    try:
                        one.made = one.work(one.near)
                    except BaseException as exc:  # noqa: BLE001 - raised by whoever asked
                        one.error = exc
        self._line.done(one.place for one in turns)

    def _gather(self) -> None:
        """Wait as long as others come."""
        end = time.monotonic() + LONGEST_S
        there = 0
        while len(self._waiting) > there and time.monotonic() < end:
            there = len(self._waiting)
            time.sleep(COMPANY_S)

    def _take(self) -> list[_Asked]:
        """The longest beginning of those who wait that fits into one turn; at least one."""
        with self._lock:
            turn = fitting(self._waiting, lambda asked: [asked.tokens], MOST_TOKENS)
        self._line.take(asked.place for asked in turn)
        return turn

    def _look_up(self, turn: Sequence[_Asked]) -> None:
        try:
            vectors = self._embed([(one.title, one.content) for one in turn])
            found: Sequence[Near] = [[] for _ in turn]
            if vectors is not None:
                found = self._search(np.stack(vectors), max(one.limit for one in turn))
        except BaseException as exc:  # noqa: BLE001 - each of those who asked gets it
            for one in turn:
                one.error = exc
        else:
            for one, near in zip(turn, found, strict=True):
                one.near = near[: one.limit]
