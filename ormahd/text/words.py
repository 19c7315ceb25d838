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

FTS_TOKENIZE = "porter unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'"
"""The FTS5 tokenizer that `fts_text` is written for. FTS5's default treats vowel signs as separators."""


def _set(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


STOP_WORDS = _set(
    """
    a about after again all also am an and any are as at be because been before being both but by can can't cannot
    could couldn't did didn't do does doesn't doing don't done down during each few for from further had has hasn't
    have haven't having he her here hers him his how i if in into is isn't it its itself just let me more most my
    myself no nor not now of off on once only or other our ours out over own please same she should shouldn't so
    some such than that the their theirs them then there these they this those through to too under until up us
    very was wasn't we were weren't what when where which while who whom whose why will with won't would wouldn't
    you your yours
    """
)
"""English function words."""

IDENTITY_WORDS = _set("user i me my mine myself we us our ours ourselves you your yours yourself")
"""Words in a query that asks about the user. Memories with the tag `about_self` answer it."""

QUESTION_WORDS = _set(
    """
    who whom whose what which when where why how is are was were do does did can could should would will
    """
)

# Letters of scripts that are written without spaces, and Hangul. Their vowel signs are marks, and are not listed.
_UNSPACED = (
    "\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303c"  # iteration marks and numerals of Han
    "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"  # kana
    "\u3105-\u312f\u31a0-\u31bf"  # Bopomofo
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U0001b000-\U0001b16f\U00020000-\U0003ffff"  # Han, old kana
    "\u1100-\u11ff\u3131-\u318e\ua960-\ua97f\uac00-\ud7ff"  # Hangul
    "\u0e01-\u0e30\u0e32-\u0e33\u0e40-\u0e46"  # Thai
    "\u0e81-\u0eb0\u0eb2-\u0eb3\u0ebd-\u0ec6\u0edc-\u0edf"  # Lao
    "\u1000-\u102a\u103f\u1050-\u1055\u105a-\u105d\u1061\u1065\u1066\u106e-\u1070\u1075-\u1081\u108e"  # Burmese
    "\u1780-\u17b3\u17d7\u17dc"  # Khmer
)
# What is dropped after decomposition: accents of Latin, Greek and Cyrillic, points of Hebrew and Arabic, the Arabic
# stretching stroke, invisible joiners, marks of direction and variation selectors. Kana and Indic signs stay.
_ACCENTS = re.compile(
    "[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0640\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4"
    "\u06e7\u06e8\u06ea-\u06ed\u00ad\u180b-\u180f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe00-\ufe0f\ufe20-\ufe2f"
    "\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\U000e0000-\U000e01ef]+"
)
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
    """Return the form in which texts are compared: NFKC, casefolded, without accents, control characters as spaces."""
    if len(text) <= PART:
        return _fold(text)
    return "".join(map(_fold, _parts(text, _UNJOINED)))


def _parts(text: str, seam: re.Pattern[str]) -> Iterator[str]:
    """Yield the text in parts of at least `PART` characters. Each part but the first begins where `seam` matches."""
    start = 0
    while (found := seam.search(text, start + PART)) is not None:
        yield text[start : found.start()]
        start = found.start()
    yield text[start:]


def _fold(text: str) -> str:
    if text.isascii():
        return _NOT_TEXT.sub(" ", text).lower()
    text = unicodedata.normalize("NFKC", _NOT_TEXT.sub(" ", text).translate(_APOSTROPHES)).casefold()
    return unicodedata.normalize("NFKC", _ACCENTS.sub("", unicodedata.normalize("NFKD", text))).casefold()


FUNCTION_WORDS = STOP_WORDS | frozenset(
    fold(
        """
        abbiamo aber alla anche auch avec avons bist bylo cette comme como cosa cual cuando daha damit dann dans dass
        degil della delle denn deze dies diese doch donde eine einem einen einer ella elle entre essa esse esta este esto
        etait etre gdzie geen gibi habe haben hangi hatte hebben heeft icin isso jaka jaki jakie jako jest jestem kann
        kiedy ktora ktore ktory leur maar mais mein mijn minha mnie naar nach nasil nasz nasza neden nella nicht niet noch
        nossa nosso nostra nostro notre nous nuestra nuestro oder ohne olan olarak oldu onze para pela pelo perche pero
        porque pour pourquoi przez przy qual quale quand quando quel quelle quem quien quoi sein sich sind sobre sono sont
        tego tylko unser veya voce voor votre vous waar waarom warum welche welke wenn werd werden wird worden wurde zijn
        а без был была были было быть в вам вас вы где да для до его ее если есть еще же за зачем и из или им их к как
        какая какие какои когда кто ли мне мои мы на над нам нас наш наша не нет ни но о об он она они от по под почему
        при с со так там то того тоже только ты у уже что чтобы эта эти это этот я αν απο αυτο γιατι για δεν εγω ειναι
        εμεις ενα εναν ηταν θα και κατα με μας μια μου να ο η οι οπως οταν οτι που πως ποιο ποια ποιος σε στη στην στις
        στο στον τα της τη την τι τις το τον του τους των ως ان او اي اين التي الذي الى انا انت بعد به بين تم ثم حتى عن
        على عند في قبل كان كانت كل كيف كم لا لم لماذا لنا له ما متى مع من نحن هذا هذه هل هو هي و ولا يكون
        אבל או אז אחרי איזה איזו אילו איך איפה אם אני אנחנו את אתה באיזה גם הוא היא הם הזה היה זה זאת יש כל כמה כן לא למה
        לפני מה מי מאיזה מתי על עם של שלי שלנו תוך
        और एक कब कहाँ का कि किस किसका किसके किसने किससे की कितना कितनी कितने के को कौन क्या क्यों था थी थे ने पर में मेरा मेरी
        यह या वह बजे से हम हमने है हैं हो होगा होगी होता होती होते हूँ
        什么 么时 时候 哪里 在哪 哪个 哪天 哪年 哪台 哪条 怎么 为什 多少 多久 几点 是什 是谁 我们 你们 他们 这个 那个 的是 了吗
        です ます すか ですか はい いつ つで どこ こで はど のは 何で なに 誰で でし した ました ませ てい
        에있 있나 나요 인가 가요 언제 제인 어디 디에 무슨 누가 어느 얼마 마나 니까
        """
    ).split()
)
"""Function words of English and other languages. Words that mean something else in English are left out."""


def words(text: str) -> list[str]:
    """Return the words of `text`, folded, in order, with repetitions."""
    return list(_short(text)) if len(text) <= SHORT else _cut(text)


def _cut(text: str) -> list[str]:
    found: list[str] = []
    for part in _parts(fold(text), _BLANK):
        for piece in _pieces(part):
            found.extend(_units(piece))
    return found


@lru_cache(maxsize=4096)
def _short(text: str) -> tuple[str, ...]:
    """Return the words of a short text, cached."""
    return tuple(_cut(text))


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
    return "".join(map(_fts_part, _parts(fold(text), _BLANK)))


def _fts_part(folded: str) -> str:
    if not _SIGN.search(folded):
        # In most texts words stay as they are, so they need not be searched. That is ten times as fast.
        if folded.isascii():
            return folded
        if not _unspaced().search(folded):
            return _strays().sub(lambda stray: _gap(stray[0]), folded)
    parts: list[str] = []
    end = 0
    for piece in _pieces(folded):
        parts.append(_gap(folded[end : piece.start()]))
        end = piece.end()
        if piece["run"]:
            letters = _characters(piece["run"])
            parts.append(f" {' '.join([*map(''.join, pairwise(letters)), letters[-1]])} ")
        elif piece["sign"]:
            parts.append(_fts_form(piece["sign"]))
        else:
            parts.append(piece["word"])
    parts.append(_gap(folded[end:]))
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
            phrases[f'"{clean}" *' if _is_lone(clean) else f'"{clean}"'] = None
            phrases |= dict.fromkeys(f'"{stem}"' for stem in question_stems(term))
    return " OR ".join(phrases) or '""'


def overlap(one: Collection[str], other: Collection[str]) -> float:
    """Return the Jaccard index of two sets of words; 0 if both are empty."""
    left, right = set(one), set(other)
    return len(left & right) / len(left | right) if left or right else 0.0


def _units(piece: re.Match[str]) -> list[str]:
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


def _gap(text: str) -> str:
    """Return the text between two words without non-ASCII characters, because FTS5 may take these for letters."""
    return text if text.isascii() else re.sub(r"[^\x00-\x7f]+", " ", text)


def _characters(run: str) -> list[str]:
    return _letters().findall(run)


def _pieces(folded: str) -> Iterator[re.Match[str]]:
    """Yield a match for each word, each run of a script without spaces (`run`), and each `c++` or `c#` (`sign`)."""
    return _cutter(*_scripts(folded)).finditer(folded)


def _scripts(folded: str) -> tuple[str, str]:
    """Return (letters of scripts without spaces, combining marks) as parts of character classes; empty for ASCII."""
    return ("", "") if folded.isascii() else (_UNSPACED, _marks())


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
def _cutter(unspaced: str, marks: str) -> re.Pattern[str]:
    letter, char = rf"[^\W_{unspaced}]", rf"[^\W{unspaced}]"
    unit = rf"{char}*+(?:[{marks}]++{char}*+)*+" if marks else rf"{char}*+"
    run = rf"(?:[{unspaced}][{marks}]*+)++" if unspaced else r"(?!)"
    return re.compile(
        rf"(?P<run>{run})"
        rf"|(?P<sign>(?<![a-z0-9_])[a-z](?:\+\+|\#)(?!{char}|[{marks}+\#]))"
        rf"|(?P<word>{letter}{unit}(?:(?:(?<=\d)\.(?=\d)|'(?={letter})){unit})*+)"
    )


@cache
def _letters() -> re.Pattern[str]:
    return re.compile(rf"[{_UNSPACED}][{_marks()}]*+")


def _is_lone(term: str) -> bool:
    """Return whether a term is one letter of a script without spaces."""
    return not term.isascii() and _letters().fullmatch(term) is not None


def is_unspaced(char: str) -> bool:
    """Return whether a character is a letter of a script without spaces."""
    return _unspaced().match(char) is not None


def is_letter(char: str) -> bool:
    """Return whether a character is a letter of any script, or a combining mark."""
    return char.isalpha() or unicodedata.category(char)[0] == "M"


@cache
def _unspaced() -> re.Pattern[str]:
    return re.compile(f"[{_UNSPACED}]")


@cache
def _strays() -> re.Pattern[str]:
    """Return a pattern that matches non-ASCII signs outside of words, and combining marks without a letter."""
    marks = _marks()
    return re.compile(rf"[^\x00-\x7f\w{marks}]+|(?<![\w{marks}])(?:_*+[{marks}]++)++")


KEPT = 20_000
"""Number of words whose stems are cached (6 MB). SQLite takes ten times as long as the cache."""


class _Stemmer:
    """Callable that returns the stems of words, by FTS5's tokenizer in an SQLite database in RAM. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, tuple[str, ...]] = {}
        self._db: sqlite3.Connection | None = None

    def __call__(self, words: Iterable[str]) -> frozenset[str]:
        asked = list(dict.fromkeys(words))
        with self._lock:
            if len(self._known) > KEPT:
                self._known.clear()
            if new := [word for word in asked if word not in self._known]:
                self._learn(new)
            return frozenset(stem for word in asked for stem in self._known[word])

    def _learn(self, words: list[str]) -> None:
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
    """Return the word without a common ending. It is quicker and rougher than `stems`."""
    if len(word) <= 3 or not word.isalpha():
        return word
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            break
    return word[:-1] if len(word) > 4 and word[-1] == word[-2] and word[-1] not in "aeious" else word


def alike(one: str, other: str) -> bool:
    """Return whether two words are probably forms of one word: deploy and deployment, Rechnung and Rechnungen."""
    if one == other:
        return True
    if one[:3] != other[:3] or min(len(one), len(other)) < 3 or not (one.isalpha() and other.isalpha()):
        return False
    short, long = (one, other) if len(one) <= len(other) else (other, one)
    if len(short) == 3:
        return len(long) == 4 and long.startswith(short)
    shared = next((at for at, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    return shared >= 4 and shared >= len(short) - 1 and len(long) - shared <= 5


_ENDINGS = (
    "ations", "ation", "ments", "ment", "ings", "ing", "ies", "ers", "ed", "es", "en", "er", "em", "s", "e", "y", "a", "o",
)  # fmt: skip
