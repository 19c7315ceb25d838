"""Floors of a month and what comes behind it (definitions and figures: README.md, "The month")."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.quality import month


def test_the_month_is_what_it_promises() -> None:
    kept = month.memories()
    keys = {one.key for one in kept}
    assert len(keys) == len({one.id for one in kept}) == len(kept) >= 150
    assert len({one.space for one in kept}) >= 5
    assert len(month.replaced()) >= 15
    days = {one.key: one.day for one in kept}
    assert set(days.values()) <= set(range(1, month.MONTH))
    assert all(days[old] < days[new] for old, new in month.replaced().items())
    every = month.asked()
    kinds = Counter(one.kind for one in every)
    assert kinds["help"] >= 60
    assert kinds["code"] >= 40
    assert kinds["code"] + kinds["chat"] >= 60
    assert kinds["recall"] >= 40
    assert len({one.text for one in every}) == len(every)
    for one in every:
        assert one.must <= keys - set(month.replaced()), one.id
        assert bool(one.must) == (one.kind in {"help", "recall"}), one.id
    more = Counter(one.kind for one in month.more())
    assert more["generic"] >= 250
    assert more["task"] >= 50
    assert more["two"] == more["both"] >= 40
    new = [one.text for one in month.more() if one.kind != "both"]
    assert len({one.text for one in every} | set(new)) == len(every) + len(new)
    for one in month.more():
        assert one.must | one.also <= keys, one.id
        assert bool(one.also) == (one.kind in month.PAIRED), one.id
        assert bool(one.must) == (one.kind != "generic"), one.id
    for half in month.HALVES:
        assert Counter(one.kind for one in month.asked(half))["help"] >= 30
        assert Counter(one.kind for one in month.more(half))["generic"] >= 100


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
