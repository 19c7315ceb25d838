"""The MCP server in settings as they really are: connected, read back, disconnected, to the byte; or to be pasted."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path

import pytest

from ormahctl import managers
from ormahctl.setup import connect, connections, harness
from ormahctl.setup.edit import Json
from ormahctl.setup.harness import AGENTS, HARNESSES
from ormahd.rpc.wire import Conflict, Unavailable
from tests.tables import rows
from tests.unit.setup.connecting import WORDS, uninstall

CASES = {(kind, agent): files for kind, agent, files in rows(__file__, "settings")}
ALL = pytest.mark.parametrize(
    ("agent", "files"), [(agent, files) for (_, agent), files in CASES.items()], ids=map("-".join, CASES)
)
OTHERS = rows(__file__, "others")


def put(home: Path, files: dict[str, str]) -> dict[str, bytes]:
    for name, text in files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_bytes(text.encode())
    return content(home)


def content(home: Path) -> dict[str, bytes]:
    """Every file of the home, except where Ormah keeps its records."""
    return {
        str(path.relative_to(home)): path.read_bytes()
        for path in home.rglob("*")
        if path.is_file() and "state_home" not in path.parts
    }


def connected(agent: str, words: list[str] = WORDS) -> list[connect.SettingsChange]:
    changes = connect.plan(HARNESSES[agent], socket=None, deadline=500, server=words)
    for change in changes:
        change.make()
    return changes


def served(agent: str) -> dict[str, object]:
    """Our entry in the agent's settings, read by the standard library alone."""
    path = AGENTS[agent].server_file()
    data = path.read_bytes()
    value = tomllib.loads(data.decode()) if path.suffix == ".toml" else Json.parse(data).value
    found: dict[str, object] = value[AGENTS[agent].servers]["ormah"]
    return found


@ALL
def test_wired_and_taken_out_again_to_the_byte(home: Path, agent: str, files: dict[str, str]) -> None:
    before = put(home, files)
    changes = connected(agent)
    assert [change.server for change in changes if change.server] == ["added"]
    entry = served(agent)
    both = [entry["command"], *entry.get("args", [])] if isinstance(entry["command"], str) else entry["command"]  # type: ignore[misc]
    assert both == WORDS
    after = content(home)
    assert not any(change.changed for change in connected(agent)), "a second time changes nothing"
    connected(agent, ["/new/bin/ormahctl", "mcp"])
    connected(agent)
    assert content(home) == after
    uninstall(HARNESSES[agent])
    assert content(home) == before
    assert not connect.disconnect(HARNESSES[agent])


@ALL
def test_what_others_wrote_meanwhile_stays(home: Path, agent: str, files: dict[str, str]) -> None:
    put(home, files)
    connected(agent)
    path = AGENTS[agent].server_file()
    data = path.read_bytes()
    if path.suffix == ".toml":
        path.write_bytes(data + b'\n[mcp_servers.later]\ncommand = "later"\n')
    else:
        value = dict(Json.parse(data).value)
        value[AGENTS[agent].servers] = {**value[AGENTS[agent].servers], "later": {"command": "later"}}
        path.write_text(json.dumps(value, indent=2))
    uninstall(HARNESSES[agent])
    left = path.read_bytes()
    assert b"later" in left
    assert b"hook.py" not in left
    assert b"/ormahctl" not in left
    if path.suffix == ".toml":
        tomllib.loads(left.decode())


@pytest.mark.parametrize("agent", HARNESSES)
def test_another_server_of_that_name_is_left_alone(home: Path, agent: str) -> None:
    harness = AGENTS[agent]
    path = harness.server_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    theirs = {"command": "ormah", "args": ["mcp"]}
    path.write_text(
        '[mcp_servers.ormah]\ncommand = "ormah"\nargs = ["mcp"]\n'
        if path.suffix == ".toml"
        else json.dumps({harness.servers: {"ormah": theirs}})
    )
    before = content(home)
    assert "foreign" in [change.server for change in connected(agent)]
    assert served(agent) == theirs
    uninstall(HARNESSES[agent])
    assert content(home) == before


def test_a_person_adds_to_our_entry_and_keeps_it(home: Path) -> None:
    connected("claude-code")
    path = AGENTS["claude-code"].server_file()
    value = json.loads(path.read_text())
    value["mcpServers"]["ormah"]["env"] = {"ORMAH_SPACE": "shop"}
    path.write_text(json.dumps(value))
    connected("claude-code", ["/new/ormahctl", "mcp"])
    assert served("claude-code") == {
        "type": "stdio", "command": "/new/ormahctl", "args": ["mcp"], "env": {"ORMAH_SPACE": "shop"},
    }  # fmt: skip


def test_servers_in_one_line_are_named_with_a_way_out(home: Path) -> None:
    path = put(home, {".codex/config.toml": 'mcp_servers = { linear = { command = "npx" } }\n'})
    with pytest.raises(Conflict, match=r"config\.toml: mcp_servers is written in one line") as failed:
        connected("codex")
    assert "[mcp_servers.NAME]" in (failed.value.hint or "")
    assert content(home) == path


# ---------------------------------------------------------------- agents whose settings are not edited


@pytest.mark.parametrize(("agent", "name", "mine"), OTHERS)
def test_a_snippet_is_seen_once_it_was_pasted(home: Path, agent: str, name: str, mine: str) -> None:
    put(home, {name: mine})
    one = AGENTS[agent]
    assert one.server_file() == home / name
    state = connections.agent_status(one, socket=None, server=WORDS)
    assert (state.state, state.server, state.found) == ("no", "no", str(one.home()))
    snippet = json.loads(one.snippet(WORDS))
    (home / name).write_text(json.dumps(dict(Json.parse(mine.encode()).value) | snippet))
    assert connections.agent_status(one, socket=None, server=WORDS).state == "yes"
    assert connections.connected() == {agent: [snippet[one.servers]["ormah"]]}
    assert connections.agent_status(one, socket=None, server=["/new/ormahctl", "mcp"]).state == "outdated"
    (home / name).write_text("{oops")
    assert connections.agent_status(one, socket=None, server=WORDS).state == "unreadable"


@pytest.mark.parametrize(
    ("agent", "typed"),
    [
        ("opencode", ["mcp", "add", "ormah", "--", *WORDS]),
        ("vscode", ["--add-mcp", json.dumps({"name": "ormah", "type": "stdio", "command": WORDS[0], "args": ["mcp"]})]),
    ],
)
def test_a_program_that_adds_servers_by_itself_is_asked_to(
    home: Path, agent: str, typed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = AGENTS[agent]
    os.environ["PATH"] = f"{home}:/usr/bin:/bin"
    assert harness.add_server(one, WORDS) is False, "it is not installed: a person pastes the snippet"
    program = home / one.program
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {home}/typed\n')
    program.chmod(0o755)
    assert harness.add_server(one, WORDS) is True
    assert (home / "typed").read_text().splitlines() == typed
    program.write_text("#!/bin/sh\necho no such thing >&2; exit 3\n")
    with pytest.raises(Unavailable, match="failed: no such thing"):
        harness.add_server(one, WORDS)
    program.write_text("#!/bin/sh\nsleep 600\n")
    monkeypatch.setattr(managers, "TOOL_SECONDS", 0.3)
    with pytest.raises(Unavailable, match="did not answer within"):
        harness.add_server(one, WORDS)


@pytest.mark.parametrize("agent", ["cursor", "claude-desktop"])
def test_others_have_no_such_command(home: Path, agent: str) -> None:
    assert AGENTS[agent].adding(WORDS) is None
