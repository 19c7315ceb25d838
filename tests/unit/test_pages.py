"""Printed output is held against a page: what may differ from run to run does, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pages import Ids, blocks, fault

REMEMBERED = ["remembered 97acbe8e  global/fact/2026-11/fact_tea_97acbe8e.md", "  commit 16e419f2"]


def test_ids_dates_and_figures_may_differ() -> None:
    ids = Ids()
    assert (
        ids.differ(REMEMBERED, "remembered 01234567  global/fact/2027-02/fact_tea_01234567.md\n  commit 89abcdef\n")
        is None
    )
    assert ids.typed("ormahctl show 97ac") == "ormahctl show 01234567"
    assert ids.typed("ormahctl undo 16e419f2 --node 97acbe8e") == "ormahctl undo 89abcdef --node 01234567"
    assert (
        ids.differ(
            ["1. Tea", "…", "   fact · 97acbe8e · 0.53 · 2 kB"], "1. Tea\nx\ny\n fact · 01234567 · 0.1 · 17.5 MB\n"
        )
        is None
    )


@pytest.mark.parametrize(
    "printed",
    [
        "remembered 01234567  global/fact/2026-11/fact_tea_01234567.md\n",
        "remembered 01234567  global/fact/2026-11/fact_tea_76543210.md\n  commit 89abcdef\n",
        "stored 01234567  global/fact/2026-11/fact_tea_01234567.md\n  commit 89abcdef\n",
        "remembered 01234567  global/fact/2026-11/fact_tea_01234567.md\n  commit 89abcdef\nnote: more\n",
        "",
    ],
)
def test_other_differences_are_named(printed: str) -> None:
    assert Ids().differ(REMEMBERED, printed) is not None


def test_an_id_stands_for_the_same_one_on_the_whole_page() -> None:
    ids = Ids()
    assert ids.differ(["97acbe8e  Tea"], "01234567  Tea\n") is None
    assert ids.differ(["97acbe8e  Tea"], "76543210  Tea\n") is not None


def test_blocks_of_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```sh\n# first\nls \\\n  -l    # all\n\ncat <<'END'\n$ x\nEND\nfalse    # exit status 1\n```\n"
        "<!-- run before the daemon\ntrue\n-->\n"
        "```console\n$ date\n…\nlaptop$ echo 'a\nb'\na\nb\n```\n"
        "```sh no-run it takes a year\nsleep 31536000\n```\n```text\n$ left alone\n```\n"
    )
    shell, hidden, console, unrun, text = blocks(page)
    assert [command.text for command in shell.commands] == [
        "ls \\\n  -l    # all",
        "cat <<'END'\n$ x\nEND",
        "false    # exit status 1",
    ]
    assert [command.status for command in shell.commands] == [0, 0, 1]
    assert [(command.text, command.early) for command in hidden.commands] == [("true", True)]
    assert [(one.machine, one.text, one.output) for one in console.commands] == [
        ("", "date", ["…"]),
        ("laptop", "echo 'a\nb'", ["a", "b"]),
    ]
    assert unrun.reason == "it takes a year"
    assert (text.kind, text.commands) == ("text", [])


@pytest.mark.parametrize(
    ("span", "wrong"),
    [
        ("ormahctl undo --run COMMIT", None),
        ("ormahctl feedback ID +1 --event E", None),
        ("ormahctl sources add DIR", None),
        ("ormahctl COMMAND", None),
        ("ormahctl recal tea", "there is no command recal"),
        ("ormahctl undo OP --backwards", "there is no option --backwards"),
        ("ormahctl sources --backwards", "there is no option --backwards"),
    ],
)
def test_quoted_commands_are_parsed(span: str, wrong: str | None) -> None:
    assert fault(span) == wrong
