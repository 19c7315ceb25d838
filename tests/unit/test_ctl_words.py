"""Sentences of commands that have to be true in every case in which they are printed."""

from __future__ import annotations

import pytest

from ormahctl.commands.recall import shown
from ormahctl.run import run
from ormahd import api
from tests.unit.ctl_desk import open_desk


def test_the_way_back_from_an_undo_is_named_alike_for_an_undo_of_an_undo() -> None:
    changes = [api.UndoChange(path="a.md", node_id="1" * 36, title="Tea", did="brought back")]
    undone = [
        api.UndoneOp(op="o", commit="1a2b3c4d5e", subject=subject, nodes=[], merged=[], changes=changes)
        for subject in ("Forget: Tea", "Undo: Remember: Tea")
    ]
    with open_desk() as desk:
        for one in undone:
            desk.answers["history.undo"] = api.UndoResult(undone=[one], skipped=[], conflicts=[])
            said = desk.ctl("undo", "1a2b").stdout
            assert said.splitlines()[-1] == "  to take this back: ormahctl undo 1a2b3c4d"
            assert "bring it back" not in said


def test_a_negative_zero_is_a_zero() -> None:
    assert [shown(value) for value in (-0.0, -0.00001, 0.0, -0.25, 10.0)] == ["0", "0", "0", "-0.25", "10"]


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("setup nosuch", "error: 'nosuch' is not one of claude-code, "),
        ("jobs nosuch", "error: 'nosuch' is not one of run, pause, resume\n"),
        ("ingest /no/such", "error: there is no file or folder '/no/such'\n"),
        ("import /no/such", "error: there is no file '/no/such'\n"),
        ("graph a", "error: too many arguments: a\nhint: see: ormahctl graph --help\n"),
        ("remember two words", "error: too many arguments: words\nhint: put quotes around a text of several words; "),
        ("completion", "error: missing argument 'bash|fish|zsh'\nhint: "),
        ("jobs run", "error: jobs run takes the NAME of one job, or: all\n"),
        ("history --kind nosuch", "error: invalid value for '--kind': 'nosuch' is not one of "),
    ],
)
def test_what_is_wrong_with_an_argument_is_said_in_plain_words(
    typed: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run(typed.split())
    assert capsys.readouterr().err.startswith(said)


def test_an_import_says_how_to_take_it_back() -> None:
    with open_desk() as desk:
        desk.answers["admin.import"] = api.ImportResult(added=1, skipped=0, failed=[], run="r1")
        said = desk.ctl("import", "-", stdin='{"content": "a"}\n').stdout
    assert said.endswith("\n  to take it back: ormahctl undo --run r1\n")
