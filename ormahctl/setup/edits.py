"""A change of a file's bytes as splices that can be taken back, and the errors of files that we leave alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, Self

from ormahd.rpc.wire import Conflict, OrmahError


class InvalidSettings(OrmahError):
    """A settings file that cannot be read as one; it is left as it is. Never on the wire."""

    code: ClassVar[str] = "invalid_settings"
    exit_status: ClassVar[int] = 5


class Edit(NamedTuple):
    """At the byte `start`, `removed` becomes `inserted`."""

    start: int
    removed: bytes
    inserted: bytes


def apply(data: bytes, edits: Iterable[Edit]) -> bytes:
    """`data` after all edits, each on what the one before left.

    Raises:
        Conflict: what an edit removes is not there.
    """
    for start, removed, inserted in edits:
        end = start + len(removed)
        if data[start:end] != removed:
            raise Conflict(f"byte {start} of the file is not what it was")
        data = data[:start] + inserted + data[end:]
    return data


def reverse(edits: Sequence[Edit]) -> list[Edit]:
    """The edits that take `edits` back."""
    return [Edit(start, inserted, removed) for start, removed, inserted in reversed(edits)]


def between(before: bytes, after: bytes) -> list[Edit]:
    """The one splice that makes `after` of `before`; none where they are the same."""
    if before == after:
        return []
    shorter = min(len(before), len(after))
    head = next((at for at in range(shorter) if before[at] != after[at]), shorter)
    room = shorter - head
    tail = next((at for at in range(room) if before[-1 - at] != after[-1 - at]), room)
    return [Edit(head, before[head : len(before) - tail], after[head : len(after) - tail])]


class Place(NamedTuple):
    """One handler: `hooks[event][group].hooks[number]`."""

    event: str
    group: int
    number: int


class Document(Protocol):
    """A parsed settings file. Each change gives the edits; what they do not name keeps its bytes."""

    @property
    def data(self) -> bytes: ...

    @property
    def value(self) -> Mapping[str, Any]: ...

    @property
    def comment(self) -> int | None:
        """The line of the first thing that its strict form does not have (a comment, a trailing comma)."""

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Raises InvalidSettings with line and column."""

    def add(self, event: str, handler: Mapping[str, Any]) -> list[Edit]:
        """A group of its own for `handler`, after the event's other groups."""

    def change(self, place: Place, handler: Mapping[str, Any], gone: Iterable[str]) -> list[Edit]:
        """Give the handler there these members, take away those in `gone`, and leave every other one."""

    def drop(self, place: Place, keep: frozenset[str]) -> list[Edit]:
        """Remove the handler there, and the containers that are empty without it; not those in `keep` (`hooks`,
        `hooks.EVENT`)."""
