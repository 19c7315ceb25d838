"""What a caller is told of a change that was not written, or not yet."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from ormahd.errors import NoRoom, Unavailable, VaultBusy
from ormahd.git.process import GitFailed
from ormahd.process import own_files
from ormahd.vault.intents import Intent

_NEVER = {errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ}
"""What a file system says of a name or size that it will never take."""


def stored(intent: Intent, why: str | None) -> VaultBusy:
    """It is promised; its files and commit follow."""
    return VaultBusy(
        f"the change is stored and will be written when git is free: {why}",
        hint="finish or abort the other git operation; nothing needs to be repeated",
        data={"stored": True, "node_ids": intent.node_ids, "op": intent.op},
    )


def held(why: str | None) -> VaultBusy:
    return VaultBusy(
        f"git is held by somebody else: {why}; nothing was changed",
        hint="finish or abort the other git operation, and repeat",
        data={"stored": False},
    )


def unwritable(exc: OSError) -> Unavailable:
    return Unavailable(
        f"the vault cannot be written: {exc.strerror or exc}; nothing was changed",
        hint="make room, or make the folder writable, and repeat",
    )


def is_full(exc: BaseException | None) -> bool:
    """Whether a disk without room is behind it: ours, or git's own words."""
    if exc is None:
        return False
    said = exc.stderr if isinstance(exc, GitFailed) else ""
    full = any(os.strerror(number) in said for number in (errno.ENOSPC, errno.EDQUOT))
    return full or own_files.is_full(exc) or is_full(exc.__cause__)


def no_room(root: Path) -> NoRoom:
    return NoRoom(
        f"the vault cannot be written: {os.strerror(errno.ENOSPC)}; nothing was changed, {own_files.room(root)}",
        hint="make room and repeat; nothing needs to be mended",
        data={"reason": "no_room", "path": str(root)},
    )


def never(exc: BaseException) -> bool:
    """Whether it fails in the same way however often it is repeated."""
    return isinstance(exc, OSError) and exc.errno in _NEVER
