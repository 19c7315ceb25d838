"""Quiet: a greeting, and a topic that was served."""

from datetime import UTC, datetime

import numpy as np

from ormahd.whisper.analyse import topic_silence
from ormahd.whisper.types import Analysis, Before, EarlierPrompt, Float, Intent, Silence

NOW = datetime(2026, 11, 21, 20, tzinfo=UTC)


def unit(*values: float) -> Float:
    vector = np.array(values, np.float32)
    return np.asarray(vector / np.linalg.norm(vector), np.float32)


NORTH, EAST, NEAR_NORTH = unit(0, 1), unit(1, 0), unit(0.5, 1)
"""Cosine of north and near north: 0.89."""


def heard(vector: Float | None = NORTH, *intents: Intent, follow_up: bool = False) -> Analysis:
    return Analysis("p", frozenset(intents or {Intent.GENERAL}), vector, "p", follow_up)


def said(vector: Float | None, *, answered: bool = True) -> EarlierPrompt:
    return EarlierPrompt("earlier", vector, NOW, answered)


def after(*earlier: EarlierPrompt) -> Before:
    return Before(recent=earlier or None)


def test_conversational_alone_is_silent() -> None:
    """Seed: "conversational-only prompts skip injection entirely"."""
    assert topic_silence(heard(NORTH, Intent.CONVERSATIONAL), Before()) is Silence.CONVERSATIONAL
    assert topic_silence(heard(NORTH, Intent.CONVERSATIONAL, Intent.TEMPORAL), Before()) is None


def test_intent_comes_before_topic_shift() -> None:
    """Seed: "Intent classification happens before topic-shift skip"."""
    assert topic_silence(heard(NORTH, Intent.CONVERSATIONAL), after(said(NORTH))) is Silence.CONVERSATIONAL


def test_the_same_topic_is_silent_when_it_was_served() -> None:
    """Seed: "compares the current prompt embedding with the centroid of the last few prompts … whisper is skipped"."""
    assert topic_silence(heard(), after(said(NEAR_NORTH))) is Silence.SAME_TOPIC


def test_another_topic_is_heard() -> None:
    assert topic_silence(heard(), after(said(EAST))) is None


def test_a_topic_that_was_never_served_is_not_starved() -> None:
    """Issue: "topic-shift never starves a topic that was not served"."""
    assert topic_silence(heard(), after(said(NORTH, answered=False))) is None
    assert topic_silence(heard(), after(said(EAST), said(NORTH, answered=False), said(NORTH, answered=False))) is None
    served = after(said(NORTH), said(NORTH, answered=False))
    assert topic_silence(heard(), served) is Silence.SAME_TOPIC


def test_the_centre_is_that_of_the_last_three() -> None:
    """Cosine of north with the mean of north, north and east: 0.89; with east once more in it: 0.71."""
    assert topic_silence(heard(), after(said(EAST), said(NORTH), said(NORTH), said(EAST))) is Silence.SAME_TOPIC
    assert topic_silence(heard(), after(said(NORTH), said(NORTH), said(EAST), said(EAST))) is None


def test_a_follow_up_is_never_the_same_topic() -> None:
    """Seed: "Topic-shift skip only applies to non-follow-ups"."""
    assert topic_silence(heard(follow_up=True), after(said(NORTH))) is None


def test_the_first_prompt_is_never_the_same_topic() -> None:
    assert topic_silence(heard(), Before()) is None


def test_what_cannot_be_compared() -> None:
    """No model, a vector of another model, vectors that cancel each other out."""
    assert topic_silence(heard(None), after(said(NORTH))) is None
    assert topic_silence(heard(), after(said(None))) is None
    assert topic_silence(heard(), after(said(unit(1, 0, 0)))) is None
    assert topic_silence(heard(), after(said(NORTH), said(unit(0, -1)))) is None
    assert topic_silence(heard(), after(said(NORTH), said(None))) is Silence.SAME_TOPIC
