"""The agents that `setup` can connect.

Claude Code, Codex and Gemini CLI have hooks: their settings files are edited. Claude Code: `settings.json` of the
person, timeouts in seconds, strict JSON. Codex: `hooks.json`, timeouts in seconds; unchanged hooks are not rewritten,
because Codex stores the person's trust by position and hash. Gemini CLI: `settings.json`, timeouts in milliseconds,
comments allowed.

The others get the MCP server alone, by a command of their own or by the person, who pastes a snippet.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from ormahctl import managers
from ormahctl.setup import change as entry
from ormahctl.setup import file
from ormahctl.setup.change import Record
from ormahctl.setup.edit import Json, Toml
from ormahd import paths
from ormahd.rpc.wire import OrmahError, Unavailable

MATCHERS: Final[Mapping[str, str]] = {
    "PreToolUse": "Edit|MultiEdit|Write|NotebookEdit|Bash|apply_patch",
    "BeforeTool": "run_shell_command|write_file|replace",
    "PostToolUse": "Bash",
    "PostToolUseFailure": "Bash",
    "AfterTool": "run_shell_command",
}
"""{event of a tool: the tools that edit files or run commands}."""
TOOL_DEADLINE_MS: Final = 150
"""Milliseconds after which a hook of a tool ends by itself, at most: an agent uses many tools."""


class Agent:
    """Describes a program that runs agents and takes MCP servers: where its settings are, and how to add a server."""

    name: ClassVar[str]
    """The name in commands, which the shim also sends to the daemon."""
    title: ClassVar[str]
    program: ClassVar[str]
    servers: ClassVar[str] = "mcpServers"
    """The object of its settings that holds MCP servers."""
    kind: ClassVar[str] = ""
    """The type that its settings need for a server which is a command."""
    place: ClassVar[tuple[str, str]]
    """The directory of its settings, below the person's, and in it the file that holds MCP servers."""
    after: ClassVar[str] = "sessions that you start from now on have it"
    """What the person has to do after a change."""

    def home(self) -> Path:
        """Return the directory of the program's settings."""
        return paths.home() / self.place[0]

    def server_file(self) -> Path:
        """Return the settings file that holds MCP servers."""
        return self.home() / self.place[1]

    def server(self, words: Sequence[str]) -> dict[str, Any]:
        """Return the settings entry of an MCP server that is started by the command `words`."""
        return {**({"type": self.kind} if self.kind else {}), "command": words[0], "args": list(words[1:])}

    def adding(self, words: Sequence[str]) -> list[str] | None:  # noqa: ARG002 - most have no such command
        """Return the program's own command that adds the server `words`; None if it has none."""
        return None

    def snippet(self, words: Sequence[str]) -> str:
        """Return the JSON that a person pastes into `server_file`."""
        return json.dumps({self.servers: {entry.SERVER: self.server(words)}}, indent=2)

    def found(self) -> str | None:
        """Return the path of the installed program, or else of its settings directory if that has files that Ormah
        did not create; None if neither exists."""
        program = shutil.which(self.program)
        if program is None and self.home().is_dir():
            made = {Path(record.file) for record in Record.all(f"*{self.name}") if not record.existed}
            return str(self.home()) if set(self.home().iterdir()) - made else None
        return program


