"""Exact terms: find the notes that contain terms which a question names exactly, and change the scores accordingly.

Exact terms are identifiers, paths, versions, addresses, codes, hashes and quoted phrases
(`text.facts.exact_tokens`), the parts of an identifier, names (also with one typo), and acronyms with their long
form. A note with such a term gets a higher score. If any note has the term, the notes without it get a lower score.
The rarer the term, the larger the effect.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from msgspec import Struct, field
from rapidfuzz.distance import OSA

from ormahd.index.reader import Reader
from ormahd.index.rows import NodeRow
from ormahd.search.gather import ParsedQuery
from ormahd.text import forms
from ormahd.text.facts import exact_tokens
from ormahd.text.words import FUNCTION_WORDS, STOP_WORDS, fold, words

RARE = 0.05
"""Largest share of notes that may contain a rare word."""
FEW = 2
"""A word that at most this many notes contain is rare in a vault of any size."""
COMMON = 60
"""Terms found in more notes than this are ignored, because they do not single out a note."""
BOOST = 3.0
"""Largest boost: that of a note with all exact terms of the question, if they are rare. It is part of an
exponent, like the title boost."""
MISSING = 0.5
"""Largest share of its score that a note without the exact terms loses."""
PLAIN = 0.5
"""Weight of plain terms: numbers, hyphenated words, names and parts of an identifier. Other terms have the weight 1.
Plain terms weigh less because notes often spell them differently."""
PLAIN_RARITY: Final = 3
"""The rarity of a plain term is raised to this power: an ordinary compound such as "element-wise", which a dozen notes
have, hardly counts, and one that a single note has counts in full."""
MAX_SEARCHED: Final = 1_000
"""Number of characters at the beginning of a question in which names and acronyms are looked for."""
MAX_UNKNOWN: Final = 4
"""Maximum number of acronyms, and of words in no note, that are looked up for one question."""
PAIRS: Final = 12
"""Maximum number of pairs of words that are looked up as parts of an identifier."""
NAMES: Final = 500
"""Maximum number of names with the same first two letters that are compared with a word that no note contains."""
TYPED: Final = 5
"""Minimum number of letters of a word that is taken for a name with a typo."""
HASH: Final = 6
"""Minimum number of characters of a hash or a shortened hash."""

_FUNCTION: Final = STOP_WORDS | FUNCTION_WORDS
_WORD = re.compile(r"[^\W\d_]+")
_ACRONYM = re.compile(r"(?<![\w.-])[A-Z][A-Za-z]{0,4}[A-Z](?![\w-])")
_HEX = re.compile(rf"(?:sha\d+:)?((?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{{{HASH},64}})")
_ANY_HEX = re.compile(rf"(?<![0-9a-z])[0-9a-f]{{{HASH},64}}(?![0-9a-z])")
_SENTENCE = re.compile(r"(?:^|[.!?:\n])[\s\"'(\[]*$")


class Sign(Struct, frozen=True):
    """An exact term of the question, such as a version, hash or name. `ids`: the nodes that contain it."""

    ids: frozenset[str]
    plain: bool = False
    """Whether notes often spell the term differently (`PLAIN`). Nodes without a plain term do not get a lower
    score."""


class Exact(Struct, frozen=True):
    """Effect of the exact terms on scores.

    `boost` (raises a score; 0: not at all) and `factor` (multiplies it): {node id: value} of the nodes with an exact
    term. `without`: the factor of all other nodes.
    """

    boost: Mapping[str, float] = field(default_factory=dict)
    factor: Mapping[str, float] = field(default_factory=dict)
    without: float = 1.0

    def of(self, node_id: str) -> tuple[float, float]:
        """Return (boost, factor) for the score of a node."""
        return self.boost.get(node_id, 0.0), self.factor.get(node_id, self.without)


NOTHING = Exact()


def exact_effect(index: Reader, parsed: ParsedQuery) -> Exact:
    """Return the effect on scores of the exact terms in the question; `NOTHING` if it has none, or no note has one."""
    text = parsed.text
    tokens = exact_tokens(text)
    beginning = text[:MAX_SEARCHED]
    # pairs of words that may be parts of one identifier
    pairs = [pair for pair in dict.fromkeys(pairwise(words(beginning))) if _FUNCTION.isdisjoint(pair)]
    pairs = [pair for pair in pairs if all(map(str.isalpha, pair))][:PAIRS]
    rare = [*dict.fromkeys(word for word in _WORD.findall(beginning) if len(word) > 1 and fold(word) not in _FUNCTION)]
    asked = [*(token.text for token in tokens), *(" ".join(pair) for pair in pairs), *map(fold, rare)]
    if not asked:
        return NOTHING
    counts, files = index.frequencies(asked)

    # identifiers, versions, hashes and quoted phrases, as they are written
    found: list[Sign] = []
    for token in tokens:
        if 0 < counts[token.text] <= COMMON:
            rows = _rows_with(index, token.text, parsed)
            ids = [row.id for row in rows if any(token.stands_in(fold(part)) for part in _texts(row))]
            found.append(Sign(frozenset(ids), plain=token.plain))
        elif not counts[token.text]:
            found.append(Sign(_with_hash(index, token.text, parsed)))

    # two words that are parts of one identifier in a note ("tide row": parseTideRow)
    for pair in pairs:
        if 0 < counts[" ".join(pair)] <= COMMON:
            ids = []
            for row in _rows_with(index, " ".join(pair), parsed):
                named = (name for part in _texts(row) for name in forms.identifiers(part))
                if any(pair in pairwise(forms.parts(name)) for name in named):
                    ids.append(row.id)
            found.append(Sign(frozenset(ids), plain=True))

    # words in Latin script with accents, which folding removes
    for word in rare:
        accented = not word.isascii() and word[0] <= "\u024f" and fold(word).isascii()
        if accented and 0 < counts[fold(word)] <= COMMON:
            wanted, rows = unicodedata.normalize("NFC", word).lower(), _rows_with(index, fold(word), parsed)
            ids = [row.id for row in rows if wanted in unicodedata.normalize("NFC", "\n".join(_texts(row))).lower()]
            found.append(Sign(frozenset(ids), plain=True))
    found += _name_signs(index, beginning, {word: counts[fold(word)] for word in rare}, parsed)
    return weigh([sign for sign in found if sign.ids], files)


def _name_signs(index: Reader, text: str, counts: Mapping[str, int], parsed: ParsedQuery) -> Iterator[Sign]:
    """Yield a sign for each acronym and name of the question that notes contain in the same or in another form.

    - An acronym whose long form notes contain.
    - An acronym whose long form the question contains.
    - A name that notes contain with one typo, or as it is written.

    `counts`: {word of the question: number of notes with it}.
    """
    # acronyms; in a text in capitals none can be recognised
    shouted = text.isupper() and len(counts) > 1
    short = [] if shouted else list(dict.fromkeys(_ACRONYM.findall(text)))
    short += [word for word, count in counts.items() if not count and 3 <= len(word) <= 5 and word.islower()]
    for acronym in short[:MAX_UNKNOWN]:
        ids = _written_out(index, acronym, parsed)
        if ids:
            yield Sign(ids | _abbreviated(index, acronym, parsed))
    for acronym in _acronyms_in_use(index, text):
        # a note that has both says what the acronym stands for
        both = _abbreviated(index, acronym, parsed)
        if both and both & _written_out(index, acronym, parsed):
            yield Sign(both, plain=True)

    # names with a typo, and rare names as they are written
    unknown = [word for word, count in counts.items() if not count and len(word) >= TYPED]
    for word in sorted(unknown, key=lambda word: (not word[0].isupper(), -len(word)))[:MAX_UNKNOWN]:
        # names that begin with the same two letters and differ by one typo: a letter more, less or other, or two
        # neighbours exchanged
        folded = fold(word)
        for term in index.terms(f"{forms.NAME}{folded[:2]}", NAMES):
            name = term.strip(forms.NAME)
            if name != folded and OSA.distance(folded, name, score_cutoff=1) <= 1:
                yield Sign(_with_term(index, forms.name_term(name), parsed))
    for word, count in counts.items():
        if 0 < count <= FEW and len(word) >= forms.SHORTEST and word[0].isupper():
            at = text.find(word)
            if _SENTENCE.search(text[max(0, at - 20) : at]) is None:  # not the first word of a sentence
                yield Sign(_with_term(index, fold(word), parsed), plain=True)


def _acronyms_of(text: str) -> list[str]:
    """Return possible acronyms: the initials of every three to five consecutive words of a question."""
    known = [word for word in _WORD.findall(text) if word[0].lower() != word[0].upper()]
    if len(known) > PAIRS:
        return []
    letters = [(fold(word)[0], fold(word) in _FUNCTION) for word in known]
    runs = [letters[at : at + size] for size in (3, 4, 5) for at in range(len(letters) - size + 1)]
    return list(dict.fromkeys("".join(letter for letter, _ in run) for run in runs if not run[0][1] and not run[-1][1]))


def _acronyms_in_use(index: Reader, text: str) -> list[str]:
    """Return the acronyms that the initials of a question's words form, if notes contain both the acronym and its long
    form."""
    several = _acronyms_of(text)
    if not several:
        return []
    counts, _ = index.frequencies([*several, *(term for acronym in several for term in forms.initials_terms(acronym))])
    in_use = (acronym for acronym in several if counts[acronym])
    return [acronym for acronym in in_use if all(counts[term] for term in forms.initials_terms(acronym))]


def _written_out(index: Reader, acronym: str, parsed: ParsedQuery) -> frozenset[str]:
    """Return the ids of the nodes that contain a long form of `acronym`: words with its letters as initials."""
    terms = forms.initials_terms(acronym)
    counts, _ = index.frequencies(terms)
    rarest = min(terms, key=lambda term: counts[term])
    if not 0 < counts[rarest] <= COMMON:
        return frozenset()
    rows = _rows_with(index, rarest, parsed)
    return frozenset(row.id for row in rows if any(forms.is_written_out(acronym, part) for part in _texts(row)))


def _abbreviated(index: Reader, acronym: str, parsed: ParsedQuery) -> frozenset[str]:
    """Return the ids of the nodes that contain `acronym` in capitals."""
    term = fold(acronym)
    if not 0 < index.frequencies([term])[0][term] <= COMMON:
        return frozenset()
    pattern = re.compile(rf"\b{re.escape(acronym.upper())}\b")
    rows = _rows_with(index, term, parsed)
    return frozenset(row.id for row in rows if any(pattern.search(part) for part in _texts(row)))


def _with_hash(index: Reader, name: str, parsed: ParsedQuery) -> frozenset[str]:
    """Return the ids of the notes that contain a longer or shorter form of the hash `name`, such as a commit's.

    Returns an empty set if `name` is no hash.
    """
    found = _HEX.fullmatch(fold(name))
    if found is None:
        return frozenset()
    wanted = found[1]
    shorter = [wanted[:size] for size in range(HASH, len(wanted))]
    counts, _ = index.frequencies(shorter) if shorter else ({}, 0)
    terms = [*index.terms(wanted, FEW), *(term for term in shorter if counts[term])][-FEW:]
    ids = []
    for row in (row for term in terms for row in _rows_with(index, term, parsed)):
        hashes = (hash_ for part in _texts(row) for hash_ in _ANY_HEX.findall(fold(part)))
        if any(wanted.startswith(hash_) or hash_.startswith(wanted) for hash_ in hashes):
            ids.append(row.id)
    return frozenset(ids)


def _texts(row: NodeRow) -> list[str]:
    """Return the texts of a note in which exact terms are searched: title, content, tags and aliases."""
    return [part for part in (row.title, row.content, *row.tags, *row.aliases) if part]


def _with_term(index: Reader, term: str, parsed: ParsedQuery) -> frozenset[str]:
    """Return the ids of the notes that full text search finds for a term, at most `COMMON`."""
    return frozenset(node_id for node_id, _ in index.search_text([term], COMMON, parsed.chosen))


def _rows_with(index: Reader, term: str, parsed: ParsedQuery) -> Iterable[NodeRow]:
    """Return the notes that full text search finds for a term, at most `COMMON`."""
    return index.notes([node_id for node_id, _ in index.search_text([term], COMMON, parsed.chosen)]).values()


def rare_words(index: Reader, topic: frozenset[str]) -> frozenset[str]:
    """Return the words of `topic` that few notes or no note contain; all words if none is rare."""
    if not topic:
        return topic
    counts, files = index.frequencies(sorted(topic))
    return frozenset(word for word in topic if counts[word] <= max(FEW, RARE * files)) or topic


def weigh(found: Sequence[Sign], files: int) -> Exact:
    """Return the effect on scores of the exact terms `found`. `files`: number of notes in the vault."""
    worth = []
    for sign in found:
        # from 1, if one note of many contains the term, to 0, if all do
        notes, rarity = len(sign.ids), 0.0
        if notes < files or files == 1:
            rarity = math.log(1.0 + files / notes) / math.log(1.0 + max(files, 1))
        worth.append((PLAIN * rarity**PLAIN_RARITY if sign.plain else rarity, sign))
    total = sum(weight for weight, _ in worth)
    if not total:
        return NOTHING
    strength = max(weight for weight, _ in worth)
    against = sum(weight for weight, sign in worth if not sign.plain) / total * strength * MISSING
    boost: dict[str, float] = {}
    factor: dict[str, float] = {}
    for node_id in sorted({node_id for sign in found for node_id in sign.ids}):
        has = sum(weight for weight, sign in worth if node_id in sign.ids) / total
        lacks = sum(weight for weight, sign in worth if not sign.plain and node_id not in sign.ids) / total
        boost[node_id] = BOOST * strength * has
        factor[node_id] = 1.0 - MISSING * strength * lacks
    return Exact(boost, factor, 1.0 - against)
