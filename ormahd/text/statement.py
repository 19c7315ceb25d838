"""Read a memory into a `Statement`: its sentences with their subjects and values, and what its words show. Pure.

It knows English, German, Spanish, French and Chinese. `text.standing` compares two statements.
"""

from __future__ import annotations

import re
import sys

from msgspec import Struct

from ormahd.model.node import NodeType
from ormahd.text.facts import Sort, Term, terms
from ormahd.text.tables import patterns, tables
from ormahd.text.words import fold, stem

_FILE = tables("statement_words.toml")
_WORDS = {name: frozenset(listed.split()) for name, listed in (_FILE["words"] | _FILE["domains"]).items()}
_PATTERNS = patterns("statement_words.toml", "patterns") | patterns("statement_words.toml", "added")
OPPOSITES = tuple(frozenset(pair.split("~")) for pair in _WORDS["opposites"])
"""Pairs of words that exclude each other."""

MAX_TEXT = 2_000
"""Maximum number of characters of a memory that are read."""
MAX_SENTENCES = 12
MAX_TOKENS = 40
"""Maximum number of tokens of a sentence. Further ones are dropped."""
NEAR = 26
"""Number of characters beside words such as "instead of" in which the value of before is named."""
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
    unit: str = ""
    """The dimension of a number."""


class Sentence(Struct, frozen=True):
    """A sentence of a memory, without its function words."""

    tokens: tuple[Token, ...]
    head: int
    """Number of tokens that are the subject: those before the verb or a colon."""
    negated: bool
    asserted: bool
    """Whether it says what is so, and does not only consider, plan, ask, quote or reject it."""
    changed: bool
    """Whether it asserts that something changed."""
    former: frozenset[str]
    """Keys of the tokens beside words such as "instead of", "from" or "no longer": these say what was so before."""


class Statement(Struct, frozen=True):
    """What `read_statement` found in a memory. `statement_words` has the words that make a bool without a docstring
    True."""

    sentences: tuple[Sentence, ...]
    """The title, if there is one, and the sentences of the content."""
    titled: bool
    type: NodeType
    keys: dict[str, float]
    """`{key: largest weight}` of all tokens."""
    labels: frozenset[str]
    """Keys of things with their number, such as camera 3."""
    head: frozenset[str]
    """Keys of the title's tokens, and of those that are the subject of a sentence."""
    plain: frozenset[str]
    """All words, folded."""
    negated: bool
    former: frozenset[str]
    added: bool
    places: frozenset[str]
    """Its words that distinguish variants of a thing: staging, guests, winter."""
    domains: frozenset[str]
    """Which of home and work it is about."""
    about_self: bool
    conditions: frozenset[str]
    """Stems of its words after "if", "when" or "unless"."""
    talk: float
    """Share of its sentences that ask, exclaim or address somebody: 1 for a speaker's words about themselves. Such talk
    states little."""


def read_statement(title: str | None, content: str, type: NodeType) -> Statement:  # noqa: A002 - a memory's word
    """Return a memory as a `Statement`: its sentences, and what its words show. `type`: the memory's type."""
    # the title and the sentences, as written
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

    # the keys of all tokens, and of those that are subjects
    titled = bool(title) and bool(sentences)
    keys: dict[str, float] = {}
    head: set[str] = set()
    for sentence in sentences:
        for at, token in enumerate(sentence.tokens):
            keys[token.key] = max(token.weight, keys.get(token.key, 0.0))
            if at < sentence.head:
                head.add(token.key)
    named = frozenset(token.key for token in sentences[0].tokens) if titled else frozenset()

    # what the words of the content show
    body = fold(text)
    parts = [part for part in raw[1 if title else 0 : MAX_SENTENCES + 1] if part.strip()]
    spoken = sum(
        _SPOKEN.search(part) is not None or _PATTERNS["addressing"].search(fold(part)) is not None for part in parts
    )
    domains = {name for name in ("home", "work") if _WORDS[name] & words or _chinese_words(folded, _WORDS[name])}
    labels = (token.key for sentence in sentences for token in sentence.tokens if token.sort is Sort.LABEL)
    conditions = (word for match in _CONDITION.finditer(body) for word in match[1].split()[:4])
    return Statement(
        sentences=sentences,
        titled=titled,
        type=type,
        keys=keys,
        labels=frozenset(labels),
        head=frozenset(head) | named,
        plain=words,
        negated=any(sentence.negated for sentence in sentences),
        former=frozenset().union(*(sentence.former for sentence in sentences)),
        added=_PATTERNS.get(language, _PATTERNS["en"]).search(body) is not None,
        places=words & _WORDS["places"] | _chinese_words(folded, _WORDS["places"]),
        domains=frozenset(domains | {"home"} if _PATTERNS["moving"].search(body) else domains),
        about_self=bool(words & _WORDS["self"]) or _PATTERNS["self_runs"].search(folded) is not None,
        conditions=frozenset(stem(word) for word in conditions if word not in _WORDS["empty"]),
        talk=1.0 if words & _WORDS["self"] and _SPEAKER.match(content) else spoken / max(1, len(parts)),
    )


