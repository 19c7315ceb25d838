"""Decide by a prompt's kind and topic whether it gets a whisper at all."""

from __future__ import annotations

from typing import Final

import numpy as np

from ormahd.whisper.types import Before, Float, Heard, Intent, Silence

SAME_TOPIC: Final = 0.75
"""Cosine with the session's last prompts from which a prompt has the same topic."""
CENTRE: Final = 3
"""Number of earlier prompts whose mean vector represents the session's topic."""


def quiet(heard: Heard, before: Before) -> Silence | None:
    """Return the reason for silence if the prompt is only conversational or has the same topic as before; else None.

    A topic counts as the same only if memories were already whispered for it in this session. Without a session id no
    earlier prompts are known, so the topic is always new.
    """
    if heard.intents == {Intent.CONVERSATIONAL}:
        return Silence.CONVERSATIONAL
    return Silence.SAME_TOPIC if _same_topic(heard, before) else None


def _same_topic(heard: Heard, before: Before) -> bool:
    if heard.follow_up or heard.vector is None:
        return False
    said = [(one, one.vector) for one in before.recent or () if one.vector is not None]
    comparable = [(one, vector) for one, vector in said if vector.shape == heard.vector.shape]
    if not comparable:
        return False
    centre = np.mean([vector for _, vector in comparable[-CENTRE:]], axis=0)
    return _cosine(heard.vector, centre) > SAME_TOPIC and any(
        one.answered and _cosine(vector, heard.vector) >= SAME_TOPIC for one, vector in comparable
    )


def _cosine(one: Float, other: Float) -> float:
    """Return the cosine; 0 if a vector is zero."""
    length = float(np.linalg.norm(one) * np.linalg.norm(other))
    return float(one @ other) / length if length > 0 else 0.0
