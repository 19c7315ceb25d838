"""Other forms of a note's words. The full text index has a column for them, so that a note is also found by these
forms.

- The parts of identifiers in camelCase: `parseTideRow` is also found by "tide row".
- The initials of three consecutive words (of two, if both have a capital): a long form is found by its acronym.
- For a note in another language than English, the stems of that language (`language.py`).
- The words of titles, aliases, tags and headings, unstemmed: such a name is also found if the query has a typo.

Initials and names are enclosed in marks from Unicode's private use area, so that no word of a text or a query equals
them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from ormahd.text.language import note_stems
from ormahd.text.tables import tables
from ormahd.text.words import FUNCTION_WORDS, STOP_WORDS, fold, words

NAME, INITIALS, GAP = "\uf8f0", "\uf8f1", "\uf8f2"
READ: Final = 20_000
"""Maximum number of characters of a text whose forms are indexed."""
LONGEST: Final = 60
"""Maximum number of characters of an identifier or a name."""
HEAD: Final = 80
"""Maximum number of characters of a heading whose words are indexed as names."""
SHORTEST: Final = 4
"""Minimum number of letters of a name that is found despite a typo."""

_IDENTIFIER = re.compile(r"(?<![A-Za-z0-9])(?=[A-Za-z0-9]*(?:[a-z0-9][A-Z]|[A-Z]{2}[a-z]))[A-Za-z][A-Za-z0-9]*")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_HEADING = re.compile(rf"^[ \t]{{0,3}}#{{1,6}}[ \t]+(.{{1,{HEAD}}})", re.MULTILINE)
_CLAUSE = re.compile(r"[.,;:!?()\[\]{}\"“”«»|/\n]+")
_WORD = re.compile(r"[^\W\d_]+")
_FUNCTION: Final = STOP_WORDS | FUNCTION_WORDS | frozenset(fold(tables("words.toml")["small"]).split())


def parts(identifier: str) -> list[str]:
    """Return the parts of an identifier in camelCase, folded; a word without an inner capital is its only part."""
    return [part.lower() for part in _PART.findall(identifier)]


def identifiers(text: str) -> list[str]:
    """Return the identifiers in camelCase that a text contains, each once."""
    return list(dict.fromkeys(name for name in _IDENTIFIER.findall(text) if len(name) <= LONGEST))


def name_term(word: str) -> str:
    """Return the index's term for a word of a title, alias, tag or heading. `word`: this word, folded."""
    return f"{NAME}{word}{NAME}"


def initials_terms(acronym: str) -> list[str]:
    """Return the terms that the index has for every note that writes `acronym` out ("write-ahead log" for WAL)."""
    letters = fold(acronym)
    if len(letters) < 3:
        return [f"{INITIALS}{letters}{INITIALS}"]
    return [f"{INITIALS}{letters[at : at + 3]}{INITIALS}" for at in range(len(letters) - 2)]


def is_written_out(acronym: str, text: str) -> bool:
    """Return whether `acronym` is written out in `text`: consecutive words whose initials are its letters."""
    wanted = fold(acronym)
    found = (run for clause in _clauses(text) for run in _runs(clause, len(wanted)))
    return any(
        "".join(fold(word)[0] for word in run) == wanted and (len(wanted) > 2 or run[1][0].isupper()) for run in found
    )


def forms(names: Sequence[str], content: str) -> str:
    """Return other forms of a note's words, as text for their column in the index: parts of camelCase, initials,
    stems, words of names. `names`: the note's title, aliases and tags."""
    text = content[:READ]
    whole = " ".join([*names, text])
    found = [f"{GAP} {' '.join(parts(name))}" for name in identifiers(whole)]
    found += sorted(_initials(itertools.chain(names, [text])))
    named = {word for name in [*names, *_HEADING.findall(text)] for word in words(name[:READ])} - _FUNCTION
    named = {word for word in named if SHORTEST <= len(word) <= LONGEST and not word.isdigit()}
    found += sorted(map(name_term, named))
    found += sorted(note_stems(whole, words(whole)))
    return " ".join(found)


def _initials(texts: Iterable[str]) -> set[str]:
    """Return the index's term for the initials of each run of words in `texts` for which an acronym may stand
    (`_runs`).

    A run has three words, or two that both have a capital.
    """
    found: set[str] = set()
    for text in texts:
        for clause in _clauses(text):
            for size in (2, 3):
                for run in _runs(clause, size):
                    if size == 3 or (run[0][0].isupper() and run[1][0].isupper()):
                        found.add(f"{INITIALS}{''.join(fold(word)[0] for word in run)}{INITIALS}")
    return found


def _clauses(text: str) -> Iterator[list[str]]:
    """Yield the words of each clause of at least two words. Clauses end at punctuation and line ends. Words in
    scripts without capitals are left out."""
    for clause in _CLAUSE.split(text):
        found = [word for word in _WORD.findall(clause) if word[0].lower() != word[0].upper()]
        if len(found) > 1:
            yield found


def _runs(clause: list[str], size: int) -> Iterator[list[str]]:
    """Yield the runs of `size` consecutive words in `clause` for which an acronym may stand.

    A run neither begins nor ends with a function word. If the clause has function words, the runs of the clause
    without its function words are yielded too.
    """
    known = [fold(word) in _FUNCTION for word in clause]
    yield from (
        clause[at : at + size] for at in range(len(clause) - size + 1) if not known[at] and not known[at + size - 1]
    )
    if any(known):
        yield from _runs([word for word, function in zip(clause, known, strict=True) if not function], size)
