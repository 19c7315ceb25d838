"""Traits: what a note's text shows at a glance, read once when the note becomes a candidate of a search. Pure."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from ormahd.text.words import fold, words

BEGINNING: Final = 600
"""Characters at the beginning of a note that are read: what it is about is said early."""
ENDING: Final = 40
"""Characters at its end that are read."""
_HEAD: Final = re.compile(r"\s*(\w[\w .'’-]{0,30}):\s")
"""A name before a colon at the beginning of a note: who speaks, or what the note is about."""
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
"""Words of times in a folded text: English, German, Spanish, French, Chinese."""
_WHEN: Final = re.compile(
    r"\b(?:when|how long|how recently|since when|(?:what|which) (?:date|day|week|month|year|time)"
    r"|wann|wie lange|seit wann|cuando|cuanto tiempo|quand|combien de temps|depuis quand)\b|什么时候|何时|哪天|多久"
)
"""Questions for a time, in a folded text."""


class Traits(Struct, frozen=True):
    """What a note's text says about itself."""

    head: frozenset[str]
    """Words of the name before a colon at its beginning."""
    asks: bool
    """Whether it ends with a question mark."""
    tells_time: bool
    """Whether it names a date or a period."""


def traits(beginning: str, ending: str) -> Traits:
    """Read the traits of a note from the beginning and the end of its text."""
    head = _HEAD.match(beginning)
    return Traits(
        frozenset(words(head[1])) if head else frozenset(),
        _ENDS.search(ending) is not None,
        _TIME.search(fold(beginning)) is not None,
    )


def asks_for_time(text: str) -> bool:
    """Return whether a query asks when or for how long."""
    return _WHEN.search(fold(text)) is not None
