"""Analyse a prompt, and decide by its kind and topic whether it gets a whisper at all.

`early_silence` rejects a prompt that asks nothing, before anything is embedded: for example one that only acknowledges,
thanks or greets, or a short order such as "commit it" (`phrases.txt`). `analyse` finds its kinds, search text, period
and topic; `topic_silence` rejects mere conversation, and a topic for which memories were whispered already.
"""

from __future__ import annotations

import re
import threading
import tomllib
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import cache
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import Final, Protocol

import numpy as np
from msgspec import Struct

from ormahd.embedding.reading import READABLE
from ormahd.note.values import short_name
from ormahd.search.gather import subject_words, topic_words
from ormahd.text.harness import Author, read_prompt, without_wrapping
from ormahd.text.times import Period, find_period
from ormahd.text.words import FUNCTION_WORDS, fold, stems, words
from ormahd.whisper.types import Analysis, Asked, Before, Float, Intent, Silence

INTENT_COSINE: Final = 0.55
"""Minimum cosine between a prompt and an example at which the prompt is of the example's kind."""
MAX_WORDS: Final = 24
"""Maximum number of words (or Chinese, Japanese, Korean characters) of a prompt that can be a mere acknowledgement."""
MIN_CHARACTERS: Final = 3
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
SAME_TOPIC: Final = 0.75
"""Cosine with the session's last prompts from which a prompt has the same topic."""
CENTRE: Final = 3
"""Number of earlier prompts whose mean vector represents the session's topic."""
ARCHETYPES: Final[Mapping[Intent, tuple[str, ...]]] = {
    Intent(kind): tuple(examples)
    for kind, examples in tomllib.loads(
        resources.files(__package__).joinpath("intents.toml").read_text("utf-8")
    ).items()
}
"""Kind -> examples. A prompt that is nearest to a general example is of no other kind. The first `RESUME` examples of
continuation ask to resume; the others make sense only after an earlier prompt."""

