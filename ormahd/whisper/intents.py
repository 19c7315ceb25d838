"""Classify a prompt by its largest cosine with English examples of each kind."""

from __future__ import annotations

import threading
import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from typing import Final, Protocol

import numpy as np

from ormahd.search.gather import topics
from ormahd.text.words import words
from ormahd.whisper.types import Float, Intent

ARCHETYPES: Final[Mapping[Intent, tuple[str, ...]]] = {
    Intent(kind): tuple(examples)
    for kind, examples in tomllib.loads(
        resources.files(__package__).joinpath("intents.toml").read_text("utf-8")
    ).items()
}
"""Kind -> examples. A prompt that is nearest to a general example is of no other kind. The first `RESUME` examples of
continuation ask to resume; the others make sense only after an earlier prompt."""

RESUME: Final = 6
"""Number of the first examples of `Intent.CONTINUATION` that ask to resume ("where were we?")."""
FIRST_PERSON: Final = frozenset({"i", "me", "mine", "my", "myself", "user"})
MARGIN: Final = 0.15
"""Maximum difference between the cosine of a conversational prompt and that of another kind at which the prompt is
of the other kind instead."""


POLITE: Final = 0.3
"""Minimum cosine with a conversational example for `small_talk`."""


class Embedded(Protocol):
    @property
    def vector(self) -> Float: ...
    @property
    def read(self) -> float: ...


Embed = Callable[[str], Embedded | None]


class Archetypes:
    """Embeds the example prompts of each intent, and compares prompts with them. Thread-safe.

    The examples are embedded at first use or by `warm`, and again if the model's dimensions change.
    """

    def __init__(self, embed: Embed) -> None:
        self._embed = embed
        self._lock = threading.Lock()
        self._vectors: dict[Intent, Float] | None = None

    def warm(self) -> bool:
        """Embed the examples. Returns False while the model is not loaded."""
        return self._get(None) is not None

    def scores(self, vector: Float) -> dict[Intent, float] | None:
        """Return each kind's largest cosine with one of its examples; None while the model is not loaded."""
        vectors = self._get(len(vector))
        return None if vectors is None else {kind: float((rows @ vector).max()) for kind, rows in vectors.items()}

    def nearest(self, kind: Intent, vector: Float) -> int | None:
        """Return the index of the nearest example of this kind; None while the model is not loaded."""
        vectors = self._get(len(vector))
        return None if vectors is None else int((vectors[kind] @ vector).argmax())

    def _get(self, dimensions: int | None) -> dict[Intent, Float] | None:
        known = self._vectors
        if known is not None and dimensions in {None, known[Intent.TEMPORAL].shape[1]}:
            return known
        with self._lock:
            known = self._vectors
            if known is not None and dimensions in {None, known[Intent.TEMPORAL].shape[1]}:
                return known
            made: dict[Intent, Float] = {}
            for kind, sentences in ARCHETYPES.items():
                found = [self._embed(sentence) for sentence in sentences]
                rows = [embedded.vector for embedded in found if embedded is not None]
                if len(rows) < len(sentences) or dimensions not in {None, len(rows[0])}:
                    return None
                made[kind] = np.asarray(rows, np.float32)
            self._vectors = made
            return made


def small_talk(vector: Float, archetypes: Archetypes) -> bool:
    """Return whether a prompt is nearest to a conversational example, even if not near enough to be classified as such.

    A review does not ask whether a memory would have helped with such a prompt.
    """
    scores = archetypes.scores(vector)
    return (
        scores is not None
        and max(scores, key=scores.__getitem__) is Intent.CONVERSATIONAL
        and scores[Intent.CONVERSATIONAL] >= POLITE
    )


def resumes(prompt: str, vector: Float, archetypes: Archetypes) -> bool:
    """Return whether a prompt such as "where were we?" asks to resume without naming a topic."""
    nearest = archetypes.nearest(Intent.CONTINUATION, vector)
    return nearest is not None and nearest < RESUME and topics(prompt) <= _resuming()


@cache
def _resuming() -> frozenset[str]:
    return frozenset(word for sentence in ARCHETYPES[Intent.CONTINUATION][:RESUME] for word in words(sentence))


def classify(scores: Mapping[Intent, float], prompt: str, threshold: float) -> frozenset[Intent]:
    """Return the intents whose score reaches both `threshold` and the score of GENERAL; GENERAL if none does.

    IDENTITY requires a word of the first person, because otherwise the prompt asks about another person. If
    CONVERSATIONAL and other intents are found, the others are returned if one of them is within `MARGIN`, else only
    CONVERSATIONAL. CONTINUATION is left out beside IDENTITY.
    """
    floor = max(threshold, scores[Intent.GENERAL])
    found: set[Intent] = {kind for kind, score in scores.items() if score >= floor} - {Intent.GENERAL}
    if Intent.IDENTITY in found and not FIRST_PERSON.intersection(words(prompt[:1_000])):
        found.discard(Intent.IDENTITY)
    others = found - {Intent.CONVERSATIONAL}
    if Intent.CONVERSATIONAL in found and others:
        if max(scores[kind] for kind in others) < scores[Intent.CONVERSATIONAL] - MARGIN:
            return frozenset({Intent.CONVERSATIONAL})
        found = others
    if Intent.IDENTITY in found:
        found.discard(Intent.CONTINUATION)
    return frozenset(found or {Intent.GENERAL})
