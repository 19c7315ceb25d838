"""Tombstones: records of memories that were extracted from sessions and then removed.

They are written in the commit that removes the memory, so that it is not extracted from the transcript again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ormahd.model import tombstone
from ormahd.model.tombstone import Tombstone
from ormahd.note.read import digest
from ormahd.note.values import Note
from ormahd.ormah import Ormah
from ormahd.text.sameness import normal_form
from ormahd.vault.transaction import Transaction

_SINCE = re.compile(r"\s?\([^()\d]*\d{4}-\d{2}-\d{2}\)(?=\.?\s*$)")


def statement(content: str) -> str:
    """Return a memory's text in normal form, without a date in brackets at its end, such as "(since 2026-11-21)".

    That date differs each time the same thing is said.
    """
    return normal_form(_SINCE.sub("", content))


def turn_of(said_in: str) -> str:
    """Return the key of the turn in `said_in`, a note's field `from` (`SESSION#KEY`)."""
    return said_in.rpartition("#")[2]


def of_notes(ormah: Ormah, notes: Iterable[Note]) -> list[Tombstone]:
    """Return a tombstone for each of the notes that was extracted from a session."""
    return of_statements(
        ormah, [(statement(note.content), turn_of(note.said_in)) for note in notes if note.said_in is not None]
    )


def of_statements(ormah: Ormah, statements: Iterable[tuple[str | None, str]]) -> list[Tombstone]:
    """Return a tombstone for each (statement in normal form, key of the turn that said it). The statement is None if it
    is not known any more."""
    pairs = list(statements)
    if not pairs:
        return []
    salt = min(ormah.learned.forgotten().salts, default="") or tombstone.new_salt()
    return [tombstone.tombstone(salt, statement, key, ormah.clock()) for statement, key in pairs]


def path(ormah: Ormah) -> str:
    """Return the path of this month's file of tombstones."""
    return tombstone.FILES.path(ormah.clock())


def with_lines(data: bytes, lines: Iterable[Tombstone]) -> bytes:
    """Return `data`, the bytes of a file of tombstones, with `lines` added."""
    for one in lines:
        data = tombstone.FILES.put(data, one)
    return data


def bury(ormah: Ormah, tx: Transaction, lines: Iterable[Tombstone]) -> None:
    """Add the tombstones `lines` to this month's file, as part of the transaction `tx`."""
    added = list(lines)
    if added:
        data = ormah.vault.read(path(ormah))
        new = with_lines(data or b"", added)
        if new != data:
            tx.put(path(ormah), new, node_id=None, expect=None if data is None else digest(data))
