"""Floors of a month and what comes behind it (definitions and figures: README.md, "The month")."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.quality import month


def test_the_month_is_what_it_promises() -> None:
    keys = {one.key for one in month.memories()}
    assert len(keys) >= 150
    assert len(month.replaced()) >= 15
    kinds = Counter(one.kind for one in (*month.asked("held"), *month.more("held")))
    assert kinds >= Counter(help=30, code=15, recall=15, generic=100, task=20, two=20, both=20)
    for one in month.asked():
        assert one.must <= keys - set(month.replaced()), one.id


def _hold(first: month.Figures, last: month.Figures, within: float) -> None:
    said = f"day 1: {first.line()}\nat the end: {last.line()}"  # nothing of what went wrong: it would be tuned on
    for one in (first, last):
        assert one.helpful >= 0.80, said
        assert one.silence >= 0.92, said
        assert one.top_3 >= 0.93, said
    assert abs(first.helpful - last.helpful) <= within, said


def test_floors() -> None:
    """The month imported, four weeks of use, each question asked thrice."""
    first, last = month.live("used", month.Pace(days=27, half="held", at_once=True))
    _hold(first, last, 0.05)
    assert first.generic >= 0.87, first.coding()
    assert first.task >= 0.80, first.coding()
    assert first.two >= 0.90, first.coding()
    assert first.both >= 0.50, first.coding()


@pytest.mark.soak
@pytest.mark.parametrize("mode", month.MODES)
def test_floors_of_ninety_days(mode: month.Mode) -> None:
    """The month lived day by day, and sixty days more."""
    first, last = month.live(mode)
    for half in month.HALVES:
        _hold(first.of(half), last.of(half), 0.15 if mode == "idle" else 0.05)
