"""Whether two sentences say the same in other words, so that a merged memory says it once."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from ormahd.text.facts import lost
from ormahd.text.sameness import TextContrast, contrast, same
from ormahd.text.words import query_terms, stems

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ormahd.ormah import Ormah

    Float = NDArray[np.float32]

Cosine = Callable[[str, str], float | None]
"""How near two sentences are in meaning; None: nobody knows."""

NEAR: Final = 0.75
"""Cosine from which sentences with the same numbers and names say the same. Of memories that are much alike, which these are of."""
ONE_WORD: Final = 0.93
"""The same, where one word stands in place of another: "requires" for "needs", but not "spaces" for "tabs"."""
OVERLAP: Final = 0.75
"""Share of the shorter sentence's words that the longer one has, from which they say the same where no meaning is known."""
MOST: Final = 40
"""Sentences that are compared; a longer text is a document."""
_SENTENCE = re.compile(r"(?<=[.!?\u2026])\s+(?=[^\W\d_a-z])|(?<=[\u3002\uff01\uff1f])|\n+")


def meaning(ormah: Ormah) -> Cosine:
    """How near sentences are by the model; each is embedded once."""
    vectors: dict[str, Float | None] = {}

    def vector(text: str) -> Float | None:
        if text not in vectors:
            found = ormah.embed_query(text)
            vectors[text] = None if found is None else found.vector
        return vectors[text]

    def cosine(one: str, other: str) -> float | None:
        mine, theirs = vector(one), vector(other)
        return None if mine is None or theirs is None else float(mine @ theirs)

    return cosine


def sentences(text: str) -> list[str]:
    return [one.strip() for one in _SENTENCE.split(text) if one and one.strip()]


def restates(known: str, one: str, cosine: Cosine | None = None) -> bool:
    """Whether `known` says all that `one` says: nothing of its numbers and names is missing, neither denies the other, and
    they are near in their words or in meaning."""
    if same(None, one, None, known) is not None:
        return True
    if lost([(None, one)], known):
        return False
    apart = contrast(known, one)
    if apart in (TextContrast.NEGATION, TextContrast.MARKS):
        return False
    near = None if cosine is None else cosine(known, one)
    if near is not None:
        return near >= (ONE_WORD if apart is TextContrast.ONE_PLACE else NEAR)
    mine, theirs = stems(query_terms(known)), stems(query_terms(one))
    return apart is None and bool(theirs) and len(mine & theirs) >= OVERLAP * len(theirs)


def said_twice(text: str, cosine: Cosine | None = None) -> str | None:
    """A sentence of the text that an earlier one says already; None: there is none."""
    found = sentences(text)
    if len(found) > MOST or "```" in text or "~~~" in text:
        return None
    for at, one in enumerate(found):
        if any(restates(known, one, cosine) or restates(one, known, cosine) for known in found[:at]):
            return one
    return None


def missing(known: Sequence[str], new: Sequence[str], cosine: Cosine | None = None) -> tuple[list[str], dict[str, str]]:
    """Of the new sentences those that nothing known says; and which known one to replace by a new one that says more."""
    left: list[str] = []
    better: dict[str, str] = {}
    for one in new:
        if any(restates(said, one, cosine) for said in known):
            continue
        fuller = next((said for said in known if said not in better and restates(one, said, cosine)), None)
        if fuller is not None:
            better[fuller] = one
        elif not any(restates(said, one, cosine) for said in left):
            left.append(one)
    return left, better
