"""Checks the memories that extraction proposes, be it by rules or by a model. Each is accepted, or refused for a
reason.

The number of refusals is counted by reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ormahd.actions.amend import clean
from ormahd.actions.outdated import link_to, replaced_meanwhile, restated
from ormahd.actions.tombstones import statement, turn_of
from ormahd.errors import InvalidNote
from ormahd.index.rows import NodeRow
from ormahd.ingest.batches import MemoryCandidate
from ormahd.ingest.readers.values import iso_time
from ormahd.model.node import ABOUT_SELF, MAX_CONTENT, MAX_TITLE, NodeType, NoteStanding, Tier
from ormahd.note.values import NoteLink
from ormahd.note.write import compose
from ormahd.ormah import Ormah
from ormahd.sessions.archive import Archived, SessionTail
from ormahd.sessions.files import word_of
from ormahd.state import whispers
from ormahd.state.extraction import PlannedMemory, Way
from ormahd.state.sessions import key_of
from ormahd.text.sameness import TextContrast, contrast, marks
from ormahd.text.standing import Relation, compare
from ormahd.text.statement import Statement, read
from ormahd.text.words import fold, query_terms

KNOWN: Final = "known"
WHISPERED: Final = "whispered"
FORGOTTEN: Final = "forgotten"
UNFIT: Final = "unfit"
WAITS: Final = "waits"
REASONS: Final[Mapping[str, str]] = {
    KNOWN: "known already",
    WHISPERED: "repeated a whisper",
    FORGOTTEN: "taken away before",
    UNFIT: "no text that can be stored",
    WAITS: "with a command, a link or an order, waiting for a person (ormahctl proposals)",
}
"""Reason of a refusal -> its words for people."""
NEIGHBOURS: Final = 8
"""Number of memories that a candidate is compared with: so many nearest in meaning, and so many found by its words."""
BY_WORDS: Final = 0.5
"""The cosine assumed for a memory that was found by words and has no known cosine, such as while no embedding model is
loaded."""
REPEATED: Final = 0.75
"""Share of a candidate's words that must be in a whispered memory for the candidate to count as its repetition. All its
names and numbers must be in that memory too."""
SAME_TURN: Final = 0.5
"""The same share for a memory that came from the same turn. It is lower, because a model puts into other words what
rules have already found there."""
TAGS: Final = 10
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
ORIGIN: Final = "session"


class Checks:
    """Decides which candidates become memories; refuses those that are unfit, known or forgotten. Each candidate is
    also compared with those that the same object has accepted before."""

    def __init__(self, ormah: Ormah, way: Way) -> None:
        """`way`: what finds the candidates: the rules or a model. Raises OSError if the tombstones of forgotten
        memories cannot be read."""
        self._ormah = ormah
        self._way = way
        self._gone = ormah.learned.forgotten()
        self._said = {node_id: turn_of(said_in) for node_id, said_in in ormah.index.extracted().items()}
        self._turns = set(self._said.values())
        self._accepted: list[tuple[PlannedMemory, NDArray[np.float32] | None]] = []
        self._taken: set[str] = set()
        self.replaces = 0
        """Number of accepted candidates that seem to replace an older memory."""

    def check(
        self, one: MemoryCandidate, tail: SessionTail, space: str | None, turns: Mapping[str, Archived]
    ) -> PlannedMemory | str:
        """Return the memory to store; or if the candidate is refused, the reason, a key of `REASONS`. `tail`: the session
        in which it was found; `space`: of its project, None if it has none; `turns`: key -> turn of the session."""
        first = turns.get(one.turns[0]) if one.turns else None
        found: list[str] = []
        title = " ".join((clean(self._ormah, one.title, found) or "").split())[:MAX_TITLE]
        content = (clean(self._ormah, one.content, found) or "").strip()
        because = clean(self._ormah, one.because, found) or ""
        if first is None or not content or len(content) > MAX_CONTENT or not statement(content):
            return UNFIT
        if self._gone.statement(statement(content)) or any(map(self._gone.turn, one.turns)):
            return FORGOTTEN
        if self._way == "rules" and one.turns[0] in self._turns:
            return KNOWN
        space = None if one.about_self else space
        time, now = iso_time(first.time), self._ormah.moment()
        created = now if time is None else min(datetime.fromisoformat(time), now)
        links = self._repeats(title, content, one.type, space, one.turns[0], tail, created)
        if isinstance(links, str):
            return links
        tags = [ABOUT_SELF] if one.about_self else []
        tags += [tag for tag in one.tags if tag not in tags]
        node_id = self._ormah.index.new_id(self._taken)
        made = PlannedMemory(
            node_id, one.type.value, space, title, content, tuple(tags[:TAGS]), min(max(one.confidence, 0.0), 1.0),
            created, f"{ORIGIN}:{tail.harness}", f"{word_of(tail.id)}#{one.turns[0]}",
            first.place, one.corrects, tuple(links), because,
        )  # fmt: skip
        try:
            note_of(made, made.created)
        except InvalidNote:
            return UNFIT
        self._taken.add(node_id[:8])
        self._accepted.append((made, self._vector(title, content)))
        return made

    def _repeats(
        self, title: str, content: str, kind: NodeType, space: str | None, turn: str, tail: SessionTail, time: datetime
    ) -> str | list[NoteLink]:
        """Return `KNOWN` or `WHISPERED`, the reason why a text is not new; or edges to the memories that it replaces
        because it says again what was so before them. `turn`, `time`: key and time of the turn that says it. If it
        seems to replace an older memory, add one to `self.replaces`."""
        now = self._ormah.moment()
        near = self._near(title, content)
        told = whispers.told_in(self._ormah.state, key_of(tail.id) or "")
        rows = self._ormah.index.notes([*{*near, *told}])
        newer = read(title, content, kind)
        replaced = False
        again: dict[str, NodeRow] = {}
        for row in rows.values():
            older, cosine = (row.title, row.content, row.type), near.get(row.id, BY_WORDS)
            whispered = row.id in told and _retells(older, title, content, cosine)
            if not whispered and (row.expired(now) or not (space is None or row.space in (space, None))):
                continue
            relation = _relation(older, content, newer, cosine)
            same_turn = self._said.get(row.id) == turn and covers(
                f"{row.title or ''}\n{row.content}", content, SAME_TURN
            )
            if whispered or same_turn or relation is Relation.SAME:
                found = [] if same_turn else restated(self._ormah, row, time)
                if not found:
                    return WHISPERED if whispered else KNOWN
                again |= {one.id: one for one in found}
            replaced = replaced or relation is Relation.REPLACED
        later = replaced_meanwhile(self._ormah, near.items(), (title, content, kind), space, time)
        again |= {one.id: one for one in later}
        vector = self._vector(title, content)
        for made, other in reversed(self._accepted):
            cosine = BY_WORDS if vector is None or other is None else float(vector @ other)
            relation = _relation((made.title, made.content, NodeType(made.type)), content, newer, cosine)
            if relation is Relation.SAME and (space is None or made.space in (space, None)):
                return KNOWN
            if relation is Relation.REPLACED:
                replaced = True
                break  # what was accepted before it may be so again
        self.replaces += replaced
        return [link_to(row, now, None) for row in again.values()]

    def _near(self, title: str, content: str) -> dict[str, float]:
        """Return id of a memory -> cosine similarity to a text, for the memories with which it is to be compared. For
        a memory that was found by words only, the similarity is `BY_WORDS`."""
        by_words = self._ormah.index.search_text(content, NEIGHBOURS)
        near = dict.fromkeys((node_id for node_id, _ in by_words), BY_WORDS)
        return near | dict(self._ormah.index.neighbours(title, content, NEIGHBOURS))

    def _vector(self, title: str, content: str) -> NDArray[np.float32] | None:
        vectors = self._ormah.index.embed_ahead([(title, content)], urgent=False)
        return None if vectors is None else vectors[0]


def note_of(one: PlannedMemory, updated: datetime) -> bytes:
    """Return the bytes of the note for a memory. Raises InvalidNote if its text cannot be written as a note."""
    return compose(
        id=one.node_id, type=NodeType(one.type), tier=Tier.WORKING, space=one.space, title=one.title, tags=one.tags, source=one.source,
        confidence=one.confidence, created=one.created, updated=updated, content=one.content,
        everywhere=ABOUT_SELF in one.tags, said_in=one.said_in, links=one.links,
        standing=NoteStanding.REJECTED if one.because else None, because=one.because or None,
        evidence=one.evidence,
    )  # fmt: skip


def _relation(older: tuple[str | None, str, NodeType], content: str, newer: Statement, cosine: float) -> Relation:
    """Return how a new text relates to an older memory, given as (title, content, type). `newer`: the statement that
    was read from the new text; `cosine`: the cosine similarity of the new text and the older memory."""
    if statement(older[1]) == statement(content):
        return Relation.SAME
    verdict = compare(read(*older), newer, cosine).verdict
    if verdict is Relation.SAME and contrast(older[1], content) is TextContrast.MARKS:
        return Relation.BOTH
    return verdict


def _retells(older: tuple[str | None, str, NodeType], title: str, content: str, cosine: float) -> bool:
    """Return whether a text only repeats what an older memory says, and neither denies nor replaces it."""
    if not _DAY.search(older[1]):  # a day in the new text was then added by extraction: ignore it
        title, content = _DAY.sub(" ", title), _DAY.sub(" ", content)
    newer = read(title, content, older[2])
    return (
        covers(f"{older[0] or ''}\n{older[1]}", content, REPEATED)
        and _relation(older, content, newer, cosine) is not Relation.REPLACED
    )


def covers(text: str, content: str, share: float) -> bool:
    """Return whether a text contains at least this share (0 to 1) of the words of a memory's content, and all its
    numbers and names, and neither of the two denies the other."""
    if contrast(text, content) is TextContrast.NEGATION:
        return False
    words, folded = set(query_terms(content)), fold(text)
    known = len(words & set(query_terms(text))) >= share * len(words)
    return bool(words) and known and all(mark in folded for mark in marks(content))
