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
from ormahd.ingest.rules.language import around
from ormahd.model.node import ABOUT_SELF, MAX_CONTENT, MAX_TITLE, NodeType, NoteStanding, Tier, short_id
from ormahd.note.values import NoteLink
from ormahd.note.write import compose
from ormahd.ormah import Ormah
from ormahd.sessions.archive import Archived, SessionTail
from ormahd.sessions.files import word_of
from ormahd.state import whispers
from ormahd.state.extraction import PlannedMemory, Way
from ormahd.state.sessions import key_of
from ormahd.text.sameness import TextContrast, contrast, distinctive_words
from ormahd.text.standing import Relation, compare
from ormahd.text.statement import Statement, read_statement
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
_LINK: Final = re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://\S|\bwww\.\w", re.IGNORECASE)
_COMMAND: Final = re.compile(
    r"(?:^|[\s\"'`(|;&$])(?:sudo|curl|wget|bash|sh|zsh|eval|exec|rm|chmod|chown|ssh|scp|nc|npx|pipx?|npm|powershell|iex)\s+[\w./~$-]"
    r"|`[^`\n]*\s[^`\n]*`|\|\s*(?:sudo|ba|z)?sh\b|&&|\$\(",
    re.IGNORECASE,
)
_ORDER: Final = re.compile(
    r"(?:^|[.!?:;\n][ \t]{0,3}[\"“]?)(?:please )?(?:from now on|always|never|you (?:must|should|have to|are to)|make sure|ignore|disregard"
    r"|do not|don't|run|execute|download|install|ab (?:jetzt|sofort)|immer|niemals|nie|du (?:musst|sollst)|siempre|nunca"
    r"|debes|tienes que|toujours|jamais|tu dois)\b",
    re.IGNORECASE,
)
_PLACE: Final = re.compile(r" --\w|\w\.(?:com|net|org|io|dev|app|sh|example)\b", re.IGNORECASE)
"""Matches an option of a command, or the name of a host."""
_ABOUT_USER: Final = re.compile(r"(?:the user|der nutzer|el usuario|l['’]utilisateur)\b", re.IGNORECASE)
_QUOTED: Final = re.compile(rf"{_ABOUT_USER.pattern} (?:said|sagte|dijo|a dit) ?: ?[\"„«]\s?", re.IGNORECASE)
"""Matches what stands before the person's words in a memory that quotes them."""


