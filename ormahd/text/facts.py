"""Exact facts in a text: numbers with units, versions, times, dates, names, addresses, paths and code. Pure.

`terms` cuts a text into words and values, and reduces each value to one form, so that `text.statement` can compare
them. It knows values as written in English, German, Spanish, French and Chinese; everything else is a word.

`exact_tokens` finds exact names in a query (`OPS-2310`, `0.5.2`, `src/app.py`, `parseTide`). `lost_facts` returns the
facts that a summary lacks. Both compare facts as written: "21 November" in place of "2026-11-21" counts as lost. So a
good summary may be refused, but no fact gets lost.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from ormahd.text.tables import patterns, tables
from ormahd.text.words import FUNCTION_WORDS, fold


class Sort(StrEnum):
    """What a word or value in a text is. Values are those in `VALUES`."""

    WORD = "word"
    NAME = "name"
    """A word that is written like a name: with a capital, with letters and digits, or in backticks."""
    LABEL = "label"
    """A thing with its number: camera 3, phase 1."""
    NUMBER = "number"
    VERSION = "version"
    TIME = "time"
    """A time of day."""
    DATE = "date"
    """A day, a month or a year."""
    WEEKDAY = "weekday"
    ADDRESS = "address"
    """A path, a host, an e-mail address, a link, or a dotted or dashed code."""
    HAN = "han"
    """A single Chinese character."""


VALUES = frozenset({Sort.NUMBER, Sort.VERSION, Sort.TIME, Sort.DATE, Sort.WEEKDAY, Sort.ADDRESS})
"""Sorts of values. A thing usually has only one value of a sort at a time, so two values may contradict each other."""


class Term(Struct, frozen=True):
    """A word or value in a text, as found by `terms`."""

    key: str
    """Its form for comparison: equal keys mean the same."""
    sort: Sort
    text: str
    """The word or value as written."""
    at: int
    """Its position in the text, in characters."""
    amount: float = 0.0
    """The value of a number, in base units, or the minute of a time; 0 for other sorts."""
    unit: str = ""
    """The dimension of `amount` (`s`, `B`, `EUR`). Amounts of the same dimension can be compared."""


_VALUES = tables("values.toml")


def _pairs(listed: str) -> dict[str, float]:
    """Return `{name: value}` from text such as `kb=1000 mb=1e6`."""
    return {name: float(value) for name, _, value in (pair.rpartition("=") for pair in listed.split())}


UNITS: Final = {
    name: (base, many) for base, listed in _VALUES["units"].items() for name, many in _pairs(listed).items()
}
"""`{name of a unit: (dimension, size in the base unit of this dimension)}`."""
AMOUNTS: Final = _pairs(_VALUES["numbers"]["words"])
TENS: Final = frozenset(_VALUES["numbers"]["tens"].split())
SCALES: Final = _pairs(_VALUES["numbers"]["scales"])
_HAN_DIGITS: Final = _pairs(_VALUES["numbers"]["han_digits"])
_WEEK: Final = [(name, number) for number, names in enumerate(_VALUES["days"]["week"], 1) for name in names.split()]
WEEKDAYS: Final = {name + end: f"day{number}" for name, number in _WEEK for end in ("", "s")}
_SMALL_WEEKDAYS: Final = frozenset(_VALUES["days"]["small"].split())
MONTHS: Final = {name: number for number, names in enumerate(_VALUES["days"]["year"], 1) for name in names.split()}
_NOT_MONTHS: Final = frozenset(_VALUES["days"]["not_months"].split())
_MONTH = "|".join(sorted(MONTHS, key=len, reverse=True))
_PIECE: Final = patterns("values.toml", "patterns", month=_MONTH)["piece"]
_SEAM = re.compile(r"(?<=[\u3400-\u9fff])(?<!月)(?=[A-Za-z0-9])|(?<=[A-Za-z0-9%])(?=[\u3400-\u9fff])(?![点月日号])")
_TENS = re.compile(r"\b(twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety)-(?=[a-z])", re.IGNORECASE)
_INNER = re.compile(r"^(?=.*[^\W\d_])(?=.*\d)|[a-z][A-Z]|^[A-Z][A-Z]+$|^c[+#]")


def terms(text: str) -> Iterator[Term]:
    """Yield the words and the values (numbers, times, dates, versions, addresses) of a text, in order."""
    text = unicodedata.normalize("NFKC", text).replace("\u2019", "'")
    if not text.isascii():
        text = _SEAM.sub(" ", text)
    text = _TENS.sub(r"\1 ", text)
    found = list(_PIECE.finditer(text))
    at = 0
    while at < len(found):
        piece, at = found[at], at + 1
        plain = piece["plain"]
        if plain is None:
            made, at = _read_value(piece, found, at)
        else:  # most pieces are plain words, and need none of the other tests
            made, at = _term(plain, plain.lower() if plain.isascii() else fold(plain), piece, found, at)
        if made is not None:
            yield made


def _read_value(piece: re.Match[str], found: list[re.Match[str]], at: int) -> tuple[Term | None, int]:
    """Return (the word or value that `piece` begins, index in `found` of the first match that is not part of it).

    The first is None if the piece has no meaning of its own: a percent sign, an empty word, an impossible time.
    `found`: all matches in the text; `at`: index in it of the match after `piece`.
    """
    text, start = piece[0], piece.start()
    if piece["link"] or piece["address"]:
        key = fold(text).rstrip("/.")
        if piece["address"] and "/" in text and not text.startswith(("/", "~")) and text.replace("/", "").isalpha():
            return Term(key, Sort.WORD, text, start), at  # and/or
        if piece["address"] and re.fullmatch(r"[A-Za-z]+(?:\.[A-Za-z])+\.?", text):
            return Term(key.replace(".", ""), Sort.WORD, text, start), at  # e.g.
        return Term(key, Sort.ADDRESS, text, start), at
    if piece["half"] or piece["time"] or piece["hantime"]:
        when = _minute_of_day(piece)
        return (
            Term(f"@{when // 60}:{when % 60:02}", Sort.TIME, text, start, when, "@") if when is not None else None
        ), at
    if piece["iso"]:
        return Term("=" + text, Sort.DATE, text, start), at
    if piece["hanweekday"]:
        return Term(f"day{'一二三四五六日'.find(text[-1].replace('天', '日')) + 1}", Sort.WEEKDAY, text, start), at
    if piece["handate"]:
        day = f" {_chinese_number(piece['handay']):g}" if piece["handay"] else ""
        return Term(f"={_chinese_number(piece['hanmonth']):g}{day}", Sort.DATE, text, start), at
    if piece["month"] or piece["month2"]:
        name, number = piece["month"] or piece["month2"], piece["day"] or piece["day2"]
        return Term(f"={MONTHS[fold(name)]} {int(number)}", Sort.DATE, text, start), at
    if piece["version"]:
        return Term("v" + fold(text).lstrip("v"), Sort.VERSION, text, start), at
    if piece["number"] or piece["hannumber"]:
        return _read_amount(piece, found, at)
    if piece["percent"]:
        return None, at
    if piece["han"]:
        return Term(text, Sort.HAN, text, start), at
    word = piece["word"]
    low = fold(word).strip("'").removesuffix("'s")
    if "'" in low and not low.endswith("n't"):
        low = low.partition("'")[2] if low.index("'") <= 2 else low.partition("'")[0]
    return _term(word, low, piece, found, at) if low else (None, at)


def _term(word: str, low: str, piece: re.Match[str], found: list[re.Match[str]], at: int) -> tuple[Term | None, int]:
    """Return (the term that begins with `word`, index in `found` of the first match that is not part of it).

    The term is an amount, a weekday, a month, a name or a plain word. `low`: `word`, folded; `piece`: the match that
    contains `word`; `at`: index in `found` of the match after `piece`.
    """
    start = piece.start()
    if low in AMOUNTS:
        return _read_amount(piece, found, at, low)
    if low in WEEKDAYS and (word[0].isupper() or low in _SMALL_WEEKDAYS):
        return Term(WEEKDAYS[low], Sort.WEEKDAY, word, start), at
    if low in MONTHS and (low not in _NOT_MONTHS or (word[0].isupper() and start > 0)) and len(low) > 2:
        return Term(f"={MONTHS[low]}", Sort.DATE, word, start), at
    named = piece["tick"] is not None or _INNER.search(word) is not None or word[:1].isupper()
    return Term(low, Sort.NAME if named else Sort.WORD, word, start), at


def _read_amount(piece: re.Match[str], found: list[re.Match[str]], at: int, word: str = "") -> tuple[Term, int]:
    """Return (an amount with its unit, index in `found` of the match after both).

    `piece`: the match with the number; `at`: index in `found` of the match after it; `word`: the number, if it is
    written as a word.
    """
    start, text = piece.start(), piece[0]
    if piece["hannumber"]:
        amount = _chinese_number(piece["hannumber"])
    elif piece["number"]:
        amount = _plain_number(piece["number"])
    else:
        amount = AMOUNTS[word]
        if word in TENS and at < len(found) and (more := AMOUNTS.get(fold(found[at][0]), 0.0)) and 1 <= more <= 9:
            amount += more
            at += 1
        if word == "half" and at < len(found) and fold(found[at][0]) in ("a", "an"):
            at += 1
    suffix = fold(piece["suffix"] or "") if piece["number"] else ""
    if suffix in SCALES:
        amount *= SCALES[suffix]
        suffix = ""
    while at < len(found) and fold(found[at][0]) in SCALES and not suffix:
        amount *= SCALES[fold(found[at][0])]
        text += " " + found[at][0]
        at += 1
    unit, factor = "", 1.0
    sign = (piece["sign"] or "") if piece["number"] else ""
    if sign or suffix in UNITS:
        unit, factor = UNITS[sign or suffix]
    elif suffix and suffix not in ("st", "nd", "rd", "th"):  # 3d, 64bit, 9c41
        return Term(fold(piece[0]), Sort.NAME, piece[0], start), at
    elif at < len(found):
        following = found[at]
        word = fold(following[0]).strip("`")
        joined = "".join(near[0] for near in found[at : at + 2]) if following["han"] else word
        if following["han"] and joined in UNITS:
            unit, factor = UNITS[joined]
            text, at = text + " " + joined, at + 2
        elif joined[:1] in UNITS and following["han"]:
            unit, factor = UNITS[joined[:1]]
            text, at = text + joined[:1], at + 1
        elif word in UNITS:
            unit, factor = UNITS[word]
            text, at = text + " " + following[0], at + 1
    value = amount * factor
    if (
        not unit and piece["number"] and "." in piece["number"] and not piece["suffix"] and " " not in text
    ):  # 3.10 is no 3.1
        return Term("#" + piece["number"], Sort.NUMBER, text.strip(), start, value), at
    return Term(f"#{value:g}{unit}", Sort.NUMBER, text.strip(), start, value, unit), at


def _plain_number(text: str) -> float:
    """Return the value of a written number: `1,000`, `1 000`, `10.000` are thousands; `1.5`, `1,5`, `1.000`
    fractions."""
    if re.fullmatch(r"\d{1,3}(?:[,.' ]\d{3})+", text) and not re.fullmatch(r"\d\.\d{3}", text):
        return float(re.sub(r"\D", "", text))
    return float(text.replace(",", ".").replace("'", ""))


def _minute_of_day(piece: re.Match[str]) -> int | None:
    """Return the time of day that `piece` names, in minutes since midnight; None if there is no such time."""
    if piece["hantime"]:
        hour = int(_chinese_number(piece["hour"]))
        minute = piece["minute"] or ""
        minutes = 30 if minute == "半" else int(_chinese_number(minute[:-1])) if minute else 0
        late = piece["part"] in ("下午", "晚上") and hour < 12
        return (hour + 12 * late) * 60 + minutes
    text = fold(piece[0])
    if piece["half"]:
        last = text.split()[-1]
        named = AMOUNTS.get(last, float(last) if last.isdigit() else 0.0)
        if not named:
            return None
        if text.startswith(("halb", "half")):
            return int(named * 60 + (30 if text.startswith("half") else -30))
        return int(named * 60 + (15 if "past" in text or "nach" in text else -15))
    if text in ("noon", "mittags", "mediodia", "midi"):
        return 720
    if text == "midnight":
        return 0
    digits = [int(digit) for digit in re.findall(r"\d+", text)]
    hour, minute = digits[0], digits[1] if len(digits) > 1 else 0
    late = re.search(r"p\.?m", text) is not None and hour < 12
    return (hour + 12 * late) * 60 + minute if hour < 25 and minute < 60 else None


def _chinese_number(text: str) -> float:
    """Return the value of a number that is written in digits or in Chinese (up to thousands)."""
    if text.isdigit():
        return float(text)
    total, digit = 0.0, 0.0
    for char in text:
        if char in "十百千":
            total += (digit or 1.0) * {"十": 10, "百": 100, "千": 1000}[char]
            digit = 0.0
        else:
            digit = float(_HAN_DIGITS.get(char, 0))
    return total + digit


MAX_EXACT_TOKENS: Final = 6
"""Maximum number of exact tokens that are taken from a text. A pasted log has hundreds."""
MAX_SEARCHED: Final = 20_000
"""Maximum number of characters of a text that are searched for exact tokens."""
MAX_TOKEN_LENGTH: Final = 200
"""Maximum number of characters of an exact token."""

_QUOTED = re.compile(r"`([^`\n]{2,200})`|\"([^\"\n]{2,200})\"|“([^”\n]{2,200})”|«\s?([^»\n]{2,200}?)\s?»")
_GAPS = re.compile(
    r"[\s()\[\]{}<>\"`“”„«»|=]+|,(?!\d)|;|…|[\u3000-\u30ff\u3400-\u9fff\uac00-\ud7ff\uff01-\uff1f\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]+"
)
"""Matches what separates tokens: blanks, brackets, quotes, and text in scripts without spaces."""
_EDGES = ".,:;!?'’‘*~#%$&+/\\-–—"
_MARKED = re.compile(r"\w[@_./:\-]+\w")
_NO_NAME = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]?|\d{1,2}(?:st|nd|rd|th|am|pm)?|(?:19|20)\d\d", re.IGNORECASE)
"""Matches tokens that are never exact names, because every text may have them: abbreviations, small numbers, hours,
years."""
_CAMEL = re.compile(r"[a-z0-9][A-Z]")
_WHOLE_NUMBER = re.compile(r"\d+(?:[.,]\d{3})*")
_WORDS = re.compile(r"[^\W\d_]+(?:[-/][^\W\d_]+)*")


class ExactToken(Struct, frozen=True):
    """A name, number or quoted phrase in a query that texts must contain exactly."""

    text: str
    """The token as written."""
    plain: bool
    """True if it is often written in other ways (whole numbers, words with a hyphen, quoted phrases). Then a text
    without it may mean the same."""

    def stands_in(self, folded: str) -> bool:
        """Return whether a folded text contains the token, other than as part of a longer name or number."""
        return self._pattern().search(folded) is not None

    def _pattern(self) -> re.Pattern[str]:
        """Return the pattern that matches this token in a folded text. The `v` of a version may be missing or added."""
        name = fold(self.text)
        version = re.fullmatch(r"v(\d.*)", name)
        inner = r"\s+".join(map(re.escape, (version[1] if version else name).split()))
        before = r"(?<!\w)(?<!\w[@.\-])"
        if inner[:1].isdigit():
            before = rf"(?:{before}v?|(?<=[^\W\d_][-_]))"
        return re.compile(rf"{before}{inner}(?!\w)(?![@.\-]\w)")


def exact_tokens(text: str) -> list[ExactToken]:
    """Return the names, numbers and quoted phrases in a text that are searched exactly, each once, at most
    `MAX_EXACT_TOKENS`."""
    found: dict[str, ExactToken] = {}
    text = text[:MAX_SEARCHED]
    for quoted in _QUOTED.finditer(text):
        phrase = " ".join(next(filter(None, quoted.groups())).split())
        if " " in phrase:
            found.setdefault(fold(phrase), ExactToken(phrase, plain=True))
    for piece in _GAPS.split(text):
        token = _token(piece.strip(_EDGES).removesuffix("'s").removesuffix("’s"))
        if token is not None:
            found.setdefault(fold(token.text), token)
        if len(found) >= MAX_EXACT_TOKENS:
            break
    return list(found.values())[:MAX_EXACT_TOKENS]


def _token(name: str) -> ExactToken | None:
    """Return a piece of a text as an exact token; None if it is an ordinary word, or too short or too long.

    A token has a digit, an inner sign such as `@` or `/`, or a capital after a small letter.
    """
    if len(name) < 2 or len(name) > MAX_TOKEN_LENGTH or _NO_NAME.fullmatch(name):
        return None
    digits = any(char.isdigit() for char in name)
    if not (digits or _MARKED.search(name) or _CAMEL.search(name)):
        return None
    hyphenated = _WORDS.fullmatch(name) and not (_CAMEL.search(name) and name[0].islower())
    return ExactToken(name, plain=bool(_WHOLE_NUMBER.fullmatch(name) or hyphenated))


_URL = re.compile(r"\b[a-z][a-z0-9+.-]{0,30}://[^\s<>\"'`|\\^{}\[\]]+", re.IGNORECASE)
_ADDRESS = re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_CODE = re.compile(r"(?<!`)`([^`\n]{1,200})`(?!`)")
_PATH = re.compile(
    r"(?<![\w/.~:@%+-])(?:(?:~|\.{1,2})?(?:/[\w@%+=.-]+)+/?|[A-Za-z]:\\[\w\\.@ -]+|[\w@%+.-]+(?:/[\w@%+.-]+){2,}"
    r"|[\w@%+.-]+/[\w@%+-]+\.[A-Za-z]\w{0,7})(?![\w/])"
)
_FILE = re.compile(
    r"(?<![\w./@-])(?!(?:\w\.)+\w(?!\w))(?:[\w-]+\.)+(?=[A-Za-z])\w{1,8}(?![\w/@-])|(?<![\w./@-])\.[A-Za-z][\w-]+(?![\w/@])"
)
_NUMBER = re.compile(r"\d+(?:[.,:/\u2019'-]?\d+)*")
_WORD = re.compile(r"[^\W\d_][\w'\u2019+#&-]*")
_SENTENCE_END = re.compile(r"(?:[.!?…:]['\")\]»”]*|^|\n)\s*(?:[-*#>]\s*|\d+[.)]\s+)*['\"(\[«“]*$")
_TRAILING = ".,;:!?…)]}»”'\""
_VERB_ENDINGS = ("s", "ed", "ing", "es")
_STEM = 4
"""Minimum number of first letters that the first word of a sentence must have in common with a word of the summary,
if it is not certainly a name (prefers, preferred)."""
_LATER = 3
"""Maximum number of its last letters in which such a word may differ from the word of the summary."""


def lost_facts(sources: Iterable[tuple[str | None, str]], summary: str) -> list[str]:
    """Return the facts in `sources` that `summary` lacks, as written, each once.

    Facts are names, numbers, URLs, addresses, paths and code. `sources`: (title, content) of each memory that was
    summarised.
    """
    texts = [text for title, content in sources for text in (title or "", content)]
    whole = "\n".join(texts)
    known = _SummaryFacts(summary)
    found: dict[str, None] = {}
    for text in texts:
        rest = text
        for pattern in (_URL, _ADDRESS, _CODE, _PATH, _FILE):
            for match in pattern.finditer(rest):
                fact = match[match.lastindex or 0].strip().rstrip(_TRAILING)
                if fact and not known.literally(fact):
                    found[fact] = None
            rest = pattern.sub(lambda match: " " * len(match[0]), rest)
        found |= dict.fromkeys(number for number in _numbers(rest) if _plain_form(number) not in known.numbers)
    lower = frozenset(word for word in _WORD.findall(whole) if word[0].islower())
    for text in texts[1::2]:
        found |= dict.fromkeys(name for name, sure in _names_in(text, lower) if not known.named(name, sure=sure))
    return list(found)


class _SummaryFacts:
    """Looks up facts in a summary: numbers, names and literal texts."""

    def __init__(self, summary: str) -> None:
        self._folded = fold(summary)
        self.numbers = {_plain_form(number) for number in _numbers(summary)}
        self._words = {fold(word.rstrip("-&")) for word in _WORD.findall(summary)}
        self._words |= {part for word in self._words for part in re.split(r"['\u2019&-]", word) if part}

    def literally(self, text: str) -> bool:
        """Return whether the summary contains `text`, whatever its case."""
        return fold(text) in self._folded

    def named(self, name: str, *, sure: bool) -> bool:
        """Return whether the summary has a name. `sure`: whether it certainly is one (`_names_in`).

        Of a sure name, a plural or genitive counts too. A word that may be no name need only have its first letters in
        common with a word of the summary.
        """
        folded = fold(name)
        if folded in self._words:
            return True
        if sure:  # a plural or a genitive of it names it too
            return any(f"{folded}{ending}" in self._words for ending in ("s", "es")) or (
                folded.endswith("s") and folded[:-1] in self._words
            )
        stem = folded[: max(_STEM, len(folded) - _LATER)]
        return any(word.startswith(stem) for word in self._words)


def _numbers(text: str) -> Iterator[str]:
    """Yield the numbers in a text, as written; a date or version counts as one number."""
    return (match[0] for match in _NUMBER.finditer(text))


def _plain_form(number: str) -> str:
    """Return a number without separators of thousands; dates, versions and fractions are unchanged."""
    thousands = re.fullmatch(r"\d{1,3}(?:[,\u2019']\d{3})+", number)
    return re.sub(r"[,\u2019']", "", number) if thousands else number


def _names_in(text: str, lower: frozenset[str]) -> Iterator[tuple[str, bool]]:
    """Yield (name, sure) for each word that looks like a name, without a genitive ending.

    `sure` is False if the word may have its capital only because it begins a sentence. `lower`: words that the sources
    also write in small letters; these are no names.
    """
    for match in _WORD.finditer(text):
        word = re.sub(r"['\u2019](?:s|re|ve|ll|d|m|t)?$", "", match[0]).rstrip("-&")
        if not word or fold(word) in FUNCTION_WORDS:
            continue
        inner = any(letter.isupper() for letter in word[1:])
        if inner:
            yield word, True
        elif word[0].isupper() and len(word) > 1 and word.lower() not in lower:
            first = _SENTENCE_END.search(text[max(0, match.start() - 40) : match.start()]) is not None
            if not first:
                yield word, True
            elif match[0] != word or not _is_verb_like(word, text[match.end() : match.end() + 2]):
                yield word, False


def _is_verb_like(word: str, after: str) -> bool:
    """Return whether the first word of a sentence looks like a verb: `Uses uv`, `Decided to`.

    `after`: the two characters after the word.
    """
    return word.endswith(_VERB_ENDINGS) and len(after) == 2 and after[0] == " " and not after[1].isupper()


def sentences(text: str, count: int, characters: int = 200) -> Sequence[str]:
    """Return the first `count` sentences of a text, each cut to `characters`, without the marks of headings and
    lists."""
    found: list[str] = []
    for line in text.splitlines():
        clean = line.strip().lstrip("#>*-+ \t").strip()
        for sentence in re.split(r"(?<=[.!?…])\s+|(?<=[。！？])", clean):
            if any(letter.isalnum() for letter in sentence):
                found.append(sentence[:characters].strip())
            if len(found) == count:
                return found
    return found
