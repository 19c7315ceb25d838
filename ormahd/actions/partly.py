"""Errors of actions that are more than one commit: what was done before is said, in the place of "nothing was changed"."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from ormahd.errors import OrmahError

NOTHING: Final = ("; nothing was changed", "; nothing was taken in")
"""How the error of one transaction, or of one join, ends."""


@contextmanager
def saying(
    done: Callable[[], str], *, hint: Callable[[], str] = lambda: "", **data: Callable[[], Any]
) -> Iterator[None]:
    """Have an error that is raised in the block say what was `done` by then, as a clause ("" while that is nothing): the error of the
    transaction that failed knows of itself alone. `hint` goes before the error's own, `data` to what programs read."""
    try:
        yield
    except OrmahError as exc:
        said = done()
        if said:
            message = exc.message
            for nothing in NOTHING:
                message = message.replace(nothing, "")
            exc.message = f"{message}; {said}"
            exc.args = (exc.message,)
            exc.hint = "; ".join(filter(None, [hint(), exc.hint])) or None
            exc.data |= {name: value() for name, value in data.items()}
        raise
