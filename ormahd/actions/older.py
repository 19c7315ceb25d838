"""Find memories that a newer one seems to have replaced, independent of a query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ormahd.index.rows import Filter
from ormahd.search.renew import replaced_of_all

if TYPE_CHECKING:
    from ormahd.ormah import Ormah


def replaced_today(ormah: Ormah, ids: Sequence[str]) -> dict[str, str]:
    """Return `{older: newer}` for those of these memories that a living newer one replaced, as recall marks them."""
    chosen = Filter(alive_at=ormah.ranking_clock())
    return replaced_of_all(ormah.index, ids, chosen, ormah.learned.both_hold, ormah.reworded)
