"""Read a question: its words, the types it asks for by name, whether it is a question, its filters and the period it names.

A named type is no filter: what was decided may stand in a fact.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final, TypeVar

from msgspec import Struct

from ormahd.index.rows import Filter
from ormahd.model.node import ABOUT_SELF, NodeType, SearchQuery
from ormahd.search.times import Period, find_period
from ormahd.settings import SearchSettings
from ormahd.text.words import (
    FUNCTION_WORDS,
    IDENTITY_WORDS,
    QUESTION_WORDS,
    STOP_WORDS,
    is_question,
    query_terms,
    words,
)

SHORT: Final = 2_000
"""Characters that are looked at: a longer text tells something and asks at its beginning, if at all."""
WORDS: Final[Mapping[NodeType, frozenset[str]]] = {
    NodeType.DECISION: frozenset(
        ["decide", "decides", "decided", "decision", "decisions", "agreed", "chose", "chosen", "entscheiden", "entschieden", "entscheidung", "entscheidungen", "beschlossen", "choisi", "decidimos", "decidido", "decisiones", "decisione", "decisioni", "deciso", "decisao", "decisoes", "besloten", "beslissing", "beslissingen"]
    ),
    NodeType.PROCEDURE: frozenset(
        ["procedure", "procedures", "runbook", "runbooks", "checklist", "checklists", "steps", "anleitung", "anleitungen", "ablauf", "schritte", "vorgehen", "etapes", "procedimiento", "procedimientos", "pasos", "procedura", "procedimento", "passos", "stappen"]
    ),
    NodeType.PREFERENCE: frozenset(
        ["prefer", "prefers", "preferred", "preference", "preferences", "bevorzuge", "bevorzugt", "vorliebe", "vorlieben", "prefere", "prefiere", "prefiero", "preferencia", "preferencias", "preferisco", "preferisce", "preferenze", "voorkeur", "voorkeuren"]
    ),
}  # fmt: skip
"""As `words` cuts them: folded, without accents. English, German, French, Spanish, Italian, Portuguese, Dutch."""
_WHO: Final = frozenset(["who", "whom", "whose", "wer", "wem", "wen", "qui", "quien", "quienes", "chi", "quem"])
"""A question that begins so asks for a person."""
NAMING: Final = frozenset().union(*WORDS.values())
"""Every word that names a kind."""


def kinds(text: str) -> frozenset[NodeType]:
    """The types that a text names; none where it names none."""
    said = words(text[:SHORT])
    found = {kind for kind, named in WORDS.items() if not named.isdisjoint(said)}
    if said and said[0] in _WHO and is_question(text):
        found.add(NodeType.PERSON)
    return frozenset(found)


T = TypeVar("T")

_IDLE = frozenset(
    [
        *("anything", "do", "doing", "done", "happen", "happened", "happening", "have", "memories", "memory", "new"),
        *("notes", "recap", "remember", "remembered", "say", "something", "stuff", "summarise", "summarize", "summary"),
        *("talk", "talked", "tell", "things", "thing", "update", "updates", "work", "worked", "working"),
    ]
)
"""With these words alone a question has no topic: "what did we do yesterday" asks for a time."""
_IDLE_ELSEWHERE = frozenset(
    [
        *("il", "on", "s"),
        *("acordamos", "ai", "algo", "alles", "appris", "arrive", "avait", "bei", "choses", "cosas", "das"),
        *("decide", "decidees", "er", "es", "est", "etait", "etwas", "eu", "fait", "faites", "fue", "gab"),
        *("gearbeitet", "gemacht", "geschafft", "geschah", "geschehen", "getan", "habia", "hast", "hay"),
        *("hecho", "hemos", "hice", "hicimos", "hiciste", "hizo", "ihr", "ist", "lo", "los", "machten"),
        *("neu", "neues", "nuevo", "ocurrio", "ont", "pasado", "paso", "passe", "passiert", "passierte"),
        *("qu", "que", "quelque", "quoi", "rien", "se", "sucedio", "taten", "trabajado", "trabajamos"),
        *("travaille", "uns", "va", "war", "waren", "was", "wir", "wurde"),
    ]
)
"""The same in German, Spanish and French."""
_IDLE_HAN = frozenset("我们你咱了做干些什么事情的吗呢啊发生过有哪是都在那这决定说聊讨论工作完成哪里吧与和")
"""Characters of Chinese questions that ask for no topic; the words of a text are pairs of characters."""


class Heard(Struct, frozen=True):
    """A question, understood. `chosen` is what may be found at all: the caller's filters, nothing expired."""

    text: str
    terms: tuple[str, ...]
    """What full text search looks for: words without stop words; `about_self` where the user is meant."""
    topic: frozenset[str]
    """Words of three letters or more that a title can share."""
    question: bool
    chosen: Filter
    limit: int
    space: str | None
    """Where the caller works; None when spaces were asked for explicitly: then no space is favoured."""
    period: Period | None
    """The period that the text names, when the caller gave none."""
    only_time: bool
    """Nothing but a time is asked for: the newest of the window answer, whatever they are about."""
    now: datetime
    kinds: frozenset[NodeType] = frozenset()
    """Types that the question names: a little favoured."""

    @property
    def windowed(self) -> bool:
        """True when the caller's own bounds narrow the time."""
        return self.chosen.created_after is not None or self.chosen.created_before is not None


def hear(query: SearchQuery, *, space: str | None, now: datetime, settings: SearchSettings) -> Heard:
    """Understand a query. A period in the text only favours, unless the text asks for nothing else: then it filters."""
    period = None
    if settings.time_phrases != "off" and query.created_after is None and query.created_before is None:
        period = find_period(query.query, now)
    said = period.rest if period is not None else query.query
    topical = [term for term in query_terms(said) if term in subject(said)]
    windowed = query.created_after is not None or query.created_before is not None
    only_time = (period is not None or windowed) and not topical
    filters_time = period is not None and (only_time or settings.time_phrases == "filter")
    heard_words = words(query.query)
    terms = query_terms(query.query)
    if any(word in IDENTITY_WORDS for word in heard_words):
        terms = [*terms, ABOUT_SELF]
    return Heard(
        text=query.query,
        terms=tuple(terms),
        topic=frozenset(term for term in query_terms(query.query) if len(term) > 2),
        question=is_question(query.query),
        chosen=Filter(
            types=_tuple(query.types), tiers=_tuple(query.tiers), spaces=_tuple(query.spaces), tags=_tuple(query.tags),
            created_after=period.after if period is not None and filters_time else query.created_after,
            created_before=period.before if period is not None and filters_time else query.created_before,
            alive_at=now,
        ),
        limit=query.limit,
        space=space if query.spaces is None else None,
        period=period,
        only_time=only_time,
        kinds=kinds(query.query),
        now=now,
    )  # fmt: skip


def topics(text: str) -> frozenset[str]:
    """The words of a question that say what it is about: none where it asks for a time, or for the user, alone."""
    return frozenset(words(text)) - STOP_WORDS - _IDLE - QUESTION_WORDS - IDENTITY_WORDS


def subject(text: str) -> frozenset[str]:
    """The same without words that say of what kind the answer is: "what did we decide last week" asks for a time and a kind."""
    return frozenset(
        word for word in topics(text) - FUNCTION_WORDS - NAMING - _IDLE_ELSEWHERE if not _IDLE_HAN.issuperset(word)
    )


def _tuple(values: list[T] | None) -> tuple[T, ...] | None:
    return None if values is None else tuple(values)
