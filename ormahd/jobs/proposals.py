"""Proposals: what a job would like to do and a person has to decide on. Kept once, whatever becomes of it."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from ormahd.jobs.job import Ask
from ormahd.journal import proposals as book
from ormahd.journal.verdicts import text_key

if TYPE_CHECKING:
    from ormahd.ormah import Ormah


class Proposals:
    """Of one vault."""

    def __init__(self, ormah: Ormah) -> None:
        self._ormah = ormah

    def keep(self, ask: Ask, run: str, *, dry: bool) -> bool:
        """Store a proposal; False: it was made before (pending, approved or rejected), for the same nodes with the same
        texts."""
        key = self.key(ask)
        if dry:
            return not book.known(self._ormah.state, key)
        return book.keep(
            self._ormah.state, id=str(uuid.uuid4()), type=ask.type, key=key, nodes=ask.nodes, action=ask.action,
            reason=ask.reason, preview=ask.preview, evidence=ask.evidence, payload=ask.payload, based_on=ask.based_on,
            run=run,
        )  # fmt: skip

    def key(self, ask: Ask) -> str:
        rows = self._ormah.index.notes(list(ask.nodes), connections=False)
        texts = [text_key(row.title, row.content) for row in rows.values()]
        return " ".join([ask.type, *sorted(ask.nodes), *sorted(texts)])
