"""Connecting an agent and taking it back: in any settings, beside what others wrote, over older entries of ours."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ormahctl.setup import change as entry
from ormahctl.setup.edit import Json
from ormahctl.setup.file import InvalidSettings
from ormahctl.setup.harness import HARNESSES, MATCHERS, TOOL_DEADLINE_MS, Harness
from tests.examples import examples
from tests.unit.setup.connecting import CLAUDE, CODEX, GEMINI, JSON, a_home, ours, planned, put, setup, uninstall
from tests.unit.setup.settings_files import HOOKS, TEXTS, VALUES, files

# ---------------------------------------------------------------- for any file


@JSON
@settings(max_examples=examples(25))
@given(data=files())
def test_uninstall_gives_back_every_byte_and_twice_is_once(harness: Harness, data: bytes) -> None:
    with a_home():
        path = put(harness, data)
        assert setup(harness).added == list(harness.wanted())
        first = path.read_bytes()
        assert not setup(harness).changed
        assert path.read_bytes() == first
        assert {event: len(found) for event, found in ours(path).items()} == dict.fromkeys(harness.wanted(), 1)
        uninstall(harness)
        assert path.read_bytes() == data
        assert uninstall(harness) == []


@settings(max_examples=examples(25))
@given(data=files(), more=st.sampled_from(["before", "after", "rewritten"]))
def test_what_others_changed_since_stays_when_ours_goes(data: bytes, more: str) -> None:
    with a_home():
        path = put(CLAUDE, data)
        before = Json.parse(data).value
        setup(CLAUDE)
        now = path.read_bytes()
        if more == "rewritten":  # as a program does that parses and prints
            path.write_text(json.dumps(Json.parse(now).value, indent=2), "utf-8")
            expected = dict(before)
        else:
            opening = now.index(b"{") + 1
            closing = now.rindex(b"}")
            at, text = (opening, b'"x": 1, ') if more == "before" else (closing, b'\n, "x": 1')
            path.write_bytes(now[:at] + text + now[at:])
            try:
                expected = dict(Json.parse(path.read_bytes()).value)
            except InvalidSettings:
                return  # a comma after a trailing one
            expected = {key: one for key, one in expected.items() if key not in {"hooks", "permissions"}}
            expected |= {"hooks": before["hooks"]} if "hooks" in before else {}
        uninstall(CLAUDE)
        left = Json.parse(path.read_bytes()).value
        assert left == _filled(expected)


def _filled(value: dict[str, Any]) -> dict[str, Any]:
    """`value` without empty lists of the hooks that we had."""
    hooks = {event: one for event, one in value.get("hooks", {}).items() if one or event not in CLAUDE.wanted()}
    rest = {key: one for key, one in value.items() if key != "hooks"}
    return rest | {"hooks": hooks} if hooks else rest


@settings(max_examples=examples(25))
@given(
    value=st.dictionaries(TEXTS, VALUES, min_size=1, max_size=3),
    hooks=st.one_of(st.none(), HOOKS),
    indent=st.sampled_from([1, 2, 4, "\t"]),
    newline=st.sampled_from(["\n", "\r\n"]),
)
def test_an_edit_elsewhere_leaves_what_it_would_have_left_without_us(
    value: dict[str, Any], hooks: Any, indent: Any, newline: str
) -> None:
    value = _filled({key: one for key, one in value.items() if key != "hooks"} | {"z": 1, "hooks": hooks or {}})
    data = (json.dumps(value, indent=indent) + "\n").replace("\n", newline).encode("utf-8", "surrogatepass")
    opening, edit = data.index(b"{") + 1, (newline + '"x": [1], // mine').encode()
    with a_home():
        path = put(CLAUDE, data)
        setup(CLAUDE)
        now = path.read_bytes()
        path.write_bytes(now[:opening] + edit + now[opening:])
        uninstall(CLAUDE)
        assert path.read_bytes() == data[:opening] + edit + data[opening:]


@settings(max_examples=examples(40))
@given(data=st.one_of(st.binary(max_size=30), st.text('{}[],:"/*\\ \n\rtruehoks1e+-.', max_size=30).map(str.encode)))
def test_whatever_the_bytes_they_are_edited_well_or_left_alone(data: bytes) -> None:
    with a_home():
        path = put(CLAUDE, data)
        try:
            setup(CLAUDE)
        except InvalidSettings:
            assert path.read_bytes() == data
            return
        assert {event: len(found) for event, found in ours(path).items()} == dict.fromkeys(CLAUDE.wanted(), 1)
        uninstall(CLAUDE)
        assert path.read_bytes() == data


@settings(max_examples=examples(25))
@given(data=files(), deadline=st.integers(50, 9000))
def test_another_deadline_replaces_in_place_and_uninstall_still_gives_back_every_byte(
    data: bytes, deadline: int
) -> None:
    with a_home():
        path = put(CLAUDE, data)
        setup(CLAUDE)
        order = _order(path)
        change = setup(CLAUDE, deadline=deadline)
        assert change.replaced == (
            [] if deadline == 500 else [one for one in CLAUDE.wanted() if one not in MATCHERS or deadline < 150]
        )
        assert _order(path) == order
        for event, found in ours(path).items():
            wanted = min(deadline, TOOL_DEADLINE_MS) if event in MATCHERS else deadline
            assert f"--deadline {wanted} " in found[0]["command"]
        uninstall(CLAUDE)
        assert path.read_bytes() == data


def _order(path: Path) -> list[tuple[str, list[int]]]:
    """Where handlers of ours stand among the others."""
    hooks = Json.parse(path.read_bytes()).value["hooks"]
    return [
        (event, [at for at, group in enumerate(groups) if "hook.py" in json.dumps(group)])
        for event, groups in hooks.items()
        if isinstance(groups, list)
    ]


# ---------------------------------------------------------------- older entries of ours


def old(event: str, path: str = "/old/site-packages/ormahctl/hook.py") -> dict[str, Any]:
    command = f"/old/python -I -S {path} --hook {event} --harness claude-code --deadline 300"
    return {"type": "command", "command": command, "timeout": 3, "statusMessage": "remembering"}


def test_an_older_entry_is_renewed_where_it_stands(home: Path) -> None:
    beep = {"type": "command", "command": "beep"}
    value = {
        "hooks": {
            "UserPromptSubmit": [{"hooks": [beep, old("UserPromptSubmit")]}, {"hooks": [beep]}],
            "Notification": [{"hooks": [old("Notification")]}],
            "Stop": [{"hooks": [old("Stop")]}, {"hooks": [old("Stop", "/older/ormahctl/hook.py"), beep]}],
        }
    }
    path = put(CLAUDE, json.dumps(value, indent=4).encode())
    change = setup(CLAUDE)
    assert set(change.replaced) == {"UserPromptSubmit", "Stop"}
    assert set(change.added) == {"SessionStart", "SessionEnd", *CLAUDE.tool_events}
    assert change.removed == ["Notification"]
    now = json.loads(path.read_bytes())["hooks"]
    wanted = CLAUDE.handler("UserPromptSubmit", socket=None, deadline=500)
    assert now["UserPromptSubmit"] == [{"hooks": [beep, wanted]}, {"hooks": [beep]}]
    assert "Notification" not in now
    assert [len(group["hooks"]) for group in now["Stop"]] == [1, 1]
    assert now["Stop"][1]["hooks"] == [beep]
    uninstall(CLAUDE)
    assert json.loads(path.read_bytes()) == {
        "hooks": {"UserPromptSubmit": [{"hooks": [beep]}] * 2, "Stop": [{"hooks": [beep]}]}
    }


def test_what_would_change_what_our_command_does_goes(home: Path) -> None:
    words = ["-I", "-S", "/old/ormahctl/hook.py", "--hook", "Stop"]
    handler = {"type": "command", "command": "/old/python", "args": words, "async": True}
    path = put(CLAUDE, json.dumps({"hooks": {"Stop": [{"hooks": [handler]}]}}).encode())
    setup(CLAUDE)
    assert ours(path)["Stop"] == [CLAUDE.handler("Stop", socket=None, deadline=500)]


def test_an_upgrade_after_somebody_elses_edit_keeps_that_edit(home: Path) -> None:
    path = put(CLAUDE, b'{\n  "hooks": {\n    "Other": []\n  }\n}\n')
    setup(CLAUDE, deadline=300)
    path.write_bytes(path.read_bytes().replace(b"{", b'{\n  "model": "opus",', 1))
    setup(CLAUDE)
    assert not setup(CLAUDE).changed
    uninstall(CLAUDE)
    assert path.read_bytes() == b'{\n  "model": "opus",\n  "hooks": {\n    "Other": []\n  }\n}\n'


TOOLS = list(CLAUDE.allows)
PERMISSIONS: list[tuple[Any, Any]] = [
    (None, {"allow": TOOLS}),
    ({}, {"allow": TOOLS}),
    ({"deny": ["Bash(rm:*)"]}, {"deny": ["Bash(rm:*)"], "allow": TOOLS}),
    ({"allow": []}, {"allow": TOOLS}),
    ({"allow": ["Bash(ls)"]}, {"allow": ["Bash(ls)", *TOOLS]}),
    ({"allow": [TOOLS[1], "Read"]}, {"allow": [TOOLS[1], "Read", TOOLS[0], *TOOLS[2:]]}),
    ({"allow": ["mcp__ormah__forget"]}, {"allow": TOOLS}),
    ({"allow": "all"}, {"allow": "all"}),
    ({"allow": {"a": 1}}, {"allow": {"a": 1}}),
    ([], []),
    ("none", "none"),
]
"""(permissions in the settings, those after setup)."""


@pytest.mark.parametrize(("before", "after"), PERMISSIONS, ids=[str(one[0]) for one in PERMISSIONS])
@pytest.mark.parametrize("edited", [False, True])
def test_tools_that_read_need_no_question(home: Path, before: Any, after: Any, edited: bool) -> None:
    value = {"a": 1} | ({} if before is None else {"permissions": before})
    path = put(CLAUDE, json.dumps(value, indent=2).encode())
    setup(CLAUDE)
    assert json.loads(path.read_bytes())["permissions"] == after
    assert not setup(CLAUDE).changed
    if edited:
        path.write_bytes(path.read_bytes().replace(b'"a": 1', b'"a": 2'))
    uninstall(CLAUDE)
    left = json.loads(path.read_bytes())
    if not edited:
        assert left == value
    else:
        assert "mcp__ormah" not in json.dumps(left)
        assert not isinstance(before, dict) or left.get("permissions", {}).get("deny") == before.get("deny")


def test_entries_that_came_with_the_file_are_taken_out_too(home: Path) -> None:
    """A settings file copied from another machine: nothing is remembered about it here."""
    path = put(CLAUDE, json.dumps({"a": 1, "hooks": {"Stop": [{"hooks": [old("Stop")]}]}}).encode())
    assert uninstall(CLAUDE)[0].removed == ["Stop"]
    assert path.read_bytes() == b'{"a": 1}'


@pytest.mark.parametrize(
    "command", ["beep", "/x/ormahctl/hook.py --merge", "python myhook.py --hook Stop", "'unclosed", None, 3]
)
def test_what_others_run_is_not_ours(command: Any) -> None:
    assert not entry.is_our_hook({"type": "command", "command": command})


# ---------------------------------------------------------------- what is written


def test_timeouts_are_in_each_harness_units(home: Path) -> None:
    for harness, timeout in ((CLAUDE, 5), (CODEX, 5), (GEMINI, 5000)):
        setup(harness)
        assert {one["timeout"] for found in ours(harness.target()).values() for one in found} == {timeout}
    assert CLAUDE.handler("Stop", socket=None, deadline=1200)["timeout"] == 6


def test_each_event_is_handed_over_by_its_name(home: Path) -> None:
    for harness in HARNESSES.values():
        setup(harness, socket="/some where/s.sock")
        for event, (handler,) in ours(harness.target()).items():
            words, deadline = entry.command_words(handler), "150" if event in MATCHERS else "500"
            assert words[1:4] == ["-I", "-S", str(entry.SHIM)]
            assert words[4:] == [
                "--hook", event, "--harness", harness.name, "--socket", "/some where/s.sock", "--deadline", deadline, "2>/dev/null", "||", "true"
            ]  # fmt: skip


def test_the_command_of_a_hook_stays_as_it_is_from_release_to_release(home: Path) -> None:
    """Codex and Gemini CLI trust a hook by its text: one that changes is passed over without a word."""
    words = f"{shlex.quote(sys.executable)} -I -S {shlex.quote(str(entry.SHIM))}"
    for harness in (CLAUDE, CODEX, GEMINI):
        setup(harness)
        for event, (handler,) in ours(harness.target()).items():
            options = f"--hook {event} --harness {harness.name} --deadline {150 if event in MATCHERS else 500}"
            assert handler["command"] == f"{words} {options} 2>/dev/null || true"
            assert set(handler) - {"name"} == {"type", "command", "timeout"}
    setup(CODEX)
    assert not planned(CODEX).changed


def test_the_socket_is_written_where_the_hook_would_not_find_it(home: Path) -> None:
    usual = home / "runtime_dir" / "ormah" / "ormahd.sock"
    assert entry.socket_option(usual) == str(usual), "the agent may be started without our XDG_RUNTIME_DIR"
    del os.environ["XDG_RUNTIME_DIR"]
    from ormahd import paths

    assert entry.socket_option(paths.find_socket()) is None
    assert entry.socket_option(paths.find_socket("rel.sock")) == os.path.abspath("rel.sock")


def test_settings_stand_where_the_environment_says(home: Path) -> None:
    os.environ.update(CLAUDE_CONFIG_DIR=str(home / "c"), CODEX_HOME=str(home / "x"), GEMINI_CLI_HOME=str(home / "g"))
    assert CLAUDE.target() == home / "c" / "settings.json"
    assert CODEX.target() == home / "x" / "hooks.json"
    assert GEMINI.target() == home / "g" / ".gemini" / "settings.json"


def test_uninstall_finds_what_was_connected_under_another_environment(home: Path) -> None:
    os.environ["CLAUDE_CONFIG_DIR"] = str(home / "work")
    setup(CLAUDE)
    del os.environ["CLAUDE_CONFIG_DIR"]
    setup(CLAUDE)
    assert len(uninstall(CLAUDE)) == 2
    assert not (home / "work").exists()


def test_switches_of_the_person_are_seen(home: Path) -> None:
    put(CLAUDE, b'{"disableAllHooks": true}')
    put(GEMINI, b'{"hooksConfig": {"enabled": false}} // off')
    CODEX.home().mkdir()
    (CODEX.home() / "config.toml").write_text("[features]\nhooks = false\n")
    assert CLAUDE.off() == "disableAllHooks"
    assert GEMINI.off() == "hooksConfig.enabled = false"
    assert CODEX.off() == "features.hooks = false in config.toml"
    put(GEMINI, b'{"hooks": {"disabled": ["ormah"]}}')
    assert GEMINI.off() == "ormah in hooks.disabled"
