"""Analyse a prompt. `early` rejects one that asks nothing, before anything is embedded: for example one that only
acknowledges, thanks or greets, or a short order such as "commit it" (`phrases.txt`). `hear` finds its kinds, search text, period and topic.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np
from msgspec import Struct

from ormahd.embedding.reading import READABLE
from ormahd.note.values import short_name
from ormahd.search.gather import subject, topics
from ormahd.text.harness import Author, read, unwrapped
from ormahd.text.times import Period, find_period
from ormahd.text.words import FUNCTION_WORDS, fold, stems, words
from ormahd.whisper.intents import FIRST_PERSON, Archetypes, Embed, Embedded, classify, resumes
from ormahd.whisper.types import Asked, Before, Float, Heard, Intent, Silence

INTENT_COSINE: Final = 0.55
"""Minimum cosine between a prompt and an example at which the prompt is of the example's kind."""
MOST_WORDS: Final = 24
"""Maximum number of words (or Chinese, Japanese, Korean characters) of a prompt that can be a mere acknowledgement."""

_SIGNS = "\u0e01-\u0e4f\u3005\u3041-\u30ff\u3131-\u318e\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3"
"""Scripts whose phrases are compared character by character, because spaces between words are optional."""
_TOKENS = re.compile(rf"[{_SIGNS}]|[^\W_{_SIGNS}]+")

Words = tuple[str, ...]
Sequence = tuple["str | Choice", ...]
"""A phrase from `phrases.txt`: words and choices, in order."""


class Choice(Struct, frozen=True):
    """Alternatives in a phrase: one of `options` must match. With an empty option, all of them may be left out."""

    options: tuple[Sequence, ...]


GREETING, ORDER = 1, 2
"""What a phrase is, as flags: marked by ^ or ! in `phrases.txt`."""


def acknowledges(text: str, *, orders: bool = True) -> bool:
    """Return whether a text consists only of phrases from `phrases.txt`; punctuation is ignored.

    It does not, if it has an order behind a greeting: that begins the work. `orders`: whether other orders do.
    """
    words = tokens(text, MOST_WORDS + 1)
    if not words or len(words) > MOST_WORDS:
        return False
    reached = {(0, 0)}
    for start in range(len(words)):
        for flags in [flags for at, flags in reached if at == start]:
            for phrase, kind in _phrases().get(words[start], ()):
                if not (kind == ORDER and (flags & GREETING or not orders)):
                    reached |= {(end, flags | kind) for end in _ends(phrase, words, start)}
    return any(at == len(words) for at, _ in reached)


def tokens(text: str, most: int) -> Words:
    """Return the first `most` words of a text in the form in which phrases are compared: folded, without
    apostrophes."""
    folded = fold(text[: most * 40]).replace("'", "")
    return tuple(found[0] for found in islice(_TOKENS.finditer(folded), most))


def _ends(phrase: Sequence, words: Words, start: int) -> set[int]:
    """Return the positions in `words` where the phrase can end if it begins at `start`; none if it does not match."""
    places = {start}
    for part in phrase:
        if isinstance(part, str):
            places = {at + 1 for at in places if at < len(words) and words[at] == part}
        else:
            places = {end for at in places for option in part.options for end in _ends(option, words, at)}
        if not places:
            break
    return places


