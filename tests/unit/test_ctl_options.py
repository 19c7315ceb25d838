"""Kinds of arguments: the choices are the core's, times are the reader's, links are EDGE:ID."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timedelta

import click
import pytest

from ormahctl import options
from ormahctl.commands.history import KINDS
from ormahctl.commands.update import CLEARABLE
from ormahctl.options import LinkType, When
from ormahctl.session import space
from ormahctl.verbs import SECTIONS, cli
from ormahd.core.node import EdgeType, NodeType, Tier
from ormahd.rpc.schema import Link


def test_choices_are_those_of_the_core() -> None:
    assert tuple(NodeType) == options.TYPES
    assert tuple(Tier) == options.TIERS
    assert tuple(EdgeType) == options.EDGES


def test_kinds_are_those_of_the_vault() -> None:
    from ormahd.vault.change import Kind

    assert tuple(Kind) == KINDS


def test_what_can_be_cleared_can_be_cleared_in_the_daemon() -> None:
    from ormahd.actions import update

    assert set(CLEARABLE) <= set(update.CLEARABLE)


def test_every_command_loads_and_has_help_with_an_example() -> None:
    for name in (name for section in SECTIONS.values() for name in section):
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        with click.Context(command, info_name=name) as context:
            assert "Example" in command.get_help(context), name


@pytest.fixture
def tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("tokyo")
def test_a_day_is_the_readers_day() -> None:
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
    assert datetime.fromisoformat(When().convert("yesterday", None, None)).date() == now.date() - timedelta(days=1)


@pytest.mark.parametrize("text", ["", "soon", "2026-13-01", "2026-11-21T25:00", "-3d"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is no time"):
        When().convert(text, None, None)


def test_links() -> None:
    assert LinkType().convert("supports:1a2b3c4d", None, None) == Link(target="1a2b3c4d", edge="supports")
    for text in ("supports", "supports:", "likes:1a2b3c4d", ":1a2b"):
        with pytest.raises(click.BadParameter):
            LinkType().convert(text, None, None)


def test_the_space_of_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    from msgspec import UNSET

    monkeypatch.delenv("ORMAH_SPACE", raising=False)
    assert space() is UNSET
    assert space("x") == "x"
    assert space(None, True) is None
    monkeypatch.setenv("ORMAH_SPACE", "mine")
    assert space() == "mine"
    assert space("x") == "x"
    monkeypatch.setenv("ORMAH_SPACE", "global")
    assert space() is None
    monkeypatch.setenv("ORMAH_SPACE", " ")
    assert space() is UNSET
    with pytest.raises(click.UsageError, match="exclude"):
        space("x", True)
