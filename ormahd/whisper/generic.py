"""Recognise requests that are about programming in general, and drop memories that merely share a language or a
library.

"Write a Kafka consumer in Go" names nothing of this project. A memory of the project's Kafka topics resembles it, but
does not help. `specificity` tells such cases apart by the words that prompt and memory share: words of programming in
general (`technical.txt`), or others, each weighted by its rarity in this vault.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from ormahd.model.chance import sigmoid
from ormahd.note.values import short_name
from ormahd.text.facts import ExactToken, exact_tokens
from ormahd.text.quoting import beginning
from ormahd.text.words import fold, stems, words
from ormahd.whisper.analyse import topical_words
from ormahd.whisper.gather import OVERLAP
from ormahd.whisper.types import Analysis, Candidate, Intent

Frequencies = Callable[[Sequence[str]], tuple[dict[str, int], int]]
"""Function from words to (`{word: number of notes that contain it}`, number of all notes)."""

OWN: Final = 2.65
"""Weight of the sum of rarities of the common words that are not in `technical.txt`. Common words are those of both the
prompt and the memory; rarity is that in the vault."""
COMMON: Final = 1.85
"""Weight of the sum of rarities of the common words that are in `technical.txt`."""
SHARE: Final = -0.55
"""Weight of the share of technical words among the prompt's words."""
DEFINITE: Final = 1.75
"""Weight of the number of words such as "the" and "our", which speak of a certain thing."""
INDEFINITE: Final = -0.95
"""Weight of the presence of a word such as "a" or "this", which speak of any thing, or of one shown with the prompt."""
GENERAL: Final = -1.2
"""Weight of a beginning such as "how do I" or "write", if the prompt has no definite word ("the", "our")."""
BASE: Final = -2.8
SPECIFIC: Final = 0.36
"""Minimum of `specificity` for a memory that a technical prompt does not drop."""
MAX_OWN, MAX_COMMON, MAX_DEFINITE, MAX_OTHER = 3.0, 2.0, 2, 4
"""Maxima of the sums for `OWN` and `COMMON`, of the number of definite words, and of the number of words of a prompt
that are not technical."""
FEWEST: Final = 2
"""Number of technical words that make a prompt technical; one less for a prompt with a general beginning. One is enough
if it is a name, such as that of a library."""
PAIR: Final = 0.5
"""Weight of a pair of letters when a prompt's words are counted. In scripts without spaces a word is cut into pairs."""
BELOW: Final = "generic: "
"""Beginning of the `has_dropped` reason of candidates that `drop_generic` drops."""


def _set(listed: str) -> frozenset[str]:
    """Return the words in a text as a set."""
    return frozenset(listed.split())


_DEFINITE: Final = _set(
    """
    the our ours us we my its again der die das den dem des unser unsere unserem unseren wir uns le la les nos notre nous
    el los las nuestro nuestra nosso nossa il lo gli nostro nostra het onze
    """
)
_INDEFINITE: Final = _set(
    """
    a an any some this these ein eine einen einem diese dieser dieses diesen un una une uno um uma een
    """
)
_NO_THING: Final = _set(
    """
    best command difference differences differenza diferencia diferenca number syntax unterschied unterschiede verschil
    """
)
"""Words that follow a definite word which does not count, as in "the difference between"."""
_POLITE: Final = ("please ", "can you ", "could you ", "bitte ", "hi ", "hey ", "ok ", "now ")
_BEGINNINGS: Final = tuple(
    resources.files(__package__).joinpath("beginnings.txt").read_text("utf-8").replace("_", " ").split("\n")[:-1]
)
"""Folded beginnings of requests for an example, an explanation or code. If a definite word follows, the request is
about a certain thing ("how do I run the tests")."""
EXPLAINING: Final = _set(
    """
    explain describe compare erklar erklare erklaer erklaere beschreib beschreibe explique explica explicame decris spiega
    spiegami leg wyjasnij selita объясни опиши
    """
)
"""First words of prompts that ask for an explanation. No standing preference is looked for, as nothing is to be
done."""


class Technical(Struct, frozen=True):
    """The stems of the words in `technical.txt`, by section."""

    names: frozenset[str]
    """Section `names`."""
    words: frozenset[str]
    """Sections `names` and `words`. These stems make a prompt technical."""
    every: frozenset[str]
    """All sections; `plain` has words of documentation that do not make a prompt technical."""


class Request(Struct, frozen=True):
    """The analysis of a technical prompt."""

    stems: Mapping[str, str]
    """`{stem: word}` of its words, without stop words."""
    technical: frozenset[str]
    """The stems that make it technical (`Technical.words`)."""
    common: frozenset[str]
    """The stems that are in any section of `technical.txt`."""
    definite: int
    """Number of definite words ("the", "our"), at most `MAX_DEFINITE`."""
    indefinite: bool
    """Whether it has an indefinite word ("a", "this")."""
    general: bool
    """Whether it begins like a request about anything (`_BEGINNINGS`) and has no definite word."""
    names: tuple[ExactToken, ...] = ()
    """Exact names in it (`tides/parse.py`), except those that consist of words in `technical.txt`."""

    @property
    def share(self) -> float:
        """The share of technical words in the prompt. Of the other words, at most `MAX_OTHER` are counted."""
        others = (stem for stem in self.stems if stem not in self.technical)
        other = sum(1.0 if len(stem) > 2 or stem.isascii() else PAIR for stem in others)
        return len(self.technical) / (len(self.technical) + min(other, MAX_OTHER))

    def explained(self) -> dict[str, Any]:
        """Return the values that `--explain` shows of the request, as a plain dict."""
        return {
            "technical": sorted(self.stems[stem] for stem in self.technical),
            "share": round(self.share, 4),
            "definite": self.definite,
            "indefinite": self.indefinite,
            "general": self.general,
        }


