"""Words: how texts are cut into the words that search and whispers compare, and the stems of words.

Full text search finds each word that `words` returns. Text is folded (NFKC, casefold, accents dropped), then cut:

- a word consists of letters, digits and their marks; `snake_case`, `v1.2`, `3.11`, `c++` and `c#` stay whole;
- English endings after an apostrophe go (`user's` is `user`), `don't` stays, `l'avion` is `l`, `avion`;
- scripts without spaces (Han, kana, Hangul, Thai, Lao, Khmer, Burmese) become overlapping pairs of letters.
"""

from __future__ import annotations

import re
import sqlite3
import sys
import threading
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from functools import cache, lru_cache
from itertools import pairwise

from ormahd.process import sql
from ormahd.text.language import function_words, question_stems
from ormahd.text.tables import tables

FTS_TOKENIZE = "porter unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'"
"""The FTS5 tokenizer that `fts_text` is written for. FTS5's default treats vowel signs as separators."""


_FILE = tables("words.toml")
STOP_WORDS = frozenset(_FILE["stop"].split())
"""English function words."""
FUNCTION_WORDS = STOP_WORDS | frozenset(_FILE["function"].split())
"""Function words of English and other languages. Words that mean something else in English are left out."""
IDENTITY_WORDS = frozenset(_FILE["identity"].split())
"""Words in a query that asks about the user. Memories with the tag `about_self` answer it."""
QUESTION_WORDS = frozenset(_FILE["question"].split())
_UNSPACED: str = _FILE["letters"]["unspaced"]
_ACCENTS = re.compile(_FILE["letters"]["accents"])
PART = 32_768
"""Number of characters of a long text that are processed at once. Patterns and normalisation hold the GIL meanwhile."""
_UNJOINED = re.compile("[\x00-\x7f\u3400-\u9fff\uac00-\ud7a3]")
"""Matches a character that normalisation never combines with the one before it. A text can be cut there."""
_BLANK = re.compile(r"[ \t\n]")
SHORT = 200
"""Maximum number of characters of a text whose words are cached."""
_NOT_TEXT = re.compile("[\x00-\x08\x0e-\x1f\x7f\ud800-\udfff]")
_APOSTROPHES = str.maketrans(dict.fromkeys("\u2018\u2019\u201b\u02bc\u02bb\u05f3\u00b4", "'") | {"\u0149": "'n"})
_APOSTROPHE_ENDINGS = frozenset({"s", "re", "ve", "ll", "d", "m"})
_SIGNS = {"+": "plus", "#": "sharp"}
_SIGN = re.compile(r"[a-z](?:\+\+|#)")
"""Matches what may be a name such as `c++` or `c#`, or the end of a longer word."""
_TRAILING = "\"')]}»”’* \t\r\n"


def fold(text: str) -> str:
    """Return the form in which texts are compared: NFKC, casefolded, without accents; control characters become
    spaces."""
    if len(text) <= PART:
        return _fold(text)
    return "".join(map(_fold, _text_parts(text, _UNJOINED)))


def _text_parts(text: str, seam: re.Pattern[str]) -> Iterator[str]:
    """Yield the text in parts of at least `PART` characters. Each part but the first begins where `seam` matches."""
    start = 0
    while (found := seam.search(text, start + PART)) is not None:
        yield text[start : found.start()]
        start = found.start()
    yield text[start:]


def _fold(text: str) -> str:
    """Return the folded form of a text of at most a few `PART`, see `fold`."""
    if text.isascii():
        return _NOT_TEXT.sub(" ", text).lower()
    text = unicodedata.normalize("NFKC", _NOT_TEXT.sub(" ", text).translate(_APOSTROPHES)).casefold()
    return unicodedata.normalize("NFKC", _ACCENTS.sub("", unicodedata.normalize("NFKD", text))).casefold()


def words(text: str) -> list[str]:
    """Return the words of `text`, folded, in order, with repetitions."""
    return list(_cached_words(text)) if len(text) <= SHORT else _split(text)


def _split(text: str) -> list[str]:
    """Return the words of a text, see `words`."""
    found: list[str] = []
    for part in _text_parts(fold(text), _BLANK):
        for piece in _word_matches(part):
            found.extend(_words_of(piece))
    return found


@lru_cache(maxsize=4096)
def _cached_words(text: str) -> tuple[str, ...]:
    """Return the words of a short text, cached."""
    return tuple(_split(text))


def query_terms(text: str) -> list[str]:
    """Return the words of a query, each once, without stop words; if it has only stop words, all its words.

    Stop words are the English ones. For a query of more than two words, or with non-ASCII letters, they are also
    those of other languages.
    """
    every = list(dict.fromkeys(words(text)))
    idle = STOP_WORDS
    if not text.isascii() or len(every) > 2:
        idle = STOP_WORDS | FUNCTION_WORDS | frozenset(map(fold, function_words(text)))
    return [word for word in every if word not in idle] or every


