"""Extend errors of actions with several commits by what was already done, instead of "nothing was changed"."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from ormahd.errors import OrmahError

NOTHING: Final = ("; nothing was changed", "; nothing was taken in")
"""Endings of error messages of a single transaction or join."""


@contextmanager
def saying(
    done: Callable[[], str], *, hint: Callable[[], str] = lambda: "", **data: Callable[[], Any]
) -> Iterator[None]:
    """Amend an error raised in the block with what had been `done` by then.

    `done` returns a clause, empty if nothing was done: then the error is unchanged. `hint` goes before the error's
    own hint; `data` is added to the error's data.
    """
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
