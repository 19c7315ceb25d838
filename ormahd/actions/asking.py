"""Require confirmation before more than a few files of the person are removed or moved."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from ormahd.errors import Unconfirmed
from ormahd.vault.origin import made_by_person

if TYPE_CHECKING:
    from ormahd.vault.vault import Vault

UNASKED = 3
"""Number of the person's files that may be changed without confirmation."""
NAMED = 3
"""Number of files that the error message names."""


def ask_before(
    vault: Vault, what: str, going: Iterable[tuple[str, str | None]], *, yes: bool, hint: str, left: str = "changed"
) -> None:
    """Raise Unconfirmed if more than `UNASKED` files of the person would be removed or moved, and `yes` is False.

    `what`: the operation, as a subject ("the undo"). `going`: (path, memory id) of each file. `left`: participle for
    the message ("nothing was changed").
    """
    files = list(going)
    if yes or len(files) <= UNASKED:
        return
    made = sorted(made_by_person(vault, files))
    if len(made) > UNASKED:
        raise Unconfirmed(
            f"{what} would remove or move {len(made)} files that you made ({_some(made)}); nothing was {left}",
            hint=hint, data={"count": len(made), "paths": made[:100]},
        )  # fmt: skip


def _some(paths: Collection[str]) -> str:
    shown = list(paths)[:NAMED]
    return ", ".join(shown) + (f" and {len(paths) - NAMED} more" if len(paths) > NAMED else "")
