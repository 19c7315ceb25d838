"""The type of a memory that extraction proposes from a session, be it found by rules, by an agent or by the judge."""

from __future__ import annotations

from msgspec import Struct

from ormahd.model.node import NodeType


class MemoryCandidate(Struct, frozen=True):
    """A memory that extraction proposes from a session, before it is checked."""

    type: NodeType
    title: str
    content: str
    """Text that can be understood without the session: dates are absolute, and "I" is replaced by "the user"."""
    confidence: float
    """From 0 to 1; 0.6 if rules found the memory."""
    turns: tuple[str, ...]
    """Keys of the turns that say it. The first is the turn in which it was said."""
    about_self: bool = False
    tags: tuple[str, ...] = ()
    corrects: str = ""
    """Words of the earlier statement that this memory makes wrong; "" if it corrects nothing."""