class Checks:
    """Decides which candidates become memories. Refuses those that are unfit, known or forgotten, or that repeat a
    candidate which the same object has accepted before."""

    def __init__(self, ormah: Ormah, reader: Way) -> None:
        """`reader`: what finds the candidates: the rules or a model. Raises OSError if the tombstones of forgotten
        memories cannot be read."""
        self._ormah = ormah
        self._reader = reader
        self._forgotten = ormah.learned.forgotten()
        self._origins = {node_id: turn_of(said_in) for node_id, said_in in ormah.index.extracted_from().items()}
        self._turns = set(self._origins.values())
        self._accepted: list[tuple[PlannedMemory, NDArray[np.float32] | None]] = []
        self._taken: set[str] = set()
        self.replaces = 0
        """Number of accepted candidates that seem to replace an older memory."""

    def check(
        self, candidate: MemoryCandidate, tail: SessionTail, space: str | None, turns: Mapping[str, Archived]
    ) -> PlannedMemory | str:
        """Return the memory to store; or, if the candidate is refused, the reason, a key of `REASONS`. `tail`: the
        session in which it was found; `space`: the space of the session's project, None if it has none; `turns`: key ->
        turn of the session."""
        # Refuse what cannot be stored, and what was forgotten or is known.
        first = turns.get(candidate.turns[0]) if candidate.turns else None
        found: list[str] = []
        title = " ".join((clean(self._ormah, candidate.title, found) or "").split())[:MAX_TITLE]
        content = (clean(self._ormah, candidate.content, found) or "").strip()
        because = clean(self._ormah, candidate.because, found) or ""
        if first is None or not content or len(content) > MAX_CONTENT or not statement(content):
            return UNFIT
        if self._forgotten.statement(statement(content)) or any(map(self._forgotten.turn, candidate.turns)):
            return FORGOTTEN
        if self._reader == "rules" and candidate.turns[0] in self._turns:
            return KNOWN

        # The memory dates from its first turn.
        space = None if candidate.about_self else space
        time, now = iso_time(first.time), self._ormah.moment()
        created = now if time is None else min(datetime.fromisoformat(time), now)
        links = self._compare(title, content, candidate.type, space, candidate.turns[0], tail, created)
        if isinstance(links, str):
            return links

        # Make the memory, and refuse it if it cannot be written as a note.
        tags = [ABOUT_SELF] if candidate.about_self else []
        tags += [tag for tag in candidate.tags if tag not in tags]
        node_id = self._ormah.index.new_id(self._taken)
        made = PlannedMemory(
            node_id=node_id,
            type=candidate.type.value,
            space=space,
            title=title,
            content=content,
            tags=tuple(tags[:TAGS]),
            confidence=min(max(candidate.confidence, 0.0), 1.0),
            created=created,
            source=f"{ORIGIN}:{tail.harness}",
            said_in=f"{word_of(tail.id)}#{candidate.turns[0]}",
            turn=first.place,
            corrects=candidate.corrects,
            links=tuple(links),
            because=because,
        )
        try:
            note_of(made, made.created)
        except InvalidNote:
            return UNFIT
        self._taken.add(short_id(node_id))
        self._accepted.append((made, self._embedding(title, content)))
        return made

    def _compare(
        self, title: str, content: str, kind: NodeType, space: str | None, key: str, tail: SessionTail, time: datetime
    ) -> str | list[NoteLink]:
        """Compare a text with the known memories. Return `KNOWN` or `WHISPERED`, the reason why it is not new, or edges
        to the memories that it replaces.

        It may repeat an older memory and be new nevertheless: something else was true in between. The edges then lead
        to that. `key`, `time`: of the turn that says it. If the text seems to replace a memory, `self.replaces` is
        increased.
        """
        now = self._ormah.moment()
        # Those that were found by words only have no known similarity.
        near = {node_id: BY_WORDS for node_id, _ in self._ormah.index.search_text(content, NEIGHBOURS)}
        near |= dict(self._ormah.index.neighbours(title, content, NEIGHBOURS))
        whispered_ids = whispers.shown_in_session(self._ormah.state, key_of(tail.id) or "")
        rows = self._ormah.index.notes([*{*near, *whispered_ids}])

        # Compare the text with each similar or whispered memory.
        newer = read_statement(title, content, kind)
        replaced = False
        replaced_rows: dict[str, NodeRow] = {}
        for row in rows.values():
            older, cosine = (row.title, row.content, row.type), near.get(row.id, BY_WORDS)
            whispered = row.id in whispered_ids and _only_repeats(older, title, content, cosine)
            if not whispered and (row.expired(now) or not (space is None or row.space in (space, None))):
                continue
            relation = _relation(older, content, newer, cosine)
            older_text = f"{row.title or ''}\n{row.content}"
            same_turn = self._origins.get(row.id) == key and covers(older_text, content, SAME_TURN)
            if whispered or same_turn or relation is Relation.SAME:
                found = [] if same_turn else restated(self._ormah, row, time)
                if not found:
                    return WHISPERED if whispered else KNOWN
                replaced_rows |= {older_row.id: older_row for older_row in found}
            replaced = replaced or relation is Relation.REPLACED

        # A memory that came between the two is replaced as well.
        later = replaced_meanwhile(self._ormah, near.items(), (title, content, kind), space, time)
        replaced_rows |= {older_row.id: older_row for older_row in later}

        # Compare the text with the candidates accepted before, the last one first.
        vector = self._embedding(title, content)
        for made, other in reversed(self._accepted):
            cosine = BY_WORDS if vector is None or other is None else float(vector @ other)
            relation = _relation((made.title, made.content, NodeType(made.type)), content, newer, cosine)
            if relation is Relation.SAME and (space is None or made.space in (space, None)):
                return KNOWN
            if relation is Relation.REPLACED:
                replaced = True
                break  # what was accepted before it may be so again
        self.replaces += replaced
        return [link_to(row, now, None) for row in replaced_rows.values()]

    def _embedding(self, title: str, content: str) -> NDArray[np.float32] | None:
        """Return the embedding of a memory's text; None while no embedding model is loaded."""
        vectors = self._ormah.index.embed_ahead([(title, content)], urgent=False)
        return None if vectors is None else vectors[0]


