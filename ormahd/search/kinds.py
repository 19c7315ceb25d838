"""Kinds: which types of memory a question asks for by name. "What did we decide last week" asks for decisions. Pure.

Such a word says of what kind the answer is, not what it is about. It is no filter: what was decided may stand in a fact.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ormahd.model.node import NodeType
from ormahd.text.words import is_question, words

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
