"""Finds memories in a conversation by rules: what the person asks outright to be kept ("remember that", "from now
on", "we decided", "I prefer"), in a prompt of its own or at its end.

Languages are English, German, Spanish and French; each is a file in `words/`. Precision comes before recall: a prompt
with pasted text, or one that says what a text is for, gives nothing. Only what the person wrote counts. Pure functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import date, datetime
from typing import Final

from ormahd.ingest.batches import MemoryCandidate
from ormahd.ingest.readers.turns import SessionTurn
from ormahd.ingest.readers.values import QUESTION
from ormahd.ingest.rules.language import LANGUAGES, around, load
from ormahd.ingest.rules.statement import FoundMemory, bare, memories_in, memories_of_item
from ormahd.model.node import NodeType

CONFIDENCE: Final = 0.6
"""The confidence of every memory that a rule finds."""
LONGEST: Final = 600
"""Maximum number of characters of a prompt that is read. Who states a rule or a decision needs fewer; a longer prompt
describes a task, or has pasted text in it."""
LINES: Final = 3
"""Maximum number of lines of such a prompt, but for a list that it asks to remember."""
SHORT: Final = 200
"""Maximum number of characters of a prompt that takes something back."""
_MARKS: Final = str.maketrans("’‘ʼ\u00a0\u202f\t", "'''   ")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_PASTED: Final = re.compile(
    r"```|~~~|(?<!\w)</?[a-z!][^<>\n]{0,200}>|\n\s*\n|^ *(?:[>|#$%+@{}\[]|---|//|/\*|\d{4}-\d\d-\d\d|\d\d?:\d\d)|[{};]$|\(\)|=>|==|&&|(?<![\w?&])[a-z] ?[<>=≤≥]=? ?[\w-]",
    re.IGNORECASE | re.MULTILINE,
)
"""Matches what a prompt of plain sentences does not have: code, quoted lines, tags, headings, logs, empty lines."""
_WRAPPED: Final = re.compile(r"(?<=[^.!?:;…\n]{30})\n *(?=[a-zà-ÿß0-9(])")
"""Matches a line end in the middle of a sentence."""
_ITEM: Final = re.compile(r" *(?:[-*•–]|\d{1,2}[.)])\s+")
_SPLIT: Final = re.compile(r"(?<![ .\d]\w\.)(?<!\bvs\.)(?<!\b[DMNS]r\.)(?<!\b\d\.)(?<!\b\d\d\.)(?<=[.!?…;])\s+")
"""Matches the space after a sentence, but not after an abbreviation or a German ordinal."""
_FOREIGN: Final = re.compile(r"[\"“”„«»]|:$|^[^\W\d_][\w .'()-]{0,30}:\s")
"""Matches a sentence that quotes, announces a text, or begins with the name of a speaker or a field."""


def candidates(turns: Iterable[SessionTurn], *, today: datetime, title: str = "") -> list[MemoryCandidate]:
    """Return the memories that the person's turns state. `today`: the date for a turn that has no time. `title`: the
    session's title, which may say that its turns are about a text to work on."""
    # `last`: the keys of the memories of the last prompt. `purpose`: whether the turns may be about a text to work on;
    # `titled`: whether that holds for the whole session.
    memories: dict[str, MemoryCandidate] = {}
    last: list[str] = []
    purpose = titled = around("purpose").search(title) is not None
    for message in turns:
        if message.role != "user":
            continue

        # A prompt may take back what the last one said.
        text = own_words(message.text)
        for content in last if takes_back(text) else ():
            memories.pop(content, None)
        last = []
        if around("play").search(text):
            purpose = titled = True  # a role play begins, and nothing shows where it ends
            continue

        # A statement is left out if it may be part of a text to work on, unless the person asks to remember it.
        day = datetime.fromisoformat(message.time) if message.time else today
        for memory in _memories_of_prompt(text, day.astimezone().date()):  # the day on the person's clock
            asked = memory.asked and not (titled and memory.type is NodeType.PREFERENCE)
            if asked or not purpose:
                last.append(memory.content.lower())
                memories.pop(last[-1], None)  # said again: the last time counts
                memories[last[-1]] = MemoryCandidate(
                    memory.type,
                    memory.title,
                    memory.content,
                    CONFIDENCE,
                    (message.key,),
                    about_self=memory.about_self,
                    because=memory.because,
                )
        purpose = titled or (not last and around("purpose").search(text) is not None)
    return list(memories.values())


def own_words(text: str) -> str:
    """Return a prompt with straight quotes and without the question that it answers. Of a longer prompt: the first
    `LONGEST` characters, with an empty line after them, by which `_PASTED` recognises it."""
    own = QUESTION.sub("\n", text).strip()[: 2 * LONGEST]
    text = _WRAPPED.sub(" ", _SURROGATE.sub("\ufffd", own.translate(_MARKS)))
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}\n\n…"


def takes_back(text: str) -> bool:
    """Return whether a prompt takes back what the person said in the prompt before."""
    retracted = around("retract").search(text) or around("halt").match(text)
    private = len(text) <= SHORT // 3 and around("private").search(text)
    return bool(retracted or private) and len(text) <= SHORT and not _PASTED.search(text)


def _memories_of_prompt(text: str, day: date) -> Iterator[FoundMemory]:
    """Yield the memories that a prompt states. What the person asks to remember may be anywhere in it, other statements
    only at its end. `day`: the date of the prompt."""
    lines = [(line, _ITEM.match(line)) for line in text.splitlines()]
    parts = [(part, mark) for line, mark in lines for part in _SPLIT.split(line[mark.end() if mark else 0 :].strip())]
    if _PASTED.search(text) or sum(not mark for _, mark in lines) > LINES:
        return
    if any(around(name).search(text) for name in ("private", "supposing", "retract", "joke")):
        return

    # Read the sentences. `listing`: the language of the phrase that announced a list of things to remember; "" for none.
    # `rest`: the last sentence that neither states nor announces anything.
    by_sentence: list[list[FoundMemory]] = []
    listing, rest, before = "", -1, ""
    for at, (sentence, bullet) in enumerate(parts):
        alone = len(parts) == 1 or (bullet is not None and listing != "")
        found_by_language = (list(memories_in(sentence, before, load(code), day, alone=alone)) for code in LANGUAGES)
        by_sentence.append(next(filter(None, found_by_language), []))
        before = sentence
        if bullet and listing:
            by_sentence[-1] = by_sentence[-1] or list(memories_of_item(sentence, load(listing), day))
            continue
        named = (code for code in LANGUAGES if load(code).lists["listing"].fullmatch(bare(sentence, load(code))))
        listing = next(named, "") if sentence.endswith(":") else ""
        courtesy = any(load(code).lists["tails"].fullmatch(f" {sentence.strip(' .!')}") for code in LANGUAGES)
        if not (by_sentence[-1] or listing or courtesy):
            if _FOREIGN.search(sentence) or around("purpose").search(sentence):
                return
            rest = max(rest, len(parts) if sentence.endswith("?") else at)  # it may ask about what follows

    # What the person did not ask to remember counts only after the last other sentence.
    for at, memories in enumerate(by_sentence):
        yield from (memory for memory in memories if memory.asked or memory.because or at > rest)
