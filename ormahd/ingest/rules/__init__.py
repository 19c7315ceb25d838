"""Find memories in a conversation by rules: what a person says is to be remembered, decided, preferred or wrong.

English, German, Spanish, French; a language is a file in `words/`. Precision before recall: a sentence that needs the conversation to be
understood, or that holds for the moment only, is no memory. Only what the person wrote counts. Pure, and linear in the length of the turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Final

from ormahd.ingest.candidate import MemoryCandidate
from ormahd.ingest.readers.turns import SessionTurn
from ormahd.ingest.rules.matching import found, item, listed
from ormahd.ingest.rules.phrases import LANGUAGES, load
from ormahd.ingest.rules.prose import SaidSentence, sentences

CONFIDENCE: Final = 0.6
"""Confidence of a memory that a rule found."""


def candidates(turns: Sequence[SessionTurn], *, today: datetime) -> list[MemoryCandidate]:
    """Return the memories that a person states in a session. `today`: the day of turns that have no time."""
    memories: dict[str, MemoryCandidate] = {}
    for turn in turns:
        if turn.role != "user":
            continue
        day, before, listing = _day(turn, today), "", ""
        for sentence in sentences(turn.text):
            if _guarded("playing", sentence):
                return list(memories.values())  # what is said in a role play is no memory, and nobody says when it ends
            if _guarded("writing", sentence):
                break  # the text that is to be written follows
            if not (sentence.item and listing):
                listing = listed(sentence)
                if listing:
                    continue
            for memory in item(sentence, listing, day) if listing else found(sentence, before, day):
                candidate = MemoryCandidate(
                    memory.type, memory.title, memory.content, CONFIDENCE, (turn.key,),
                    about_self=memory.about_self, corrects=memory.corrects,
                )  # fmt: skip
                memories.setdefault(memory.content.lower(), candidate)
            before = sentence.text
    return list(memories.values())


def _day(turn: SessionTurn, today: datetime) -> date:
    if turn.time is None:
        return today.date()
    return datetime.fromisoformat(turn.time).astimezone(today.tzinfo or UTC).date()


def _guarded(name: str, sentence: SaidSentence) -> bool:
    return any(load(language).guards[name].search(sentence.plain) for language in LANGUAGES)
