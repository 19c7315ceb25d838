"""What a reader is shown of a session: the person's words, and of the agent's only what they answer."""

from __future__ import annotations

import pytest

from ormahd.ingest.batches import GAP, UnreadTurns, batches
from ormahd.sessions.archive import Archived, SessionTail
from tests.tables import rows

SHOWN = rows(__file__, "shown")
"""(role, characters of a turn, characters that are shown)."""


def unread(*turns: tuple[str, int]) -> UnreadTurns:
    rows = [
        Archived(number, f"k{number}", 1, number, number, role, None, "x" * size)
        for number, (role, size) in enumerate(turns, 1)
    ]
    return UnreadTurns(SessionTail("p", "s", "claude-code", None, None, len(rows), "k1"), tuple(rows), 0, "model")


@pytest.mark.parametrize(("role", "size", "shown"), SHOWN)
def test_a_turn_is_shown_by_its_beginning_and_its_end(role: str, size: int, shown: int) -> None:
    (batch,) = batches(unread((role, size)))
    text = batch.turns[0].text
    assert len(text.replace(GAP, "")) == pytest.approx(shown, abs=2)
    assert (GAP in text) == (shown < size)


def test_many_turns_take_few_batches() -> None:
    talk = [("user", 170), ("assistant", 900)] * 200
    found = list(batches(unread(*talk), 24_000))
    assert sum(len(one.fresh) for one in found) == 400
    assert len(found) <= 8, "whole answers would take eleven"