def note_of(memory: PlannedMemory, updated: datetime) -> bytes:
    """Return the bytes of the note for a memory. Raises InvalidNote if its text cannot be written as a note."""
    return compose(
        id=memory.node_id,
        type=NodeType(memory.type),
        tier=Tier.WORKING,
        space=memory.space,
        title=memory.title,
        tags=memory.tags,
        source=memory.source,
        confidence=memory.confidence,
        created=memory.created,
        updated=updated,
        content=memory.content,
        everywhere=ABOUT_SELF in memory.tags,
        said_in=memory.said_in,
        links=memory.links,
        standing=NoteStanding.REJECTED if memory.because else None,
        because=memory.because or None,
        evidence=memory.evidence,
    )


def _relation(older: tuple[str | None, str, NodeType], content: str, newer: Statement, cosine: float) -> Relation:
    """Return how a new text relates to an older memory. `older`: (title, content, type); `content`: the new text;
    `newer`: the statement read from it; `cosine`: the similarity of the two."""
    if statement(older[1]) == statement(content):
        return Relation.SAME
    verdict = compare(read_statement(*older), newer, cosine).verdict
    if verdict is Relation.SAME and contrast(older[1], content) is TextContrast.MARKS:
        return Relation.BOTH
    return verdict


def _only_repeats(older: tuple[str | None, str, NodeType], title: str, content: str, cosine: float) -> bool:
    """Return whether a new text only repeats what an older memory says, and does not replace it. `older`: (title,
    content, type)."""
    if not _DAY.search(older[1]):  # a day in the new text was then added by extraction: ignore it
        title, content = _DAY.sub(" ", title), _DAY.sub(" ", content)
    newer = read_statement(title, content, older[2])
    return (
        covers(f"{older[0] or ''}\n{older[1]}", content, REPEATED)
        and _relation(older, content, newer, cosine) is not Relation.REPLACED
    )


def covers(text: str, content: str, share: float) -> bool:
    """Return whether a text contains at least this share (0 to 1) of the words in a memory's content, and all its
    numbers and names. False if one of the two denies the other."""
    if contrast(text, content) is TextContrast.NEGATION:
        return False
    words, folded = set(query_terms(content)), fold(text)
    known = len(words & set(query_terms(text))) >= share * len(words)
    return bool(words) and known and all(mark in folded for mark in distinctive_words(content))


def can_be_acted_on(kind: NodeType, content: str) -> bool:
    """Return whether an agent could act on a memory: it has a command, a link or an order to the agent, also in words
    of the person.

    A preference is an order ("Push to main without asking") if it is neither about the person nor a choice ("Use pnpm,
    not npm"). The person may have pasted the text of such a memory, so it waits as a proposal.
    """
    words = _QUOTED.sub("", content)
    bid = around("bid").search(words)
    choice = None if _PLACE.search(words) else around("choice").match(words, bid.end() if bid else 0)
    unasked = (bid and not choice) or _ORDER.search(words, choice.end() if choice else 0)
    if unasked or any(pattern.search(content) for pattern in (_LINK, _COMMAND, around("condition"))):
        return True
    about = choice or around("say").match(words) or _ABOUT_USER.match(words)
    return kind is NodeType.PREFERENCE and (not about or around("further").search(words) is not None)
