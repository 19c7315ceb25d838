"""Questions about an earlier state: the call with its progress, and the line that says which state answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

from ormahctl import render
from ormahctl.progress import Bar
from ormahctl.session import Session
from ormahd.api import AsOf, Params, Progress, Result

R = TypeVar("R", bound=Result)

SECONDS: Final = 900.0
"""A state of a very large vault takes minutes; the daemon says how far it is."""


def ask(session: Session, method: str, params: Params, result: type[R]) -> R:
    """A call that may have to bring a state back first, under a progress bar where somebody sees it."""
    with Bar("looking back") as bar:

        def step(progress: Progress) -> None:
            bar.set(progress.done, progress.total, what=progress.stage)

        return session.client.call(method, params, result, on_progress=step, timeout=SECONDS)


def told(as_of: AsOf, degraded: Sequence[str] = ()) -> None:
    """Which state it was, what it took, and what it had to do without: beside the result."""
    took = "kept from an earlier question" if as_of.cached else f"brought back in {render.lasting(as_of.seconds)}"
    notes = render.count(as_of.notes, "memory", "memories")
    render.note(f"as of {render.moment(as_of.now)}: commit {as_of.commit[:8]}, {notes}, {took}")
    if "vectors" in degraded:
        render.note("texts of then without vectors (too many at once, or no model yet) were found by their words only")
