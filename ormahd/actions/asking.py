"""What is not done unasked: removing or moving more than a few files that a person made."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from ormahd.errors import Unconfirmed
from ormahd.vault.origin import made_by_person

if TYPE_CHECKING:
    from ormahd.vault.vault import Vault

UNASKED = 3
"""Files of the person's that may go without a question."""
NAMED = 3
"""Files that the question names."""


def ask_before(
    vault: Vault, what: str, going: Iterable[tuple[str, str | None]], *, yes: bool, hint: str, left: str = "changed"
) -> None:
    """Raise Unconfirmed where `what` (a clause: "the undo") would remove or move more than a few files that a person made, and
    nobody agreed. `going`: (path, id of the memory) of each file; `left`: what was done with nothing then."""
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
