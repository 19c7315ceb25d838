"""Build the text of a merged memory by rules, or check the text that a judge wrote."""

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
"""A function that returns the cosine of two sentences; None without an embedding model."""

NEAR: Final = 0.75
"""Minimum cosine at which sentences with the same numbers and names count as saying the same."""
ONE_WORD: Final = 0.93
"""The same minimum for sentences that differ in one word: "requires" and "needs" reach it, "spaces" and "tabs" do not."""
OVERLAP: Final = 0.75
"""Without a model: the share of a sentence's words that another one must contain to say the same."""
MOST: Final = 40
"""Maximum number of sentences that are compared; longer texts are not checked for repetitions."""
_SENTENCE = re.compile(r"(?<=[.!?\u2026])\s+(?=[^\W\d_a-z])|(?<=[\u3002\uff01\uff1f])|\n+")


def meaning(ormah: Ormah) -> Cosine:
    """Return a `Cosine` that uses the embedding model and embeds each sentence once."""
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
    """Whether the sentence `known` says all that `one` says.

    It must have all numbers and names of `one`, neither may negate the other, and they must be near in meaning or in words.
    """
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
    """Return the first sentence that says the same as an earlier one, or more or less of the same; None if there is none."""
    found = sentences(text)
    if len(found) > MOST or "```" in text or "~~~" in text:
        return None
    for at, one in enumerate(found):
        if any(restates(known, one, cosine) or restates(one, known, cosine) for known in found[:at]):
            return one
    return None


def missing(known: Sequence[str], new: Sequence[str], cosine: Cosine | None = None) -> tuple[list[str], dict[str, str]]:
    """Return the sentences of `new` that `known` lacks, and `{known sentence: new sentence that says more}`."""
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
"""Maximum length of a judge's text, as a multiple of the longer source text. A longer text contains invented content."""
_NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*")


def united(keep: NodeRow, gone: NodeRow, cosine: Cosine | None = None) -> str:
    """Return the kept memory's text, followed by the sentences that only the other one has.

    Where both say the same in other words, the fuller sentence is used once. Texts with fenced code are only joined.
    """
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
        return f"{keep.content}\n\n{gone.content}"  # code cannot be split into sentences
    return f"{text}\n\n{' '.join(new)}"


def repeated(content: str, keep: NodeRow, gone: NodeRow, cosine: Cosine | None = None) -> str | None:
    """Return a sentence that a merged text repeats although neither source repeats a sentence; None if there is none."""
    twice = said_twice(content, cosine)
    if twice is None or any(said_twice(row.content, cosine) is not None for row in (keep, gone)):
        return None
    return twice


def unfit(
    title: str | None, content: str | None, keep: NodeRow, gone: NodeRow, cosine: Cosine | None = None
) -> str | None:
    """Return why a judge's text is refused, as the end of "its text was not taken: …"; None if it is accepted."""
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
