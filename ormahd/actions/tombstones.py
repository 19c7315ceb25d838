"""Record which extracted memories were taken away, in the commit that takes them away, so that no transcript brings them back."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ormahd.model import tombstone
from ormahd.note.read import digest
from ormahd.text.sameness import essence

if TYPE_CHECKING:
    from ormahd.model.tombstone import Tombstone
    from ormahd.note.values import Note
    from ormahd.ormah import Ormah
    from ormahd.vault.transaction import Transaction


_SINCE = re.compile(r"\s*\([^()\d]*\d{4}-\d{2}-\d{2}\)(?=\.?\s*$)")


def statement(content: str) -> str:
    """Return the normal form of what a memory says, without the day since which it holds: that changes with each time it is said."""
    return essence(_SINCE.sub("", content))


def turn_of(said_in: str) -> str:
    """Return the turn's key of a note's `from`."""
    return said_in.rpartition("#")[2]


def of_notes(ormah: Ormah, notes: Iterable[Note]) -> list[Tombstone]:
    """Return the tombstones of those notes that were extracted from a session."""
    return of_statements(
        ormah, [(statement(one.content), turn_of(one.said_in)) for one in notes if one.said_in is not None]
    )


def of_statements(ormah: Ormah, statements: Iterable[tuple[str | None, str]]) -> list[Tombstone]:
    """Return the tombstones of (normalised statement, turn's key). A statement that is not known any more is None."""
    some = list(statements)
    if not some:
        return []
    salt = min(ormah.learned.forgotten().salts, default="") or tombstone.new_salt()
    return [tombstone.tombstone(salt, statement, turn, ormah.clock()) for statement, turn in some]


def path(ormah: Ormah) -> str:
    """Return the file of this month."""
    return tombstone.FILES.path(ormah.clock())


def with_lines(data: bytes, lines: Iterable[Tombstone]) -> bytes:
    """Return the file's bytes with these lines."""
    for one in lines:
        data = tombstone.FILES.put(data, one)
    return data


def bury(ormah: Ormah, tx: Transaction, lines: Iterable[Tombstone]) -> None:
    """Add tombstones to a transaction."""
    some = list(lines)
    if some:
        data = ormah.vault.read(path(ormah))
        new = with_lines(data or b"", some)
        if new != data:
            tx.put(path(ormah), new, node_id=None, expect=None if data is None else digest(data))
