"""Hooks in Codex's `config.toml`: added as text of their own, taken out again, whatever Codex writes beside them."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ormahctl.setup import connect
from ormahctl.setup.edit import Toml
from ormahctl.setup.file import HandlerPlace, InvalidSettings, apply, reverse
from ormahctl.setup.harness import Codex
from ormahd.rpc.wire import Conflict
from tests.surroundings import surroundings

CODEX = Codex()
HANDLER = {"type": "command", "command": "'/a b/python' /x/ormahctl/hook.py --hook Stop || true", "timeout": 5}
THEIRS = """# mine
model = "gpt-5"   # the good one

[[hooks.Stop]]
  [[hooks.Stop.hooks]]
  type = "command"
  command = 'beep'

[features]
hooks = true
"""

PIECES = st.sampled_from(
    ["# a comment", 'model = "x"', "", "when = 1979-05-27T07:32:00Z", "ratio = nan", 'text = """\n[[hooks.Stop]]\n"""',
     "a.b = [1,\n  2, # two\n]"]
)  # fmt: skip
TABLES = st.sampled_from(
    ["[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = 'command'\ncommand = 'beep'", "[profiles.fast]\nmodel = 'y' # z",
     "[[hooks.PreToolUse]]\nmatcher = '*'\nhooks = [{type = 'command', command = 'look'}]", "[hooks.state]\n'a:b' = {enabled = true}"]
)  # fmt: skip


@st.composite
def files(draw: st.DrawFn) -> bytes:
    pieces = draw(st.lists(PIECES, unique=True, max_size=4)) + draw(st.lists(TABLES, unique=True, max_size=4))
    text = "\n".join(pieces) + draw(st.sampled_from(["", "\n", "\n\n"]))
    return text.replace("\n", draw(st.sampled_from(["\n", "\r\n"]))).encode()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    with patch.dict(os.environ, clear=True):
        os.environ.update(surroundings(tmp_path))
        CODEX.home().mkdir()
        yield tmp_path


def config(text: str) -> Path:
    path = CODEX.home() / "config.toml"
    path.write_text(text, "utf-8")
    return path


def setup() -> connect.SettingsChange:
    change = connect.connect(CODEX, socket=None, deadline=500)
    change.make()
    return change


def uninstall() -> list[connect.SettingsChange]:
    changes = connect.disconnect(CODEX)
    for change in changes:
        change.make()
    return changes


# ---------------------------------------------------------------- the text


@given(files())
def test_a_hook_is_added_at_the_end_and_taken_out_again(data: bytes) -> None:
    before = Toml.parse(data)
    edits = before.add("Stop", HANDLER)
    after = Toml.parse(apply(data, edits))
    assert after.data.startswith(data)
    number = len(after.value["hooks"]["Stop"]) - 1
    assert after.value["hooks"]["Stop"][number] == {"hooks": [HANDLER]}
    assert apply(after.data, reverse(edits)) == data
    cut = apply(after.data, after.drop(HandlerPlace("Stop", number, 0), frozenset()))
    assert cut.rstrip() == data.rstrip()


@pytest.mark.parametrize(
    ("data", "place", "says"),
    [
        (b"a = 1\nb = = 2\n", "line 2, column 5", "invalid value"),
        (b"a = 1\na = 2\n", "line 2", "cannot overwrite a value"),
        (b'a = "never closed', "line 1", ""),
        (b"a = '\xff'", "line 1, column 6", "no UTF-8"),
        (b"a = " + b"[" * 100_000, "", ""),
    ],
)
def test_what_is_no_toml_is_refused_with_its_place(data: bytes, place: str, says: str) -> None:
    with pytest.raises(InvalidSettings) as failed:
        Toml.parse(data)
    assert place in failed.value.message
    assert says in failed.value.message


def test_our_lines_are_edited_by_tomlkit_where_somebody_rewrote_them() -> None:
    data = b'# x\n[[hooks.Stop]]\nhooks = [{command = "beep"}, {type = "command", command = "old", timeout=3}] # y\n'
    place = HandlerPlace("Stop", 0, 1)
    changed = apply(data, Toml.parse(data).change(place, HANDLER, []))
    assert Toml.parse(changed).value["hooks"]["Stop"][0]["hooks"] == [{"command": "beep"}, HANDLER]
    assert changed.startswith(b"# x\n")
    assert changed.endswith(b"# y\n")
    dropped = apply(changed, Toml.parse(changed).drop(place, frozenset()))
    assert Toml.parse(dropped).value == {"hooks": {"Stop": [{"hooks": [{"command": "beep"}]}]}}
    assert b"# x" in dropped
    assert b"# y" in dropped


# ---------------------------------------------------------------- Codex's two files


def test_hooks_go_where_the_person_keeps_theirs(home: Path) -> None:
    assert CODEX.target().name == "hooks.json"
    config('model = "gpt-5"\n[hooks.state."x"]\nenabled = true\n')
    assert CODEX.target().name == "hooks.json", "trust is no hook"
    config(THEIRS)
    assert CODEX.target().name == "config.toml"
    (CODEX.home() / "hooks.json").write_text('{"hooks": {"Stop": [{"hooks": []}]}}')
    assert CODEX.target().name == "hooks.json"


@pytest.mark.parametrize(
    "text", ["hooks = {Stop = []}", "[hooks]\nStop = [{hooks = []}]", "hooks.Stop = [{hooks = []}]"]
)
def test_inline_hooks_cannot_be_added_to_so_the_other_file_is_taken(home: Path, text: str) -> None:
    path = config(text)
    setup()
    assert path.read_text() == text
    assert (CODEX.home() / "hooks.json").exists()


def test_connected_and_taken_back_to_the_byte(home: Path) -> None:
    path = config(THEIRS)
    assert setup().added == list(CODEX.events)
    now = tomllib.loads(path.read_text())
    assert now["model"] == "gpt-5"
    assert now["hooks"]["Stop"][0]["hooks"][0]["command"] == "beep"
    for event in CODEX.events:
        assert now["hooks"][event][-1] == {"hooks": [CODEX.handler(event, socket=None, deadline=500)]}
    assert not setup().changed
    uninstall()
    assert path.read_text() == THEIRS
    assert not (CODEX.home() / "hooks.json").exists()


def test_the_trust_that_codex_writes_down_stays(home: Path) -> None:
    path = config(THEIRS)
    setup()
    trust = '\n[hooks.state."/home/u/.codex/config.toml:stop:1:0"]\ntrusted_hash = "sha256:00"\n'
    path.write_text(path.read_text() + trust)
    assert not setup().changed
    uninstall()
    assert path.read_text() == THEIRS + trust


def test_an_older_entry_is_renewed_where_it_stands(home: Path) -> None:
    old = THEIRS.replace("'beep'", "'/old/python /old/ormahctl/hook.py --hook Stop'  # ours")
    path = config(old)
    change = setup()
    assert change.replaced == ["Stop"]
    now = tomllib.loads(path.read_text())
    assert now["hooks"]["Stop"] == [{"hooks": [CODEX.handler("Stop", socket=None, deadline=500)]}]
    assert "# ours" in path.read_text()
    assert path.read_text().startswith('# mine\nmodel = "gpt-5"   # the good one\n')


def test_ours_in_both_files_is_said(home: Path) -> None:
    setup()
    config('[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ncommand = "/old/ormahctl/hook.py --hook Stop"\n')
    with pytest.raises(Conflict, match="both have our hooks") as failed:
        setup()
    assert failed.value.hint == "ormahctl uninstall codex, then set it up again"
    assert len(uninstall()) == 2
    assert setup().added == list(CODEX.events)


def test_a_config_that_is_broken_does_not_stand_in_the_way_of_the_other_file(home: Path) -> None:
    config("this is = = no toml")
    setup()
    assert (CODEX.home() / "hooks.json").exists()
    uninstall()


def test_a_broken_file_that_has_ours_is_named(home: Path) -> None:
    config(THEIRS)
    setup()
    path = CODEX.home() / "config.toml"
    path.write_text(path.read_text() + "\nbroken = = 1\n")
    with pytest.raises(InvalidSettings, match=r"config\.toml: line \d+, column 10: invalid value"):
        uninstall()
