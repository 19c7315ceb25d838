"""One odd file never stops a scan: each step that is about one file stands inside `Guard.file`, and goes on with the next."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

from ormahd.model.files import finding

T = TypeVar("T")
FAULTS: Final = (ValueError, TypeError, ArithmeticError, LookupError, AttributeError, RecursionError)
"""What code raises that met a value it was not made for. A disk, a database or a repository that fails is no fault of one file."""
_OF_ONE_FILE: Final = frozenset({
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.EINVAL, errno.ENXIO,
})  # fmt: skip
"""What the system refuses at one place. A full or failing disk is no matter of one file."""
_MENDS: Final = (
    ("a link", "info", "nothing need be done; a note is read where it lies itself in the vault"),
    ("a pipe", "info", "nothing need be done"),
    ("a socket", "info", "nothing need be done"),
    ("a device", "info", "nothing need be done"),
    ("the name is not UTF-8", "warning", "rename it; `convmv -f latin1 -t utf-8` does many"),
    ("the folder's name is not UTF-8", "warning", "rename it; `convmv -f latin1 -t utf-8` does many"),
    ("too large", "warning", "divide it, or raise vault.max_note_bytes"),
    (".gitignore is a pipe", "warning", "put a regular file there, or remove it"),
    ("cannot be taken in", "error", "change the file or move it out of the vault; please report it, the log has the rest"),
    ("stands in the place of", "warning", "put back what was there; or delete this, and the notes count as deleted"),
)  # fmt: skip
"""By how a reason begins: the level and the mend that `doctor` gives."""

log = logging.getLogger(__name__)


class Guard:
    """Names what could not be taken in, by path, in `skipped`."""

    def __init__(self, skipped: list[tuple[str, str]]) -> None:
        self.skipped = skipped
        self.refused: set[str] = set()
        """Files that the system would not give or take."""

    @contextmanager
    def file(self, path: str) -> Iterator[None]:
        """For the length of the block whatever is wrong with the file at `path` is named, and raised no further."""
        try:
            yield
        except OSError as exc:
            self.refused.add(path)
            self.skipped.append((path, f"cannot be read or written: {exc.strerror or exc}"))
        except FAULTS as exc:
            log.exception("a file of the vault cannot be taken in; the others are")
            self.skipped.append((path, f"cannot be taken in: {type(exc).__name__}: {exc}"))

    def all(self, items: Sequence[T], path: Callable[[T], str], act: Callable[[list[T]], None]) -> None:
        """Do `act` with all items at once; where one of them is at fault, with each alone. `act` may be done twice with an item."""
        try:
            act(list(items))
        except (*FAULTS, OSError) as exc:
            if not items or (isinstance(exc, OSError) and exc.errno not in _OF_ONE_FILE):
                raise
            for item in items:
                with self.file(path(item)):
                    act([item])


def of_skipped(path: str, why: str) -> dict[str, object]:
    """What `doctor` says of a file that was passed by."""
    for beginning, level, mend in _MENDS:
        if why.startswith(beginning):
            return finding(path, level, why, mend)
    return finding(path, "warning", why, "make it readable, or move it out of the vault")
