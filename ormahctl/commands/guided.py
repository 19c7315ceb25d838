"""The guided set-up, `ormahctl setup` without an agent: at most five questions, then every step, checked at the end.

`choose` asks, and changes nothing. `carry_out` acts: settings, agents, service, name, past sessions. `check` runs a hook
and the MCP server as agents do.
"""

from __future__ import annotations

import getpass
import json
import os
import pwd
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click

from ormahctl import managers, offline, render, supervise
from ormahctl.commands import service as services
from ormahctl.commands.setup import entries, warn
from ormahctl.session import Session
from ormahctl.setup import change as entry
from ormahctl.setup import connect, standing
from ormahctl.setup import harness as agents
from ormahctl.setup import service as units
from ormahctl.setup.connect import SettingsChange
from ormahctl.setup.harness import Harness
from ormahctl.setup.standing import HookAnswer
from ormahd import paths
from ormahd.api import (
    BackfillParams,
    BackfillResult,
    ListParams,
    ListResult,
    UpdateParams,
    WhispersParams,
    WhispersResult,
    WriteResult,
)
from ormahd.rpc.wire import BadRequest, Conflict

READY_SECONDS: Final = 120.0
"""Seconds to wait until the daemon has loaded its model."""
HEARD_SECONDS: Final = 10.0
CHECKED: Final = "ormahctl-setup"
"""The session id of the hook event that checks a connection."""
FAILED: Final = 1
COLUMN: Final = 15
"""Columns of what a line of the report is about."""


@dataclass
class SetupChoices:
    """What a person chose; the defaults where nothing was asked."""

    agents: list[str]
    vault: Path | None
    """The folder for the vault; None: as configured."""
    name: str | None
    """The name for the self node; None: as it is."""
    service: bool
    past: bool
    """Whether to archive past sessions, and to watch for those that no hook reports."""
    deadline: int = entry.DEADLINE_MS
    mcp: bool = True


@dataclass
class SetupDone:
    """What the set-up changed, for its report."""

    vault: str = ""
    changes: list[SettingsChange] = field(default_factory=list)
    service: str = ""
    name: str | None = None
    sessions: bool = False
    checks: dict[str, HookAnswer] = field(default_factory=dict)


# ---------------------------------------------------------------- what there is


def found_agents() -> list[str]:
    return [harness.name for harness in agents.AGENTS.values() if harness.found()]


def vault_now(session: Session) -> tuple[Path, bool]:
    """Return the vault's folder, and whether that folder is certain, so that the person need not be asked: it is a vault
    already, or the running daemon, the environment or the configuration names it."""
    running = services.daemon(session)[1]
    given = os.environ.get("ORMAH_VAULT") or os.environ.get("ORMAH_VAULT_PATH")
    configured = paths.configured().get("vault")
    path = paths.expand(Path(running or given or configured or paths.default_vault()))
    return path, bool(running or given or configured) or (path / ".ormah").is_dir()


def obsidian_vaults() -> list[Path]:
    """Return the vaults that Obsidian knows and that exist, the last opened one first."""
    config = agents.config_home()
    mac = paths.home() / "Library" / "Application Support"
    flatpak = paths.home() / ".var" / "app" / "md.obsidian.Obsidian" / "config"
    for base in (config, mac, flatpak):
        try:
            known = json.loads((base / "obsidian" / "obsidian.json").read_bytes())["vaults"].values()
            rows = [(float(one.get("ts", 0)), Path(one["path"])) for one in known]
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
        return [path for _, path in sorted(rows, reverse=True) if path.is_dir()]
    return []


def own_name() -> str:
    """Return the person's name: of git, else of the account."""
    done = subprocess.run(["git", "config", "--global", "user.name"], capture_output=True, text=True, check=False)
    full = pwd.getpwuid(os.getuid()).pw_gecos.partition(",")[0]
    return done.stdout.strip() or full.strip() or getpass.getuser()


def transcripts() -> tuple[int, int]:
    """Return number and bytes of the transcripts that agents keep on this machine."""
    sizes = [
        file.stat().st_size
        for _, folder in paths.transcript_folders()
        if folder.is_dir()
        for file in folder.rglob("*.json*")
        if file.is_file()
    ]
    return len(sizes), sum(sizes)


# ---------------------------------------------------------------- questions


