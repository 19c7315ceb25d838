"""Read a memory into a `Statement`: its sentences with their subjects and values, and what its words show. Pure.

It knows English, German, Spanish, French and Chinese. `text.standing` compares two statements.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

from msgspec import Struct

from ormahd.model.node import NodeType
from ormahd.text.facts import Sort, Term, pieces
from ormahd.text.statement_words import (
    ADDED,
    ADDRESSING,
    CHANGED,
    CHANGED_RUNS,
    CHANGED_STEMS,
    CONDITIONS,
    DOMAINS,
    EMPTY,
    FORMER,
    INSTEAD,
    LABELLED,
    LANGUAGES,
    LIVING,
    MOVING,
    NEGATIONS,
    NO_LONGER,
    NOW,
    NOW_PHRASES,
    OWNING,
    PARTICLES,
    PAST,
    PLACES,
    PREFERRING,
    SELF,
    SELF_RUNS,
    VERBS,
)
from ormahd.text.words import fold, stem

MAX_TEXT = 2_000
"""Maximum number of characters of a memory that are read."""
MAX_SENTENCES = 12
MAX_TOKENS = 40
"""Maximum number of tokens of a sentence. Further ones are dropped."""
HAN_WEIGHT = 0.4
"""Weight of a token that is one Chinese character. A word has two or three."""


class Token(Struct, frozen=True, gc=False):
    """A content word or value of a sentence."""

    key: str
    """Its form for comparison; of a word the stem."""
    sort: Sort
    text: str
    """The word or value as written."""
    weight: float
    """How much it counts when words in common are summed."""
    amount: float = 0.0
    """The value of a number or time."""
    unit: str = ""
    """The dimension of `amount`."""
    lead: str = ""
    """The word before it."""
    next: str = ""
    """The word after it."""
    turned: bool = False
    """True shortly after words such as "instead of", "from" or "no longer": the token says what was so before."""


class Sentence(Struct, frozen=True):
    """A sentence of a memory, without its function words."""

    tokens: tuple[Token, ...]
    head: int
    """Number of tokens that are the subject: those before the verb or a colon."""
    negated: bool
    text: str
    """The sentence as written."""


class Statement(Struct, frozen=True):
    """What `read` found in a memory. `statement_words` has the words that make a bool without a docstring True."""

    sentences: tuple[Sentence, ...]
    """The title, if there is one, and the sentences of the content."""
    titled: bool
    type: NodeType
    keys: dict[str, float]
    """`{key: largest weight}` of all tokens."""
    title: frozenset[str]
    """Keys of the title's tokens."""
    head: frozenset[str]
    """Keys of the title's tokens, and of those that are the subject of a sentence."""
    language: str
    plain: frozenset[str]
    """All words, folded."""
    negated: bool
    changed: bool
    """Whether a verb says that something changed."""
    now: bool
    added: bool
    former: bool
    owning: bool
    living: bool
    preferring: bool
    past: bool
    gone: bool
    """Whether it says that something ended ("no longer", "ceased")."""
    places: frozenset[str]
    """Its words that distinguish variants of a thing: staging, guests, winter."""
    domains: frozenset[str]
    """General topics (`DOMAINS`): home, price, state."""
    states: frozenset[str]
    """Its words that say how far a task is ("started", "done")."""
    about_self: bool
    conditions: frozenset[str]
    """Stems of its words after "if", "when" or "unless"."""
    talk: float
    """Share of its sentences that ask, exclaim or address somebody. Such talk states little."""
    count: int
    """Number of sentences of its content."""


def read(title: str | None, content: str, type: NodeType) -> Statement:  # noqa: A002 - a memory's word
    """Analyse a memory: return its sentences, and what its words show, as a `Statement`."""
    text = _CODE.sub(" ", content[:MAX_TEXT])
    raw = [title] if title else []
    raw += [part for line in text.splitlines() for part in _SENTENCE.split(_BULLET.sub("", line))]
    folded = fold("\n".join(raw))
    words = frozenset(map(sys.intern, _WORD.findall(folded)))
    language = _language(folded, words)
    sentences = tuple(
        _sentence(clean)
        for part in raw[: MAX_SENTENCES + 1]
        if (clean := " ".join(part.split()).strip(" .!;*_#>。！；"))
    )
    titled = bool(title) and bool(sentences)
    keys: dict[str, float] = {}
    head: set[str] = set()
    for sentence in sentences:
        for at, token in enumerate(sentence.tokens):
            keys[token.key] = max(token.weight, keys.get(token.key, 0.0))
            if at < sentence.head:
                head.add(token.key)
    named = frozenset(token.key for token in sentences[0].tokens) if titled else frozenset()
    body = fold(text)
    return Statement(
        sentences, titled, type, keys, named, frozenset(head) | named, language, words,
        negated=any(one.negated for one in sentences),
        changed=_changes(body, words, language),
        now=bool(words & NOW) or NOW_PHRASES.search(body) is not None,
        added=ADDED.get(language, ADDED["en"]).search(body) is not None,
        former=FORMER.search(body) is not None,
        owning=OWNING.search(folded) is not None,
        living=LIVING.search(body) is not None,
        preferring=type is NodeType.PREFERENCE or PREFERRING.search(body) is not None,
        past=PAST.search(body) is not None,
        gone=NO_LONGER.search(body) is not None,
        places=words & PLACES | _runs(folded, PLACES),
        domains=_domains(folded, words),
        states=words & DOMAINS["state"] | _runs(folded, DOMAINS["state"]),
        about_self=bool(words & SELF) or SELF_RUNS.search(folded) is not None,
        conditions=_conditions(body),
        talk=_talk(said := [part for part in raw[1 if title else 0 : MAX_SENTENCES + 1] if part.strip()]),
        count=len(said),
    )  # fmt: skip


