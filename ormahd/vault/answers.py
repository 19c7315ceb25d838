"""What a caller is told of a change that was not written, or not yet."""

from __future__ import annotations

import errno

from ormahd.errors import Unavailable, VaultBusy
from ormahd.vault.intent import Intent

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


def never(exc: BaseException) -> bool:
    """Whether it fails in the same way however often it is repeated."""
    return isinstance(exc, OSError) and exc.errno in _NEVER
