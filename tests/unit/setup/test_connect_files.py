"""Connecting an agent, on real files: fresh ones, links, what cannot be edited, and what others change meanwhile."""

from __future__ import annotations

import json
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from ormahctl.setup import connect
from ormahctl.setup.change import Record
from ormahctl.setup.file import InvalidSettings
from ormahctl.setup.harness import Harness
from ormahd.rpc.wire import Conflict
from tests.unit.setup.connecting import CLAUDE, CODEX, JSON, ours, planned, put, setup, uninstall


@JSON
def test_a_fresh_file_is_made_and_goes_again_with_its_directory(home: Path, harness: Harness) -> None:
    path = harness.target()
    setup(harness)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_bytes().endswith(b"}\n")
    assert json.loads(path.read_bytes()).keys() >= {"hooks"}
    uninstall(harness)
    assert not path.parent.exists()
    assert Record.all(harness.name) == []


def test_a_file_of_ours_that_others_use_too_stays(home: Path) -> None:
    setup(CLAUDE)
    path = CLAUDE.target()
    value = json.loads(path.read_bytes()) | {"model": "opus"}
    path.write_text(json.dumps(value))
    uninstall(CLAUDE)
    assert json.loads(path.read_bytes()) == {"model": "opus"}


def test_a_file_of_ours_that_was_rewritten_goes(home: Path) -> None:
    setup(CLAUDE)
    path = CLAUDE.target()
    path.write_text(json.dumps(json.loads(path.read_bytes()), indent=8))
    assert uninstall(CLAUDE)[0].after is None
    assert not path.exists()


def test_a_link_stays_a_link_and_its_target_is_edited(home: Path) -> None:
    real = home / "dotfiles" / "claude.json"
    real.parent.mkdir()
    real.write_bytes(b'{"a": 1}')
    real.chmod(0o640)
    path = CLAUDE.target()
    path.parent.mkdir()
    path.symlink_to("../dotfiles/claude.json")
    setup(CLAUDE)
    assert path.is_symlink()
    assert b"hook.py" in real.read_bytes()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert [one.name for one in real.parent.iterdir()] == ["claude.json"]
    uninstall(CLAUDE)
    assert path.is_symlink()
    assert real.read_bytes() == b'{"a": 1}'


def test_a_link_that_leads_nowhere_gets_its_target(home: Path) -> None:
    path = CLAUDE.target()
    path.parent.mkdir()
    path.symlink_to("../dotfiles/claude.json")
    setup(CLAUDE)
    assert (home / "dotfiles" / "claude.json").is_file()
    uninstall(CLAUDE)
    assert path.is_symlink()
    assert not (home / "dotfiles").exists()


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (Path.mkdir, r"settings\.json is a directory"), (os.mkfifo, "no regular file"),
        (lambda path: path.symlink_to(path.name), "cannot be read: Too many levels"),
    ],
)  # fmt: skip
def test_what_is_no_file_in_its_place_is_refused(home: Path, made: Callable[[Path], None], why: str) -> None:
    CLAUDE.home().mkdir()
    made(CLAUDE.target())
    with pytest.raises(InvalidSettings, match=why):
        setup(CLAUDE)
    assert connect.disconnect(CLAUDE) == []


def test_a_file_on_the_way_is_named(home: Path) -> None:
    (home / ".codex").write_text("")
    with pytest.raises(InvalidSettings, match="cannot be read: Not a directory"):
        setup(CODEX)


def test_an_agent_is_found_by_what_is_its_own(home: Path) -> None:
    os.environ["PATH"] = str(home)
    assert CLAUDE.found() is None
    setup(CLAUDE)
    assert CLAUDE.found() is None, "the directory is there because we made it"
    (CLAUDE.home() / "projects").mkdir()
    assert CLAUDE.found() == str(CLAUDE.home())
    uninstall(CLAUDE)
    put(CLAUDE, b"{}")
    (CLAUDE.home() / "projects").rmdir()
    setup(CLAUDE)
    assert CLAUDE.found() == str(CLAUDE.home()), "the settings are the person's"
    program = home / "claude"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert CLAUDE.found() == str(program)


def test_a_read_only_file_is_left_alone(home: Path) -> None:
    path = put(CLAUDE, b"{}")
    path.chmod(0o444)
    with pytest.raises(Conflict, match="is read-only") as failed:
        setup(CLAUDE)
    assert "chmod u+w" in (failed.value.hint or "")
    assert path.read_bytes() == b"{}"
    assert stat.S_IMODE(path.stat().st_mode) == 0o444


@JSON
def test_what_cannot_be_read_is_left_alone(home: Path, harness: Harness) -> None:
    path = put(harness, b'{\n  "a": 1,\n  "b" 2\n}')
    with pytest.raises(InvalidSettings, match=r"line 3, column 7: expecting ':' delimiter") as failed:
        setup(harness)
    assert str(path) in failed.value.message
    assert path.read_bytes() == b'{\n  "a": 1,\n  "b" 2\n}'


@pytest.mark.parametrize(
    ("text", "says"), [("[]", '"hooks" is no object'), ('{"Stop": {}}', '"hooks.Stop" is no list')]
)
def test_something_else_where_hooks_belong_is_left_alone(home: Path, text: str, says: str) -> None:
    path = put(CLAUDE, f'{{"hooks": {text}}}'.encode())
    with pytest.raises(InvalidSettings, match=says):
        setup(CLAUDE)
    assert json.loads(path.read_bytes()) == {"hooks": json.loads(text)}


@pytest.mark.parametrize(("before", "after"), [(b'{"a": 1}', b'{"a": 2}'), (b'{"a": 1}', None), (None, b'{"a": 2}')])
def test_an_edit_of_the_meantime_is_never_overwritten(home: Path, before: bytes | None, after: bytes | None) -> None:
    path = put(CLAUDE, before or b"")
    path.unlink() if before is None else None
    change = planned(CLAUDE)
    path.unlink() if after is None else path.write_bytes(after)
    with pytest.raises(Conflict, match="changed by somebody else"):
        change.make()
    assert (path.read_bytes() if path.exists() else None) == after
    assert [one.name for one in path.parent.iterdir()] == ([] if after is None else ["settings.json"])


def test_setups_at_the_same_time_add_once(home: Path) -> None:
    path = put(CLAUDE, b'{"a": 1}')
    refused: list[Conflict] = []

    def go() -> None:
        try:
            setup(CLAUDE)
        except Conflict as exc:
            refused.append(exc)

    threads = [threading.Thread(target=go) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {len(found) for found in ours(path).values()} == {1}
    uninstall(CLAUDE)
    assert path.read_bytes() == b'{"a": 1}'
