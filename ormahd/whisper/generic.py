"""Recognise requests that are about programming in general, and drop memories that merely share a language or a library.

"Write a Kafka consumer in Go" names nothing of this project. A memory of the project's Kafka topics resembles it, and
is of no help. What tells is which words both share: words of programming in general (`technical.txt`), or words that
few memories of this vault have.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from ormahd.model.chance import sigmoid
from ormahd.note.values import short_name
from ormahd.text.facts import ExactToken, exact_tokens
from ormahd.text.quoting import beginning
from ormahd.text.words import fold, stems, words
from ormahd.whisper.gather import OVERLAP
from ormahd.whisper.hear import topical_words
from ormahd.whisper.types import Candidate, Heard, Intent

Frequencies = Callable[[Sequence[str]], tuple[dict[str, int], int]]
"""Return the number of notes that contain each word, and the number of all notes."""

OWN: Final = 2.65
"""Weight of the words in common that stand not in `technical.txt`, each by its rarity in the vault."""
COMMON: Final = 1.85
"""Weight of the other words in common, each by its rarity in the vault."""
SHARE: Final = -0.55
"""Weight of the share of technical words among the prompt's words."""
DEFINITE: Final = 1.75
"""Weight of words such as "the" and "our": the prompt speaks of a certain thing."""
INDEFINITE: Final = -0.95
"""Weight of words such as "a" and "this": the prompt speaks of any thing, or of what stands beside it."""
GENERAL: Final = -1.2
"""Weight of a beginning such as "how do I" or "write", if no definite word stands in the prompt."""
BASE: Final = -2.8
SPECIFIC: Final = 0.36
"""Least `specific` of a memory that a technical prompt lets through."""
MOST_OWN, MOST_COMMON, MOST_DEFINITE, MOST_OTHER = 3.0, 2.0, 2, 4
"""Limits of the values that are weighed."""
FEWEST: Final = 2
"""Number of technical words that make a prompt technical, if none of them is a name. One is enough for a prompt with
a general beginning."""
PAIR: Final = 0.5
"""What two letters of a script without spaces count among the prompt's words: a word is cut into several pairs."""
BELOW: Final = "generic: "
"""Beginning of the `dropped` reason."""


def _set(listed: str) -> frozenset[str]:
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
"""Words before which a definite word says nothing: "the difference between"."""
_POLITE: Final = ("please ", "can you ", "could you ", "bitte ", "hi ", "hey ", "ok ", "now ")
_BEGINNINGS: Final = (
    *(
        "explain ",
        "describe ",
        "compare ",
        "what is a ",
        "what is an ",
        "what are ",
        "what is the difference ",
        "what is ",
    ),
    *(
        "what's ",
        "what does ",
        "what do ",
        "how do i ",
        "how do you ",
        "how can i ",
        "how would i ",
        "how to ",
        "how does ",
    ),
    *(
        "how do ",
        "how should i ",
        "write ",
        "implement ",
        "show me ",
        "give me ",
        "generate ",
        "create a ",
        "create an ",
    ),
    *("make a ", "make an ", "build a ", "build an ", "convert ", "translate ", "solve "),
    *("schreib", "erklar", "erklaer", "wie ", "was ist ", "was macht ", "was bedeutet ", "was sind "),
    *(
        "ecris ",
        "explique",
        "comment ",
        "qu'est",
        "escribe",
        "explica",
        "como ",
        "que es ",
        "escreve",
        "escreva",
        "o que ",
    ),
    *("scrivi", "spiega", "come ", "schrijf", "leg uit", "wat is ", "hoe ", "napisz", "wyjasnij", "jak ", "co to "),
    *("kirjoita", "selita", "miten ", "mika on ", "напиши", "объясни", "как ", "что такое "),
    *("用", "解释", "如何", "什么是", "怎么", "写一"),
)
"""Beginnings of requests for an example, an explanation or a text of code, folded. With a definite word behind it such
a request is about a certain thing ("how do I run the tests")."""
EXPLAINING: Final = _set(
    """
    explain describe compare erklar erklare erklaer erklaere beschreib beschreibe explique explica explicame decris spiega
    spiegami leg wyjasnij selita объясни опиши
    """
)
"""First words of prompts that ask for an explanation, and for no work to which a preference could apply."""


class Technical(Struct, frozen=True):
    """The stems of `technical.txt`."""

    names: frozenset[str]
    words: frozenset[str]
    """Names and words: what makes a prompt technical."""
    every: frozenset[str]
    """Those, and the plain words of documentation."""


class Request(Struct, frozen=True):
    """A technical prompt. `stems`: `{stem: word}` of what it is about; `technical`: those that make it technical;
    `common`: those and plain ones."""

    stems: Mapping[str, str]
    technical: frozenset[str]
    common: frozenset[str]
    definite: int
    indefinite: bool
    general: bool
    """Whether it begins like a request about anything (`_BEGINNINGS`) and has no definite word."""
    names: tuple[ExactToken, ...] = ()
    """Names that it spells out (`tides/parse.py`), without those of technical words only."""

    @property
    def share(self) -> float:
        """The share of technical words. A long prompt's other words count up to a limit."""
        other = sum(1.0 if _whole(stem) else PAIR for stem in self.stems if stem not in self.technical)
        return len(self.technical) / (len(self.technical) + min(other, MOST_OTHER))

    def shown(self) -> dict[str, Any]:
        """Return plain values for `--explain`."""
        return {
            "technical": sorted(self.stems[stem] for stem in self.technical), "share": round(self.share, 4),
            "definite": self.definite, "indefinite": self.indefinite, "general": self.general,
        }  # fmt: skip


