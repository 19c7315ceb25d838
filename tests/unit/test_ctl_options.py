"""Kinds of arguments: the choices are the core's, times are the reader's, links are EDGE:ID."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta

import click
import pytest

from ormahctl import options
from ormahctl.commands.write import CLEARABLE
from ormahctl.options import LinkType
from ormahctl.registry import SECTIONS, cli
from ormahctl.times import TimeOrCommit, TimeOrRevision, When
from ormahd.api import Link
from ormahd.model.node import EdgeType, NodeType, Tier
from tests.tables import rows


def test_choices_are_those_of_the_core() -> None:
    assert tuple(NodeType) == options.TYPES
    assert tuple(Tier) == options.TIERS
    assert tuple(EdgeType) == options.EDGES


def test_what_can_be_cleared_can_be_cleared_in_the_daemon() -> None:
    from ormahd.actions import update

    assert set(CLEARABLE) <= set(update.CLEARABLE)


def test_every_command_loads_and_has_help_with_an_example() -> None:
    for name in (name for section in SECTIONS.values() for name in section):
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        with click.Context(command, info_name=name) as context:
            assert "Example" in command.get_help(context), name


def test_a_day_is_the_readers_day(zone: Callable[[str], None]) -> None:
    zone("Asia/Tokyo")
    assert When().convert("2026-11-21", None, None) == "2026-11-21T00:00:00+09:00"
    assert When(end=True).convert("2026-11-21", None, None) == "2026-11-21T23:59:59.999999+09:00"
    assert When().convert("2026-11-21T20:00", None, None) == "2026-11-21T20:00:00+09:00"
    assert When().convert("2026-11-21T20:00:00Z", None, None) == "2026-11-22T05:00:00+09:00"


def test_times_ago() -> None:
    now = datetime.now().astimezone()
    for text, gone in (
        ("3d", timedelta(days=3)),
        ("12h", timedelta(hours=12)),
        ("2w", timedelta(weeks=2)),
        ("5 min", timedelta(minutes=5)),
    ):
        assert abs(now - gone - datetime.fromisoformat(When().convert(text, None, None))) < timedelta(minutes=1)
    yesterday = datetime.fromisoformat(When().convert("yesterday", None, None)).date()
    assert yesterday + timedelta(days=1) in (now.date(), datetime.now().astimezone().date())


@pytest.mark.parametrize(("text", "days"), rows(__file__, "days_in_words_are_whole_days"))
def test_days_in_words_are_whole_days(zone: Callable[[str], None], text: str, days: int) -> None:
    zone("Asia/Tokyo")
    kinds = (When(), When(end=True), TimeOrCommit(), TimeOrRevision())

    def day() -> date:
        return datetime.now().astimezone().date() - timedelta(days=days)

    before, found = day(), [kind.convert(text, None, None) for kind in kinds]
    if day() != before:  # midnight came in between
        before, found = day(), [kind.convert(text, None, None) for kind in kinds]
    assert found == [f"{before}T00:00:00+09:00", *[f"{before}T23:59:59.999999+09:00"] * 3]


@pytest.mark.parametrize(
    "text",
    ["2weeks", "3days", "1week", "12hours", "90min", "2w", "5march", "10minutes", "1month", "7d", "100d", "0012h"],
)
def test_an_age_is_no_id(text: str) -> None:
    found = datetime.fromisoformat(TimeOrCommit().convert(text, None, None))
    assert abs(datetime.now().astimezone() - found) < timedelta(days=366)


@pytest.mark.parametrize("text", ["1a2b3c4d", "deadbeef", "01k9", "01kagq3v5m7w9x", "12345678"])
def test_an_id_stays_one(text: str) -> None:
    assert TimeOrCommit().convert(text, None, None) == TimeOrCommit().convert(text.upper(), None, None) == text


def test_hours_in_words_are_moments() -> None:
    found = datetime.fromisoformat(When(end=True).convert("2 hours ago", None, None))
    assert abs(datetime.now().astimezone() - timedelta(hours=2) - found) < timedelta(minutes=1)


def test_a_weekday_and_a_month_are_past_ones() -> None:
    for text in ("monday", "last friday", "march", "november 3"):
        found = datetime.fromisoformat(When().convert(text, None, None))
        now = datetime.now().astimezone()
        assert now - timedelta(days=367) < found <= now


def test_words_of_the_readers_language(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LC_ALL", "LC_TIME", "LANG"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(click.BadParameter):
        When().convert("gestern", None, None)
    monkeypatch.setenv("LANG", "de_DE.UTF-8")
    english = {When().convert("yesterday", None, None)}
    german = When().convert("gestern", None, None)
    assert german in english | {When().convert("yesterday", None, None)}
    monkeypatch.setenv("LANG", "xx_XX.UTF-8")
    assert When().convert("yesterday", None, None)


@pytest.mark.parametrize(
    "text",
    [
        "main",
        "1a2b3c4d",
        "20231105",
        "ABCDEF12",
        "feature/branch",
        "HEAD~3",
        "deadbeef",
        "v1.0",
        "01m8dynzfe66bmcnn9z3x6rryv",
    ],
)
def test_a_revision_is_no_time(text: str) -> None:
    assert TimeOrRevision().convert(text, None, None) == text


@pytest.mark.parametrize("text", ["", "soon", "a", "5", "x" * 5000, "2026-13-01", "2026-11-21T25:00", "-3d", "\x00"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is no time"):
        When().convert(text, None, None)


def test_links() -> None:
    assert LinkType().convert("supports:1a2b3c4d", None, None) == Link(target="1a2b3c4d", edge="supports")
    for text in ("supports", "supports:", "likes:1a2b3c4d", ":1a2b"):
        with pytest.raises(click.BadParameter):
            LinkType().convert(text, None, None)
