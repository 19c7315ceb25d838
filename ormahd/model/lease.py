"""Lease: how many unused days a memory has in working before it leaves for the archive. Pure.

Three things make it: what kind of memory it is, how stable confirmed use has made it, and a little its id, so that a hundred
memories that came on one day do not leave on one day.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from math import log
from typing import Final, Literal

from msgspec import Struct

from ormahd.model.node import NodeType
from ormahd.model.strength import ARCHIVE_BELOW, INITIAL_STABILITY_DAYS, MAX_STABILITY_DAYS

Lasting = Literal["event", "fact", "decision"]
"""The classes of types, each named after one of them."""

CLASSES: Final[Mapping[NodeType, Lasting]] = {
    NodeType.EVENT: "event", NodeType.OBSERVATION: "event",
    NodeType.FACT: "fact", NodeType.CONCEPT: "fact", NodeType.GOAL: "fact",
    NodeType.DECISION: "decision", NodeType.PROCEDURE: "decision", NodeType.PREFERENCE: "decision",
    NodeType.PERSON: "decision", NodeType.PROJECT: "decision",
}  # fmt: skip
"""What happened is soon past; what is so holds for a while; what was decided, how a thing is done and who somebody is are needed
rarely and long after."""
SPREAD: Final = 0.5
"""Share by which the longest lease of equal memories exceeds the shortest: a batch leaves over weeks, and what of it is needed
after all is noticed before the rest has gone."""


class Leases(Struct, frozen=True):
    """The rule, with a person's settings. `event`, `fact` and `decision`: days of a memory of that class that was never used.
    `below`: retrievability at which a lease ends."""

    event: float
    fact: float
    decision: float
    below: float = ARCHIVE_BELOW

    def days(self, node_type: NodeType, stability: float, node_id: str) -> float:
        """The lease of one memory, in days. `stability`: in days, as confirmed use made it; 0: never used.

        Its class says how long it lasts unused. Confirmed use lengthens that in proportion to the stability, at most to what the
        largest stability gives; a lease that is longer to begin with stays as it is.
        """
        return self.unused(node_type, stability) * (1.0 + SPREAD * share_of(node_id))

    def unused(self, node_type: NodeType, stability: float = 0.0) -> float:
        """The same before it is spread: the least that memories of this type and stability have."""
        days: float = getattr(self, CLASSES[node_type])
        until = log(1 / self.below)
        used = days * (stability / INITIAL_STABILITY_DAYS) * until / log(1 / ARCHIVE_BELOW)
        return max(days, min(used, MAX_STABILITY_DAYS * until))


def share_of(node_id: str) -> float:
    """A number from 0 to below 1 that an id always has: evenly spread over ids, whoever drew them."""
    return zlib.crc32(node_id.encode()) / 2**32
