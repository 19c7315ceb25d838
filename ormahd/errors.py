"""Every error that a caller can get: a code for programs, a sentence for people, a hint about what to do.

The codes and their exit statuses are part of the protocol (DESIGN section 12). A new kind of failure gets a new
class here; the meaning of a code never changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar


class OrmahError(Exception):
    """A failure whose message names its subject, and whose hint says what to do.

    `code` is sent over the protocol, `exit_status` is the exit status of a command, `data` is for programs.
    """

    code: ClassVar[str] = "internal"
    exit_status: ClassVar[int] = 70

    def __init__(self, message: str, *, hint: str | None = None, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.data: dict[str, Any] = dict(data or {})


class BadRequest(OrmahError):
    """The request itself is wrong: a field, a value, an argument. Asking again the same way is no use."""

    code = "bad_request"
    exit_status = 2


class Unconfirmed(BadRequest):
    """More of the person's own files would go than is done unasked. `data.paths` names them; asked again with `yes` it is
    done. Nothing was changed."""

    code = "unconfirmed"


class TooLarge(BadRequest):
    """Larger than one frame, one note or one batch may be."""

    code = "too_large"


class Ambiguous(OrmahError):
    """A prefix that more than one thing answers to."""

    code = "ambiguous"
    exit_status = 2


class NotFound(OrmahError):
    """Nothing has that id, path, op or name."""

    code = "not_found"
    exit_status = 3


class Conflict(OrmahError):
    """The thing changed since it was read, or two wishes exclude each other. Nothing was changed."""

    code = "conflict"
    exit_status = 4


class InvalidNote(OrmahError):
    """A note that cannot be read as one; it is left as it is."""

    code = "invalid_note"
    exit_status = 5


class TooManyChanges(OrmahError):
    """More would change at once than the bounds allow. Nothing was changed."""

    code = "too_many_changes"
    exit_status = 6


class Unavailable(OrmahError):
    """The daemon, or what it needs, is not there; `data.reason` says in which way where it matters."""

    code = "unavailable"
    exit_status = 69


class NoRoom(Unavailable):
    """A disk is full, and nothing was changed. The message names the disk; work continues once there is space."""


class BegunAnew(Unavailable):
    """A file that can be rebuilt (index, state) was found damaged and is being rebuilt. The request can be repeated."""


class NotReady(OrmahError):
    """The daemon runs, but the part that this call needs is still warming."""

    code = "not_ready"
    exit_status = 69


class Internal(OrmahError):
    """A fault of ours; `data.incident` is its number in the log."""


class VaultBusy(OrmahError):
    """Somebody else holds the repository. With `stored: true` in `data` the write is safe and will follow."""

    code = "vault_busy"
    exit_status = 75


class Incompatible(OrmahError):
    """The two sides, or the vault's format and this program, are of different versions."""

    code = "incompatible"
    exit_status = 76


BY_CODE: dict[str, type[OrmahError]] = {
    cls.code: cls
    for cls in (
        BadRequest, Unconfirmed, TooLarge, Ambiguous, NotFound, Conflict, InvalidNote, TooManyChanges,
        Unavailable, NotReady, Internal, VaultBusy, Incompatible,
    )
}  # fmt: skip
