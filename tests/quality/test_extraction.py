"""The rules find in conversations what is worth keeping, and little else (README, "What rules find")."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ormahd.ingest.readers.turns import SessionTurn
from ormahd.ingest.rules import candidates
from tests.quality import extraction

SESSIONS = extraction.sessions()
HELD = [one for one in SESSIONS if one.half == "held"]
JUNK = ("en-heartbeat-bot", "de-herzschlag", "es-latidos", "fr-coeur-battant")
PLAYED = ("en-dnd-night", "de-theater-rolle", "es-rol-fantasia", "fr-jeu-pirate")


def test_precision_on_the_held_half() -> None:
    score = extraction.score(HELD)
    print(f"held: {score}")
    assert score.precision >= 0.95
    assert score.recall >= 0.35


@pytest.mark.parametrize("language", extraction.LANGUAGES)
def test_no_language_is_left_behind(language: str) -> None:
    score = extraction.score([one for one in HELD if one.name.startswith(f"{language}-")])
    print(f"held {language}: {score}")
    assert score.precision >= 0.90
    assert score.recall >= 0.25


def test_near_misses_are_no_memories() -> None:
    """Words of others, texts to work on, pages, jokes, halves, and what the person takes back."""
    near = [one for one in SESSIONS if one.near and not one.worth]
    assert len(near) > 300
    assert {one.name: found for one in near if (found := candidates(one.turns, today=one.day))} == {}


@pytest.mark.parametrize("name", [*JUNK, *PLAYED])
def test_heartbeats_acknowledgements_tools_and_plays_are_no_memories(name: str) -> None:
    (session,) = [one for one in SESSIONS if one.name == name]
    assert [one.content for one in candidates(session.turns, today=session.day)] == []


def test_what_the_agent_says_is_no_memory() -> None:
    """The same sessions with the roles exchanged: nothing that a person said counts when an agent says it."""
    for session in SESSIONS:
        agent: Sequence[SessionTurn] = [
            SessionTurn("assistant", one.text, one.time, one.session, one.key) for one in session.turns
        ]
        assert candidates(agent, today=session.day) == []