def is_question(text: str) -> bool:
    """Return whether the text starts like an English question or ends with a question mark of any script."""
    if text.rstrip(_TRAILING).endswith(("?", "？", "؟", "⁇", "⁈", "՞")):
        return True
    return next(iter(words(text[:SHORT])), "") in QUESTION_WORDS


def fts_text(text: str) -> str:
    """Return `text` as it is written to FTS5: folded, and scripts without spaces as pairs of letters.

    The last letter of a run of such a script is added alone. A query of one letter looks for a prefix (`fts_match`),
    and without this would not find the last letter.
    """
    return "".join(map(_fts_part, _text_parts(fold(text), _BLANK)))


def _fts_part(folded: str) -> str:
    """Return a part of a folded text as it is written to FTS5, see `fts_text`."""
    if not _SIGN.search(folded):
        # In most texts words stay as they are, so they need not be searched. That is ten times as fast.
        if folded.isascii():
            return folded
        if not _unspaced_pattern().search(folded):
            return _stray_pattern().sub(lambda stray: _ascii_gap(stray[0]), folded)
    parts: list[str] = []
    end = 0
    for piece in _word_matches(folded):
        parts.append(_ascii_gap(folded[end : piece.start()]))
        end = piece.end()
        if piece["run"]:
            letters = _characters(piece["run"])
            parts.append(f" {' '.join([*map(''.join, pairwise(letters)), letters[-1]])} ")
        elif piece["sign"]:
            parts.append(_fts_form(piece["sign"]))
        else:
            parts.append(piece["word"])
    parts.append(_ascii_gap(folded[end:]))
    return "".join(parts)


def fts_match(terms: Iterable[str]) -> str:
    """Return an FTS5 MATCH expression that finds notes with any of `terms`; without terms one that finds nothing.

    Operators of FTS5 within a term are quoted, so they have no effect. A word is also looked up by its stems in other
    languages (`language`).
    """
    phrases: dict[str, None] = {}
    for term in dict.fromkeys(terms):
        clean = _NOT_TEXT.sub(" ", _fts_form(term)).replace('"', '""')
        if clean.strip():
            # one letter of a script without spaces is found as the prefix of the pairs that it begins
            lone = not clean.isascii() and _letter_pattern().fullmatch(clean) is not None
            phrases[f'"{clean}" *' if lone else f'"{clean}"'] = None
            phrases |= dict.fromkeys(f'"{stem}"' for stem in question_stems(term))
    return " OR ".join(phrases) or '""'


def overlap(first: Collection[str], second: Collection[str]) -> float:
    """Return the Jaccard index of two sets of words; 0 if both are empty."""
    ours, theirs = set(first), set(second)
    return len(ours & theirs) / len(ours | theirs) if ours or theirs else 0.0


def _words_of(piece: re.Match[str]) -> list[str]:
    """Return the words of a match of `_word_matches`: pairs of letters for a script without spaces, parts around
    apostrophes."""
    if piece["run"]:
        letters = _characters(piece["run"])
        return [a + b for a, b in pairwise(letters)] or letters
    if piece["sign"]:
        return [piece["sign"]]
    word = piece["word"].rstrip("_")
    if "'" not in word or word.endswith("n't"):
        return [word]
    parts = [part.strip("_") for part in word.split("'")]
    return [part for part in (parts[:-1] if parts[-1] in _APOSTROPHE_ENDINGS else parts) if part]


def _fts_form(term: str) -> str:
    """Return `c++` or `c#` as a word that FTS5 can index; other terms unchanged."""
    if term.endswith(("++", "#")) and len(term) <= 3:
        return "".join(_SIGNS.get(char, char) for char in term)
    return term


def _ascii_gap(text: str) -> str:
    """Return the text between two words without non-ASCII characters, because FTS5 may take these for letters."""
    return text if text.isascii() else re.sub(r"[^\x00-\x7f]+", " ", text)


def _characters(run: str) -> list[str]:
    """Return the letters of a run of a script without spaces, each with its combining marks."""
    return _letter_pattern().findall(run)


def _word_matches(folded: str) -> Iterator[re.Match[str]]:
    """Yield a match for each word, each run of a script without spaces (`run`), and each `c++` or `c#` (`sign`)."""
    cutter = _word_pattern("", "") if folded.isascii() else _word_pattern(_UNSPACED, _marks())
    return cutter.finditer(folded)


@cache
def _marks() -> str:
    r"""Return all combining marks as a part of a character class. `\w` does not match them."""
    ranges: list[list[int]] = []
    first, last = 0x300, min(0x20000, sys.maxunicode)  # marks above are not used in words
    for code, kind in enumerate(map(unicodedata.category, map(chr, range(first, last))), first):
        if kind[0] != "M":
            continue
        if ranges and code == ranges[-1][1] + 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)