def choose(session: Session, given: SetupChoices, *, named: frozenset[str], asks: bool) -> SetupChoices:
    """Return the choices: those that options name, and for the others the person's answers, or the defaults.

    `named`: the fields that options name. `asks`: whether a person answers.
    """
    there = found_agents()
    vault, settled = vault_now(session)
    files, size = transcripts()
    can_serve = managers.state() == "answers" and not units.installed()
    open_questions = [
        one
        for one, wanted in (
            ("agents", bool(there)),
            ("vault", not settled),
            ("name", not settled),
            ("service", can_serve),
            ("past", files > 0),
        )
        if wanted and one not in named
    ]
    if "agents" not in named:
        given.agents = there
    if "name" not in named and not settled:
        given.name = own_name()
    if "service" not in named:
        given.service = can_serve
    if "past" not in named:
        given.past = files > 0
    if given.vault is not None and settled and not _same(given.vault, vault):
        raise Conflict(
            f"there is a vault already: {vault}",
            hint=f"to use the other one from now on: ormahctl config set vault.path {given.vault}",
        )
    if not asks:
        return given
    if open_questions:
        count = render.count(len(open_questions), "question")
        render.out(f"{render.paint('Setting up Ormah.', 'bold')} {count}; Enter takes what is in brackets.")
    for number, one in enumerate(open_questions, 1):
        render.out()
        head = render.paint(f"{number}/{len(open_questions)}", "dim")
        if one == "agents":
            given.agents = _ask_agents(head, there)
        elif one == "vault":
            given.vault = _ask_vault(head, vault)
        elif one == "name":
            given.name = _prompt(f"{head} What is your name?", given.name or "")
        elif one == "service":
            given.service = click.confirm(f"{head} Start Ormah when you log in?", default=True)
        else:
            render.out(
                f"{head} Your agents have kept {render.count(files, 'transcript')} of past sessions "
                f"({render.size(size)}). Ormah can archive them on this machine, so that you and your agents find what was said."
            )
            given.past = click.confirm("Archive them?", default=True)
    render.out()
    return given


