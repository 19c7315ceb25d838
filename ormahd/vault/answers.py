"""Errors for callers whose change was not written, or is promised and not written yet."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path

from ormahd.errors import NoRoom, Unavailable, VaultBusy
from ormahd.git.process import GitFailed
from ormahd.process import own_files
from ormahd.vault.intents import Intent

_NEVER = {errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ}
"""Error numbers with which a file system refuses a name or a size for good."""


def stored(intent: Intent, why: str | None) -> VaultBusy:
    """Return the error for a change that is promised and will be written once git is free."""
    return VaultBusy(
        f"the change is stored and will be written when git is free: {why}",
        hint="finish or abort the other git operation; nothing needs to be repeated",
        data={"stored": True, "node_ids": intent.node_ids, "op": intent.op},
    )


def held(why: str | None) -> VaultBusy:
    return VaultBusy(
        f"nothing can be committed in the vault: {why}; nothing was changed",
        hint="finish or abort the other git operation, and repeat",
        data={"stored": False},
    )


def unwritable(exc: OSError) -> Unavailable:
    mend = (
        "make the vault's folders writable for the user that runs the daemon (ormahctl doctor names those that are not), and repeat"
        if exc.errno in {errno.EACCES, errno.EPERM, errno.EROFS}
        else "make room, or make the folder writable, and repeat"
    )
    return Unavailable(f"the vault cannot be written: {exc.strerror or exc}; nothing was changed", hint=mend)


def unwritable_folders(folders: Iterable[Path]) -> list[str]:
    """Return a sentence for each of these folders that exists and in which this user may not write."""
    return [
        f"nothing can be written in {folder}: {'the disk is mounted to be read only' if _is_mounted_so(folder) else os.strerror(errno.EACCES)}"
        for folder in folders
        if folder.is_dir() and not os.access(folder, os.W_OK | os.X_OK)
    ]


def _is_mounted_so(folder: Path) -> bool:
    return bool(os.statvfs(folder).f_flag & os.ST_RDONLY)


def is_full(exc: BaseException | None) -> bool:
    """Whether an error, or one that caused it, says that the disk is full or the quota reached: as an errno, or in
    git's stderr."""
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
    """Whether the error is permanent: the same write would fail again however often it is repeated."""
    return isinstance(exc, OSError) and exc.errno in _NEVER