@cache
def _word_pattern(unspaced: str, marks: str) -> re.Pattern[str]:
    """Return the pattern of `_word_matches`. `unspaced`, `marks`: character classes; both empty for an ASCII text."""
    letter, char = rf"[^\W_{unspaced}]", rf"[^\W{unspaced}]"
    unit = rf"{char}*+(?:[{marks}]++{char}*+)*+" if marks else rf"{char}*+"
    run = rf"(?:[{unspaced}][{marks}]*+)++" if unspaced else r"(?!)"
    return re.compile(
        rf"(?P<run>{run})"
        rf"|(?P<sign>(?<![a-z0-9_])[a-z](?:\+\+|\#)(?!{char}|[{marks}+\#]))"
        rf"|(?P<word>{letter}{unit}(?:(?:(?<=\d)\.(?=\d)|'(?={letter})){unit})*+)"
    )


@cache
def _letter_pattern() -> re.Pattern[str]:
    """Return a pattern that matches one letter of a script without spaces, with its combining marks."""
    return re.compile(rf"[{_UNSPACED}][{_marks()}]*+")


def is_unspaced(char: str) -> bool:
    """Return whether a character is a letter of a script without spaces."""
    return _unspaced_pattern().match(char) is not None


def is_letter(char: str) -> bool:
    """Return whether a character is a letter of any script, or a combining mark."""
    return char.isalpha() or unicodedata.category(char)[0] == "M"


@cache
def _unspaced_pattern() -> re.Pattern[str]:
    """Return a pattern that matches a letter of a script without spaces."""
    return re.compile(f"[{_UNSPACED}]")


@cache
def _stray_pattern() -> re.Pattern[str]:
    """Return a pattern that matches non-ASCII signs outside of words, and combining marks without a letter."""
    marks = _marks()
    return re.compile(rf"[^\x00-\x7f\w{marks}]+|(?<![\w{marks}])(?:_*+[{marks}]++)++")


MAX_CACHED = 20_000
"""Number of words whose stems are cached (6 MB). SQLite takes ten times as long as the cache."""


class _Stemmer:
    """Callable that returns the stems of words, by FTS5's tokenizer in an SQLite database in RAM. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, tuple[str, ...]] = {}
        self._db: sqlite3.Connection | None = None

    def __call__(self, words: Iterable[str]) -> frozenset[str]:
        """Return the stems of all these words, together."""
        asked = list(dict.fromkeys(words))
        with self._lock:
            if len(self._known) > MAX_CACHED:
                self._known.clear()
            if new := [word for word in asked if word not in self._known]:
                self._learn(new)
            return frozenset(stem for word in asked for stem in self._known[word])

    def _learn(self, words: list[str]) -> None:
        """Add the stems of these words to the cache. Call it with the lock held."""
        if self._db is None:
            self._db = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
            tokenizer = FTS_TOKENIZE.replace("'", "''")
            self._db.execute(f"CREATE VIRTUAL TABLE one USING fts5(text, content='', tokenize='{tokenizer}')")
            self._db.execute("CREATE VIRTUAL TABLE stem USING fts5vocab(one, instance)")
        # `c++` is indexed in another form; words in scripts without spaces are pairs already
        rows = [(number, fts_text(word) if word.isascii() else word) for number, word in enumerate(words)]
        sql.put(self._db, "INSERT INTO one (rowid, text)", rows)
        found: list[list[str]] = [[] for _ in words]
        for number, stem in zip(*sql.columns(self._db, ("doc", "term"), "FROM stem", ()), strict=True):
            found[int(number)].append(stem)
        self._db.execute("INSERT INTO one (one) VALUES ('delete-all')")
        self._known |= zip(words, map(tuple, found), strict=True)


stems = _Stemmer()
"""Function from words to the set of stems that the index has for them."""


@lru_cache(1 << 14)
def stem(word: str) -> str:
    """Return the word without a common ending: quicker and less exact than `stems`."""
    if len(word) <= 3 or not word.isalpha():
        return word
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            break
    return word[:-1] if len(word) > 4 and word[-1] == word[-2] and word[-1] not in "aeious" else word


def are_alike(first: str, second: str) -> bool:
    """Return whether two words are probably forms of one word: deploy and deployment, Rechnung and Rechnungen."""
    if first == second:
        return True
    if first[:3] != second[:3] or min(len(first), len(second)) < 3 or not (first.isalpha() and second.isalpha()):
        return False
    short, long = (first, second) if len(first) <= len(second) else (second, first)
    if len(short) == 3:
        return len(long) == 4 and long.startswith(short)
    shared = next((at for at, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    return shared >= 4 and shared >= len(short) - 1 and len(long) - shared <= 5


_ENDINGS = tuple(_FILE["endings"].split())
