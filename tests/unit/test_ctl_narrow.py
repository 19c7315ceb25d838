"""Terminals of 80 and of 40 columns: nothing is wider, lines end between words, and a pipe gets each line whole."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ormahctl import render
from ormahctl.render import wrapped
from ormahd import api
from tests.unit.ctl_desk import Desk, health, hit, node, on_terminal, open_desk

LONG = "Prefers TypeScript over JavaScript for anything that outlives a day, because refactorings are cheaper"
CJK = "日本語の記憶はとても長い題名を持っていて、端末の幅を超えることがあります"
EMOJI = "🎉 Party 👩‍👩‍👧 at the office on Friday 🍰🍰🍰 with cake for everyone who shipped 🚀🚀🚀"
STEERING = re.compile("\x1b\\[[0-9;?]*[a-zA-Z]")
NARROW = (40, 80)


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    with open_desk() as found:
        edge = api.Edge(id="1" * 36, short_id="11111111", edge="supports", weight=0.5, title=LONG, reason=LONG)
        op = api.OpResult(
            op="01k", commit="1a2b3c4d5e", time="2026-11-21T20:00:00Z", kind="consolidate", source="agent:claude-code",
            subject=LONG, nodes=[], undone_by=None, run=None, body="",
        )  # fmt: skip
        found.answers |= {
            "agent.recall": api.RecallResult(
                text="", results=[hit(title=text, content=f"{text}. {text}", space="shop-frontend") for text in (LONG, CJK, EMOJI)]
            ),
            "agent.get": node(title=LONG, content=LONG, connections=api.Connections(out=[edge], incoming=[edge])),
            "history.list": api.HistoryResult(ops=[op]),
            "admin.health": health(),
            "admin.stats": api.StatsResult(
                total_nodes=2, by_tier={"core": 2}, by_type={"fact": 2}, by_space={"a space with a name of several words": 2},
                total_edges=0, by_edge={}, plain_files=0,
            ),
            "admin.tasks": api.TasksResult(tasks=[api.TaskRow(
                name="conflict_detector", last_run="2026-11-21T20:00:00Z", last_duration_ms=12_000, run_count=1, paused=True, error_count=0, last_error=None, last_success=None,
                running=False, next_run="2026-11-22T20:00:00Z",
            )]),
            "admin.doctor": api.DoctorResult(findings=[api.Finding(level="warning", what=LONG, mend=LONG)]),
        }  # fmt: skip
        yield found


@pytest.mark.parametrize("columns", NARROW)
@pytest.mark.parametrize("command", [
    ("recall", "x"), ("show", "97acbe8e"), ("history",), ("status", "--verbose"), ("jobs",), ("doctor",), ("recall", "--help"), ("--help",),
])  # fmt: skip
def test_nothing_is_wider_than_the_terminal(desk: Desk, command: tuple[str, ...], columns: int) -> None:
    status = 1 if command == ("doctor",) else 0
    lines = STEERING.sub("", on_terminal(desk, *command, status=status, COLUMNS=str(columns))).splitlines()
    examples = next((at for at, one in enumerate(lines) if one == "Example:"), len(lines))  # copied, so left whole
    assert not [one for one in lines[:examples] if render.width(one) > columns]


@pytest.mark.parametrize("columns", NARROW)
@pytest.mark.parametrize("command", [("show", "97acbe8e"), ("doctor",), ("jobs",), ("status", "--verbose")])
def test_lines_end_between_words(desk: Desk, command: tuple[str, ...], columns: int) -> None:
    status = 1 if command == ("doctor",) else 0
    shown = STEERING.sub("", on_terminal(desk, *command, status=status, COLUMNS=str(columns)))
    words = {
        "jobs": "conflict_detector last run took 2026-11-21 12.0 s paused",
        "status": "core fact a space with name of several words",
    }
    missing = set(words.get(command[0], LONG).split()) - set(re.split(r"[\s·]+", shown))
    assert not missing


def test_a_row_of_history_falls_to_two_lines_where_its_subject_has_no_room(desk: Desk) -> None:
    first, second, *_ = STEERING.sub("", on_terminal(desk, "history", COLUMNS="80")).splitlines()
    assert first.split()[2:] == ["1a2b3c4d", "consolidate", "agent:claude-code"]
    assert second == "  Prefers TypeScript over JavaScript for anything that outlives a day, because…"
    whole = STEERING.sub("", on_terminal(desk, "history", COLUMNS="200"))
    assert LONG in whole.splitlines()[0]


def test_a_pipe_gets_each_line_whole_and_without_colour(desk: Desk) -> None:
    done = desk.ctl("show", "97acbe8e", env={"COLUMNS": "40"})
    assert done.stdout.splitlines()[0] == LONG
    assert "\x1b" not in done.stdout
    plain = on_terminal(desk, "show", "97acbe8e", COLUMNS="40", NO_COLOR="1")
    assert "\x1b" not in plain
    assert not [one for one in plain.splitlines() if render.width(one) > 40]


@pytest.mark.parametrize("text", [LONG, CJK, EMOJI, f"  {LONG}", "x" * 200, f"{'x' * 90} {LONG}"])
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


@pytest.mark.parametrize("text", [
    f"socket    {URL}", f"see {URL} for the rules of style", "it failed; for all of it: ormahctl undo --run 01m8gsnxcfad3jwyd0gsrwzf06",
    "to connect one: \x1b[1mormahctl setup claude-code\x1b[0m, or another",
    "note: to see what would be whispered: ormahctl whisper 'a prompt of words'; then go on",
    "to connect an agent to it: ormahctl setup. Another way, which is longer, is told in the docs",
])  # fmt: skip
def test_links_and_commands_can_be_copied(text: str) -> None:
    shown = [STEERING.sub("", piece) for piece in wrapped(text, 40)]
    whole = re.search(rf"{URL}|ormahctl [^,;.\x1b]*", text)
    assert whole is not None
    assert any(whole[0] in piece for piece in shown)
    assert all(render.width(piece) <= 40 for piece in shown if whole[0] not in piece)


def test_a_path_behind_the_name_of_a_line_stays_behind_it() -> None:
    assert wrapped(f"socket    {URL}", 40, hang=10) == [f"socket    {URL}"]


def test_prose_about_the_command_is_wrapped() -> None:
    text = f"ormahctl {LONG.replace(',', '')}"
    assert all(render.width(piece) <= 40 for piece in wrapped(text, 40))


@given(st.text(st.sampled_from("ab \t日🎉e\u0301-"), max_size=200), st.integers(20, 90), st.integers(0, 12))
def test_every_line_fits(text: str, columns: int, hang: int) -> None:
    assert all(render.width(piece.expandtabs(4)) <= columns for piece in wrapped(text, columns, hang))


def test_the_first_line_uses_its_room() -> None:
    assert wrapped("one two three four five six", 20, hang=10) == ["one two three four", "          five six"]


def test_a_table_narrows_its_longest_column_before_it_is_stacked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ormahctl.render.terminal", lambda _: True)
    monkeypatch.setenv("NO_COLOR", "1")
    rows = [["a/short-name", "1 MB"], ["a/name-that-is-longer-than-its-column", "2 MB"]]

    def drawn(columns: int, *, turned: bool = False) -> list[str]:
        monkeypatch.setenv("COLUMNS", str(columns))
        heads, cells = ["model", "size"], rows
        if turned:
            heads, cells = heads[::-1], [row[::-1] for row in rows]
        render.table(heads, cells)
        return capsys.readouterr().out.splitlines()

    long = rows[1][0]
    assert drawn(len(long) + 6) == [f"{'model':<37}  size", f"{'a/short-name':<37}  1 MB", f"{long}  2 MB"]
    assert drawn(40) == [f"{'model':<34}  size", f"{'a/short-name':<34}  1 MB", long, f"{'':<34}  2 MB"]
    assert drawn(40, turned=True) == ["size  model", "1 MB  a/short-name", "2 MB", f"  {long}"]


def test_a_stacked_table_keeps_every_heading(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ormahctl.render.terminal", lambda _: True)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    heads = ["came in 30 days from", "sessions", "turns", "memories", "refused"]
    render.table(heads, [["claude-code", "1", "2", "3", "4"], ["codex", "5", "6", "7", "8"]], right=[1, 2, 3, 4])
    printed = capsys.readouterr().out
    assert printed.splitlines()[0] == "came in 30 days from claude-code"
    assert [head for head in heads if printed.count(head) != 2] == []


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("undo: ormahctl uninstall takes all of this out again", "ormahctl uninstall"),
        ("ormahctl status shows how far it is; ormahctl ingest --stop stops it", "ormahctl status"),
        ("the daemon's judge is set by: ormahctl config set jobs.judge command", "ormahctl config set jobs.judge"),
        ("ormahctl show 1a2b3c4d brings it back, if it is wanted again", "ormahctl show 1a2b3c4d"),
        ("two files: ormahctl vault release --all --remove-data", "ormahctl vault release --all --remove-data"),
        ("in the vault: git -C /home/ada/notes push origin main", "git -C /home/ada/notes push origin main"),
    ],
)
def test_a_command_is_whole_with_at_most_two_words_of_the_sentence(text: str, command: str) -> None:
    lines = wrapped(text, 24)
    assert any(command in one for one in lines)
    assert all(render.width(one) <= max(24, len(command) + 16) for one in lines)
