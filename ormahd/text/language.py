"""Stems in other languages than English, for full text search. Snowball makes them.

FTS5 stems every word as English. For a note in another language, recognised by its script or function words, the
index also has that language's stems, each with a mark (`STEM`). A word of a query is looked up under its stems in all
languages of its script, so that the query's language need not be known. Notes in English have no such stems.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Any, Final

from ormahd.text.tables import tables

STEM: Final = "\uf8f3"
"""Mark that begins such a stem in the full text index."""
SHORTEST: Final = 3
"""Minimum number of letters of a word that is stemmed. A stem may be one letter shorter."""
READ: Final = 4_000
"""Maximum number of characters of a text that are read to find its language."""

_LISTS: Final[dict[str, str]] = tables("words.toml")["languages"]
_SCRIPTS: Final = (
    (re.compile("[\u0400-\u052f]"), ("russian",)),
    (re.compile("[\u0370-\u03ff\u1f00-\u1fff]"), ("greek",)),
    (re.compile("[\u0600-\u06ff\u0750-\u077f]"), ("arabic",)),
    (re.compile("[\u0900-\u097f]"), ("hindi",)),
    (re.compile("[\u0530-\u058f]"), ("armenian",)),
    (re.compile("[\u0b80-\u0bff]"), ("tamil",)),
    (re.compile("[\u0590-\u05ff]"), ("hebrew",)),
)
_LATIN: Final = tuple(name for name in _LISTS if name != "english")
_WORD: Final = re.compile(r"[^\W\d_]+(?:[\u0300-\u036f\u0900-\u0903\u093a-\u094f\u0b82-\u0bd7]+[^\W\d_]*)*")
_HEBREW_BEFORE: Final = frozenset("הובלכמש")
_SHORT_I: Final = re.compile(r"(?<=[аеиоуыэюя])и")
"""Matches a Russian и that was й before folding: one after a vowel."""
_SPELLED: Final = (("ae", "a"), ("oe", "o"), ("ue", "u"))
"""(German umlaut as written without dots, its folded form)."""
_lock: Final = threading.Lock()
"""Held while a stemmer is used, as only one thread at a time may use it."""


def languages(text: str) -> tuple[str, ...]:
    """Return the names of the languages that a text may be in; empty if it is English or unknown."""
    beginning = text[:READ]
    found = [name for pattern, names in _SCRIPTS if pattern.search(beginning) for name in names]
    text_words = frozenset(unicodedata.normalize("NFC", beginning).lower().split())
    hits = {name: len(text_words & known) for name, known in _function_words().items()}
    largest = max(hits.values())
    if largest and largest > hits["english"]:
        found += [name for name in _LATIN if hits[name] == largest]
    return tuple(found)


def function_words(text: str) -> frozenset[str]:
    """Return the function words of the language of a text in Latin script; empty if it is English or unknown."""
    named = [name for name in languages(text) if name in _LISTS]
    return frozenset().union(*(_function_words()[name] for name in named))


def note_stems(text: str, words: Iterable[str]) -> set[str]:
    """Return the stems of a note's words, each with the prefix `STEM`; empty if the note is in English or an unknown
    language. `words`: the folded words of `text`."""
    found: set[str] = set()
    named = languages(text)
    if not named:
        return found
    several = list(dict.fromkeys(words))
    if "german" in named:
        spelled = {word.translate(_DOTTED) for word in _WORD.findall(text.lower()) if _DOTS.search(word)}
        several += sorted(spelled)
        several += [word.replace(a, b) for word in several for a, b in _SPELLED if a in word]
    for word in several:
        script = _languages_of(word)
        for name in named:
            if name in script:
                found.update(_stems(word, name))
    return found


_DOTS: Final = re.compile("[äöüß]")
_DOTTED: Final = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss"})


@lru_cache(maxsize=8192)
def question_stems(word: str) -> tuple[str, ...]:
    """Return the stems of a folded word in each language of its script, each with the prefix `STEM`, each once."""
    return tuple(dict.fromkeys(stem for name in _languages_of(word) for stem in _stems(word, name)))


def _languages_of(word: str) -> tuple[str, ...]:
    """Return the names of the languages of a word's script, in which it may be stemmed; empty if it is no word, or too
    short."""
    if len(word) < SHORTEST or not all(char.isalpha() or unicodedata.category(char)[0] == "M" for char in word):
        return ()
    if word[0] <= "\u024f":
        return _LATIN
    return next((names for pattern, names in _SCRIPTS if pattern.match(word)), ())


def _stems(word: str, name: str) -> list[str]:
    """Return the stems of a folded word in the language `name`, each with the prefix `STEM`; without those that are too
    short."""
    if name == "hebrew":
        stems = _hebrew_forms(word)
    else:
        with _lock:
            stems = [_stemmer(name).stemWord(_SHORT_I.sub("й", word) if name == "russian" else word)]
    return [STEM + stem for stem in stems if len(stem) >= min(SHORTEST, len(word)) - 1]


def _hebrew_forms(word: str) -> list[str]:
    """Return the forms by which a Hebrew word is found: the word, and without its first one or two letters.

    Letters are removed if they may be a prefix (an article, conjunction or preposition). Snowball has no Hebrew.
    """
    found = [word]
    while len(found) < 3 and len(word) > SHORTEST and word[0] in _HEBREW_BEFORE:
        word = word[1:]
        found.append(word)
    return found


@cache
def _function_words() -> dict[str, frozenset[str]]:
    """Return `{language: its function words}`."""
    return {name: frozenset(listed.split()) for name, listed in _LISTS.items()}


@cache
def _stemmer(name: str) -> Any:
    """Return Snowball's stemmer of a language. It may be used by one thread at a time (`_lock`)."""
    import Stemmer

    return Stemmer.Stemmer(name)
