"""How agents are connected: which have hooks and the MCP server, and whether these answer.

To test hooks and the server, their commands in the settings files are run as an agent runs them. Codex runs only hooks
that the person trusts, so Codex itself is asked whether it trusts ours. Nothing is written.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ormahctl.gateway import reach
from ormahctl.setup import change as entry
from ormahctl.setup import harness as agents
from ormahctl.setup import service
from ormahctl.setup.change import Record
from ormahctl.setup.connect import Handlers, our_hooks, our_server, read, server_entry
from ormahctl.setup.harness import Agent, Harness
from ormahd import __version__
from ormahd.api import CHECK_SESSION, Finding
from ormahd.rpc.wire import OrmahError, Unavailable

PROMPTS = ("UserPromptSubmit", "BeforeAgent")
"""Names that harnesses give the event of a new prompt."""


SERVER_SECONDS = 30.0
"""Seconds that the MCP server may take for its first answers; it may have to start the daemon and the gateway."""
CODEX_SECONDS = 10.0
GATEWAY_SECONDS = 10.0
"""Seconds within which a gateway that runs must answer."""


@dataclass(frozen=True)
class HookAnswer:
    """The result of a trial run of a hook or of the MCP server. `ms`: how long it took."""

    ok: bool
    ms: float
    trouble: str | None
    """What failed, in words for people, or None."""
    output: bytes = b""
    """What a hook printed; empty if no daemon answered it."""


@dataclass(frozen=True)
class AgentStatus:
    """How one agent is connected. `found`: where its program or settings are on this machine; None if it is not
    installed. `state`: whether it has Ormah's entries (`outdated`: they are not those that setup would write now).
    `file`: the settings file. `mend`: the command that mends `trouble`."""

    agent: Agent
    found: str | None
    state: Literal["yes", "no", "outdated", "unreadable"]
    file: Path
    events: list[str] = field(default_factory=list)
    """Events that have a hook of Ormah."""
    server: Literal["yes", "no", "outdated", "foreign"] = "no"
    """Whether it has our MCP server; `foreign`: another server of that name."""
    answer: HookAnswer | None = None
    trouble: str | None = None
    """Why the hooks would not work, or what is wrong with the file; None if nothing is."""
    mend: str | None = None


def entries(agent: Agent) -> tuple[Handlers, Mapping[str, Any] | None]:
    """Return (Ormah's hooks in the agent's settings, its entry of our MCP server or None).

    Raises:
        InvalidSettings: a settings file cannot be read.
    """
    hooks = our_hooks(read(agent, agent.target())[1]) if isinstance(agent, Harness) else {}
    return hooks, our_server(read(agent, agent.server_file())[1], agent.servers)


def connected() -> dict[str, list[Mapping[str, Any]]]:
    """Return `{agent: entries of Ormah's hooks and MCP server in its settings}` for every connected agent. An agent
    whose settings cannot be read is left out."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for agent in agents.AGENTS.values():
        try:
            hooks, served = entries(agent)
        except OrmahError:
            continue  # `doctor` and `setup` name it
        handlers = [handler for event_handlers in hooks.values() for handler in event_handlers]
        if handlers or served is not None:
            found[agent.name] = [*handlers, *([served] if served is not None else [])]
    return found


def lost() -> dict[str, Path]:
    """Return `{agent: its settings file}` for agents whose settings lost an entry that setup wrote. This happens if
    a running agent writes back settings that it read earlier."""
    found = {}
    for agent in agents.HARNESSES.values():
        with contextlib.suppress(OrmahError):  # a file that cannot be read is named by `setup`
            server = server_entry(read(agent, agent.server_file())[1], agent.servers)
            for path, found_entries in ((agent.target(), entries(agent)[0]), (agent.server_file(), server)):
                if not found_entries and Record.of(agent.name, Path(os.path.realpath(path))) is not None:
                    found[agent.name] = path
    return found