def _talk(parts: Sequence[str]) -> float:
    """Return the share of the sentences `parts` that ask, exclaim or address somebody."""
    return sum(_SPOKEN.search(part) is not None or ADDRESSING.search(fold(part)) is not None for part in parts) / max(
        1, len(parts)
    )


def _sentence(text: str) -> Sentence:
    tokens: list[Token] = []
    found = list(pieces(text))
    turned_at = [match.end() for match in INSTEAD.finditer(fold(text))] if len(fold(text)) == len(text) else []
    colon = re.search(r"[:：]\s", text)
    head: int | None = None
    negated, lead = False, ""
    label: Token | None = None
    for at, piece in enumerate(found):
        low = piece.key
        if colon is not None and head is None and piece.at > colon.start():
            head = len(tokens)
        plain = piece.sort in (Sort.WORD, Sort.NAME, Sort.HAN)
        if plain and (low in NEGATIONS or low.endswith("n't")):
            negated = True
        if head is None and tokens and plain and _verb(low, at, found):
            head = len(tokens)
        if plain and low in EMPTY and not _named(piece, text):
            lead = low
            continue
        if plain and (low in NEGATIONS or low in NOW):
            lead = low
            continue
        near = any(end <= piece.at <= end + 28 for end in turned_at)
        token = _token(piece, lead, found[at + 1].key if at + 1 < len(found) else "", turned=near)
        if (
            piece.sort is Sort.NUMBER
            and not piece.unit
            and label is not None
            and tokens
            and tokens[-1] is label
            and low[1:].isdigit()
        ):
            tokens[-1] = Token(f"{label.key}{low}", Sort.LABEL, f"{label.text} {piece.text}", 1.5, lead=label.lead)
        else:
            tokens.append(token)
        label = token if low.rstrip("s") in LABELLED or low in LABELLED else None
        lead = low
    if head is None:
        head = min(2, len(tokens))
    return Sentence(tuple(tokens[:MAX_TOKENS]), min(head, MAX_TOKENS), negated, text)


def _named(piece: Term, text: str) -> bool:
    """Return whether a function word is written like a name: in capitals (US, IT), or with one within a sentence
    (Go)."""
    if piece.sort is not Sort.NAME or piece.text == "I":
        return False
    if piece.text.isupper() and len(piece.text) > 1:
        return True
    return piece.text[:1].isupper() and text[: piece.at].rstrip()[-1:].isalnum()


def _token(piece: Term, lead: str, behind: str, *, turned: bool) -> Token:
    # Strings are interned, because the same words occur in many memories.
    key, text, lead, behind = map(sys.intern, (piece.key, piece.text, lead, behind))
    if piece.sort is Sort.HAN:
        return Token(key, piece.sort, text, HAN_WEIGHT, lead=lead, next=behind, turned=turned)
    if piece.sort in (Sort.WORD, Sort.NAME):
        return Token(
            sys.intern(stem(key)), piece.sort, text, 1.3 if piece.sort is Sort.NAME and piece.at else 1.0,
            lead=lead, next=behind, turned=turned,
        )  # fmt: skip
    return Token(key, piece.sort, text, 1.0, piece.amount, piece.unit, lead, behind, turned)


def _verb(word: str, at: int, found: Sequence[Term]) -> bool:
    if word in VERBS:
        return True
    return (
        at > 0
        and found[at].text[:1].islower()
        and len(word) > 4
        and word.endswith(("ed", "es", "s"))
        and at + 1 < len(found)
        and not word.endswith("ss")
    )


def _changes(text: str, words: frozenset[str], language: str) -> bool:
    if language == "zh":
        return CHANGED_RUNS.search(text) is not None
    if PARTICLES.search(text):
        return True
    return not CHANGED.isdisjoint(words) or any(
        word.endswith(("ed", "ing")) and word.removesuffix("ing").removesuffix("ed") in CHANGED_STEMS for word in words
    )


def _domains(text: str, words: frozenset[str]) -> frozenset[str]:
    found = {name for name, known in DOMAINS.items() if not known.isdisjoint(words) or _runs(text, known)}
    return frozenset(found | {"home"} if MOVING.search(text) else found)


def _conditions(text: str) -> frozenset[str]:
    found: set[str] = set()
    for match in _CONDITION.finditer(text):
        found.update(stem(word) for word in match[1].split()[:4] if word not in EMPTY)
    return frozenset(found)


def _runs(text: str, listed: frozenset[str]) -> frozenset[str]:
    """Return the Chinese words in `listed` that the text contains."""
    if text.isascii():
        return frozenset()
    return frozenset(word for word in listed if not word.isascii() and word in text)


def _language(text: str, words: frozenset[str]) -> str:
    if not text.isascii() and len(_HAN.findall(text)) > 2:
        return "zh"
    hits = {language: len(words & known) for language, known in LANGUAGES.items()}
    best = max(hits, key=lambda one: hits[one])
    return best if hits[best] else "en"


_CONDITION = re.compile(rf"\b(?:{'|'.join(sorted(CONDITIONS))})\s+((?:[^\W_]+\s*){{1,6}})")
_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_BULLET = re.compile(r"^\s*(?:[-*+>]|\d+[.)]|#+)\s+")
_SENTENCE = re.compile(r"(?<!\b[A-Z][a-z]\.)(?<!\bProf\.)(?<=[.!?])\s+(?=\S)|\s*;\s+|\s+[–—]\s+|(?<=[。！？；])")
_SPOKEN = re.compile(r"[!?！？]\W*$")
_WORD = re.compile(r"[^\W_]+(?:'t)?")
_HAN = re.compile("[\u3400-\u9fff]")
