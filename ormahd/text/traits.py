"""Traits of a note's text that search ranks by, such as whether it asks a question. They are read once per note.
Pure."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from ormahd.text.words import fold, words

BEGINNING: Final = 600
"""Number of characters at the beginning of a note that are read. They usually say what it is about."""
ENDING: Final = 40
"""Number of characters at the end of a note that are read."""
_HEAD: Final = re.compile(r"\s*(\w[\w .'’-]{0,30}):\s")
"""Matches a name and a colon at the beginning of a note. It tells who speaks, or what the note is about."""
_ENDS: Final = re.compile(r"[?？؟]\W*$")
_TIME: Final = re.compile(
    r"\b(?:yesterday|today|tonight|tomorrow|ago|last|next|weekend|weeks?|months?|years?|(?:mon|tues|wednes|thurs|fri|satur|sun)day"
    r"|january|february|march|april|june|july|august|september|october|november|december|spring|summer|autumn|winter"
    r"|gestern|heute|morgen|vor|letzte[nrs]?|nachste[nrs]?|woche|monat|jahr|januar|februar|marz|mai|juni|juli|oktober|dezember"
    r"|(?:mon|diens|donners|frei|sams|sonn)tag|mittwoch"
    r"|ayer|hoy|manana|semana|mes|ano|enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre"
    r"|hier|aujourd'hui|demain|semaine|mois|annee|janvier|fevrier|mars|avril|juin|juillet|aout|septembre|octobre|novembre|decembre"
    r"|(?:19|20)\d\d|\d\d?:\d\d)\b|[昨今明]天|[上下]周|[上下]个?月|[去今明]年|\d月"
)
"""Matches words for times in a folded English, German, Spanish, French or Chinese text."""
_WHEN: Final = re.compile(
    r"\b(?:when|how long|how recently|since when|(?:what|which) (?:date|day|week|month|year|time)"
    r"|wann|wie lange|seit wann|cuando|cuanto tiempo|quand|combien de temps|depuis quand)\b|什么时候|何时|哪天|多久"
)
"""Matches words that ask for a time, in a folded text."""


class Traits(Struct, frozen=True):
    """Traits of a note's text by which search ranks it."""

    head: frozenset[str]
    """Words of the name at the note's beginning, if a colon follows it."""
    asks: bool
    """Whether the note ends with a question mark."""
    tells_time: bool
    """Whether the note's beginning names a date or a period."""


def traits(beginning: str, ending: str) -> Traits:
    """Return the traits of a note. `beginning`, `ending`: the first and the last characters of its text."""
    head = _HEAD.match(beginning)
    return Traits(
        frozenset(words(head[1])) if head else frozenset(),
        _ENDS.search(ending) is not None,
        _TIME.search(fold(beginning)) is not None,
    )


def asks_for_time(text: str) -> bool:
    """Return whether a query asks when or for how long."""
    return _WHEN.search(fold(text)) is not None
