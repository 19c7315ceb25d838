"""A memory that extraction proposes from a session, whichever way found it: rules, the coding agent or a judge."""

from __future__ import annotations

from msgspec import Struct

from ormahd.model.node import NodeType


class MemoryCandidate(Struct, frozen=True):
    """A memory that extraction proposes from a session, before it is checked."""

    type: NodeType
    title: str
    content: str
    """A sentence that can be read without the session: dates are absolute, "I" is "the user"."""
    confidence: float
    """0.6 if rules found it."""
    turns: tuple[str, ...]
    """Keys of the turns that say it; it was said in the first."""
    about_self: bool = False
    tags: tuple[str, ...] = ()
    corrects: str = ""
    """Words of what it says is wrong, to search the older memory; "" if it corrects nothing."""
