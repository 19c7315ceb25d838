"""What a caller is told of a change that was not written, or not yet."""

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
    """Folders into which this user may write nothing, a sentence each."""
    return [
        f"nothing can be written in {folder}: {'the disk is mounted to be read only' if _is_mounted_so(folder) else os.strerror(errno.EACCES)}"
        for folder in folders
        if folder.is_dir() and not os.access(folder, os.W_OK | os.X_OK)
    ]


def _is_mounted_so(folder: Path) -> bool:
    return bool(os.statvfs(folder).f_flag & os.ST_RDONLY)


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