def technical_request(analysis: Analysis, space: str | None) -> Request | None:
    """Return the analysis of a technical prompt; None if the prompt is not technical, or names the caller's project.

    A prompt about a time or about the user counts as not technical.
    """
    if analysis.temporal or Intent.IDENTITY in analysis.intents:
        return None
    by_stem = {stem: word for word in topical_words(analysis.query, space) for stem in stems((word,))}
    known = _technical()
    technical = by_stem.keys() & known.words

    # definite words ("the", "our") speak of a certain thing, except before "difference" and the like
    every = words(analysis.query)
    following = [*every[1:], ""]
    definite = sum(word in _DEFINITE and after not in _NO_THING for word, after in zip(every, following, strict=True))
    beginning_of = fold(analysis.prompt[:100]).lstrip()
    while (polite := next((phrase for phrase in _POLITE if beginning_of.startswith(phrase)), None)) is not None:
        beginning_of = beginning_of[len(polite) :].lstrip()
    general = not definite and beginning_of.startswith(_BEGINNINGS)
    if technical.isdisjoint(known.names) and len(technical) + general < FEWEST:
        return None

    # it names the project: all words of the space's short name, of which one is not technical
    named = words(fold(short_name(space))) if space is not None else []
    if named and set(named) <= set(every) and not stems(named) <= known.every:
        return None
    exact = (token for token in exact_tokens(analysis.query) if not token.plain)
    return Request(
        stems=by_stem,
        technical=frozenset(technical),
        common=frozenset(by_stem.keys() & known.every),
        definite=min(MAX_DEFINITE, definite),
        indefinite=not _INDEFINITE.isdisjoint(every),
        general=general,
        names=tuple(token for token in exact if not stems(words(token.text)) <= known.every),
    )


def drop_generic(
    candidates: Iterable[Candidate],
    asked: Request | None,
    stems_of: Mapping[str, Collection[str]],
    frequencies: Frequencies,
) -> None:
    """Drop candidates that share nothing specific with a technical prompt. `asked`: its analysis; None: drop nothing.

    A memory is kept if it contains an exact name from the prompt, or if feedback on similar prompts was positive.
    `stems_of`: `{digest: stems}` of the candidates' words. `frequencies`: counts the notes that contain each word.
    """
    alive = [candidate for candidate in candidates if candidate.dropped is None]
    if asked is None or not alive:
        return
    shared = {candidate.id: asked.stems.keys() & frozenset(stems_of[candidate.row.digest]) for candidate in alive}
    terms = sorted({asked.stems[stem] for common in shared.values() for stem in common})
    counts, notes = frequencies(terms) if terms else ({}, 0)
    scale = math.log((notes + 1) / 1.5)
    rarity = {  # from 1 for a word of one note to 0 for a word of all
        word: max(0.0, min(1.0, math.log((notes + 1) / (counts[word] + 0.5)) / scale)) for word in terms
    }
    for candidate in alive:
        both = shared[candidate.id]
        value = specificity(
            asked,
            own=sum(rarity[asked.stems[stem]] for stem in both - asked.common),
            common=sum(rarity[asked.stems[stem]] for stem in both & asked.common),
        )
        if asked.names:
            text = fold(f"{candidate.row.title or ''}\n{beginning(candidate.row.content, OVERLAP)}")
            value = 1.0 if any(name.stands_in(text) for name in asked.names) else value
        candidate.numbers["specific"] = value
        judged_useful = candidate.wanted or candidate.numbers.get("affinity", 0.0) > 0.0
        if value < SPECIFIC and not judged_useful:
            names = ", ".join(sorted({asked.stems[stem] for stem in both})) or "no word"
            candidate.dropped = f"{BELOW}a technical prompt with only {names} in common ({value:.3f} below {SPECIFIC})"


def has_dropped(candidates: Iterable[Candidate], gate: float) -> bool:
    """Return whether `drop_generic` dropped a candidate whose relevance reaches `gate`."""
    return any((candidate.dropped or "").startswith(BELOW) and candidate.relevance >= gate for candidate in candidates)


def specificity(asked: Request, *, own: float, common: float) -> float:
    """Return the probability that a technical prompt asks for a memory, computed from the words that both contain.

    `own`, `common`: sums of the rarities of these words, see `OWN` and `COMMON`.
    """
    return sigmoid(
        OWN * min(own, MAX_OWN)
        + COMMON * min(common, MAX_COMMON)
        + SHARE * asked.share
        + DEFINITE * asked.definite
        + INDEFINITE * asked.indefinite
        + GENERAL * asked.general
        + BASE
    )


def asks_to_explain(text: str) -> bool:
    """Return whether a prompt begins with a word that asks for an explanation."""
    return next(iter(words(text[:100])), "") in EXPLAINING


def warm() -> None:
    """Load `technical.txt`, so that the first prompt does not wait for it."""
    _technical()


@cache
def _technical() -> Technical:
    """Return the stems of `technical.txt`, read once."""
    sections: dict[str, list[str]] = {}
    section: list[str] = []
    for line in Path(__file__).with_name("technical.txt").read_text("utf-8").splitlines():
        if line.startswith("["):
            section = sections.setdefault(line.strip("[]"), [])
        elif not line.startswith("#"):
            section.extend(words(line))
    names = stems(sections["names"])
    technical = names | stems(sections["words"])
    return Technical(names, technical, technical | stems(sections["plain"]))