RESUME: Final = 6
"""Number of the first examples of `Intent.CONTINUATION` that ask to resume ("where were we?")."""
FIRST_PERSON: Final = frozenset({"i", "me", "mine", "my", "myself", "user"})
MARGIN: Final = 0.15
"""Maximum difference between the cosine of a conversational prompt and that of another kind at which the prompt is
of the other kind instead."""
POLITE: Final = 0.3
"""Minimum cosine with a conversational example for `is_small_talk`."""

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

    An order after a greeting is not accepted, because it begins the work. `orders`: whether other orders are accepted.
    """
    words = phrase_words(text, MAX_WORDS + 1)
    if not words or len(words) > MAX_WORDS:
        return False
    reached = {(0, 0)}
    for start in range(len(words)):
        for flags in [flags for at, flags in reached if at == start]:
            for phrase, kind in _phrases().get(words[start], ()):
                if not (kind == ORDER and (flags & GREETING or not orders)):
                    reached |= {(end, flags | kind) for end in _match_ends(phrase, words, start)}
    return any(at == len(words) for at, _ in reached)


def phrase_words(text: str, limit: int) -> Words:
    """Return the first `limit` words of a text in the form in which phrases are compared: folded, without
    apostrophes."""
    folded = fold(text[: limit * 40]).replace("'", "")
    return tuple(found[0] for found in islice(_TOKENS.finditer(folded), limit))


def _match_ends(phrase: Sequence, words: Words, start: int) -> set[int]:
    """Return the positions in `words` where the phrase can end if it begins at `start`; none if it does not match."""
    places = {start}
    for part in phrase:
        if isinstance(part, str):
            places = {at + 1 for at in places if at < len(words) and words[at] == part}
        else:
            places = {end for at in places for option in part.options for end in _match_ends(option, words, at)}
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
                phrase = _parse_phrase(template.strip().lstrip("^!"))
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


def _parse_phrase(template: str) -> Sequence:
    """Return a phrase of `phrases.txt` as words and choices. `template`: the phrase as written there, without its
    flag."""
    parts: list[str | Choice] = []
    for part in _template_parts(template):
        if part[0] in "[(":
            options = tuple(_parse_phrase(option) for option in _alternatives(part[1:-1]))
            parts.append(Choice(((), *options) if part[0] == "[" else options))
        else:
            parts.extend(phrase_words(part, MAX_WORDS))
    return tuple(parts)


def _template_parts(template: str) -> Iterator[str]:
    """Yield the parts of a phrase in `phrases.txt`: text outside of brackets, and brackets with what they enclose."""
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
    """Yield the parts of `inner` between `|` signs. Signs within inner brackets do not separate."""
    start = depth = 0
    for at, sign in enumerate(inner):
        depth += (sign in "[(") - (sign in "])")
        if sign == "|" and depth == 0:
            yield inner[start:at]
            start = at + 1
    yield inner[start:]


def typed_text(prompt: str, harness: str | None = None) -> str:
    """Return the part of a prompt that the person wrote. Never raises.

    Text that Ormah injected, the harness's tags, control characters and unpaired surrogates are removed. Of a huge
    prompt only the beginning and the end are kept.
    """
    return without_wrapping(read_prompt(prompt, harness).text)


def early_silence(prompt: str, harness: str | None = None) -> Silence | None:
    """Return the reason for silence that the text alone shows; None if the prompt must be analysed. Never raises."""
    found = read_prompt(prompt, harness)
    if found.author is Author.MACHINE:
        return Silence.MACHINE
    if found.author is Author.COMMAND:
        return Silence.COMMAND
    text = without_wrapping(found.text)
    if not text:
        return Silence.EMPTY
    if _is_short(text):
        return Silence.SHORT
    if acknowledges(text, orders=False):
        return Silence.ACKNOWLEDGEMENT
    return Silence.ORDER if acknowledges(text) else None


def analyse(asked: Asked, before: Before, *, embed: Embed, archetypes: Archetypes, now: datetime) -> Analysis:
    """Return the analysis of a prompt that `early_silence` did not reject.

    The search text is the prompt. For a follow-up, earlier prompts are added. If the prompt asks for a period, the
    words of the period are removed. Without a usable vector, only the prompt's words show its kinds.
    """
    # the prompt's vector, and its kinds
    prompt = typed_text(asked.prompt, asked.harness)
    embedded = embed(prompt)
    vector = None
    if embedded is not None and np.isfinite(embedded.vector).all() and embedded.vector.any():
        vector = embedded.vector
    read = is_readable(prompt, embed)  # else it would resemble every example, or none
    scores = archetypes.scores(vector) if vector is not None and read else None
    period = find_period(prompt, now)
    intents = _kinds(prompt, scores, period, before)

    # the period in which memories are searched, from `after` to `until`
    after = until = None
    resuming = not before.recent and Intent.CONTINUATION in intents and vector is not None and read
    if vector is not None and resuming and asks_to_resume(prompt, vector, archetypes):
        # "where were we?" at the beginning of a session: only the newest memories can answer it
        intents |= {Intent.TEMPORAL}
        after = now - WINDOW

    # the search text
    query = prompt
    follow_up = bool(before.recent) and Intent.CONTINUATION in intents
    if follow_up:
        by_words = scores is None or scores[Intent.CONTINUATION] < INTENT_COSINE
        # Half of the topic of "and in production?" is in the previous prompt. Two earlier prompts would outweigh it.
        count = 1 if by_words and topic_words(prompt) else EARLIER
        earlier = [stored.text for stored in before.recent or () if early_silence(stored.text) is None]
        query = "\n".join([*(text[:EARLIER_CHARACTERS] for text in earlier[-count:]), prompt])
    if Intent.TEMPORAL in intents and period is not None:  # without a recognised period there is no window
        after, until = period.after, period.before
        query = period.rest if words(period.rest) else prompt
    return Analysis(
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
    """Return the kinds of a prompt: by `scores`, or by its words if no score reaches `INTENT_COSINE`, or there are
    none.

    `scores`: `{kind: largest cosine with one of its examples}`. `period`: the period that the prompt names.
    """
    kinds = classify(scores, prompt, INTENT_COSINE) if scores is not None else frozenset({Intent.GENERAL})
    if kinds != {Intent.GENERAL}:
        return kinds
    if period is not None and len(words(period.rest)) <= PHRASE_WORDS and not subject_words(period.rest):
        return frozenset({Intent.TEMPORAL})
    # it depends on the previous prompt: "what about the first one?", "how does it do that?"
    first = words(prompt[:200])
    short = len(first) <= LEANING_WORDS and not FIRST_PERSON.intersection(first)
    if before.recent and short and (_ABOUT.match(fold(prompt)) or not topic_words(prompt)):
        return frozenset({Intent.CONTINUATION})
    return kinds


def topic_silence(analysis: Analysis, before: Before) -> Silence | None:
    """Return the reason for silence if the prompt is only conversational, or has the same topic as before; else None.

    A topic counts as the same only if memories were already whispered for it in this session. Without a session id no
    earlier prompts are known, so the topic is always new.
    """
    if analysis.intents == {Intent.CONVERSATIONAL}:
        return Silence.CONVERSATIONAL
    vector = analysis.vector
    if analysis.follow_up or vector is None:
        return None
    comparable = [
        (earlier.vector, earlier.answered)
        for earlier in before.recent or ()
        if earlier.vector is not None and earlier.vector.shape == vector.shape
    ]
    if not comparable:
        return None
    centre = np.mean([earlier for earlier, _ in comparable[-CENTRE:]], axis=0)
    same = _cosine(vector, centre) > SAME_TOPIC and any(
        answered and _cosine(earlier, vector) >= SAME_TOPIC for earlier, answered in comparable
    )
    return Silence.SAME_TOPIC if same else None


def _cosine(a: Float, b: Float) -> float:
    """Return the cosine; 0 if a vector is zero."""
    length = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / length if length > 0 else 0.0


def topic_stems(text: str, space: str | None) -> frozenset[str]:
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
    topical = (word for word in words(folded) if word not in FUNCTION_WORDS and word not in EMPTY_WORDS)
    return [word for word in topical if len(word) > 1 or not word.isascii()]


def _is_short(text: str) -> bool:
    """Return whether a text has fewer than `MIN_CHARACTERS` letters and digits."""
    found = 0
    for character in unicodedata.normalize("NFC", text[:10_000]):
        if unicodedata.category(character)[0] in "LN" or unicodedata.category(character) == "Mc":
            found += 1
            if found == MIN_CHARACTERS:
                return False
    return True


def is_readable(prompt: str, embed: Embed) -> bool:
    """Return whether the embedding model knows the language of a prompt; True while no model is loaded."""
    found = embed(prompt)
    return found is None or found.read >= READABLE


# ---------------------------------------------------------------- the kinds of prompts


class Embedded(Protocol):
    """What `analyse` needs of a text's vectors: `vector`, and `read`, the share of the text that the model knows."""

    @property
    def vector(self) -> Float: ...
    @property
    def read(self) -> float: ...