def agent_status(agent: Agent, *, socket: str | None, server: Sequence[str]) -> AgentStatus:
    """Return whether and how an agent is connected. Its hook is run once, to see whether it answers.

    `socket` and `server`: the value of `--socket`, and the words of the MCP server, that setup would write now.
    """
    # what the settings have
    path = agent.target() if isinstance(agent, Harness) else agent.server_file()
    try:
        hooks, served = entries(agent)
        present = server_entry(read(agent, agent.server_file())[1], agent.servers)
    except OrmahError as exc:
        return AgentStatus(agent, agent.found(), "unreadable", path, trouble=exc.message, mend=exc.hint)
    server_state: Literal["yes", "no", "outdated", "foreign"] = "no" if present is None else "foreign"
    if served is not None:
        server_state = "yes" if agent.server(server).items() <= served.items() else "outdated"
    if not hooks and served is None:
        return AgentStatus(agent, agent.found(), "no", path, server=server_state)

    # whether that is what setup would write, and whether it works
    is_current, answer, trouble = server_state in {"yes", "foreign"}, None, None
    if isinstance(agent, Harness):
        handler = next((hooks[event][0] for event in PROMPTS if event in hooks), None)
        limit = entry.deadline_of(handler)
        wanted = {event: [agent.handler(event, socket=socket, deadline=limit)] for event in agent.wanted()}
        is_current = server_state != "outdated" and hooks == wanted
        answer = ask_hook(handler) if handler is not None else None
        off = agent.off()
        trouble = f"hooks are switched off: {off}" if off else untrusted() if agent.name == "codex" else None
    state: Literal["yes", "outdated"] = "yes" if is_current else "outdated"
    mend = None if is_current else f"ormahctl setup {agent.name}"
    return AgentStatus(agent, agent.found(), state, path, list(hooks), server_state, answer, trouble, mend)


def ask_hook(handler: Mapping[str, Any]) -> HookAnswer:
    """Run the command of `handler`, a hook's entry, by a shell as a harness does, and return how it answered. The
    daemon answers the prompt and does not log it. Unlike a harness, this reads the command's stderr."""
    command = str(handler["command"]).removesuffix(entry.GUARD)
    event = {"prompt": "Is Ormah connected to this agent?", "session_id": CHECK_SESSION, "cwd": os.getcwd()}
    limit = entry.deadline_of(handler) / 1000 + entry.SPARE_SECONDS
    begun = time.monotonic()
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            input=json.dumps(event).encode(),
            capture_output=True,
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return HookAnswer(False, limit * 1000, f"did not end within {limit:.1f} s")
    ms = (time.monotonic() - begun) * 1000
    stderr = done.stderr.decode("utf-8", "backslashreplace").strip()
    if stderr or done.returncode:
        return HookAnswer(False, ms, stderr.splitlines()[-1] if stderr else f"ended with status {done.returncode}")
    return HookAnswer(True, ms, None, done.stdout)


def ask_server(words: Sequence[str]) -> HookAnswer:
    """Start the MCP server as an agent does, call the tool `recall`, and return whether both worked."""
    about = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "ormahctl", "version": __version__},
    }
    recall = {"name": "recall", "arguments": {"query": "who am I"}}
    calls: list[dict[str, Any]] = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": recall},
    ]
    begun = time.monotonic()
    try:
        replies = converse(words, calls, {1, 2}, SERVER_SECONDS)
    except OSError as exc:
        return HookAnswer(False, 0.0, f"cannot be started: {exc.strerror}")
    ms = (time.monotonic() - begun) * 1000
    if set(replies) != {1, 2}:
        return HookAnswer(False, ms, f"did not answer within {SERVER_SECONDS:.0f} s")
    failed = next((reply["error"] for reply in replies.values() if "error" in reply), None)
    result = replies[2].get("result")
    if failed is not None or not isinstance(result, dict) or result.get("isError"):
        reason = failed.get("message") if isinstance(failed, dict) else json.dumps(result)
        return HookAnswer(False, ms, f"answered with an error: {str(reason)[:200]}")
    return HookAnswer(True, ms, None)


def untrusted() -> str | None:
    """Ask Codex whether it trusts our hooks. Return what is wrong, in words for people; None if it trusts them, or
    cannot be asked (no program, an older version)."""
    about = {
        "clientInfo": {"name": "ormahctl", "title": "Ormah", "version": __version__},
        "capabilities": {"experimentalApi": True},
    }
    calls: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": about},
        {"method": "initialized"},
        {"id": 2, "method": "hooks/list", "params": {"cwds": [str(Path.home())]}},
    ]
    try:
        reply = converse(["codex", "app-server"], calls, {2}, CODEX_SECONDS).get(2, {})
        listed = [hook for group in reply["result"]["data"] for hook in group["hooks"]]
        states = {str(hook["trustStatus"]) for hook in listed if entry.is_our_hook({"command": hook.get("command")})}
    except (OSError, KeyError, TypeError):
        return None
    if "modified" in states:
        return "Codex does not run the hooks, because they changed since you trusted them: start codex, which asks, or type /hooks"
    if "untrusted" in states:
        return "Codex does not run the hooks until you trust them: start codex, which asks, or type /hooks"
    return None


