"""Turns a sentence in which the person asks for something to be kept into a memory that can be read alone. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from typing import Final

from msgspec import Struct, structs

from ormahd.ingest.rules.dates import absolute
from ormahd.ingest.rules.language import RuleLanguage
from ormahd.model.node import NodeType

TITLE: Final = 70
"""Maximum number of characters of a title."""
LEAST: Final = 3
"""Minimum number of words of a statement, and number of its first words of which none may refer to something said
before."""
_WORD: Final = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")
_QUOTES: Final = re.compile('["“”„«»]')
_OWN_END: Final = re.compile(r"[,;:(]| [–—-] ")


class FoundMemory(Struct, frozen=True):
    """A memory that a sentence states. `asked`: whether the sentence asks to remember it, instead of only stating a
    rule, a decision or something about the person. `lasting`: whether it holds from that day on."""

    type: NodeType
    content: str
    about_self: bool = False
    asked: bool = False
    lasting: bool = False
    title: str = ""
    because: str = ""
    """Why what it tells of was tried and rejected; "" if it was not."""


def memories_in(text: str, before: str, speech: RuleLanguage, day: date, *, alone: bool) -> Iterator[FoundMemory]:
    """Yield the memories that a sentence states. `before`: the previous sentence, to which "Remember that." refers.
    `speech`: the words of its language. `day`: the day on which the sentence was said. `alone`: whether it is a prompt
    of its own."""
    if (rejected := _rejected(text, before, speech)) is not None:
        yield _finished(rejected, speech, day)
        return
    for part in speech.lists["joins"].split(bare(text, speech)):
        memories = list(_memories_in(part, before, speech, alone=alone, open_end=text.endswith(("?", "..", "…"))))
        yield from (_finished(memory, speech, day) for memory in memories)
        if not memories:
            return  # the sentence does not begin with what the person states


def memories_of_item(text: str, speech: RuleLanguage, day: date) -> Iterator[FoundMemory]:
    """Yield the memory that an item of a list states, which the person asked to remember; none if it cannot be
    understood alone."""
    return (_finished(memory, speech, day) for memory in _stated(text, speech))


def bare(text: str, speech: RuleLanguage) -> str:
    """Return a text without leading words such as "ok", courtesies and the punctuation at its end."""
    text = text.strip(" ,:–—-")
    tail = speech.lists["tails"].search(text.rstrip(" .!?…,;:–—-"))
    text = text[: tail.start()] if tail else text
    lead = speech.lists["leads"].match(text)
    return text[lead.end() if lead else 0 :].rstrip(" .!?,;:")


def _rejected(text: str, before: str, speech: RuleLanguage) -> FoundMemory | None:
    """Return the memory of something that was tried and rejected; None if the sentence does not say that, alone or
    together with the sentence before."""
    now = _cut(bare(text, speech), speech)
    if text.endswith("?"):
        return None
    for sentence in (now, f"{bare(before, speech)}. {now}") if before else (now,):
        for pattern in speech.rejected:
            if (found := pattern.fullmatch(sentence)) and _is_complete(found["thing"], speech, least=1):
                return FoundMemory(NodeType.OBSERVATION, sentence, because=found["because"].strip())
    return None


def _memories_in(text: str, before: str, speech: RuleLanguage, *, alone: bool, open_end: bool) -> Iterator[FoundMemory]:
    """Yield the memories that a part of a sentence states, without the finish that `_finished` gives them. `open_end`:
    whether the sentence is a question or trails off; it then states nothing, unless it asks to remember something."""
    # In order: "… remember that" at the end; "remember that …"; a rule from now on; a rule; a decision; a statement about
    # the person.
    lists = speech.lists
    if end := lists["behind"].search(text):
        yield from _stated(text[: end.start()] or before, speech)
    elif (keep := lists["keep"].match(text)) and (not open_end or lists["ask"].match(text)):
        for clause in lists["clauses"].split(text[keep.end() :]):
            yield from _stated(clause, speech, clause_of=text if keep[0].lower().endswith("dass") else "")
    elif open_end:
        return
    elif lasting := lists["lasting"].match(text) or lists["lastly"].search(text):
        rest = _cut(bare(text[: lasting.start()] or text[lasting.end() :], speech), speech, "aside")
        if (kind := _type_of(rest, speech)) and _is_complete(rest, speech, least=2):
            yield FoundMemory(kind, _reported(rest, speech), lasting=True)
    elif lists["always"].match(text):
        text = _cut(text, speech, "aside")
        if (alone or lists["scope"].search(text)) and _is_complete(lists["here"].sub("", text), speech, least=2):
            yield FoundMemory(NodeType.PREFERENCE, _reported(lists["here"].sub(speech.file["place"], text), speech))
    elif decided := lists["decided"].match(text):
        rest = _cut(text, speech)[decided.end() :]
        is_passing = any(lists[name].search(rest) for name in ("first", "soon", "tentative"))
        if _is_complete(rest, speech, least=1) and not is_passing:
            yield FoundMemory(NodeType.DECISION, _cut(text, speech))
    elif not lists["tentative"].search(text):
        yield from _about_themselves(text, speech)


def _stated(text: str, speech: RuleLanguage, clause_of: str = "") -> Iterator[FoundMemory]:
    """Yield the memory of a statement that the person asked to keep. `clause_of`: the whole sentence, if the statement
    is a clause with its verb at the end, as after the German "dass"."""
    text = _cut(bare(text, speech), speech)
    lists, own = speech.lists, next(_about_themselves(text, speech), None)
    if own is not None:
        yield structs.replace(own, asked=True)
    elif _is_complete(text, speech):
        kind = _type_of(text, speech) or NodeType.FACT
        sentence = text
        if clause_of:
            sentence = clause_of if lists["first"].search(text) else speech.file["reported"].format(text)
        about_self = lists["first"].match(text) is not None
        yield FoundMemory(kind, _reported(sentence, speech), asked=True, about_self=about_self)


def _type_of(text: str, speech: RuleLanguage) -> NodeType | None:
    """Return decision for a decision or a rule of the project, preference for an order to the agent, else None."""
    if any(speech.lists[name].match(text) for name in ("decided", "rule")):
        return NodeType.DECISION
    return NodeType.PREFERENCE if any(speech.lists[name].match(text) for name in ("always", "instruction")) else None


def _about_themselves(text: str, speech: RuleLanguage) -> Iterator[FoundMemory]:
    """Yield the memory of a statement of the person about themselves; none if it is no such statement, or does not
    last."""
    for pattern, tells, kind in speech.own:
        if match := pattern.match(text):
            taste = kind is NodeType.PREFERENCE
            rest = _OWN_END.split(text[match.end() :].strip())[0]
            rest = _cut(text, speech, "aside")[match.end() :].strip() if taste else rest
            passing = speech.lists["yours" if taste else "today"].search(rest) or speech.lists["back"].search(text)
            if not passing and _is_complete(rest, speech, least=1):
                sentence = _reported(f"{tells} {rest}", speech)
                plain = sentence.startswith(tells) and (taste or not speech.lists["join"].search(rest))
                yield FoundMemory(kind, sentence if plain else _reported(_cut(text, speech), speech), about_self=True)
            return


def _is_complete(text: str, speech: RuleLanguage, *, least: int = LEAST) -> bool:
    """Return whether a text is a complete statement that can be understood without the conversation, holds for longer
    than it, and has at least `least` words."""
    lists, words = speech.lists, _WORD.findall(text)
    return (
        len(words) >= least
        and (len(words) > 1 or len(words[0]) > 2)
        and not lists["open"].fullmatch(words[-1])
        and not any(map(lists["pointing"].fullmatch, (*words[:LEAST], words[-1])))
        and not any(lists[name].match(text.strip()) for name in ("pointing", "opening", "general", "bare"))
        and not any(lists[name].search(text) for name in ("points", "moment"))
        and not (_QUOTES.match(text.strip()) or len(_QUOTES.findall(text)) % 2)
    )


def _reported(text: str, speech: RuleLanguage) -> str:
    """Return a text in which the person is "the user". If other words of the first person remain, the text is
    quoted."""
    rewritten = text
    for word, instead in speech.file["alone"].items():
        rewritten = re.sub(rf"(?<![\w'-]){word}(?![\w'-])", instead, rewritten, flags=re.IGNORECASE)
    quoted: str = speech.file["said"].format(f"{text[:1].upper()}{text[1:]}.")
    return quoted if speech.lists["first"].search(rewritten) else rewritten


def _cut(text: str, speech: RuleLanguage, form: str = "cut") -> str:
    """Return a statement without a part that only concerns the work at hand: ", so remove the cron job". `form`: the
    list that matches the beginning of such a part; `aside` spares a part that says how the agent is to work from then
    on."""
    cut = speech.lists[form].search(text)
    return text[: cut.start()] if cut else text


def _finished(memory: FoundMemory, speech: RuleLanguage, day: date) -> FoundMemory:
    """Return a memory with absolute dates, a title and a full stop. A preference that quotes the person is about the
    person, unless it says where it holds."""
    file, recurring = speech.file, memory.type is NodeType.PREFERENCE
    text = absolute(f"{memory.content[:1].upper()}{memory.content[1:]}", file["dates"], day, recurring=recurring)
    before, _, after = file["said"].partition("{}")
    title = text.removeprefix(before).replace(f".{after}", "").removeprefix(f"{file['user']} ").rstrip(' .!"”“»')
    if len(title) > TITLE:
        title = title[: title.rfind(" ", 0, TITLE)].rstrip(" ,;:") + "…"
    text = f"{text.removesuffix('.')} {file['since'].format(day.isoformat())}" if memory.lasting else text
    end = "" if text.endswith((".", "!", "”", '."', "»", "“")) else "."
    about_self = memory.about_self or (recurring and text.startswith(before) and not speech.lists["scope"].search(text))
    return structs.replace(memory, title=title[:1].upper() + title[1:], content=text + end, about_self=about_self)
