"""The text of a merged memory: united by rules where no judge writes it, and checked where one does. Nothing is said twice."""

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
from typing import TYPE_CHECKING

from ormahd.model.node import MAX_CONTENT, MAX_TITLE
from ormahd.note.markdown import conflict_line, normalise
from ormahd.text.diff import clip
from ormahd.text.secrets import redact

if TYPE_CHECKING:
    from ormahd.index.rows import NodeRow


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


LONGEST = 2.0
"""A judge's text may have so many times the characters of the longer of the two: what is longer was made up."""
_NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*")


def united(keep: NodeRow, gone: NodeRow, cosine: Cosine | None = None) -> str:
    """The keeper's text, and behind it what only the other says, sentence by sentence: nothing that was said is lost, and what
    both say in other words stands there once, in the fuller form."""
    fenced = any(mark in row.content for row in (keep, gone) for mark in ("```", "~~~"))
    known, said = sentences(keep.content), sentences(gone.content)
    if fenced or len(known) + len(said) > MOST:
        cosine = None
    new, better = missing(known, said, cosine)
    text = keep.content
    for old, fuller in better.items():
        text = text.replace(old, fuller, 1)
    if not new:
        return text
    if fenced:
        return f"{keep.content}\n\n{gone.content}"  # sentences of code are none
    return f"{text}\n\n{' '.join(new)}"


def repeated(content: str, keep: NodeRow, gone: NodeRow, cosine: Cosine | None = None) -> str | None:
    """The sentence by which a united text says twice what each of the two says once; None: it does not."""
    twice = said_twice(content, cosine)
    if twice is None or any(said_twice(row.content, cosine) is not None for row in (keep, gone)):
        return None
    return twice


def unfit(
    title: str | None, content: str | None, keep: NodeRow, gone: NodeRow, cosine: Cosine | None = None
) -> str | None:
    """Why a judge's text cannot stand for these two, as the end of "its text was not taken: …"; None: it can."""
    if content is not None and not normalise(content):
        return "it is empty"
    text = f"{title or keep.title or ''}\n{keep.content if content is None else content}"
    longest = max(len(keep.content), len(gone.content))
    if content is not None and len(content) > min(MAX_CONTENT, max(LONGEST * longest, 200)):
        return f"it has {len(content):,} characters, where the longer of the two has {longest:,}"
    if title is not None and (len(title) > MAX_TITLE or "\n" in title):
        return "its title is none"
    if redact(text).found and not redact(f"{keep.title}\n{keep.content}\n{gone.title}\n{gone.content}").found:
        return "it holds what looks like a secret"
    if content is not None and conflict_line(normalise(content)):
        return "it holds conflict markers"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "it is no valid Unicode"
    if "\x00" in text:
        return "it holds a NUL character"
    if content is not None and (twice := repeated(content, keep, gone, cosine)) is not None:
        return f"it says the same twice: “{clip(twice)}”"
    said = set(_NUMBER.findall(text))
    lost = [
        one for row in (keep, gone) for one in _NUMBER.findall(f"{row.title or ''}\n{row.content}") if one not in said
    ]
    return None if not lost else f"it leaves out {', '.join(dict.fromkeys(lost))}"
