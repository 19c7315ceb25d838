"""How memories stand to each other, as far as somebody asked: each question compares its best results with what is near them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ormahd.index.rows import NodeRow
from ormahd.text.standing import Compared, Standing, comparable, compare
from ormahd.text.statement import Statement, read

READ = 2_000
"""Memories that are kept read (10 MB)."""
TOLD = 20_000
"""Pairs whose answer is kept (3 MB): nearly all of them are a plain no."""


class KeptStandings:
    """Part of a `Kept`, and as that one: taken before what is read for it."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[Statement, NodeRow]] = {}
        self._told: dict[tuple[str, str], Compared | None] = {}

    def without(self, ids: Collection[str]) -> KeptStandings:
        """What of this holds after these nodes changed."""
        gone, other = frozenset(ids), KeptStandings()
        other._read = {node_id: one for node_id, one in self._read.copy().items() if node_id not in gone}
        other._told = {two: one for two, one in self._told.copy().items() if gone.isdisjoint(two)}
        return other

    def known(self, older: str, newer: str) -> bool:
        return (older, newer) in self._told

    def unread(self, ids: Collection[str]) -> list[str]:
        """Those whose text has to be read."""
        return [node_id for node_id in ids if node_id not in self._read]

    def learn(self, rows: Mapping[str, NodeRow]) -> None:
        if len(self._read) + len(rows) > READ:
            self._read = {}
        self._read.update(
            (node_id, (read(row.title, row.content, row.type), row)) for node_id, row in rows.items()
        )  # fmt: skip

    def told(self, older: str, newer: str, cosine: float) -> Compared | None:
        """What the words say where the newer memory replaced the older one; None: it did not, or one of them is gone."""
        if (older, newer) in self._told:
            return self._told[older, newer]
        one, other = self._read.get(older), self._read.get(newer)
        found = None
        if (
            one is not None
            and other is not None
            and comparable(one[1].type, one[1].space, other[1].type, other[1].space)
        ):
            found = compare(one[0], other[0], cosine)
        kept = found if found is not None and found.verdict is Standing.REPLACED else None
        if len(self._told) >= TOLD:
            self._told = {}
        self._told[older, newer] = kept
        return kept