@cache
def _phrases() -> dict[str, list[tuple[Sequence, int]]]:
    """Return `{word: phrases that may begin with it, each with its flag}`, read from `phrases.txt`."""
    found: dict[str, list[tuple[Sequence, int]]] = {}
    for line in Path(__file__).with_name("phrases.txt").read_text("utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            for template in line.split(","):
                phrase = _sequence(template.strip().lstrip("^!"))
                kind = {"^": GREETING, "!": ORDER}.get(template.strip()[:1], 0)
                for word in _beginnings(phrase):
                    found.setdefault(word, []).append((phrase, kind))
    return found


def _beginnings(phrase: Sequence) -> set[str]:
    """Return the words that a phrase may begin with; includes "" if the phrase may be empty."""
    found = {""}
    for part in phrase:
        first = {part} if isinstance(part, str) else {word for option in part.options for word in _beginnings(option)}
        found = (found - {""}) | first
        if "" not in first:
            break
    return found


def _sequence(template: str) -> Sequence:
    parts: list[str | Choice] = []
    for part in _parts(template):
        if part[0] in "[(":
            options = tuple(_sequence(one) for one in _alternatives(part[1:-1]))
            parts.append(Choice(((), *options) if part[0] == "[" else options))
        else:
            parts.extend(tokens(part, MOST_WORDS))
    return tuple(parts)


def _parts(template: str) -> Iterator[str]:
    """Yield the parts of a phrase in `phrases.txt`: text outside of brackets, and brackets with their contents."""
    start = depth = 0
    for at, sign in enumerate(template):
        if sign in "[(":
            if depth == 0 and template[start:at].strip():
                yield template[start:at].strip()
            start = at if depth == 0 else start
            depth += 1
        elif sign in "])":
            depth -= 1
            if depth == 0:
                yield template[start : at + 1]
                start = at + 1
    if template[start:].strip():
        yield template[start:].strip()


def _alternatives(inner: str) -> Iterator[str]:
    """Yield the parts of `inner` between `|` signs, except those within inner brackets."""
    start = depth = 0
    for at, sign in enumerate(inner):
        depth += (sign in "[(") - (sign in "])")
        if sign == "|" and depth == 0:
            yield inner[start:at]
            start = at + 1
    yield inner[start:]


FEWEST: Final = 3
"""Minimum number of letters and digits of a prompt, in every script; a shorter one gets no whisper. Two Chinese
characters may be a word, but as a prompt they usually mean "yes". Spacing vowel signs count (Hindi "गिट" has three);
accents do not."""
WINDOW: Final = timedelta(days=3)
"""How far back memories are searched for a prompt such as "where were we?"."""
EARLIER: Final = 2
"""Number of earlier prompts that are added to a follow-up's search text."""
EARLIER_CHARACTERS: Final = 400
"""Maximum number of characters of each earlier prompt, so that the search text fits into the model's window."""
EMPTY_WORDS: Final = frozenset(
    [
        *("get", "give", "got", "know", "like", "make", "need", "ok", "okay", "one", "ones", "please", "show", "tell"),
        *("thanks", "thing", "things", "use", "want", "way", "yes"),
    ]
)
"""Words that say nothing about a topic. A memory that has only these in common with a prompt is not relevant for
that."""
LEANING_WORDS: Final = 7
"""Maximum number of words of a prompt that may depend on the previous one. A longer prompt states its own topic."""
_ABOUT: Final = re.compile(r"\W*(?:(?:and|but|so|ok|then)\W+)*(?:what|how) about\b")
PHRASE_WORDS: Final = 10
"""Maximum number of words, besides those of the period, of a prompt that only asks for a time ("what did we do
yesterday")."""


def clean(prompt: str, harness: str | None = None) -> str:
    """Return the part of a prompt that the person wrote. Never raises.

    Text that Ormah injected, the harness's tags, control characters and unpaired surrogates are removed. Of a huge
    prompt only the beginning and the end are kept.
    """
    return unwrapped(read(prompt, harness).text)


def early(prompt: str, harness: str | None = None) -> Silence | None:
    """Return the reason for silence that the text alone shows; None if the prompt must be processed further. Never
    raises."""
    found = read(prompt, harness)
    if found.author is Author.MACHINE:
        return Silence.MACHINE
    if found.author is Author.COMMAND:
        return Silence.COMMAND
    text = unwrapped(found.text)
    if not text:
        return Silence.EMPTY
    if _short(text):
        return Silence.SHORT
    if acknowledges(text, orders=False):
        return Silence.ACKNOWLEDGEMENT
    return Silence.ORDER if acknowledges(text) else None


def hear(asked: Asked, before: Before, *, embed: Embed, archetypes: Archetypes, now: datetime) -> Heard:
    """Analyse a prompt that `early` did not reject.

    The search text is the prompt. For a follow-up, earlier prompts are added; if the prompt asks for a period, the
    words of the period are removed. Without a usable vector the kinds are found by the prompt's words alone.
    """
    prompt = clean(asked.prompt, asked.harness)
    found = embed(prompt)
    vector = _vector(found)
    read = is_read(prompt, embed)  # else it would resemble every example, or none
    scores = archetypes.scores(vector) if vector is not None and read else None
    period = find_period(prompt, now)
    intents = _kinds(prompt, scores, period, before)
    follow_up = bool(before.recent) and Intent.CONTINUATION in intents
    after = until = None
    if (
        not before.recent
        and Intent.CONTINUATION in intents
        and vector is not None
        and read
        and resumes(prompt, vector, archetypes)
    ):
        # "where were we?" at the beginning of a session: only the newest memories can answer it
        intents |= {Intent.TEMPORAL}
        after = now - WINDOW
    query = prompt
    if follow_up:
        by_words = scores is None or scores[Intent.CONTINUATION] < INTENT_COSINE
        # Half of the topic of "and in production?" is in the previous prompt. Two earlier prompts would outweigh it.
        query = "\n".join([*_earlier(before, 1 if by_words and topics(prompt) else EARLIER), prompt])
    if Intent.TEMPORAL in intents and period is not None:  # without a recognised period there is no window
        after, until = period.after, period.before
        query = period.rest if words(period.rest) else prompt
    return Heard(
        prompt=prompt,
        intents=intents,
        vector=vector,
        query=query,
        follow_up=follow_up,
        after=after,
        before=until,
        scores={kind.value: round(score, 4) for kind, score in (scores or {}).items()},
    )


def _kinds(prompt: str, scores: dict[Intent, float] | None, period: Period | None, before: Before) -> frozenset[Intent]:
    """Return the kinds of a prompt: by `scores`, or by its words if there are none or they are below `INTENT_COSINE`.

    `scores`: `{kind: largest cosine with one of its examples}`.
    """
    kinds = classify(scores, prompt, INTENT_COSINE) if scores is not None else frozenset({Intent.GENERAL})
    if kinds != {Intent.GENERAL}:
        return kinds
    if period is not None and len(words(period.rest)) <= PHRASE_WORDS and not subject(period.rest):
        return frozenset({Intent.TEMPORAL})
    if before.recent and _leans(prompt):
        return frozenset({Intent.CONTINUATION})
    return kinds


def _leans(prompt: str) -> bool:
    """Return whether a prompt depends on the previous one: "what about the first one?", "how does it do that?"."""
    said = words(prompt[:200])
    if len(said) > LEANING_WORDS or FIRST_PERSON.intersection(said):
        return False
    return bool(_ABOUT.match(fold(prompt))) or not topics(prompt)


def topic(text: str, space: str | None) -> frozenset[str]:
    """Return the stems of the words that say what a text is about (`topical_words`)."""
    return stems(topical_words(text, space))


def topical_words(text: str, space: str | None) -> list[str]:
    """Return the words of a text that say what it is about.

    Function words, words such as "thing" (`EMPTY_WORDS`), single ASCII letters and the name of the space are left out.
    """
    folded = fold(text)
    names = {fold(name).strip() for name in (space, short_name(space))} if space else set()
    for name in sorted(names - {""}, key=len, reverse=True):
        folded = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", " ", folded)
    said = (word for word in words(folded) if word not in FUNCTION_WORDS and word not in EMPTY_WORDS)
    return [word for word in said if len(word) > 1 or not word.isascii()]


def _short(text: str) -> bool:
    found = 0
    for character in unicodedata.normalize("NFC", text[:10_000]):
        if unicodedata.category(character)[0] in "LN" or unicodedata.category(character) == "Mc":
            found += 1
            if found == FEWEST:
                return False
    return True


def _vector(found: Embedded | None) -> Float | None:
    if found is None or not np.isfinite(found.vector).all() or not found.vector.any():
        return None
    return found.vector


def is_read(prompt: str, embed: Embed) -> bool:
    """Return whether the embedding model knows the language of a prompt; True while no model is loaded."""
    found = embed(prompt)
    return found is None or found.read >= READABLE


def _earlier(before: Before, count: int) -> list[str]:
    """Return the last `count` stored prompts that `early` does not reject, shortened."""
    said = [one.text for one in before.recent or () if early(one.text) is None]
    return [text[:EARLIER_CHARACTERS] for text in said[-count:]]
