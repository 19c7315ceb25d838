"""Traits of a note's text that search ranks by, such as whether it asks a question. They are read once per note.
Pure."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from ormahd.text.tables import tables
from ormahd.text.words import fold, words

BEGINNING: Final = 600
"""Number of characters at the beginning of a note that are read. They usually say what it is about."""
ENDING: Final = 40
"""Number of characters at the end of a note that are read."""
_FILE: Final = tables("traits.toml")
_HEAD: Final = re.compile(r"\s*(\w[\w .'’-]{0,30}):\s")
"""Matches a name and a colon at the beginning of a note. It tells who speaks, or what the note is about."""
_ENDS: Final = re.compile(r"[?？؟]\W*$")
_TIME: Final = re.compile(_FILE["time"])
"""Matches words for times in a folded English, German, Spanish, French or Chinese text."""
_RULE: Final = re.compile(_FILE["rule"])
"""Matches words of standing instructions and preferences, in a folded English, German, French, Spanish or Chinese
text."""
_WHEN: Final = re.compile(_FILE["when"])
"""Matches words that ask for a time, in a folded text."""


class Traits(Struct, frozen=True):
    """Traits of a note's text by which search ranks it."""

    head: frozenset[str]
    """Words of the name at the note's beginning, if a colon follows it."""
    asks: bool
    """Whether the note ends with a question mark."""
    tells_time: bool
    """Whether the note's beginning names a date or a period."""
    rules: bool = False
    """Whether the note's beginning states a standing instruction or a preference."""


def traits(beginning: str, ending: str) -> Traits:
    """Return the traits of a note. `beginning`, `ending`: the first and the last characters of its text."""
    head, folded = _HEAD.match(beginning), fold(beginning)
    return Traits(
        frozenset(words(head[1])) if head else frozenset(),
        _ENDS.search(ending) is not None,
        _TIME.search(folded) is not None,
        _RULE.search(folded) is not None,
    )


def asks_for_time(text: str) -> bool:
    """Return whether a query asks when or for how long."""
    return _WHEN.search(fold(text)) is not None
