"""Sentences of commands that have to be true in every case in which they are printed."""

from __future__ import annotations

import msgspec
import pytest

from ormahctl.render import in_words
from ormahctl.run import run
from ormahd import api
from tests.tables import rows
from tests.unit.ctl_desk import Desk, on_terminal, op


def test_the_way_back_from_an_undo_is_named_alike_for_an_undo_of_an_undo(desk: Desk) -> None:
    changes = [api.UndoChange(path="a.md", node_id="1" * 36, title="Tea", did="brought back")]
    undone = [
        api.UndoneOp(op="o", commit="1a2b3c4d5e", subject=subject, nodes=[], merged=[], changes=changes)
        for subject in ("Forget: Tea", "Undo: Remember: Tea.")
    ]
    for one in undone:
        desk.answers["history.undo"] = api.UndoResult(undone=[one], skipped=[], conflicts=[])
        said = desk.ctl("undo", "1a2b").stdout
        assert said.splitlines()[0] == f"undone {one.subject.rstrip('.')}, redo: ormahctl undo 1a2b3c4d"


def test_undo_alone_shows_the_last_change_and_asks(desk: Desk) -> None:
    rows = [
        op(op=f"op{number}", commit=f"{number}a2b3c4d" * 5, kind=kind, subject=f"Change {number}", undone_by=undone)
        for number, kind, undone in ((4, "strength", None), (3, "remember", "op9"), (2, "remember", None), (1, "init", None))
    ]  # fmt: skip
    in_words = api.ShowOpResult(**msgspec.to_builtins(rows[2]), notes=[], total=0)
    one = api.UndoneOp(op="op2", commit="9" * 40, subject="Change 2", nodes=[], merged=[], changes=[])
    desk.answers |= {
        "history.list": api.HistoryResult(ops=rows), "history.show": in_words,
        "history.undo": api.UndoResult(undone=[one], skipped=[], conflicts=[]),
    }  # fmt: skip
    piped = desk.ctl("undo")
    assert (piped.returncode, piped.stdout) == (2, "")
    assert piped.stderr.splitlines()[1] == "hint: ormahctl undo 2a2b3c4d"
    assert "Change 2" in on_terminal(desk, "undo", typed=[b"n\n"], status=1)
    assert desk.params("history.undo") == []
    assert "redo: ormahctl undo 99999999" in on_terminal(desk, "undo", typed=[b"y\n"])
    assert [params.ops for params in desk.params("history.undo")] == [[rows[2].commit]]
    desk.answers["history.show"] = msgspec.structs.replace(in_words, run="r1")
    desk.ctl("undo", "--run", "2a2b")
    assert desk.params("history.undo")[-1].run == "r1"


def test_a_negative_zero_is_a_zero() -> None:
    assert [in_words(value) for value in (-0.0, -0.00001, 0.0, -0.25, 10.0)] == ["0", "0", "0", "-0.25", "10"]


@pytest.mark.parametrize(("typed", "said"), rows(__file__, "what_is_wrong_with_an_argument_is_said_in_plain_words"))
def test_what_is_wrong_with_an_argument_is_said_in_plain_words(
    typed: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run(typed.split())
    assert capsys.readouterr().err.startswith(said)


def test_an_import_says_how_to_take_it_back(desk: Desk) -> None:
    desk.answers["admin.import"] = api.ImportResult(added=1, skipped=0, failed=[], run="r1")
    desk.answers["history.list"] = api.HistoryResult(ops=[op(commit="c04131a3ff", kind="import", run="r1")])
    said = desk.ctl("import", "-", stdin='{"content": "a"}\n').stdout
    assert said.endswith("\n  to take it back: ormahctl undo --run c04131a3\n")
