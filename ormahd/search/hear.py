"""Parse a query: its words, the memory types it names, whether it is a question, its filters, and the period it names.

A named type is not a filter: a decision may be recorded in a memory of type fact.
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
"""Characters of a text that are searched for types. A longer text usually states its request at the beginning."""
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
"""Words that name a type, in the form that `words` returns: folded, without accents. English, German, French,
Spanish, Italian, Portuguese, Dutch."""
_WHO: Final = frozenset(["who", "whom", "whose", "wer", "wem", "wen", "qui", "quien", "quienes", "chi", "quem"])
"""First words of questions that ask for a person."""
NAMING: Final = frozenset().union(*WORDS.values())
"""All words that name a type."""


def kinds(text: str) -> frozenset[NodeType]:
    """Return the memory types that a text names; empty if it names none."""
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
"""Words without a topic: a question made only of them, such as "what did we do yesterday", asks for a time."""
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
"""The words of `_IDLE` in German, Spanish and French."""
_IDLE_HAN = frozenset("我们你咱了做干些什么事情的吗呢啊发生过有哪是都在那这决定说聊讨论工作完成哪里吧与和")
"""Characters of Chinese questions without a topic. Chinese text is split into pairs of characters."""


class Heard(Struct, frozen=True):
    """A parsed query. `chosen` is the filter on results: the caller's filters, and no expired memory."""

    text: str
    terms: tuple[str, ...]
    """Terms for full text search: words without stop words, and `about_self` if the query mentions the user."""
    topic: frozenset[str]
    """Words of three letters or more, compared with titles."""
    question: bool
    chosen: Filter
    limit: int
    space: str | None
    """Space of the caller, which is favoured. None if the query filters by space: then no space is favoured."""
    period: Period | None
    """The period that the text names, if the caller gave no bounds."""
    only_time: bool
    """Whether the query asks for a time and nothing else. The newest memories of that time are then returned."""
    now: datetime
    kinds: frozenset[NodeType] = frozenset()
    """Types that the question names; memories of them are slightly favoured."""

    @property
    def windowed(self) -> bool:
        """Whether the filter has a bound on time."""
        return self.chosen.created_after is not None or self.chosen.created_before is not None


def hear(query: SearchQuery, *, space: str | None, now: datetime, settings: SearchSettings) -> Heard:
    """Parse a query.

    A period named in the text only favours its memories, unless the text asks for nothing else or
    `search.time_phrases` is "filter": then it filters.
    """
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
    """Return the words that say what a question is about; empty if it asks only about a time or about the user."""
    return frozenset(words(text)) - STOP_WORDS - _IDLE - QUESTION_WORDS - IDENTITY_WORDS


def subject(text: str) -> frozenset[str]:
    """Return `topics` without words that name a type: "what did we decide last week" has no subject."""
    return frozenset(
        word for word in topics(text) - FUNCTION_WORDS - NAMING - _IDLE_ELSEWHERE if not _IDLE_HAN.issuperset(word)
    )


def _tuple(values: list[T] | None) -> tuple[T, ...] | None:
    return None if values is None else tuple(values)
