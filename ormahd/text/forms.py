"""Other forms of a note's words, held by full text search in a column of their own: parts of identifiers, initials, names.

- An identifier in camelCase is followed by its parts: `parseTideRow` is also found by "tide row".
- Initials of three words that follow each other (two, if both have a capital) find a long form by its acronym.
- Words of a note in another language than English have the stems of that language (`language.py`).
- Names are the words of titles, aliases, tags and headings, kept whole, so that a name with a typo can be looked up.

Initials and names carry a mark from the private use area, so that no word of a text or a question equals them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from ormahd.text.language import note_stems
from ormahd.text.words import FUNCTION_WORDS, STOP_WORDS, fold, words

NAME, INITIALS, GAP = "\uf8f0", "\uf8f1", "\uf8f2"
READ: Final = 20_000
"""Characters of a text whose forms are kept."""
LONGEST: Final = 60
"""Characters of an identifier or a name."""
HEAD: Final = 80
"""Characters of a heading that count as its head."""
SHORTEST: Final = 4
"""Letters of a name that may be looked up with a typo."""

_IDENTIFIER = re.compile(r"(?<![A-Za-z0-9])(?=[A-Za-z0-9]*(?:[a-z0-9][A-Z]|[A-Z]{2}[a-z]))[A-Za-z][A-Za-z0-9]*")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_HEADING = re.compile(rf"^[ \t]{{0,3}}#{{1,6}}[ \t]+(.{{1,{HEAD}}})", re.MULTILINE)
_CLAUSE = re.compile(r"[.,;:!?()\[\]{}\"“”«»|/\n]+")
_WORD = re.compile(r"[^\W\d_]+")
_FUNCTION: Final = (
    STOP_WORDS
    | FUNCTION_WORDS
    | frozenset(
        fold(
            "für und der die das von vom zur zum im am des den dem et en la le les du des el los las y e i di da do dos af og och for til van het".replace(
                ",", ""
            )
        ).split()
    )
)


def parts(identifier: str) -> list[str]:
    """Return the parts of an identifier in camelCase, folded; a word without an inner capital is its only part."""
    return [part.lower() for part in _PART.findall(identifier)]


def identifiers(text: str) -> list[str]:
    """Return the identifiers in camelCase of a text, each once."""
    return list(dict.fromkeys(one for one in _IDENTIFIER.findall(text) if len(one) <= LONGEST))


def name_term(word: str) -> str:
    """Return the term under which a folded word of a name is held."""
    return f"{NAME}{word}{NAME}"


def initials_terms(acronym: str) -> list[str]:
    """Return the terms that every note with a long form of `acronym` has."""
    letters = fold(acronym)
    if len(letters) < 3:
        return [f"{INITIALS}{letters}{INITIALS}"]
    return [f"{INITIALS}{letters[at : at + 3]}{INITIALS}" for at in range(len(letters) - 2)]


def spells(acronym: str, text: str) -> bool:
    """Return whether words of `text` that follow each other have the letters of `acronym` as initials."""
    wanted = fold(acronym)
    found = (run for clause in _clauses(text) for run in _runs(clause, len(wanted)))
    return any(
        "".join(fold(word)[0] for word in run) == wanted and (len(wanted) > 2 or run[1][0].isupper()) for run in found
    )


def forms(names: Sequence[str], content: str) -> str:
    """Return what the full text table holds besides the words of a note. `names`: its title, aliases and tags."""
    text = content[:READ]
    whole = " ".join([*names, text])
    found = [f"{GAP} {' '.join(parts(one))}" for one in identifiers(whole)]
    found += sorted(_initials(itertools.chain(names, [text])))
    found += sorted(set(map(name_term, _name_words([*names, *_HEADING.findall(text)]))))
    found += sorted(note_stems(whole, words(whole)))
    return " ".join(found)


def _name_words(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        for word in words(name[:READ]):
            if SHORTEST <= len(word) <= LONGEST and word not in _FUNCTION and not word.isdigit():
                yield word


def _initials(texts: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for text in texts:
        for clause in _clauses(text):
            for size in (2, 3):
                for run in _runs(clause, size):
                    if size == 3 or (run[0][0].isupper() and run[1][0].isupper()):
                        found.add(f"{INITIALS}{''.join(fold(word)[0] for word in run)}{INITIALS}")
    return found


def _clauses(text: str) -> Iterator[list[str]]:
    """Yield the words of each clause. Scripts without capitals have no acronyms."""
    for clause in _CLAUSE.split(text):
        found = [word for word in _WORD.findall(clause) if word[0].lower() != word[0].upper()]
        if len(found) > 1:
            yield found


def _runs(clause: list[str], size: int) -> Iterator[list[str]]:
    """Yield `size` words that follow each other, also without the function words between them."""
    known = [fold(word) in _FUNCTION for word in clause]
    yield from (
        clause[at : at + size] for at in range(len(clause) - size + 1) if not known[at] and not known[at + size - 1]
    )
    if any(known):
        yield from _runs([word for word, function in zip(clause, known, strict=True) if not function], size)
