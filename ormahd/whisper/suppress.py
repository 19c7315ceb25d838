"""Quiet: prompts that were heard, and need no memory."""

from __future__ import annotations

import numpy as np

from ormahd.settings.whisper import WhisperSettings
from ormahd.whisper.types import Before, Float, Heard, Intent, Said, Silence

CENTRE: int = 3
"""Earlier prompts whose mean says what the session is about (seeds)."""


def quiet(heard: Heard, before: Before, settings: WhisperSettings) -> Silence | None:
    """Why nothing is whispered for this prompt, whatever the memory holds; None where it is to be asked.

    A topic counts as the same only where memories were whispered for it in this session: one that was not served is
    asked about again. Without a session id nothing is known of earlier prompts, so that no topic is the same.
    """
    if heard.intents == {Intent.CONVERSATIONAL}:
        return Silence.CONVERSATIONAL
    return Silence.SAME_TOPIC if settings.topic_shift and _same_topic(heard, before, settings) else None


def _same_topic(heard: Heard, before: Before, settings: WhisperSettings) -> bool:
    if heard.follow_up or heard.vector is None:
        return False
    said = [(one, one.vector) for one in before.recent or () if one.vector is not None]
    comparable = [(one, vector) for one, vector in said if vector.shape == heard.vector.shape]
    if not comparable:
        return False
    threshold = settings.topic_shift_threshold
    centre = np.mean([vector for _, vector in comparable[-CENTRE:]], axis=0)
    return _cosine(heard.vector, centre) > threshold and any(
        _served(one, vector, heard.vector, threshold) for one, vector in comparable
    )


def _served(one: Said, vector: Float, now: Float, threshold: float) -> bool:
    return one.answered and _cosine(vector, now) >= threshold


def _cosine(one: Float, other: Float) -> float:
    """0 where a vector has no direction."""
    length = float(np.linalg.norm(one) * np.linalg.norm(other))
    return float(one @ other) / length if length > 0 else 0.0