def request(heard: Heard, space: str | None) -> Request | None:
    """Return a technical prompt's words; None if the prompt is not technical, or names the caller's project.

    Prompts about a time or about the user are not technical.
    """
    if heard.temporal or Intent.IDENTITY in heard.intents:
        return None
    said = topical_words(heard.query, space)
    by_stem = {stem: word for word in said for stem in stems((word,))}
    known = _technical()
    technical = by_stem.keys() & known.words
    every = words(heard.query)
    definite = _definite(every)
    general = not definite and _begins_generally(heard.prompt)
    if technical.isdisjoint(known.names) and len(technical) + general < FEWEST:
        return None
    if space is not None and _names(space, every, known):
        return None
    return Request(
        by_stem,
        frozenset(technical),
        frozenset(by_stem.keys() & known.every),
        min(MOST_DEFINITE, definite),
        not _INDEFINITE.isdisjoint(every),
        general,
        tuple(one for one in exact_tokens(heard.query) if not one.plain and not stems(words(one.text)) <= known.every),
    )


def drop(
    candidates: Iterable[Candidate],
    asked: Request | None,
    said: Mapping[str, Collection[str]],
    frequencies: Frequencies,
) -> None:
    """Drop candidates that share nothing specific with a technical prompt. `said`: `{digest: stems}` of the candidates.

    A memory stays if it has a name that the prompt spells out, or if feedback on similar prompts was positive.
    """
    some = [one for one in candidates if one.dropped is None]
    if asked is None or not some:
        return
    shared = {one.id: asked.stems.keys() & frozenset(said[one.row.digest]) for one in some}
    terms = sorted({asked.stems[stem] for stems_of in shared.values() for stem in stems_of})
    counts, notes = frequencies(terms) if terms else ({}, 0)
    rarity = {word: _rarity(counts[word], notes) for word in terms}
    for one in some:
        both = shared[one.id]
        value = specific(
            asked,
            own=sum(rarity[asked.stems[stem]] for stem in both - asked.common),
            common=sum(rarity[asked.stems[stem]] for stem in both & asked.common),
        )
        value = 1.0 if _has_a_name(one, asked) else value
        one.numbers["specific"] = value
        judged_useful = one.wanted or one.numbers.get("affinity", 0.0) > 0.0
        if value < SPECIFIC and not judged_useful:
            names = ", ".join(sorted({asked.stems[stem] for stem in both})) or "no word"
            one.dropped = f"{BELOW}a technical prompt with only {names} in common ({value:.3f} below {SPECIFIC})"


def dropped(candidates: Iterable[Candidate], gate: float) -> bool:
    """Whether a candidate that was relevant enough was dropped here."""
    return any(
        one.dropped is not None and one.dropped.startswith(BELOW) and one.relevance >= gate for one in candidates
    )


def specific(asked: Request, *, own: float, common: float) -> float:
    """Return how likely a technical prompt asks for the matter of a memory, by the words that both share."""
    return sigmoid(
        OWN * min(own, MOST_OWN)
        + COMMON * min(common, MOST_COMMON)
        + SHARE * asked.share
        + DEFINITE * asked.definite
        + INDEFINITE * asked.indefinite
        + GENERAL * asked.general
        + BASE
    )


def explains(text: str) -> bool:
    """Whether a prompt begins with a word that asks for an explanation."""
    return next(iter(words(text[:100])), "") in EXPLAINING


def warm() -> None:
    """Read the vocabulary."""
    _technical()


@cache
def _technical() -> Technical:
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


def _has_a_name(one: Candidate, asked: Request) -> bool:
    """Whether a memory contains a name that the prompt spells out."""
    if not asked.names:
        return False
    said = fold(f"{one.row.title or ''}\n{beginning(one.row.content, OVERLAP)}")
    return any(name.stands_in(said) for name in asked.names)


def _begins_generally(text: str) -> bool:
    folded = fold(text[:100]).lstrip()
    while (polite := next((one for one in _POLITE if folded.startswith(one)), None)) is not None:
        folded = folded[len(polite) :].lstrip()
    return folded.startswith(_BEGINNINGS)


def _definite(every: Sequence[str]) -> int:
    """Return the number of definite words that speak of a certain thing."""
    following = [*every[1:], ""]
    return sum(word in _DEFINITE and after not in _NO_THING for word, after in zip(every, following, strict=True))


def _names(space: str, every: Sequence[str], known: Technical) -> bool:
    """Whether the prompt names the space, by a word that is not technical itself."""
    named = words(fold(short_name(space)))
    return bool(named) and set(named) <= set(every) and not stems(named) <= known.every


def _rarity(count: int, notes: int) -> float:
    """Return 1 for a word that one note contains, falling to 0 for a word of all notes."""
    return max(0.0, min(1.0, math.log((notes + 1) / (count + 0.5)) / math.log((notes + 1) / 1.5)))


def _whole(stem: str) -> bool:
    """Whether a stem is a word, and no pair of letters of a script without spaces."""
    return len(stem) > 2 or stem.isascii()
