"""Compare two texts by their words: whether they say the same, and in what two similar texts differ.

`same` compares word by word. `EXACT` ignores case, white space, punctuation and emphasis. `NEAR` also ignores
articles, contractions, British or American spelling, hyphens, whether small numbers are words, and a title that
repeats the text. No other difference is ignored: memories with another number, name, negation, unit, path or word of
code are not the same.

`contrast` names a clear difference of two similar texts. Memories often come in series (a port for each server),
which every measure of similarity takes for duplicates. No judge is asked about such a pair.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Final, TypeVar

from ormahd.text.diff import common_ends
from ormahd.text.tables import tables
from ormahd.text.words import FUNCTION_WORDS, STOP_WORDS, fold

_FILE = tables("sameness.toml")


def _set(name: str) -> frozenset[str]:
    """Return the words in the entry `name` of `sameness.toml`."""
    return frozenset(_FILE[name].split())


class Same(StrEnum):
    """How two memories say the same."""

    EXACT = "the same words"
    NEAR = "the same words but for articles, spelling or punctuation"


_FENCE = re.compile(r"^[ \t>]*(`{3,}|~{3,})")
_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
_BOLD = re.compile(r"(?<![\w*])(\*{1,3})(?=[^\s*])([^*\n]+?)(?<=[^\s*])\1(?![\w*])")
_DASH = re.compile(r"(?<!\d)[\u2013\u2014]|[\u2013\u2014](?!\d)|(?<=\s)-{2,3}(?=\s)")
_BULLET = re.compile(r"^\s*(?:[-*\u2022](?=\s+\D)|#{1,6}(?=\s))\s*")
_UNSEEN = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]")
_SINGLE, _DOUBLE = "\u2018\u2019\u201b\u02bc", "\u201c\u201d\u201e\u00ab\u00bb"
_QUOTES = str.maketrans(dict.fromkeys(_SINGLE, "'") | dict.fromkeys(_DOUBLE, '"'))
_OPENING, _CLOSING = "(\"'\u300c\u300e\uff08", ")\"'.,;:!\u2026\u3002\u3001\uff0c\uff01\uff1b\uff1a\u300d\u300f\uff09"
_PLAIN = re.compile(r"[^\W\d_]+(?:['-][^\W\d_]+)*")
_CAMEL = re.compile(r"[a-z]+[A-Z]")
_ENDS = (".", "!", "?", ":", "\u2026")

_ABBREVIATIONS = _set("loud")
_CONTRACTED = (
    _FILE["contracted"]
    | {f"{verb}n't": f"{verb} not" for verb in _set("negated")}
    | {f"{who}'{end[-2:]}": f"{who} {end}" for who in _set("who") for end in ("are", "have", "will")}
)
_NUMBERS = {word: str(value) for value, word in enumerate(_FILE["numbers"].split(), 2)}
_OUR = _set("our")
_SPELLED: Final[dict[str, str]] = _FILE["spelled"]
_ISE = re.compile(r"(.{3,})is(e|es|ed|ing|er|ers|ation|ations)")
_ARTICLES = frozenset({"a", "an", "the"})
_ENGLISH = _set("english")
_FOREIGN = (FUNCTION_WORDS - STOP_WORDS) | _set("foreign")


def same(title: str | None, content: str, other_title: str | None, other_content: str) -> Same | None:
    """Return whether two memories say the same in the same words (EXACT) or nearly (NEAR); None if they do not."""
    ours, theirs = list(tokens(content)), list(tokens(other_content))
    if not ours or not theirs:
        return None
    if ours == theirs and list(tokens(title or "")) == list(tokens(other_title or "")):
        return Same.EXACT
    words = {*ours, *theirs}
    english = bool(words & _ENGLISH) and not words & _FOREIGN
    text = normalised(ours, english)
    if text != normalised(theirs, english) or not text:
        return None
    title_words, other_words = (normalised(list(tokens(named or "")), english) for named in (title, other_title))
    return Same.NEAR if _titles_agree(title_words, other_words, text) else None


@lru_cache(maxsize=1_000)
def gist(content: str) -> int:
    """Return a hash of a content. Contents that say the same (`same`) have equal hashes, so they can be compared
    quickly."""
    return hash(_core_words(content))


def normal_form(content: str) -> str:
    """Return a normal form of a content. Contents that say the same (`same`) have equal forms.

    Unlike `gist` it is the same in every process, so its hash may be stored.
    """
    return " ".join(_core_words(content))


def _core_words(content: str) -> tuple[str, ...]:
    """Return the words of a content that decide `gist` and `normal_form`: retold, without articles."""
    return tuple(part for part in normalised(list(tokens(content)), english=False) if part not in _ARTICLES)


def _titles_agree(first: tuple[str, ...], second: tuple[str, ...], text: tuple[str, ...]) -> bool:
    """Return whether the titles are equal, or one is missing and the text contains the other word for word."""
    if first == second:
        return True
    title = first or second
    starts = range(len(text) - len(title) + 1)
    return not (first and second) and any(text[at : at + len(title)] == title for at in starts)


def normalised(tokens: Sequence[str], english: bool) -> tuple[str, ...]:
    """Return `tokens` in one form: without articles, contractions written out, American spelling, small numbers as
    digits.

    `english`: whether `a` and `an` are articles in this text.
    """
    out: list[str] = []
    for token in tokens:
        if token == "the" or (english and token in _ARTICLES):  # noqa: S105
            continue
        for part in _CONTRACTED.get(token, token).split():
            if _PLAIN.fullmatch(part) and part.islower():
                out.extend(_one_spelling(piece) for piece in part.split("-"))
            else:
                out.append(part)
    return tuple(out)


def _one_spelling(word: str) -> str:
    """Return one form of a word that may be written in two ways: small numbers as digits, British spelling as
    American."""
    if word in _NUMBERS:
        return _NUMBERS[word]
    if word in _SPELLED:
        return _SPELLED[word]
    bare = word[:-1] if word.endswith("s") else word.removesuffix("ed")
    if bare in _OUR:
        return word.replace("our", "or", 1) if bare != "favourite" else word.replace("favour", "favor")
    found = _ISE.fullmatch(word)
    return f"{found[1]}iz{found[2]}" if found else word


def tokens(text: str) -> Iterator[str]:
    """Yield the words of a text in small letters, and signs with a meaning (`?`), in order.

    Code keeps its case. A line of a code block is one token.
    """
    fence: str | None = None
    prose: list[str] = []
    for line in _UNSEEN.sub("", text).split("\n"):
        mark = _FENCE.match(line)
        if fence is not None:
            if mark and mark[1].startswith(fence):
                fence = None
            elif line.strip():
                yield f"\x00{line.rstrip()}"  # indentation means something in code
        elif mark:
            yield from _prose_tokens("\n".join(prose))
            prose, fence = [], mark[1]
            yield f"\x00{line.strip().lstrip('`~')}"
        else:
            prose.append(line)
    yield from _prose_tokens("\n".join(prose))


def _prose_tokens(text: str) -> Iterator[str]:
    """Yield the tokens of a text outside of code blocks, see `tokens`."""
    at = 0
    for span in _SPAN.finditer(text):
        yield from _word_tokens(text[at : span.start()])
        # Case is kept: a word in code equals the same word in prose only if it has no capitals.
        yield from span[2].split()
        at = span.end()
    yield from _word_tokens(text[at:])


def _word_tokens(text: str) -> Iterator[str]:
    """Yield the tokens of a text without code, see `tokens`."""
    begins = True
    for line in _BOLD.sub(r"\2", text.translate(_QUOTES)).split("\n"):
        begins = begins or not line.strip() or _BULLET.match(line) is not None
        raw = _DASH.sub(" ", _BULLET.sub("", line)).split()
        loud = line.isupper()
        for at, word in enumerate(raw):
            token = word.lstrip(_OPENING).rstrip(_CLOSING + "?\uff1f")
            if token in {"", "-", "*", "\u2022"}:
                near = "".join(raw[max(0, at - 1) : at + 2])
                if token == "-" and any(sign.isdigit() for sign in near):  # noqa: S105
                    yield token
            elif token == "A" and not (begins and raw[at + 1 : at + 2] and raw[at + 1] not in STOP_WORDS):  # noqa: S105
                yield "\x00A"  # plan A, vitamin A: no article
            elif _PLAIN.fullmatch(token) and not _keeps_case(token, raw[at - 1] if at else "", loud):
                yield token.casefold()
            else:
                yield token
            if "?" in word[-2:] or "\uff1f" in word[-2:]:
                yield "?"
            begins = word.rstrip("\"')").endswith(_ENDS)


def _keeps_case(word: str, before: str, loud: bool) -> bool:
    """Return whether the case of a word matters: a name in code, a unit (Mb, MB), an abbreviation (IT, US).

    `before`: the previous word; `loud`: whether the whole line is in capitals.
    """
    if _CAMEL.match(word):
        return True
    if before and before[-1].isdigit() and len(word) <= 3:
        return True
    return not loud and word.isupper() and word.casefold() in _ABBREVIATIONS


REPLACED_WORDS = 2
"""Maximum number of words by which two texts may differ for `TextContrast.ONE_PLACE`."""
_NEGATED = re.compile(
    r"\b(?:not|no|never|none|neither|nor|without|cannot|nothing|\w+n't|nicht|kein\w*|jamais|не|нет)\b"
)
_NAME = re.compile(r"[^\W\d_]")
_SENTENCE = (".", "!", "?", ":", "\u2026")
_STRIPPED = "()[]{}\"'`*_.,;:!?\u2026\u201c\u201d\u2018\u2019\u00ab\u00bb"


class TextContrast(StrEnum):
    """In what two similar texts clearly differ."""

    MARKS = "each names a number, a name or a word of code that the other does not"
    NEGATION = "one of them says no"
    ONE_PLACE = "one says a word where the other says another"


def contrast(first: str, second: str) -> TextContrast | None:
    """Return in what two similar texts clearly differ, so that they are no duplicates; None if their words show no
    difference."""
    ours, theirs = distinctive_words(first), distinctive_words(second)
    folded = fold(first), fold(second)
    # A name does not count if the other text has it too, in small letters or within a word.
    mine = any(mark not in folded[1] for mark in ours - theirs)
    yours = any(mark not in folded[0] for mark in theirs - ours)
    if mine and yours:
        return TextContrast.MARKS
    if bool(_NEGATED.search(folded[0])) != bool(_NEGATED.search(folded[1])):
        return TextContrast.NEGATION
    return TextContrast.ONE_PLACE if _differs_in_one_place(first, second) else None


def distinctive_words(text: str) -> set[str]:
    """Return the numbers, names and words of code in a text, folded.

    A word is no name if only the beginning of a sentence gives it a capital.
    """
    found: set[str] = set()
    for line in text.split("\n"):
        begins = True
        for word in line.split():
            bare = word.strip(_STRIPPED)
            inner = bare[1:] if begins else bare
            marked = not bare.replace("-", "").replace("'", "").isalpha() or any(map(str.isupper, inner))
            if marked and bare.partition("'")[0] != "I" and (_NAME.search(bare) or bare[-1:].isdigit()):
                found.add(fold(bare))
            begins = word.rstrip("\"')*`").endswith(_SENTENCE)
    return found


def _differs_in_one_place(first: str, second: str) -> bool:
    """Return whether two texts are equal except for one to `REPLACED_WORDS` words in which each has another word."""
    ours, theirs = (normalised(list(tokens(text)), english=True) for text in (first, second))
    if len(ours) == len(theirs):  # the same word may be replaced at several places, such as title and text
        return 0 < len({two for two in zip(ours, theirs, strict=True) if two[0] != two[1]}) <= REPLACED_WORDS
    # texts of other lengths must have other words at one place only
    head, tail = common_ends(ours, theirs)
    return 0 < len(ours) - head - tail <= REPLACED_WORDS and 0 < len(theirs) - head - tail <= REPLACED_WORDS


T = TypeVar("T")
LONGEST: Final = 4_000
"""Maximum number of characters of a content that is compared word by word. Longer ones say the same only if equal."""

TitledText = tuple[str | None, str]
"""(title, content) of a memory."""


def grouped(items: Iterable[tuple[T, TitledText]]) -> list[tuple[T, list[T]]]:
    """Return the items in groups whose memories say the same: (first item, the others) of each group, in order.

    `items`: each item with the (title, content) of its memory.
    """
    groups: list[tuple[T, list[T]]] = []
    texts: list[TitledText] = []
    for item, text in items:
        at = next((at for at, known in enumerate(texts) if says_the_same(known, text)), None)
        if at is None:
            groups.append((item, []))
            texts.append(text)
        else:
            groups[at][1].append(item)
    return groups


def says_the_same(first: TitledText, second: TitledText) -> bool:
    """Return whether two memories say the same (`same`). Memories with a content longer than `LONGEST` must be
    equal."""
    if first == second:
        return True
    shorter, longer = sorted((len(first[1]), len(second[1])))
    if longer > LONGEST or longer > 2 * shorter + 40 or gist(first[1]) != gist(second[1]):
        return False
    return same(*first, *second) is not None
