"""Finds memories in a conversation by rules: sentences in which the person asks to remember something, states a
decision, a preference or a fact, or corrects the agent.

Languages are English, German, Spanish and French; each is a file in `words/`. Precision comes before recall: a
sentence that cannot be understood without the conversation, or that holds for the moment only, is no memory. Only
what the person wrote counts. Pure functions, in time linear in the length of the turns.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime
from typing import Final

from ormahd.ingest.batches import MemoryCandidate
from ormahd.ingest.readers.turns import SessionTurn
from ormahd.ingest.rules.matching import found, item, listed
from ormahd.ingest.rules.phrases import LANGUAGES, load
from ormahd.ingest.rules.prose import SaidSentence, sentences

CONFIDENCE: Final = 0.6
"""The confidence of every memory that a rule finds."""


def candidates(turns: Iterable[SessionTurn], *, today: datetime) -> list[MemoryCandidate]:
    """Return the memories that the person's turns state. Relative days are counted from the date that a turn's time
    is written with. `today`: the date of a turn that has no time."""
    memories: dict[str, MemoryCandidate] = {}
    for turn in turns:
        if turn.role != "user":
            continue
        day, before, listing = _day(turn, today), "", ""
        for sentence in sentences(turn.text):
            if _guarded("playing", sentence):
                return list(memories.values())  # a role play begins, and nothing shows where it ends: read no further
            if _guarded("writing", sentence):
                break  # the rest of the turn is the subject or the draft of a text to be written
            if not (sentence.item and listing):
                listing = listed(sentence)
                if listing:
                    continue
            for memory in item(sentence, listing, day) if listing else found(sentence, before, day):
                candidate = MemoryCandidate(
                    memory.type, memory.title, memory.content, CONFIDENCE, (turn.key,),
                    about_self=memory.about_self, corrects=memory.corrects,
                )  # fmt: skip
                memories.pop(memory.content.lower(), None)  # said again: the last time counts
                memories[memory.content.lower()] = candidate
            before = sentence.text
    return list(memories.values())


def _day(turn: SessionTurn, today: datetime) -> date:
    if turn.time is None:
        return today.date()
    return datetime.fromisoformat(turn.time).date()


def _guarded(name: str, sentence: SaidSentence) -> bool:
    return any(load(language).guards[name].search(sentence.plain) for language in LANGUAGES)
