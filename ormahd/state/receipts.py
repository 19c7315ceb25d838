"""Receipts of two-phase maintenance: what was handed out to an agent that judges, and whether its results came.

At most one is open at a time. What is kept of a memory is its id and the key of its text, never the text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from ormahd.state.state import State

BORN: Final = "born"
"""The receipt that nobody got: since when this vault knows of maintenance."""
KEPT: Final = 200
"""Settled receipts that are remembered, so that who uses one twice is told so."""


class Receipt(Struct, frozen=True):
    id: str
    time: datetime
    expires: datetime
    issued: dict[str, Any]
    settled: datetime | None


class Receipts:
    """Of one vault. Times are given, so that they are of the clock that jobs go by."""

    def __init__(self, state: State) -> None:
        self._state = state

    def born(self, now: datetime) -> None:
        """A fresh vault has nothing to judge yet: its first day counts as settled."""
        with self._state.transaction() as db:
            if db.execute("SELECT 1 FROM receipt LIMIT 1").fetchone() is None:
                db.execute("INSERT INTO receipt VALUES (?, ?, ?, '{}', ?)", (BORN, *(_iso(now),) * 3))

    def keep(self, receipt: Receipt) -> None:
        """An open receipt in the place of whatever was open before."""
        with self._state.transaction() as db:
            db.execute("DELETE FROM receipt WHERE settled IS NULL")
            db.execute(
                "INSERT INTO receipt VALUES (?, ?, ?, ?, NULL)",
                (receipt.id, _iso(receipt.time), _iso(receipt.expires), json.dumps(receipt.issued)),
            )
            db.execute(
                "DELETE FROM receipt WHERE settled < (SELECT settled FROM receipt WHERE settled IS NOT NULL "
                "ORDER BY settled DESC LIMIT 1 OFFSET ?)",
                (KEPT,),
            )

    def find(self, receipt_id: str) -> Receipt | None:
        with self._state.transaction() as db:
            row = db.execute("SELECT * FROM receipt WHERE id = ? AND id <> ?", (receipt_id, BORN)).fetchone()
        return None if row is None else _receipt(row)

    def open(self, now: datetime) -> Receipt | None:
        """The one whose results are waited for; None: there is none, or it has expired."""
        with self._state.transaction() as db:
            row = db.execute("SELECT * FROM receipt WHERE settled IS NULL ORDER BY time DESC LIMIT 1").fetchone()
        found = None if row is None else _receipt(row)
        return found if found is not None and found.expires > now else None

    def settle(self, receipt_id: str, now: datetime) -> None:
        """Its results are in; what was issued need not be known any more."""
        with self._state.transaction() as db:
            db.execute("UPDATE receipt SET settled = ?, issued = '{}' WHERE id = ?", (_iso(now), receipt_id))

    def last(self) -> datetime | None:
        """When results came last, or else when the vault was first asked."""
        with self._state.transaction() as db:
            row = db.execute("SELECT max(settled) FROM receipt").fetchone()
        return None if row[0] is None else datetime.fromisoformat(row[0])


def _receipt(row: tuple[str, str, str, str, str | None]) -> Receipt:
    issued: Mapping[str, Any] = json.loads(row[3])
    settled = None if row[4] is None else datetime.fromisoformat(row[4])
    return Receipt(row[0], datetime.fromisoformat(row[1]), datetime.fromisoformat(row[2]), dict(issued), settled)


def _iso(time: datetime) -> str:
    return time.isoformat(timespec="microseconds")
