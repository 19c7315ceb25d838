"""On a terminal: colour, tables, progress; and no byte of a memory that the terminal would obey."""

from __future__ import annotations

import pytest

from ormahd import api
from tests.unit.ctl_desk import Desk, hit, on_terminal, task

EVIL = "\x1b[2J\x1b]0;owned\x07"


def test_colour_only_where_it_is_wanted(desk: Desk) -> None:
    desk.answers["agent.recall"] = api.RecallResult(text="", results=[hit(title=EVIL, content=EVIL)])
    coloured = on_terminal(desk, "recall", "tea", plainly=True)
    assert "\x1b[1m\\x1b[2J\\x1b]0;owned\\x07\x1b[0m" in coloured
    assert EVIL[:4] not in coloured
    assert "\x07" not in coloured
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert "\x1b" not in on_terminal(desk, "recall", "tea", **env)


def test_tables_have_a_bold_heading_and_stay_harmless(desk: Desk) -> None:
    desk.answers["admin.tasks"] = api.TasksResult(tasks=[task(name=f"[bold]日本{EVIL}", paused=True)])
    drawn = on_terminal(desk, "jobs")
    assert "\x1b[1mjob" in drawn
    assert "\\x1b[2J" in drawn
    assert "[bold]日本" in drawn
    assert EVIL[:4] not in drawn


def test_progress_is_drawn_and_taken_away(desk: Desk) -> None:
    desk.progress = [api.Progress(done=step, total=3, stage=f"embedding{EVIL}") for step in range(4)]
    desk.answers["admin.rebuild"] = api.RebuildResult(status="rebuilt", nodes_indexed=3, seconds=0.5)
    drawn = on_terminal(desk, "rebuild")
    assert "indexed 3 memories in 0.5 s" in drawn
    assert "\x07" not in drawn


def test_an_import_shows_how_fast_it_goes(desk: Desk) -> None:
    desk.answers["admin.import"] = lambda params: api.ImportResult(
        added=len(params.lines), skipped=0, failed=[], run="r1"
    )
    desk.answers["history.list"] = api.HistoryResult(ops=[])
    file = desk.home / "in.jsonl"
    file.write_text('{"content": "x"}\n' * 2000)
    drawn = on_terminal(desk, "import", str(file))
    assert "importing" in drawn
    assert "2,000 memories added, 0 skipped, 0 failed" in drawn


def test_json_on_a_terminal_is_indented(desk: Desk) -> None:
    desk.answers["agent.recall"] = api.RecallResult(text="", results=[hit(title="\x9b2J" + EVIL)])
    drawn = on_terminal(desk, "--json", "recall", "tea")
    assert '{\r\n  "results": [' in drawn
    assert "\x1b" not in drawn
    assert "\x9b" not in drawn


@pytest.mark.parametrize("words", [["hook"], ["hook", "UserPromptSubmit"]])
def test_a_hook_that_a_person_types_says_what_it_is_for(desk: Desk, words: list[str]) -> None:
    said = on_terminal(desk, *words)
    assert "nothing to type" in said
    assert "ormahctl setup" in said
