"""What a memory claims, sentence by sentence, as tokens that can be compared with another memory's. Pure; English first.

A claim is the main clause of a sentence, or a title: reasons, asides and what follows a comma are cut off. Its tokens are
stems, numbers with their unit, dates and times in one form each, names, and negations; what says nothing (articles, "now",
who the user is) is left out. `core/disagree.py` compares them.
"""

from __future__ import annotations

import re
from enum import StrEnum

from msgspec import Struct, field

from ormahd.core.claim_words import (
    AMOUNTS,
    DAYS,
    FILLERS,
    HISTORY,
    JOINS,
    LABELLED,
    MONTHS,
    NEGATIONS,
    NOT_PAST,
    PASSIVE,
    PAST,
    SAME,
    SCALES,
    SELF,
    TELLING,
    UNITS,
    WRITTEN,
)
from ormahd.core.stems import stems
from ormahd.core.words import FUNCTION_WORDS, fold

MAX_TEXT = 8_000
"""Characters of a memory that are read: what lies behind is a document, not a claim."""
MAX_CLAIMS = 24
MAX_TOKENS = 24
"""Of one claim. A longer sentence says more than one thing."""


class Sort(StrEnum):
    WORD = "word"
    NAME = "name"
    """Written like a name: a capital within a sentence, a digit or a capital inside, back ticks."""
    LABEL = "label"
    """A thing with its number: camera 3, phase 1."""
    NUMBER = "number"
    TIME = "time"
    """Of the day."""
    DATE = "date"
    """A day, a weekday, a month, a year."""
    JOIN = "join"
    """and, or, to: what makes a list or a range."""


class Token(Struct, frozen=True):
    """`key` is what is compared; `unit` tells which numbers can be compared at all; `amount` in that unit."""

    key: str
    sort: Sort
    text: str
    amount: float = 0.0
    unit: str = ""
    lead: str = ""
    """The function words directly before it, in lower case: `on`, `is the`."""


class Claim(Struct, frozen=True):
    text: str
    tokens: tuple[Token, ...]
    """Without negations."""
    negated: bool
    past: bool
    """It tells what happened, or what was: two of those do not exclude one another."""
    vague: bool
    """Its subject stands elsewhere: it, they, this."""
    keys: frozenset[str]
    around: frozenset[str]
    """Keys of the whole sentence, with what was cut off."""


class Read(Struct, frozen=True):
    """A memory, read. `title` and `said`: the keys of all its title's, all its words."""

    claims: tuple[Claim, ...]
    title: frozenset[str]
    said: frozenset[str]
    marked: frozenset[str] = field(default=frozenset())
    """Keys of the title that are names, labels or numbers."""


def read(title: str | None, content: str, me: frozenset[str] = frozenset()) -> Read:
    """`me`: folded words that mean the user (their name); they are left out like "the user"."""
    me = me | SELF
    text = _CODE.sub(" ", content[:MAX_TEXT])
    claims: list[Claim] = []
    said: set[str] = set()
    heading = _tokens(title or "", me)
    sentences = [title] if title else []
    sentences += [part for line in text.splitlines() for part in _SENTENCE.split(_BULLET.sub("", line))]
    for sentence in sentences:
        clean = " ".join(sentence.split()).strip(" .!;:*_#>")
        if not clean or clean.endswith("?"):
            continue
        everything = _tokens(_REASON.sub("", clean), me)
        said.update(token.key for token in everything)
        if len(claims) < MAX_CLAIMS and (claim := _claim(clean, everything, me)) is not None:
            claims.append(claim)
    marked = {token.key for token in heading if token.sort in (Sort.NAME, Sort.LABEL, Sort.NUMBER)}
    keys = frozenset(token.key for token in heading)
    return Read(tuple(claims), keys, frozenset(said) | keys, frozenset(marked))


def _claim(sentence: str, everything: list[Token], me: frozenset[str]) -> Claim | None:
    if HISTORY.search(sentence):
        return None
    main = _main(sentence)
    tokens = _tokens(main, me) if main != sentence else everything
    negations = sum(token.key == NOT for token in tokens)
    left = tuple(token for token in tokens if token.key != NOT)
    if not 2 <= len(left) <= MAX_TOKENS or negations > 1:
        return None
    return Claim(
        main, left, negations == 1, _is_past(main), _VAGUE.match(main) is not None,
        frozenset(token.key for token in left), frozenset(token.key for token in everything),
    )  # fmt: skip


def _main(sentence: str) -> str:
    """The sentence up to where it says why, or something else. A list is kept whole: half of it would be another claim."""
    sentence = _ASIDE.sub("", sentence)
    for found in _BREAK.finditer(sentence):
        head, rest = sentence[: found.start()], sentence[found.end() :]
        if found[0].startswith(",") and (_OPENING.match(head) or _LIST.match(rest)):
            continue
        if len(head.split()) >= 2:
            return head
    return sentence


def _is_past(text: str) -> bool:
    words = text.split()
    if PAST.search(text):
        return True
    for at, word in enumerate(words):
        low = fold(word).strip(".,")
        before = {fold(one) for one in words[max(0, at - 3) : at]}
        if at and low.endswith("ed") and len(low) > 4 and low not in NOT_PAST and not before & PASSIVE:
            return True
    return False


