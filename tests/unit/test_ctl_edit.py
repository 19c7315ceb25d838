"""`edit` on a real file with real editors (scripts); the desk plays the daemon that takes the edit in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from ormahd import api
from ormahd.rpc.wire import NotFound
from tests.tables import rows
from tests.unit.ctl_desk import Desk, node, op, open_desk


@pytest.fixture
def desk() -> Iterator[Desk]:
    with open_desk() as found:
        file = found.home / "vault" / node().path
        file.parent.mkdir(parents=True)
        file.write_text("Green tea.\n")
        found.answers["agent.get"] = lambda _: node(digest=hashlib.sha256(file.read_bytes()).hexdigest())
        found.answers["history.list"] = api.HistoryResult(ops=[op(kind="edit", commit="d" * 40)])
        yield found


def editor(desk: Desk, script: str) -> dict[str, str]:
    """An editor of two words, as people have them (`code --wait`)."""
    file = desk.home / "my editor.sh"
    file.write_text(f'#!/bin/sh\n[ "$1" = --wait ] || exit 9\n{script}\n')
    file.chmod(0o755)
    return {"EDITOR": f"'{file}' --wait", "VISUAL": ""}


def test_the_note_in_the_vault_is_edited_and_taken_in(desk: Desk) -> None:
    done = desk.ctl("edit", "97ac", env=editor(desk, 'echo "With milk." >> "$2"'))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "edited 97acbe8e, undo: ormahctl undo dddddddd\n"
    assert (desk.home / "vault" / node().path).read_text() == "Green tea.\nWith milk.\n"
    assert all(params.touch is False for params in desk.params("agent.get"))


def test_visual_comes_before_editor_and_json_gives_the_node(desk: Desk) -> None:
    env = editor(desk, 'echo x >> "$2"')
    done = desk.ctl("--json", "edit", "97ac", env={"VISUAL": env["EDITOR"], "EDITOR": "false"})
    fields = json.loads(done.stdout)
    assert (fields["id"], fields["changed"], fields["commit"]) == (node().id, True, "d" * 40)


def test_nothing_saved_is_nothing_changed(desk: Desk) -> None:
    done = desk.ctl("edit", "97ac", env={"EDITOR": "true"})
    assert (done.returncode, done.stdout) == (0, "unchanged 97acbe8e\n")


@pytest.mark.parametrize(("command", "said"), rows(__file__, "an_editor_that_fails"))
def test_an_editor_that_fails(desk: Desk, command: str, said: str) -> None:
    done = desk.ctl("edit", "97ac", env={"EDITOR": command})
    assert done.returncode == 2
    assert said in done.stderr
    assert "hint:" in done.stderr


def test_an_edit_that_breaks_the_note_is_named_with_its_line(desk: Desk) -> None:
    file = desk.home / "vault" / node().path

    def get(_: Any) -> api.NodeResult:
        if b"---" in file.read_bytes():
            raise NotFound("there is no memory 97acbe8e")
        return node(digest=hashlib.sha256(file.read_bytes()).hexdigest())

    desk.answers["agent.get"] = get
    finding = api.Finding(
        level="error", what="the frontmatter is not closed", path=node().path, line=1, mend="add a line ---"
    )
    desk.answers["admin.doctor"] = api.DoctorResult(findings=[finding])
    done = desk.ctl("edit", "97ac", env=editor(desk, 'echo "---" > "$2"'))
    assert done.returncode == 5
    assert "cannot be read as a note any more: line 1: the frontmatter is not closed" in done.stderr
    assert "hint: add a line ---" in done.stderr


def test_a_note_that_was_deleted_in_the_editor(desk: Desk) -> None:
    done = desk.ctl("edit", "97ac", env=editor(desk, 'rm "$2"'))
    assert done.returncode == 0
    assert "is gone" in done.stderr


def test_a_note_that_is_not_where_it_should_be(desk: Desk) -> None:
    (desk.home / "vault" / node().path).unlink()
    desk.answers["agent.get"] = node()
    done = desk.ctl("edit", "97ac", env={"EDITOR": "true"})
    assert done.returncode == 3
