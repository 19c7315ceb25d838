"""Sentences of commands that have to be true in every case in which they are printed."""

from __future__ import annotations

from ormahctl.commands.recall import shown
from ormahd import api
from tests.unit.ctl_desk import open_desk


def test_the_way_back_from_an_undo_is_named_alike_for_an_undo_of_an_undo() -> None:
    changes = [api.UndoChange(path="a.md", node_id="1" * 36, title="Tea", did="brought back")]
    undone = [
        api.UndoneOp(op="o", undo_op="u", commit="1a2b3c4d5e", subject=subject, nodes=[], merged=[], changes=changes)
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