def _tokens(text: str, me: frozenset[str]) -> list[Token]:
    found: list[Token] = []
    lead: list[str] = []
    pieces = list(_PIECE.finditer(_UNIFORM.sub(_uniform, text.replace("\u2019", "'"))))
    at = 0
    while at < len(pieces):
        piece = pieces[at]
        at += 1
        if piece["time"]:
            hours, minutes = piece["time"].replace(".", ":").split(":")[:2]
            found.append(Token(f"@{int(hours)}:{minutes}", Sort.TIME, piece[0], lead=" ".join(lead)))
        elif piece["date"] or piece["month"]:
            found.append(Token(_date(piece), Sort.DATE, piece[0], lead=" ".join(lead)))
        elif piece["number"]:
            token, at = _number(piece, pieces, at, found, " ".join(lead))
            found.append(token)
        else:
            word = piece["word"] or ""
            low = _bare(word)
            if not low:
                continue
            if low in NEGATIONS or low.endswith("n't"):
                found.append(Token(NOT, Sort.WORD, word))
            elif low in JOINS:
                found.append(Token(JOINS[low], Sort.JOIN, word))
            elif low in AMOUNTS:
                token, at = _number(piece, pieces, at, found, " ".join(lead))
                found.append(token)
            elif low in DAYS or (low in MONTHS and low != "may"):
                found.append(Token(f"={DAYS.get(low) or MONTHS[low]}", Sort.DATE, word, lead=" ".join(lead)))
            elif word != "US" and (low in me | FILLERS or (low in FUNCTION_WORDS and low not in TELLING)):
                lead.append(low)
                continue
            else:
                name = (
                    piece["tick"] is not None
                    or _NAME.search(word) is not None
                    or (word[:1].isupper() and piece.start() > 0)
                )
                found.append(Token(_stem(low), Sort.NAME if name else Sort.WORD, word, lead=" ".join(lead)))
        lead.clear()
    return found


def _bare(word: str) -> str:
    """A word folded, without quotes around it and without a genitive: `one's` is `one`."""
    return fold(word).strip("'").removesuffix("'s")


def _number(
    piece: re.Match[str], pieces: list[re.Match[str]], at: int, before: list[Token], lead: str
) -> tuple[Token, int]:
    """A number with its unit, or with the thing that it is the label of."""
    amount = AMOUNTS[_bare(piece[0])] if piece["number"] is None else float(piece["number"].replace(",", ""))
    text = piece[0]
    while at < len(pieces) and fold(pieces[at][0]) in SCALES:
        amount *= SCALES[fold(pieces[at][0])]
        text += " " + pieces[at][0]
        at += 1
    unit, factor = "", 1.0
    if piece["sign"]:
        unit, factor = UNITS[piece["sign"].lower()]
    elif at < len(pieces) and (known := UNITS.get(fold(pieces[at][0]))) is not None:
        unit, factor = known
        text += " " + pieces[at][0]
        at += 1
    elif before and not lead and before[-1].sort in (Sort.WORD, Sort.NAME) and (
        before[-1].key in LABELLED or len(before) == 1
    ):  # fmt: skip
        thing = before.pop()
        return Token(f"{thing.key}#{amount:g}", Sort.LABEL, f"{thing.text} {text}", lead=thing.lead), at
    return Token(f"#{amount * factor:g}{unit}", Sort.NUMBER, text, amount * factor, unit, lead), at


def _date(piece: re.Match[str]) -> str:
    if piece["date"]:
        return "=" + piece["date"]
    month = MONTHS[fold(piece["month"])]
    return f"={month} {int(piece['day'])}"


def _uniform(found: re.Match[str]) -> str:
    return WRITTEN[found[0].lower()]


def _stem(word: str) -> str:
    known = SAME.get(word)
    return known or " ".join(sorted(stems([word]))) or word


NOT = "!"
_UNIFORM = re.compile(r"\b(?:" + "|".join(sorted(WRITTEN, key=len, reverse=True)) + r")\b", re.IGNORECASE)
_MONTH_WORDS = "|".join(MONTHS)
_PIECE = re.compile(
    rf"""
    (?P<time>\b\d{{1,2}}:\d\d(?::\d\d)?\b)
    | (?P<date>\b\d{{4}}-\d\d(?:-\d\d)?\b)
    | (?:the\s)?(?P<day>\b\d{{1,2}})(?:st|nd|rd|th)?(?:\sof)?\s(?P<month>{_MONTH_WORDS})\b
    | (?P<sign>[$€£])?(?P<number>\b\d+(?:,\d{{3}})*(?:\.\d+)?)(?![\w.-]*[^\W\d]|[.-]\d)
    | (?P<percent>%)
    | (?P<tick>`)?(?P<word>[^\W_][\w.+\#/'-]*(?<![.'/-])|\w)`?
    """,
    re.VERBOSE | re.IGNORECASE,
)
_NAME = re.compile(r"[^\W\d_].*\d|\d.*[^\W\d_]|[a-z][A-Z]|^[A-Z][A-Z]+$|\w[_/.]\w|^c[+#]", re.UNICODE)
_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_BULLET = re.compile(r"^\s*(?:[-*+>]|\d+[.)]|#+)\s+")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\s*;\s+|\s+[–—]\s+")
_REASON = re.compile(r",?\s+(?:because|since|weil|seit|as of|effective)\s.*", re.IGNORECASE)
_ASIDE = re.compile(r"\s*\([^)]*\)")
_BREAK = re.compile(
    r",\s+|\s+(?:because|since|so that|so|although|though|which|who|weil|denn|seit|as of|starting|effective)\s+"
    r"|\s+and\s+(?=(?:is|are|has|eats|answers|gives|uses|must|can)\b)|:\s+",
    re.IGNORECASE,
)
_OPENING = re.compile(
    r"(?:in|on|at|for|when|if|during|after|before|until|with|without|as|once|unless|from|by|under|wenn|im|am)\b",
    re.IGNORECASE,
)
_LIST = re.compile(r"[\w`.'-]+(?:\s[\w`.'-]+)?(?:,| and | or )", re.UNICODE)
_VAGUE = re.compile(r"(?:it|they|this|that|these|those|both|es|sie|dies)\b", re.IGNORECASE)