def _sentence(text: str) -> Sentence:
    """Return a sentence of a memory as tokens, and what its words show. `text`: the sentence on one line."""
    tokens: list[Token] = []
    found = list(terms(text))
    folded = fold(text)
    asserted = _PATTERNS["hedged"].search(folded) is None

    # (start, end) of the places beside words such as "instead of", where former values are named
    beside: list[tuple[int, int]] = []
    if asserted and len(folded) == len(text):
        for match in _PATTERNS["instead"].finditer(folded):
            cut = _PATTERNS["but"].search(folded, match.end(), match.end() + NEAR)
            beside.append((match.end(), cut.start() if cut else match.end() + NEAR))
        beside += [(match.start() - NEAR, match.start()) for match in _PATTERNS["gone"].finditer(folded)]
    former: set[str] = set()

    # The subject (`head` tokens) ends at a colon or a verb. A thing such as "camera" and the number after it become
    # one token; `label` is that thing while the number may follow.
    colon = re.search(r"[:：]\s", text)
    head: int | None = None
    negated = False
    label: Token | None = None
    for at, piece in enumerate(found):
        low = piece.key
        if colon is not None and head is None and piece.at > colon.start():
            head = len(tokens)
        plain = piece.sort in (Sort.WORD, Sort.NAME, Sort.HAN)
        if plain and (low in _WORDS["negations"] or low.endswith("n't")):
            negated = True
        if head is None and tokens and plain:
            # a verb: a known one, or a word within the sentence that ends like one
            inside = at > 0 and piece.text[:1].islower() and at + 1 < len(found)
            verb_like = len(low) > 4 and low.endswith(("ed", "es", "s")) and not low.endswith("ss")
            head = len(tokens) if low in _WORDS["verbs"] or (inside and verb_like) else None
        # function words are left out
        if plain and low in _WORDS["empty"] and not _named(piece, text):
            continue
        if plain and (low in _WORDS["negations"] or low in _WORDS["now"]):
            continue

        token = _token(piece)
        if any(begin <= piece.at <= end for begin, end in beside):
            former.add(token.key)
        number = piece.sort is Sort.NUMBER and not piece.unit and low[1:].isdigit()
        if number and label is not None and tokens and tokens[-1] is label:
            tokens[-1] = Token(f"{label.key}{low}", Sort.LABEL, f"{label.text} {piece.text}", 1.5)
        else:
            tokens.append(token)
        label = token if low.rstrip("s") in _WORDS["labelled"] or low in _WORDS["labelled"] else None
    if head is None:  # no verb was found: the first words are taken for the subject
        head = min(2, len(tokens))
    changed = asserted and _says_changed(folded)
    return Sentence(tuple(tokens[:MAX_TOKENS]), min(head, MAX_TOKENS), negated, asserted, changed, frozenset(former))


def _named(piece: Term, text: str) -> bool:
    """Return whether a function word is written like a name: in capitals (US, IT), or with one within a sentence
    (Go)."""
    if piece.sort is not Sort.NAME or piece.text == "I":
        return False
    if piece.text.isupper() and len(piece.text) > 1:
        return True
    return piece.text[:1].isupper() and text[: piece.at].rstrip()[-1:].isalnum()


def _token(piece: Term) -> Token:
    """Return a term of a sentence as a token; of a word its stem is the key."""
    key, text = map(sys.intern, (piece.key, piece.text))  # the same words occur in many memories
    if piece.sort is Sort.HAN:
        return Token(key, piece.sort, text, HAN_WEIGHT)
    if piece.sort in (Sort.WORD, Sort.NAME):
        return Token(sys.intern(stem(key)), piece.sort, text, 1.3 if piece.sort is Sort.NAME and piece.at else 1.0)
    return Token(key, piece.sort, text, 1.0, piece.unit)


def _says_changed(text: str) -> bool:
    """Return whether a folded sentence says that something changed."""
    words = set(_WORD.findall(text))
    stems = {word.removesuffix("ing").removesuffix("ed") for word in words if word.endswith(("ed", "ing"))}
    if not (words.isdisjoint(_WORDS["changed"] | _WORDS["now"]) and stems.isdisjoint(_WORDS["changed_stems"])):
        return True
    return any(_PATTERNS[name].search(text) for name in ("changed_runs", "particles", "now_phrases", "no_longer"))


def _chinese_words(text: str, listed: frozenset[str]) -> frozenset[str]:
    """Return the Chinese words in `listed` that the text contains."""
    if text.isascii():
        return frozenset()
    return frozenset(word for word in listed if not word.isascii() and word in text)


def _language(text: str, words: frozenset[str]) -> str:
    """Return the language of a folded text by its characters and `words`: "zh", or a key of `languages`; "en" if
    unknown."""
    if not text.isascii() and len(_HAN.findall(text)) > 2:
        return "zh"
    hits = {language: len(words & set(known.split())) for language, known in _FILE["languages"].items()}
    best = max(hits, key=hits.__getitem__)
    return best if hits[best] else "en"


_CONDITION = re.compile(rf"\b(?:{'|'.join(sorted(_WORDS['conditions']))})\s+((?:[^\W_]+\s*){{1,6}})")
_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_BULLET = re.compile(r"^\s*(?:[-*+>]|\d+[.)]|#+)\s+")
_SENTENCE = re.compile(r"(?<!\b[A-Z][a-z]\.)(?<!\bProf\.)(?<=[.!?])\s+(?=\S)|\s*;\s+|\s+[–—]\s+|(?<=[。！？；])")
_SPEAKER = re.compile(r"[A-Z]\w+: ")
_SPOKEN = re.compile(r"[!?！？]\W*$")
_WORD = re.compile(r"[^\W_]+(?:'t)?")
_HAN = re.compile("[\u3400-\u9fff]")