def converse(
    words: Sequence[str], calls: Sequence[Mapping[str, Any]], ids: set[int], seconds: float
) -> dict[int, dict[str, Any]]:
    """Start a program that speaks JSON-RPC in lines, send `calls`, and return `{id: reply}`. The wait ends when all
    `ids` are answered, or after `seconds`.

    Raises:
        OSError: the program cannot be started.
    """
    replies: dict[int, dict[str, Any]] = {}
    process = subprocess.Popen(
        list(words), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
    )
    assert process.stdin is not None
    assert process.stdout is not None

    # send the calls, and read lines until all are answered
    until = time.monotonic() + seconds
    incomplete_line = b""
    try:
        process.stdin.write(b"".join(json.dumps(call).encode() + b"\n" for call in calls))
        with selectors.DefaultSelector() as ready:
            ready.register(process.stdout, selectors.EVENT_READ)
            while not ids <= set(replies) and (remaining := until - time.monotonic()) > 0 and ready.select(remaining):
                data = os.read(process.stdout.fileno(), 1 << 16)
                if not data:
                    break
                *lines, incomplete_line = (incomplete_line + data).split(b"\n")
                for line in lines:
                    with contextlib.suppress(ValueError):
                        reply = json.loads(line)
                        if isinstance(reply, dict) and reply.get("id") in ids:
                            replies[reply["id"]] = reply
    except BrokenPipeError:
        pass  # it ended before it had read all
    finally:
        process.stdin.close()
        process.stdout.close()
        try:
            process.wait(2)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    return replies


def findings(daemon: str | None, socket: Path) -> list[Finding]:
    """Return problems of hooks, MCP servers, the service, the gateway and the daemon's version.

    `daemon`: the version of the running daemon; None if none answers. `socket`: the path at which it listens.
    """
    found = []
    if daemon is not None and daemon != __version__:
        what = f"the daemon that runs is version {daemon}, and {__version__} is installed"
        found.append(Finding(level="warning", what=what, mend="ormahctl restart"))
    if (trouble := service.missing_program()) is not None:
        found.append(Finding(level="warning", what=f"the service {trouble}", mend="ormahctl setup service --yes"))
    elif service.installed() and not service.starts_at_login():
        what = "the service is installed and not enabled, so it does not start at login"
        mend = "enable it: ormahctl setup service --yes; or take it out: ormahctl uninstall service"
        found.append(Finding(level="info", what=what, mend=mend))
    found += _gateway_findings(socket)
    agents_found = connected()
    for agent, found_entries in agents_found.items():
        for trouble in dict.fromkeys(
            trouble for settings_entry in found_entries for trouble in _troubles(settings_entry)
        ):
            what = trouble.replace("AGENT", agent, 1)
            found.append(Finding(level="warning", what=what, mend=f"ormahctl setup {agent}"))
    for agent, path in lost().items():
        what = f"{agent} wrote {path} without the entry of Ormah that was in it"
        found.append(Finding(level="warning", what=what, mend=f"ormahctl setup {agent}"))
    if "codex" in agents_found and (distrust := untrusted()) is not None:
        what, _, mend = distrust.partition(": ")
        found.append(Finding(level="warning", what=what, mend=mend))
    return found


def _gateway_findings(socket: Path) -> list[Finding]:
    """Return what is wrong with the gateway: that it does not answer, or has another version. Return [] if none
    runs."""
    try:
        found = reach.order(socket, "status", {}, start=False, seconds=GATEWAY_SECONDS)
    except Unavailable as exc:
        if exc.data.get("reason") in {"absent", "refused"}:
            return []
        return [Finding("warning", exc.message, mend=exc.hint or "ormahctl restart")]
    if found.get("version") == __version__:
        return []
    what = f"the gateway is version {found.get('version')}, and {__version__} is installed"
    return [Finding("warning", what, mend="ormahctl restart")]


def _troubles(settings_entry: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with `settings_entry`, the entry of a hook or MCP server, as sentences. `AGENT` stands for
    the agent's name."""
    served = entry.is_our_server(settings_entry)
    what, words = (
        ("MCP server", entry.server_words(settings_entry)) if served else ("hooks", entry.command_words(settings_entry))
    )
    shims = [word for word in words if word.endswith(entry.SHIM_END)]
    missing = [word for word in (words[0], *shims) if os.path.isabs(word) and not os.path.isfile(word)]
    if missing:
        yield f"the {what} of AGENT {'runs' if served else 'run'} {missing[0]}, which is not there"
    elif shims and shims[0] != str(entry.SHIM):
        yield f"the hooks of AGENT are of another installation ({shims[0].removesuffix(entry.SHIM_END)})"