class Harness(Agent):
    """Describes an agent with hooks, whose settings files `setup` edits."""

    events: ClassVar[tuple[str, ...]]
    tool_events: ClassVar[tuple[str, ...]]
    allows: ClassVar[tuple[str, ...]] = ()
    """The tools that read memories, as its settings name them, where they can be allowed without a question each time."""
    reads: ClassVar[str]
    """The name of the instructions file that it reads at the start of a session."""

    def target(self) -> Path:
        """Return the settings file that has hooks."""
        return self.home() / "settings.json"

    def server_file(self) -> Path:
        """Return the file that holds MCP servers: the same as that of the hooks."""
        return self.target()

    def wanted(self) -> tuple[str, ...]:
        """Return the events that should have a hook: those of tools only if the setting `whisper.tools` is on, because
        then each use of a tool starts a process."""
        return (*self.events, *self.tool_events) if paths.whispers_at_tools() else self.events

    def instructions(self) -> Path:
        """Return the person's instructions file that the program reads when a session starts."""
        return self.home() / self.reads

    def handler(self, event: str, *, socket: str | None, deadline: int) -> dict[str, Any]:
        """Return the settings entry of the hook for `event`. `socket`: the daemon's socket; None: the default.
        `deadline`: milliseconds after which the hook gives up; hooks of tools get at most `TOOL_DEADLINE_MS`."""
        deadline = min(deadline, TOOL_DEADLINE_MS) if event in MATCHERS else deadline
        text = entry.command(event, self.name, socket=socket, deadline=deadline)
        return {"type": "command", "command": text, "timeout": -(-deadline // 1000) + entry.SPARE_SECONDS}

    def off(self) -> str | None:
        """Return the setting by which the person disabled hooks, such as `features.hooks = false in config.toml`;
        None if there is none."""
        return None


def settings(path: Path) -> Mapping[str, Any]:
    """Return the parsed settings file at `path`; empty if it is missing or cannot be parsed. Only for reading."""
    try:
        return (Toml if path.suffix == ".toml" else Json).parse(file.read(path).data or b"").value
    except (OrmahError, OSError):
        return {}


def named_directory(variable: str, usual: str) -> Path:
    """Return the directory that the environment variable `variable` names. If it is not set, return the directory
    `usual` in the home directory."""
    given = os.environ.get(variable)
    return paths.expand(Path(given)).absolute() if given else paths.home() / usual


class ClaudeCode(Harness):
    """Claude Code: hooks in `settings.json`, MCP servers in `.claude.json`."""

    name = "claude-code"
    title = "Claude Code"
    program = "claude"
    kind = "stdio"
    events = ("SessionStart", "UserPromptSubmit", "Stop", "SessionEnd")
    tool_events = ("PreToolUse", "PostToolUseFailure")
    allows = ("mcp__ormah__recall", "mcp__ormah__recall_work", "mcp__ormah__recall_node", "mcp__ormah__history")
    reads = "CLAUDE.md"

    def home(self) -> Path:
        """Return the directory `$CLAUDE_CONFIG_DIR`, or `.claude` in the home directory."""
        return named_directory("CLAUDE_CONFIG_DIR", ".claude")

    def server_file(self) -> Path:
        """Return the path of `.claude.json`. It is in `$CLAUDE_CONFIG_DIR`, or if that is not set in the home
        directory."""
        return (self.home() if os.environ.get("CLAUDE_CONFIG_DIR") else paths.home()) / ".claude.json"

    def off(self) -> str | None:
        """Return `disableAllHooks` if that setting is true, else None."""
        return "disableAllHooks" if settings(self.target()).get("disableAllHooks") is True else None


class Codex(Harness):
    """Codex: hooks in `hooks.json`, MCP servers in `config.toml`."""

    name = "codex"
    title = "Codex"
    program = "codex"
    servers = "mcp_servers"
    events = ("SessionStart", "UserPromptSubmit", "Stop")
    tool_events = ("PreToolUse", "PostToolUse")
    reads = "AGENTS.md"
    after = "Codex runs new hooks once you trust them: it asks when it starts, or type /hooks"

    def home(self) -> Path:
        """Return the directory `$CODEX_HOME`, or `.codex` in the home directory."""
        return named_directory("CODEX_HOME", ".codex")

    def target(self) -> Path:
        """Return the file that has hooks."""
        return self.home() / "hooks.json"

    def server_file(self) -> Path:
        """Return the file that has MCP servers and features."""
        return self.home() / "config.toml"

    def instructions(self) -> Path:
        """Return `AGENTS.override.md` if it exists, because Codex then ignores `AGENTS.md`; otherwise `AGENTS.md`."""
        instead = self.home() / "AGENTS.override.md"
        return instead if instead.is_file() else super().instructions()

    def off(self) -> str | None:
        """Return the feature by which hooks are switched off in `config.toml`; None if there is none."""
        features = settings(self.server_file()).get("features")
        for key in ("hooks", "codex_hooks"):
            if isinstance(features, Mapping) and features.get(key) is False:
                return f"features.{key} = false in config.toml"
        return None


class Gemini(Harness):
    """Gemini CLI: hooks and MCP servers in `settings.json`."""

    name = "gemini"
    title = "Gemini CLI"
    program = "gemini"
    events = ("SessionStart", "BeforeAgent", "AfterAgent", "SessionEnd")
    tool_events = ("BeforeTool", "AfterTool")
    reads = "GEMINI.md"

    def home(self) -> Path:
        """Return the directory `.gemini`. It is in the directory `$GEMINI_CLI_HOME`, or if that is not set in the
        home directory."""
        return Path(os.environ.get("GEMINI_CLI_HOME") or paths.home()).absolute() / ".gemini"

    def instructions(self) -> Path:
        """Return the first file that the setting `context.fileName` names. Return `GEMINI.md` if that is one of its
        names, or if it has none."""
        chosen = settings(self.target())
        context = chosen.get("context")
        named = context.get("fileName") if isinstance(context, Mapping) else chosen.get("contextFileName")
        names = [named] if isinstance(named, str) else named if isinstance(named, list) else []
        plain = [name for name in names if isinstance(name, str) and name and "/" not in name]
        return self.home() / (self.reads if not plain or self.reads in plain else plain[0])

    def handler(self, event: str, *, socket: str | None, deadline: int) -> dict[str, Any]:
        """Return the settings entry of the hook for `event`. It has a name, and its timeout is in milliseconds."""
        made = super().handler(event, socket=socket, deadline=deadline)
        return {"name": "ormah", **made, "timeout": made["timeout"] * 1000}

    def off(self) -> str | None:
        """Return the setting by which the person switched off all hooks, or that of Ormah; None if there is none."""
        for table in ("hooksConfig", "hooks"):
            group = settings(self.target()).get(table)
            if not isinstance(group, Mapping):
                continue
            if group.get("enabled") is False:
                return f"{table}.enabled = false"
            disabled = group.get("disabled")
            if isinstance(disabled, list) and "ormah" in disabled:
                return f"ormah in {table}.disabled"
        return None


class Cursor(Agent):
    """Cursor: MCP servers only."""

    name = program = "cursor"
    title = "Cursor"
    place = (".cursor", "mcp.json")


class OpenCode(Agent):
    """OpenCode: MCP servers only, which its own command adds."""

    name = program = "opencode"
    title = "OpenCode"
    servers = "mcp"

    def home(self) -> Path:
        """Return the directory `opencode` in the directory of configurations."""
        return entry.config_home() / "opencode"

    def server_file(self) -> Path:
        """Return the first of its settings files that exists; if none does, `opencode.json`."""
        known = [self.home() / name for name in ("opencode.jsonc", "opencode.json", "config.json")]
        return next((path for path in known if path.is_file()), known[1])

    def server(self, words: Sequence[str]) -> dict[str, Any]:
        """Return the settings entry of an MCP server. The command is one list of words."""
        return {"type": "local", "command": list(words)}

    def adding(self, words: Sequence[str]) -> list[str]:
        """Return the command of OpenCode that adds the server `words`."""
        return ["opencode", "mcp", "add", entry.SERVER, "--", *words]


class DesktopProgram(Agent):
    """Describes a program whose settings are with those of desktop programs."""

    def home(self) -> Path:
        """Return the directory of the program's settings, which depends on the system."""
        base = paths.home() / "Library" / "Application Support" if managers.MACOS else entry.config_home()
        return base / self.place[0]


class ClaudeDesktop(DesktopProgram):
    """Claude Desktop: MCP servers only."""

    name = program = "claude-desktop"
    title = "Claude Desktop"
    place = ("Claude", "claude_desktop_config.json")
    after = "quit Claude Desktop and start it again"


class VsCode(DesktopProgram):
    """VS Code: MCP servers only, which its own command adds."""

    name = "vscode"
    title = "VS Code"
    program = "code"
    servers = "servers"
    kind = "stdio"
    place = ("Code/User", "mcp.json")
    after = "VS Code asks once whether you trust the server: start it in the chat's tools"

    def adding(self, words: Sequence[str]) -> list[str]:
        """Return the command of VS Code that adds the server `words`."""
        return ["code", "--add-mcp", json.dumps({"name": entry.SERVER, **self.server(words)})]


AGENTS: Final[Mapping[str, Agent]] = {
    agent.name: agent for agent in (ClaudeCode(), Codex(), Gemini(), Cursor(), OpenCode(), ClaudeDesktop(), VsCode())
}
HARNESSES: Final[Mapping[str, Harness]] = {name: agent for name, agent in AGENTS.items() if isinstance(agent, Harness)}


def add_server(agent: Agent, words: Sequence[str]) -> bool:
    """Have the agent's own program add our MCP server. Return False if the agent has no command for that, or is not
    installed: then a person pastes `Agent.snippet`.

    Raises:
        Unavailable: the command failed, or did not end.
    """
    command = agent.adding(words)
    if command is None or shutil.which(command[0]) is None:
        return False
    done = managers.run_tool(*command)
    if done.returncode:
        output = (done.stderr or done.stdout).strip().splitlines()
        raise Unavailable(
            f"{shlex.join(command[:3])} failed: {output[-1] if output else f'status {done.returncode}'}",
            hint=f"add it yourself: ormahctl setup {agent.name} --dry-run shows what",
        )
    return True
