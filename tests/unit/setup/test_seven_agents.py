"""Seven agents with settings as they really are: connected, read back, disconnected, to the byte."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from ormahctl.setup import connect
from ormahctl.setup.edit import Json
from ormahctl.setup.harness import AGENTS
from tests.unit.setup.connecting import a_home

CLAUDE_STATE = (
    b'{\n  "numStartups": 41,\n  "projects": {"/src/shop": {"history": ["run ormahctl \\u2713"], "mcpServers": {}}},\n'
    b'  "mcpServers": {\n    "github": {"type": "stdio", "command": "gh-mcp", "args": [], "env": {"T": "x"}}\n  }\n}'
)
CODEX_CONFIG = b"""model = "o5"  # the large one

[mcp_servers.docs]
command = "docs-mcp"
args = ["--stdio"] # keep

[projects."/src/shop"]
trust_level = "trusted"
"""
GEMINI = b'{\r\n  // mine\r\n  "theme": "Atom One",\r\n  "hooks": {"AfterTool": [{"hooks": [{"type": "command", "command": "beep"}]}]},\r\n  "mcpServers": {}, // none yet\r\n}\r\n'
VSCODE = b'{\n\t"servers": {\n\t\t"play": {"type": "stdio", "command": "npx", "args": ["play"],}, // browser\n\t},\n\t"inputs": [],\n}\n'

CASES: dict[str, dict[str, bytes | None]] = {
    "claude-code": {
        ".claude/settings.json": b'{\n    "model": "opus",\n    "hooks": {\n        "Stop": [{"hooks": [{"type": "command", "command": "say done"}]}]\n    }\n}\n',
        ".claude.json": CLAUDE_STATE,
    },
    "codex": {".codex/hooks.json": b'{"hooks":{}}', ".codex/config.toml": CODEX_CONFIG},
    "gemini": {".gemini/settings.json": GEMINI},
    "cursor": {".cursor/mcp.json": b'{"mcpServers":{"a":{"command":"b"}}}'},
    "opencode": {"config_home/opencode/opencode.jsonc": b'{\n  "$schema": "x", // schema\n  "mcp": {}\n}'},
    "claude-desktop": {"config_home/Claude/claude_desktop_config.json": b'{\n  "globalShortcut": ""\n}\n'},
    "vscode": {"config_home/Code/User/mcp.json": VSCODE},
}
OTHERS: dict[str, dict[str, bytes | None]] = {
    "claude-code": {".claude/settings.json": b"", ".claude.json": b"{}"},
    "codex": {
        ".codex/hooks.json": None,
        ".codex/config.toml": b'[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = "command"\ncommand = "beep"\n\n[mcp_servers]\n',
    },
    "gemini": {".gemini/settings.json": b'\xef\xbb\xbf{"mcpServers": {"x": {"command": "y"}}}'},
    "cursor": {".cursor/mcp.json": b'{\n  "mcpServers": {}\n}'},
    "opencode": {"config_home/opencode/opencode.json": b'{"mcp": {"a": {"type": "remote", "url": "https://a"}}}\n\n'},
    "claude-desktop": {"config_home/Claude/claude_desktop_config.json": b"\n"},
    "vscode": {"config_home/Code/User/mcp.json": b'{\r\n\t"servers": {}\r\n}'},
}
NONE: dict[str, dict[str, bytes | None]] = {name: dict.fromkeys(files) for name, files in CASES.items()}
ALL = pytest.mark.parametrize(
    ("agent", "files"),
    [(agent, files) for table in (CASES, OTHERS, NONE) for agent, files in table.items()],
    ids=[f"{agent}-{kind}" for kind in ("usual", "odd", "none") for agent in CASES],
)
WORDS = ["/home/ada/.local/bin/ormahctl", "mcp"]


@pytest.fixture
def home() -> Iterator[Path]:
    with a_home() as found:
        yield found


def put(home: Path, files: dict[str, bytes | None]) -> dict[str, bytes]:
    for name, data in files.items():
        if data is not None:
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_bytes(data)
    return content(home)


def content(home: Path) -> dict[str, bytes]:
    """Every file of the home, except where Ormah keeps its records."""
    return {
        str(path.relative_to(home)): path.read_bytes()
        for path in home.rglob("*")
        if path.is_file() and "state_home" not in path.parts
    }


def connected(agent: str, words: list[str] | None = WORDS) -> list[connect.SettingsChange]:
    changes = connect.plans(AGENTS[agent], socket=None, deadline=500, server=words)
    for change in changes:
        change.make()
    return changes


def disconnected(agent: str) -> None:
    for change in connect.disconnect(AGENTS[agent]):
        change.make()


def served(agent: str) -> dict[str, object]:
    """Our entry in the agent's settings, read by the standard library alone."""
    path = AGENTS[agent].server_file()
    data = path.read_bytes()
    value = tomllib.loads(data.decode()) if path.suffix == ".toml" else Json.parse(data).value
    found: dict[str, object] = value[AGENTS[agent].servers]["ormah"]
    return found


@ALL
def test_wired_and_taken_out_again_to_the_byte(home: Path, agent: str, files: dict[str, bytes | None]) -> None:
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
    disconnected(agent)
    assert content(home) == before
    assert not connect.disconnect(AGENTS[agent])


@ALL
def test_what_others_wrote_meanwhile_stays(home: Path, agent: str, files: dict[str, bytes | None]) -> None:
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
    disconnected(agent)
    left = path.read_bytes()
    assert b"later" in left
    assert b"hook.py" not in left
    assert b"/ormahctl" not in left
    if path.suffix == ".toml":
        tomllib.loads(left.decode())


@pytest.mark.parametrize("agent", CASES)
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
    disconnected(agent)
    assert content(home) == before


@pytest.mark.parametrize("agent", CASES)
def test_without_the_server_only_hooks_are_written_and_an_older_entry_goes(home: Path, agent: str) -> None:
    before = content(home)
    connected(agent, None)
    if not AGENTS[agent].events:
        assert content(home) == before
    connected(agent)
    assert "removed" in [change.server for change in connected(agent, None)]
    disconnected(agent)
    assert content(home) == before


def test_a_person_adds_to_our_entry_and_keeps_it(home: Path) -> None:
    connected("cursor")
    path = AGENTS["cursor"].server_file()
    value = json.loads(path.read_text())
    value["mcpServers"]["ormah"]["env"] = {"ORMAH_SPACE": "shop"}
    path.write_text(json.dumps(value))
    connected("cursor", ["/new/ormahctl", "mcp"])
    assert served("cursor") == {"command": "/new/ormahctl", "args": ["mcp"], "env": {"ORMAH_SPACE": "shop"}}