def _same(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _prompt(question: str, default: str) -> str:
    return str(click.prompt(question, default=default)).strip()


def _ask_agents(head: str, there: Sequence[str]) -> list[str]:
    render.out(f"{head} Agents on this machine: {', '.join(there)}. Their settings files get Ormah's entries.")
    while True:
        said = _prompt("Connect which? (names, all, none)", "all")
        if said == "none":
            return []
        names = list(there) if said == "all" else said.replace(",", " ").split()
        unknown = [name for name in names if name not in agents.AGENTS]
        if not unknown:
            return names
        render.note(f"there is no agent {unknown[0]!r}; there are {', '.join(agents.AGENTS)}")


def _ask_vault(head: str, usual: Path) -> Path | None:
    places: list[tuple[Path, str]] = [(usual, "a folder of its own")]
    for one in obsidian_vaults():
        places += [
            (one / "Ormah", f"a folder in your Obsidian vault {one.name}"),
            (one, "all of it: your notes are found too, and stay as they are"),
        ]
    render.out(f"{head} Where should the memories be kept?")
    for number, (path, what) in enumerate(places, 1):
        render.out(f"  {number}  {render.line(_short(path))}", hang=3)
        render.out(f"     {what}", hang=0)
    while True:
        said = _prompt("A number, or a folder", "1")
        if said.isdecimal():
            if 0 < int(said) <= len(places):
                chosen = places[int(said) - 1][0]
                return None if chosen == usual else chosen
            render.note(f"there are {len(places)} numbers")
            continue
        return Path(os.path.abspath(os.path.expanduser(said)))


def _short(path: Path) -> str:
    home = paths.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


# ---------------------------------------------------------------- acting


def planned(session: Session, chosen: SetupChoices) -> list[SettingsChange]:
    """Return the changes of the agents' settings. Raises before anything is changed if one cannot be edited."""
    socket = entry.socket_option(session.socket_path)
    words = entry.server_command(session.socket_path) if chosen.mcp else None
    return [
        change
        for name in chosen.agents
        for change in connect.plans(agents.AGENTS[name], socket=socket, deadline=chosen.deadline, server=words)
    ]


def carry_out(session: Session, chosen: SetupChoices) -> SetupDone:
    """Do everything that `chosen` asks for, and print each step."""
    done = SetupDone(changes=planned(session, chosen))
    if chosen.vault is not None:
        offline.answer("config", "set", "vault.path", str(chosen.vault))
    running = services.daemon(session)[0] is not None
    if chosen.past:
        offline.answer("config", "set", "sessions.watch", "true")
    for change in done.changes:
        change.make()
    for name in chosen.agents:
        entry.connected(name, {"program": entry.program(session.socket_path)})
    _say_agents(session, done.changes)
    done.service = _start(session, chosen)
    done.vault = services.daemon(session)[1] or ""
    _step(session, "vault", _short(Path(done.vault)))
    _step(session, "daemon", done.service)
    if chosen.name:
        done.name = _name(session, chosen.name)
        _step(session, "you", done.name)
    if chosen.past:
        folders = [str(place) for _, place in paths.transcript_folders()]
        session.client.call("ingest.backfill", BackfillParams(action="start", folders=folders), BackfillResult)
        done.sessions = True
        more = "; sessions that no hook reports are watched from the next start of the daemon" if running else ""
        _step(session, "sessions", f"being archived in the background{more}")
    return done


def _say_agents(session: Session, changes: Sequence[SettingsChange]) -> None:
    for change in changes:
        if not change.changed and change.server == "foreign":
            continue
        what = ", ".join(_entries(change)) if change.changed else "as it was"
        _step(session, change.harness.name, f"{what}  {_short(change.path)}")


def _entries(change: SettingsChange) -> list[str]:
    names = entries(change)
    hooks = [name for name in names if name != "MCP server"]
    return [*([render.count(len(hooks), "hook")] if hooks else []), *(["MCP server"] if "MCP server" in names else [])]


def _start(session: Session, chosen: SetupChoices) -> str:
    """Start the daemon, by the service manager if that was chosen. Return how it runs now."""
    socket = session.socket_path
    if chosen.service:
        changes = units.install(socket)
        for one in changes:
            one.make()
        services.enable(socket, changed=any(one.changed for one in changes))
    started = supervise.start(socket, flag=session.socket)
    session.reconnect()
    how = (
        "runs as a service, and starts when you log in"
        if chosen.service or units.installed()
        else "runs; commands and sessions start it when it is down"
    )
    return f"ormahd {started.hello.version} {how}"


def _name(session: Session, name: str) -> str:
    """Give the self node its name; return the name that it has."""
    _wait_until_ready(session)
    found = session.client.call(
        "agent.list", ListParams(types=["person"], tags=["about_self"], limit=100), ListResult
    ).memories
    if not found or found[-1].title == name:
        return name
    me = found[-1]
    text = f"{name}: the person whose memories these are."
    session.client.call("agent.update", UpdateParams(node_id=me.id, title=name, content=text), WriteResult)
    return name


def _wait_until_ready(session: Session) -> None:
    """Wait until the daemon has loaded its model. It answers before that too, but searches by words alone."""
    until = time.monotonic() + READY_SECONDS
    while time.monotonic() < until:
        hello = supervise.hello(session.socket_path)
        if hello is not None and hello.phase == "ready":
            return
        time.sleep(supervise.READY_POLL_SECONDS)


def _step(session: Session, head: str, text: str) -> None:
    if not session.json:
        render.out(f"{render.paint(render.pad(head, COLUMN), 'bold')}{text}", hang=COLUMN)
        sys.stdout.flush()


# ---------------------------------------------------------------- checking


def check(session: Session, chosen: SetupChoices) -> dict[str, HookAnswer]:
    """Send a prompt through the hook of each chosen agent, and a call through the MCP server. Return {what was checked:
    how it answered}."""
    _wait_until_ready(session)
    found: dict[str, HookAnswer] = {}
    for name in chosen.agents:
        harness = agents.AGENTS[name]
        if harness.events:
            found[f"hook of {name}"] = _check_hook(session, harness)
    words = dict.fromkeys(tuple(words) for name in chosen.agents for words in _servers(agents.AGENTS[name]))
    for one in words:
        found["MCP server"] = standing.ask_server(one)
    return found


def _servers(harness: Harness) -> Iterator[list[str]]:
    _, document = connect.read(harness, harness.server_file())
    found = connect.our_server(document, harness.servers)
    if found is not None:
        yield entry.server_words(found)


def _check_hook(session: Session, harness: Harness) -> HookAnswer:
    """Send a prompt by the hook of the agent's settings, and look in the daemon's log whether it came."""
    _, document = connect.read(harness, harness.target())
    there = connect.ours(document)
    handler = next(there[event][0] for event in standing.PROMPTS if event in there)
    mark = f"{CHECKED}-{harness.name}-{os.getpid()}"
    answer = standing.run_hook(handler, {"prompt": "Is Ormah connected to this agent?", "session_id": mark})
    until = time.monotonic() + HEARD_SECONDS
    while answer.ok and time.monotonic() < until:
        logged = session.client.call("agent.whispers", WhispersParams(limit=20), WhispersResult).whispers
        if any(one.session_id == mark for one in logged):
            return answer
        time.sleep(supervise.POLL_SECONDS)
    return HookAnswer(False, answer.ms, answer.trouble or "ran, and the daemon did not hear of it")


# ---------------------------------------------------------------- the command


def run(session: Session, chosen: SetupChoices, *, dry_run: bool) -> int:
    """Carry out the choices and check them. Return the exit status: 1 if a check failed."""
    if dry_run:
        return _foretell(session, chosen)
    done = carry_out(session, chosen)
    done.checks = check(session, chosen)
    trouble = {what: answer for what, answer in done.checks.items() if not answer.ok}
    if session.json:
        render.emit(_told(done))
        return FAILED if trouble else 0
    for what, answer in done.checks.items():
        how = f"answers in {answer.ms:.0f} ms" if answer.ok else render.paint(answer.trouble or "fails", "red")
        _step(session, "checked", f"{what} {how}")
    for name in chosen.agents:
        warn(agents.AGENTS[name], [one for one in done.changes if one.harness.name == name])
    if ignored := units.left_out(os.environ) if chosen.service else []:
        render.note(
            f"settings of this shell that the service does not have: {', '.join(ignored)}; put them into config.toml"
        )
    render.out()
    for what, names in _afterwards(done.changes).items():
        render.note(what, label=", ".join(names), colour="cyan")
    render.note('try it: ormahctl remember "I prefer metric units." --about-self; then ask an agent how far it is to the moon',
                label="next", colour="cyan")  # fmt: skip
    render.note("ormahctl uninstall takes all of this out again, and never a memory", label="undo", colour="cyan")
    return FAILED if trouble else 0


def _afterwards(changes: Sequence[SettingsChange]) -> dict[str, list[str]]:
    """Return {what the person has to do after these changes: names of the agents that need it}."""
    found: dict[str, list[str]] = {}
    for harness in dict.fromkeys(change.harness for change in changes if change.changed):
        found.setdefault(harness.after, []).append(harness.name)
    return found


def _foretell(session: Session, chosen: SetupChoices) -> int:
    """Print what `run` would change, without changing anything. Return the exit status 0."""
    changes = planned(session, chosen)
    vault = chosen.vault or vault_now(session)[0]
    if session.json:
        rows = [services.told(change, dry_run=True) for change in changes]
        render.emit(
            {
                "dry_run": True,
                "vault": str(vault),
                "agents": rows,
                "service": chosen.service,
                "name": chosen.name,
                "sessions": chosen.past,
            }
        )
        return 0
    for change in changes:
        if change.changed:
            services.show(change, sys.stdout)
    if chosen.service:
        for one in units.install(session.socket_path):
            if one.changed:
                services.show(one, sys.stdout)
    _step(session, "vault", _short(vault))
    _step(session, "daemon", "would be started" + (", and with each login" if chosen.service else ""))
    if chosen.name:
        _step(session, "you", chosen.name)
    if chosen.past:
        _step(session, "sessions", "past ones would be archived, and later ones watched")
    return 0


def _told(done: SetupDone) -> dict[str, Any]:
    """Return `done` as a dict for JSON output."""
    return {
        "vault": done.vault,
        "agents": [services.told(change) for change in done.changes],
        "daemon": done.service,
        "name": done.name,
        "sessions": done.sessions,
        "checks": [
            {"what": what, "ok": one.ok, "ms": round(one.ms, 1), "trouble": one.trouble}
            for what, one in done.checks.items()
        ],
    }


def agents_of(text: str) -> list[str]:
    """Return the agents that the option `--agents` names.

    Raises:
        BadRequest: one of them does not exist.
    """
    if text in {"all", "none"}:
        return found_agents() if text == "all" else []
    names = [name for name in text.replace(",", " ").split() if name]
    for name in names:
        if name not in agents.AGENTS:
            raise BadRequest(f"there is no agent {name!r}", hint=f"there are {', '.join(agents.AGENTS)}; or: all, none")
    return names