Embed = Callable[[str], Embedded | None]


class Archetypes:
    """Embeds the example prompts of each intent, and compares prompts with them. Thread-safe.

    The examples are embedded at first use or by `warm`, and again if the model's dimensions change.
    """

    def __init__(self, embed: Embed) -> None:
        self._embed = embed
        self._lock = threading.Lock()
        self._vectors: dict[Intent, Float] | None = None

    def warm(self) -> bool:
        """Embed the examples. Return whether that succeeded; it fails while the model is not loaded."""
        return self._get(None) is not None

    def scores(self, vector: Float) -> dict[Intent, float] | None:
        """Return each kind's largest cosine with one of its examples; None while the model is not loaded."""
        vectors = self._get(len(vector))
        return None if vectors is None else {kind: float((rows @ vector).max()) for kind, rows in vectors.items()}

    def nearest(self, kind: Intent, vector: Float) -> int | None:
        """Return the index of the nearest example of this kind; None while the model is not loaded."""
        vectors = self._get(len(vector))
        return None if vectors is None else int((vectors[kind] @ vector).argmax())

    def _get(self, dimensions: int | None) -> dict[Intent, Float] | None:
        """Return `{kind: unit vectors of its examples}` for a model with these dimensions; None while the model is not
        loaded.

        `dimensions`: number of dimensions of the vectors; None: any.
        """
        known = self._vectors
        if known is not None and dimensions in {None, known[Intent.TEMPORAL].shape[1]}:
            return known
        with self._lock:
            known = self._vectors
            if known is not None and dimensions in {None, known[Intent.TEMPORAL].shape[1]}:
                return known
            made: dict[Intent, Float] = {}
            for kind, sentences in ARCHETYPES.items():
                found = [self._embed(sentence) for sentence in sentences]
                rows = [embedded.vector for embedded in found if embedded is not None]
                if len(rows) < len(sentences) or dimensions not in {None, len(rows[0])}:
                    return None
                made[kind] = np.asarray(rows, np.float32)
            self._vectors = made
            return made


def is_small_talk(vector: Float, archetypes: Archetypes) -> bool:
    """Return whether a prompt is mere conversation: its nearest example is conversational, with a cosine of at least
    `POLITE`.

    Fewer prompts are classified so (`INTENT_COSINE`). A review does not ask whether a memory would have helped with
    such a prompt.
    """
    scores = archetypes.scores(vector)
    return (
        scores is not None
        and max(scores, key=scores.__getitem__) is Intent.CONVERSATIONAL
        and scores[Intent.CONVERSATIONAL] >= POLITE
    )


def asks_to_resume(prompt: str, vector: Float, archetypes: Archetypes) -> bool:
    """Return whether a prompt such as "where were we?" asks to resume without naming a topic."""
    nearest = archetypes.nearest(Intent.CONTINUATION, vector)
    return nearest is not None and nearest < RESUME and topic_words(prompt) <= _resuming_words()


@cache
def _resuming_words() -> frozenset[str]:
    """Return all words of the examples that ask to resume."""
    return frozenset(word for sentence in ARCHETYPES[Intent.CONTINUATION][:RESUME] for word in words(sentence))


def classify(scores: Mapping[Intent, float], prompt: str, threshold: float) -> frozenset[Intent]:
    """Return the intents whose score reaches both `threshold` and the score of GENERAL; GENERAL if none does.

    - IDENTITY requires a word of the first person, because otherwise the prompt asks about another person.
    - CONVERSATIONAL is left out beside another intent that is within `MARGIN`; otherwise it is the only result.
    - CONTINUATION is left out beside IDENTITY.
    """
    floor = max(threshold, scores[Intent.GENERAL])
    found: set[Intent] = {kind for kind, score in scores.items() if score >= floor} - {Intent.GENERAL}
    if Intent.IDENTITY in found and not FIRST_PERSON.intersection(words(prompt[:1_000])):
        found.discard(Intent.IDENTITY)
    others = found - {Intent.CONVERSATIONAL}
    if Intent.CONVERSATIONAL in found and others:
        if max(scores[kind] for kind in others) < scores[Intent.CONVERSATIONAL] - MARGIN:
            return frozenset({Intent.CONVERSATIONAL})
        found = others
    if Intent.IDENTITY in found:
        found.discard(Intent.CONTINUATION)
    return frozenset(found or {Intent.GENERAL})
