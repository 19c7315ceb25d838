"""A progress bar on stderr, when somebody is there to see it: rich is imported only then."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ormahctl import render

if TYPE_CHECKING:
    from rich.progress import Progress as Drawn
    from rich.progress import TaskID


class Bar:
    """`with Bar("importing") as bar: bar.set(done, total, "1,200 notes, 310/s")`; silent without a terminal."""

    def __init__(self, what: str) -> None:
        self.what = what
        self._drawn: Drawn | None = None
        self._task: TaskID | None = None

    @property
    def seen(self) -> bool:
        """Whether anybody sees the bar."""
        return self._drawn is not None

    def __enter__(self) -> Self:
        if render.colours(sys.stderr):
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

            self._drawn = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TaskProgressColumn(),
                TextColumn("{task.fields[text]}", markup=False),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._drawn.start()
            self._task = self._drawn.add_task(self.what, total=None, text="")
        return self

    def set(self, done: float, total: float | None, text: str = "", *, what: str | None = None) -> None:
        """`total` None or 0: not known."""
        if self._drawn is not None and self._task is not None:
            shown = render.line(what) if what else self.what
            self._drawn.update(
                self._task, completed=done, total=total or None, text=render.line(text), description=shown
            )

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._drawn is not None:
            self._drawn.stop()
