"""Terminals of 80 and of 40 columns: nothing is wider, lines end between words, and a pipe gets each line whole."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from ormahctl import render
from ormahctl.render import wrapped
from ormahd import api
from tests.unit.ctl_desk import Desk, health, hit, node, on_terminal, op, open_desk

LONG = "Prefers TypeScript over JavaScript for anything that outlives a day, because refactorings are cheaper"
CJK = "日本語の記憶はとても長い題名を持っていて、端末の幅を超えることがあります"
EMOJI = "🎉 Party 👩‍👩‍👧 at the office on Friday 🍰🍰🍰 with cake for everyone who shipped 🚀🚀🚀"
STEERING = re.compile("\x1b\\[[0-9;?]*[a-zA-Z]")
NARROW = (40, 80)


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    with open_desk() as found:
        edge = api.Edge(id="1" * 36, short_id="11111111", edge="supports", weight=0.5, title=LONG, reason=LONG)
        found.answers |= {
            "agent.recall": api.RecallResult(
                text="", results=[hit(title=text, content=f"{text}. {text}", space="shop-frontend") for text in (LONG, CJK, EMOJI)]
            ),
            "agent.get": node(title=LONG, content=LONG, connections=api.Connections(out=[edge], incoming=[edge])),
            "history.list": api.HistoryResult(ops=[op(kind="consolidate", source="agent:claude-code", subject=LONG)]),
            "admin.health": health(),
            "admin.stats": api.StatsResult(
                total_nodes=2, by_tier={"core": 2}, by_type={"fact": 2}, by_space={"a space with a name of several words": 2},
                total_edges=0, by_edge={}, plain_files=0,
            ),
            "admin.doctor": api.DoctorResult(findings=[api.Finding(level="warning", what=LONG, mend=LONG)]),
        }  # fmt: skip
        yield found


@pytest.mark.parametrize("columns", NARROW)
@pytest.mark.parametrize("command", [
    ("recall", "x"), ("show", "97acbe8e"), ("history",), ("status",), ("doctor",),
])  # fmt: skip
def test_nothing_is_wider_than_the_terminal(desk: Desk, command: tuple[str, ...], columns: int) -> None:
    status = 1 if command == ("doctor",) else 0
    lines = STEERING.sub("", on_terminal(desk, *command, status=status, COLUMNS=str(columns))).splitlines()
    examples = next((at for at, one in enumerate(lines) if one == "Example:"), len(lines))  # copied, so left whole
    assert not [one for one in lines[:examples] if render.width(one) > columns]


@pytest.mark.parametrize("columns", NARROW)
@pytest.mark.parametrize("command", [("show", "97acbe8e"), ("doctor",)])
def test_lines_end_between_words(desk: Desk, command: tuple[str, ...], columns: int) -> None:
    status = 1 if command == ("doctor",) else 0
    shown = STEERING.sub("", on_terminal(desk, *command, status=status, COLUMNS=str(columns)))
    assert set(LONG.split()) <= set(re.split(r"[\s·]+", shown))


def test_the_subject_of_a_change_is_cut_to_the_room(desk: Desk) -> None:
    first, *_ = STEERING.sub("", on_terminal(desk, "history", COLUMNS="100")).splitlines()
    assert first.endswith("…")
    whole = STEERING.sub("", on_terminal(desk, "history", COLUMNS="200"))
    assert LONG in whole.splitlines()[0]


def test_a_pipe_gets_each_line_whole_and_without_colour(desk: Desk) -> None:
    done = desk.ctl("show", "97acbe8e", env={"COLUMNS": "40"})
    assert done.stdout.splitlines()[0] == LONG
    assert "\x1b" not in done.stdout
    plain = on_terminal(desk, "show", "97acbe8e", COLUMNS="40", NO_COLOR="1")
    assert "\x1b" not in plain
    assert not [one for one in plain.splitlines() if render.width(one) > 40]


@pytest.mark.parametrize("text", [LONG, CJK, EMOJI, f"  {LONG}", "x" * 200])
@pytest.mark.parametrize("columns", [20, 40, 80])
def test_wrapping_loses_nothing(text: str, columns: int) -> None:
    pieces = wrapped(text, columns)
    assert all(render.width(piece) <= columns for piece in pieces)
    assert "".join("".join(pieces).split()) == "".join(text.split())


def test_wrapped_text_keeps_its_colour() -> None:
    pieces = wrapped(f"\x1b[1m{LONG}\x1b[0m", 40)
    assert len(pieces) > 1
    assert all(piece.lstrip().startswith("\x1b[1m") and piece.endswith("\x1b[0m") for piece in pieces)


URL = "https://example.org/a/very/long/path/that/does/not/fit/into/forty/columns/at/all.html"


def test_links_can_be_copied() -> None:
    assert any(URL in piece for piece in wrapped(f"see {URL} for the rules of style", 40))


def test_prose_about_the_command_is_wrapped() -> None:
    text = f"ormahctl {LONG.replace(',', '')}"
    assert all(render.width(piece) <= 40 for piece in wrapped(text, 40))


def test_the_first_line_uses_its_room() -> None:
    assert wrapped("one two three four five six", 20, hang=10) == ["one two three four", "          five six"]
