"""Find out since when a memory says what it says now: an edit may have renewed a memory that was stored long ago.

This is read from the history, for a pair of memories of which one seems to replace the other. An edit counts if it
changed what the memory says about the common subject of both; a corrected typo, a tier or a tag does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Final

from ormahd.errors import NoRoom
from ormahd.index.history import History
from ormahd.index.reader import Reader
from ormahd.index.rows import NodeRow
from ormahd.model.change import Kind
from ormahd.note.read import parse
from ormahd.note.values import NoteKind
from ormahd.text.standing import Compared, compare
from ormahd.text.statement import Statement, read_statement

LOOKS: Final = 20
"""Maximum number of a memory's versions that are read, newest first."""
LIKELY: Final = 0.25
"""Minimum probability that one statement replaced the other; below it, both count as about different subjects."""
MAX_CACHED: Final = 5_000
"""Maximum number of pairs whose answer is cached."""
_QUIET: Final = frozenset(
    {Kind.LINK, Kind.CLUSTER, Kind.CONFLICT, Kind.DECAY, Kind.PROMOTE, Kind.STRENGTH, Kind.FEEDBACK, Kind.OUTDATED}
)
"""Kinds of ops that change no text."""

Says = Callable[[Statement], Compared]
Gist = tuple[bool, str, str]
"""What a comparison of two statements found: whether one may have replaced the other, the old value, the new value."""


class Reworded:
    """Decides whether the older of two memories was reworded after the newer one. For one vault and index; thread-safe.

    `until`: the time of the state that the index has, if it is a past one.
    """

    def __init__(self, history: History, index: Reader, until: datetime | None = None) -> None:
        self._history = history
        self._index = index
        self._until = until
        self._answers: dict[tuple[str, str], bool] = {}

    def __call__(self, older: str, newer: str, cosine: float) -> bool:
        """Return whether the memory `older` got its present statement later than `newer` did, although it was created
        first.

        `older`, `newer`: ids. `cosine`: the cosine of their vectors.
        """
        rows = self._index.notes([older, newer])
        if len(rows) < 2:
            return False
        one, other = rows[older], rows[newer]
        key = one.digest, other.digest
        found = self._answers.get(key)
        if found is None:
            try:
                found = self._is_renewed(one, other, cosine)
            except NoRoom:  # the history cannot be taken in: a search still answers, and asks again
                return False
            if len(self._answers) >= MAX_CACHED:
                self._answers = {}
            self._answers[key] = found
        return found

    def _is_renewed(self, one: NodeRow, other: NodeRow, cosine: float) -> bool:
        """Return whether `one` got its present statement after `other` was created and after `other` got its own.

        The history of `other` is read only if that of `one` does not decide, because most memories were never edited.
        """
        statements = self._index.statements([one.id, other.id])
        if len(statements) < 2:
            return False  # forgotten meanwhile
        statement, beside = statements[one.id][0], statements[other.id][0]
        now = _gist_of(compare(statement, beside, cosine))
        since = self._since(one, now, lambda text: compare(text, beside, cosine))
        return since > other.created and since > self._since(other, now, lambda text: compare(statement, text, cosine))

    def _since(self, row: NodeRow, now: Gist, says: Says) -> datetime:
        """Return the time since which the memory of `row` says what it says now about the other memory's subject.

        `now`: the result of comparing both present statements. `says`: compares an earlier statement of the memory
        with the other memory's present one.
        """
        since = None
        for time, before in self._versions(row):
            if before is None:  # the memory was created by this change
                break
            if _gist_of(says(before)) != now:
                since = time
                break
        return row.created if since is None else max(row.created, since)

    def _versions(self, row: NodeRow) -> Iterator[tuple[datetime, Statement | None]]:
        """Yield (time, statement before it) of each op that changed the memory's text, newest first. The statement
        is None if there was no readable note before."""
        ops = self._history.ops(node_id=row.id, until=self._until, limit=None)
        # An op and its undo cancel each other.
        effective = [op for op in ops if not (op.kind in _QUIET or op.undoes or op.undone_by)]
        for op in effective[:LOOKS]:
            changed = self._history.of_node(op.commit, row.id)
            before = None if changed is None else self._history.pair(changed)[0]
            note = None if before is None else parse(before[1], before[0])
            known = note is not None and note.kind is NoteKind.NOTE
            yield op.time, read_statement(note.title, note.content, row.type) if note is not None and known else None


def _gist_of(found: Compared) -> Gist:
    """Return what the answer needs of a comparison: whether a part was likely replaced, and then the old and the new
    part."""
    likely = found.replaced >= LIKELY
    return likely, found.old if likely else "", found.new if likely else ""
