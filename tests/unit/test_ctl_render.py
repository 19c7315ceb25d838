"""Texts for people: harmless, cut to width, dated in the reader's zone; JSON that no terminal obeys."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ormahctl import render
from tests.tables import rows


@pytest.mark.parametrize(
    ("text", "shown"), [*rows(__file__, "control_characters_are_shown_and_scripts_left_alone"), ("\udcff", "\\udcff")]
)
def test_control_characters_are_shown_and_scripts_left_alone(text: str, shown: str) -> None:
    assert render.safe(text) == shown


@given(st.text())
def test_nothing_that_steers_a_terminal_gets_through(text: str) -> None:
    shown = render.line(text)
    assert not any(ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0 for char in shown)


@given(st.text(), st.integers(min_value=2, max_value=60))
def test_a_cut_text_fits(text: str, columns: int) -> None:
    line = render.line(text)
    short = render.cut(line, columns)
    assert render.width(short) <= columns
    assert short == line or short.endswith("…")


def test_wide_characters_take_two_columns() -> None:
    assert render.width("日本") == 4
    assert render.width("e\u0301") == 1
    assert render.cut("日本語の記憶", 7) == "日本語…"
    assert render.pad("日本", 6) == "日本  "


def test_times_are_the_readers(zone: Callable[[str], None]) -> None:
    zone("Asia/Tokyo")
    assert render.moment("2026-11-21T20:00:00Z") == "2026-11-22 05:00"
    assert render.moment("2026-11-21T20:00:00Z", day=True) == "2026-11-22"
    assert render.moment(None) == "-"
    assert render.moment("not\x1ba time") == "not\\x1ba time"


def test_json_escapes_what_a_terminal_would_obey() -> None:
    text = render.encode({"a": "\x1b[0m\x9b1m\u202e", "b": "日本"}, pretty=False)
    assert "\x1b" not in text
    assert "\x9b" not in text
    assert "\u202e" not in text
    assert "日本" in text
    assert json.loads(text) == {"a": "\x1b[0m\x9b1m\u202e", "b": "日本"}


def test_a_table_without_a_terminal_is_plain_and_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    render.table(["name", "count"], [["日本", "7"], ["a\x1bb", "12"]], right=[1])
    assert capsys.readouterr().out == "name    count\n日本        7\na\\x1bb     12\n"


@pytest.mark.parametrize(("count", "shown"), [(0, "0 bytes"), (1500, "1.5 kB"), (2_500_000, "2.5 MB"), (3e9, "3.0 GB")])
def test_sizes(count: float, shown: str) -> None:
    assert render.size(count) == shown


@pytest.mark.parametrize(
    ("text", "columns", "shown"),
    [("deploys happen on Tuesdays", 40, "deploys happen on Tuesdays"), ("deploys happen on Tuesdays", 20, "deploys happen on…"),
     ("deploys happen on Tuesdays", 18, "deploys happen on…"), ("averyverylongword here", 10, "averyvery…"), ("部署在每周二进行", 9, "部署在每…")],
)  # fmt: skip
def test_a_cut_is_between_words(text: str, columns: int, shown: str) -> None:
    assert render.cut(text, columns) == shown
