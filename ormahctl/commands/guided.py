"""The guided set-up, `ormahctl setup` without an agent: at most six questions, then every step, checked at the end.

`choose` asks, and changes nothing. `carry_out` acts: settings, agents, service, name, past sessions. `check` runs a hook
and the MCP server as agents do.
"""

from __future__ import annotations

import getpass
import json
import os
import pwd
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click

from ormahctl import managers, offline, render, supervise
from ormahctl.commands import service as services
from ormahctl.commands.service import short_path
from ormahctl.commands.setup import change_fields, entry_names, print_snippet, warn_of_obstacles
from ormahctl.commands.sources import add_source
from ormahctl.obsidian import find_obsidian_vaults
from ormahctl.session import Session
from ormahctl.setup import change as entry
from ormahctl.setup import connect, connections
from ormahctl.setup import harness as agents
from ormahctl.setup import service as units
from ormahctl.setup.connect import SettingsChange
from ormahctl.setup.connections import HookAnswer
from ormahctl.setup.harness import HARNESSES, Agent, Harness
from ormahctl.times import locale_language
from ormahd import api, paths
from ormahd.rpc.wire import BadRequest, Conflict

READERS: Final = {"claude-code": "claude", "codex": "codex", "gemini": "gemini"}
"""{agent: its program, as the setting `judge.command` names it}."""
SESSION_TOKENS: Final = 5_000
"""Tokens that reading a session of usual length costs: its text, the instructions, the answer."""
READY_SECONDS: Final = 120.0
"""Seconds to wait until the daemon has loaded its model."""
FAILED: Final = 1
COLUMN: Final = 15
"""Columns of what a line of the report is about."""


@dataclass
class SetupChoices:
    """What a person chose; the defaults where nothing was asked."""

    agents: list[str]
    vault: Path | None
    """The folder for the vault; None: as configured."""
    sources: dict[Path, str]
    """Folder of notes to find in place -> its space; empty: its default."""
    name: str | None
    """The name for the self node; None: as it is."""
    service: bool
    past: bool
    """Whether to archive past sessions, and to watch for those that no hook reports."""
    deadline: int
    reader: str | None = None
    """The agent that reads finished sessions for memories, which only a person at a terminal can choose; None: as
    configured."""


@dataclass
class SetupDone:
    """What the set-up changed, for its report."""

    vault: str = ""
    changes: list[SettingsChange] = field(default_factory=list)
    pasted: list[Agent] = field(default_factory=list)
    """Agents to whose settings the person adds the MCP server."""
    service: str = ""
    checks: dict[str, HookAnswer] = field(default_factory=dict)


# ---------------------------------------------------------------- what there is


def own_name() -> str:
    """Return the person's name: from git's global configuration, else from the account."""
    done = subprocess.run(["git", "config", "--global", "user.name"], capture_output=True, text=True, check=False)
    full = pwd.getpwuid(os.getuid()).pw_gecos.partition(",")[0]
    return done.stdout.strip() or full.strip() or getpass.getuser()


def transcript_totals() -> tuple[int, int]:
    """Return the number of transcripts that agents keep on this machine, and their size in bytes."""
    sizes = [
        file.stat().st_size
        for _, folder in paths.transcript_folders()
        if folder.is_dir()
        for file in folder.rglob("*.json*")
        if file.is_file()
    ]
    return len(sizes), sum(sizes)


def named_agents(text: str) -> list[str]:
    """Return the agents in `text`: names separated by commas or blanks. `all` stands for the agents that are found
    on this machine, `none` for no agent.

    Raises:
        BadRequest: a name is unknown.
    """
    if text in {"all", "none"}:
        return [agent.name for agent in agents.AGENTS.values() if agent.found()] if text == "all" else []
    names = text.replace(",", " ").split()
    for name in names:
        if name not in agents.AGENTS:
            raise BadRequest(f"there is no agent {name!r}", hint=f"there are {', '.join(agents.AGENTS)}; or: all, none")
    return names


# ---------------------------------------------------------------- questions


def choose(session: Session, answers: Mapping[str, Any], *, asks: bool, deadline: int) -> SetupChoices:
    """Return what to set up. An option in `answers` decides its question. The other questions are put to the person
    if `asks` is set, and otherwise get their defaults. `deadline`: milliseconds after which a hook gives up.

    Raises:
        Conflict: an option names another folder than that of the existing vault.
        BadRequest: an option names an unknown agent.
    """
    # what is on this machine; these are also the defaults of the questions
    found = named_agents("all")
    vault, settled = services.current_vault(session)
    files, size = transcript_totals()
    can_serve = managers.state() == "answers" and not units.installed()

    # options and defaults; the answers below replace the latter
    given = SetupChoices(
        agents=named_agents(answers.get("agents", "all")),
        vault=answers["vault"].expanduser().absolute() if "vault" in answers else None,
        sources=dict.fromkeys(answers.get("source", ()), ""),
        name=answers.get("name", None if settled else own_name()),
        service=answers.get("service", can_serve),
        past=answers.get("past", files > 0),
        deadline=deadline,
    )
    if given.vault is not None and settled and os.path.realpath(given.vault) != os.path.realpath(vault):
        raise Conflict(
            f"there is a vault already: {vault}",
            hint=f"to use the other one from now on: ormahctl config set vault.path {given.vault}",
        )

    # which questions remain: what no option decided, where there is something to choose
    offered = [folder for folder in find_obsidian_vaults() if folder not in paths.configured_sources()] if asks else []
    settings = json.loads(offline.answer("config", "show", "--json"))["settings"] if asks else {}
    without_judge = asks and settings["jobs.judge"]["value"] == "none"
    readers = [name for name in found if without_judge and name in READERS and shutil.which(READERS[name])]
    wanted = {
        "agents": bool(found),
        "vault": not settled,
        "source": bool(offered),
        "service": can_serve,
        "past": files > 0,
        "reader": bool(readers),
    }
    open_questions = [name for name, is_open in wanted.items() if is_open and name not in answers] if asks else []
    if open_questions:
        count = render.count(len(open_questions), "question")
        render.out(f"{render.paint('Setting up Ormah.', 'bold')} {count}; Enter takes what is in brackets.")

    # ask them, each with its number
    for number, topic in enumerate(open_questions, 1):
        render.out()
        head = render.paint(f"{number}/{len(open_questions)}", "dim")
        if topic == "agents":
            given.agents = _ask_agents(head, found)
        elif topic == "vault":
            render.out(f"{head} Where should the memories be kept? The folder becomes a git repository of its own.")
            chosen = Path(os.path.abspath(os.path.expanduser(_prompt("A folder", short_path(vault)))))
            given.vault = None if chosen == vault else chosen
        elif topic == "source":
            render.out(
                f"{head} You have notes in Obsidian. Ormah can find them in place: they are found, shown and whispered, in the "
                "space that you name, and never written."
            )
            for folder in offered:
                if folder not in (given.vault or vault).parents:
                    question = f"A space for {short_path(folder)} (a name; global: every project; no: leave it)"
                    space = _prompt(question, folder.name)
                    given.sources |= {} if space.casefold() in {"no", "n", "none"} else {folder: space}
        elif topic == "service":
            given.service = click.confirm(f"{head} Start Ormah when you log in?", default=True)
        elif topic == "reader":
            agent = next((name for name in readers if name in given.agents), readers[0])
            if click.confirm(
                f"{head} May {HARNESSES[agent].title} read finished sessions for memories, and judge what contradicts? It takes "
                f"about {SESSION_TOKENS:,} tokens a session, at most {settings['judge.tokens_a_day']['value']:,} a day",
                default=True,
            ):
                given.reader = agent
        else:
            render.out(
                f"{head} Your agents have kept {render.count(files, 'transcript')} of past sessions "
                f"({render.size(size)}). Ormah can archive them on this machine, so that you and your agents find what was said."
            )
            given.past = click.confirm("Archive them?", default=True)
    if asks:
        render.out()
    return given


def _prompt(question: str, default: str) -> str:
    """Ask a question on the terminal, and return the answer without surrounding blanks. `default`: the answer for
    Enter."""
    return str(click.prompt(question, default=default)).strip()


def _ask_agents(head: str, names: Sequence[str]) -> list[str]:
    """Ask which agents to connect until the answer is valid, and return their names. `head`: the question's number,
    to be printed before it. `names`: the agents that are found."""
    render.out(f"{head} Agents on this machine: {', '.join(names)}. Their settings get Ormah's entries.")
    while True:
        try:
            return named_agents(_prompt("Connect which? (names, all, none)", "all"))
        except BadRequest as exc:
            render.note(f"{exc.message}; {exc.hint}")


# ---------------------------------------------------------------- acting


def plan_changes(session: Session, chosen: SetupChoices) -> list[SettingsChange]:
    """Return the planned changes of the settings files of the chosen agents that have hooks.

    Raises:
        InvalidSettings: a settings file cannot be parsed.
        Conflict: a settings file cannot be edited.
    """
    socket = entry.socket_option(session.socket_path)
    words = entry.server_command(session.socket_path)
    return [
        change
        for name in chosen.agents
        if name in HARNESSES
        for change in connect.plan(HARNESSES[name], socket=socket, deadline=chosen.deadline, server=words)
    ]


def carry_out(session: Session, chosen: SetupChoices) -> SetupDone:
    """Set up everything that was chosen, and print each step. Return what was changed; its `checks` are still empty."""
    done = SetupDone(changes=plan_changes(session, chosen))

    # settings, before the daemon is started with them
    if chosen.vault is not None:
        offline.answer("config", "set", "vault.path", str(chosen.vault))
    was_running = services.daemon_status(session)[0] is not None
    if chosen.past:
        offline.answer("config", "set", "sessions.watch", "true")
    if chosen.reader:
        offline.answer("config", "set", "jobs.judge", "command")
        offline.answer("config", "set", "judge.command", READERS[chosen.reader])
        title = HARNESSES[chosen.reader].title
        _print_step(session, "reader", f"{title} reads finished sessions; `ormahctl status` shows what it cost")

    # harnesses, by their settings files
    for change in done.changes:
        change.make()
        if change.changed or change.server != "foreign":
            names = entry_names(change)
            hook_count = len(names) - ("MCP server" in names)
            what = [render.count(hook_count, "hook")] if hook_count else []
            what += ["MCP server"] if "MCP server" in names else []
            _print_step(session, change.harness.name, f"{', '.join(what) or 'as it was'}  {short_path(change.path)}")

    # other agents, by their own command or by the person
    words = entry.server_command(session.socket_path)
    for agent in (agents.AGENTS[name] for name in chosen.agents):
        if isinstance(agent, Harness):
            entry.store_program(agent.name, entry.program(session.socket_path))
        elif connections.agent_status(agent, socket=None, server=words).state == "yes":
            _print_step(session, agent.name, f"as it was  {short_path(agent.server_file())}")
        elif agents.add_server(agent, words):
            _print_step(session, agent.name, f"MCP server  {short_path(agent.server_file())}")
        else:
            done.pasted.append(agent)

    # the daemon, and what needs it: sources, name, past sessions
    done.service = _start_daemon(session, chosen)
    done.vault = services.daemon_status(session)[1] or ""
    _print_step(session, "vault", short_path(Path(done.vault)))
    _print_step(session, "daemon", done.service)
    for folder, space in chosen.sources.items():
        try:
            made, _ = add_source(session, str(folder), space)
            _print_step(session, "source", f"{short_path(folder)}, space {made['space'] or 'global'}")
        except BadRequest as exc:
            render.note(f"{short_path(folder)} is no source: {exc.message}")
    if chosen.name:
        _name_self_node(session, chosen.name)
        _print_step(session, "you", chosen.name)
    if chosen.past:
        folders = [str(place) for _, place in paths.transcript_folders()]
        session.client.call("ingest.backfill", api.BackfillParams(action="start", folders=folders), api.BackfillResult)
        _print_step(session, "sessions", "being archived in the background")
    if was_running and (chosen.past or chosen.reader):
        _print_step(session, "settings", "taken up by the daemon that runs after: ormahctl restart")
    return done


def _start_daemon(session: Session, chosen: SetupChoices) -> str:
    """Start the daemon, as a service if that was chosen. Return a sentence about how it runs, with its version."""
    socket = session.socket_path
    if chosen.service:
        changes = units.install(socket)
        for unit in changes:
            unit.make()
        services.enable(socket, changed=any(unit.changed for unit in changes))
    started = supervise.start(socket, flag=session.socket)
    session.reconnect()
    how = "runs; commands and sessions start it when it is down"
    if chosen.service or units.installed():
        how = "runs as a service, and starts when you log in"
    return f"ormahd {started.hello.version} {how}"


def _name_self_node(session: Session, name: str) -> None:
    """Set the title and the text of the self node to the person's name, unless it has that title already."""
    _wait_until_ready(session)
    persons = api.ListParams(types=["person"], tags=["about_self"], limit=100)
    found = session.client.call("agent.list", persons, api.ListResult).memories
    if found and found[-1].title != name:
        text = f"{name}: the person whose memories these are."
        params = api.UpdateParams(node_id=found[-1].id, title=name, content=text)
        session.client.call("agent.update", params, api.WriteResult)


def _wait_until_ready(session: Session) -> None:
    """Wait up to `READY_SECONDS` until the daemon has loaded its model. Before that, it answers but searches by
    words alone."""
    until = time.monotonic() + READY_SECONDS
    while time.monotonic() < until:
        hello = supervise.hello(session.socket_path)
        if hello is not None and hello.phase == "ready":
            return
        time.sleep(supervise.READY_POLL_SECONDS)


def _print_step(session: Session, head: str, text: str) -> None:
    """Print one line of the report: a heading and a text. Prints nothing with `--json`."""
    if not session.json:
        render.out(f"{render.paint(render.pad(head, COLUMN), 'bold')}{text}", hang=COLUMN)
        sys.stdout.flush()


# ---------------------------------------------------------------- checking


def check(session: Session, chosen: SetupChoices) -> dict[str, HookAnswer]:
    """Send a prompt through the hook of each chosen agent, and a call through the MCP server. Return `{what was
    checked: how it answered}`, such as `hook of codex` or `MCP server`."""
    _wait_until_ready(session)
    found = {f"hook of {name}": _check_hook(HARNESSES[name]) for name in chosen.agents if name in HARNESSES}
    if chosen.agents:
        found["MCP server"] = connections.ask_server(entry.server_command(session.socket_path))
    return found


def _check_hook(harness: Harness) -> HookAnswer:
    """Run the agent's prompt hook as its settings have it, and return how it answered. A hook that prints nothing
    has failed, because the daemon then did not get the prompt."""
    hooks, _ = connections.entries(harness)
    answer = connections.ask_hook(next(hooks[event][0] for event in connections.PROMPTS if event in hooks))
    if answer.ok and answer.output:
        return answer
    return HookAnswer(False, answer.ms, answer.trouble or "ran, and the daemon did not hear of it")


# ---------------------------------------------------------------- the command


def run(session: Session, chosen: SetupChoices, *, dry_run: bool) -> int:
    """Carry out the choices, check the result, and print a report. Return the exit status: `FAILED` if a check
    failed. With `dry_run`, only print what would be changed."""
    if dry_run:
        return _print_plan(session, chosen)
    done = carry_out(session, chosen)
    done.checks = check(session, chosen)
    status = FAILED if any(not answer.ok for answer in done.checks.values()) else 0
    words = entry.server_command(session.socket_path)

    # report as JSON
    if session.json:
        checks = [
            {"what": what, "ok": answer.ok, "ms": round(answer.ms, 1), "trouble": answer.trouble}
            for what, answer in done.checks.items()
        ]
        rows = [change_fields(change) for change in done.changes]
        found = {"vault": done.vault, "agents": rows, "daemon": done.service, "name": chosen.name}
        pasted = {agent.name: agent.snippet(words) for agent in done.pasted}
        render.emit(found | {"sessions": chosen.past, "reader": chosen.reader, "checks": checks, "to_paste": pasted})
        return status

    # report for a person: the checks, and what hinders agents
    for what, answer in done.checks.items():
        how = f"answers in {answer.ms:.0f} ms" if answer.ok else render.paint(answer.trouble or "fails", "red")
        _print_step(session, "checked", f"{what} {how}")
    for name in chosen.agents:
        if name in HARNESSES:
            warn_of_obstacles(HARNESSES[name], [change for change in done.changes if change.harness.name == name])
    if chosen.service:
        services.warn_of_shell()
    render.out()
    for agent in done.pasted:
        print_snippet(agent, words)

    # what the person does next; agents with the same sentence share a line
    afterwards: dict[str, list[str]] = {}
    for harness in dict.fromkeys(change.harness for change in done.changes if change.changed):
        afterwards.setdefault(harness.after, []).append(harness.name)
    for what, names in afterwards.items():
        render.note(what, label=", ".join(names), colour="cyan")
    trial = 'ormahctl remember "I am allergic to peanuts." --about-self'
    trial = f'try it: {trial}; then: ormahctl whisper "what am I allergic to?"'
    render.note(trial, label="next")
    if (language := locale_language("LC_MESSAGES")) != "en":
        other = "To find memories by meaning in a hundred languages (80 MB, slower): ormahctl model use multilingual"
        text = f"the usual model reads English, your system speaks {language}. {other}"
        render.note(text, label="languages")
    render.note("ormahctl uninstall takes all of this out again, and never a memory", label="undo")
    return status


def _print_plan(session: Session, chosen: SetupChoices) -> int:
    """Print what `run` would change, without changing anything. Return 0, the exit status."""
    changes = plan_changes(session, chosen)
    vault = chosen.vault or services.current_vault(session)[0]
    if session.json:
        rows = [change_fields(change, dry_run=True) for change in changes]
        found = {"dry_run": True, "vault": str(vault), "agents": rows, "service": chosen.service}
        render.emit(found | {"name": chosen.name, "sessions": chosen.past})
        return 0
    for change in [*changes, *(units.install(session.socket_path) if chosen.service else [])]:
        if change.changed:
            services.print_diff(change, sys.stdout)
    _print_step(session, "vault", short_path(vault))
    _print_step(session, "daemon", "would be started" + (", and with each login" if chosen.service else ""))
    for folder in chosen.sources:
        _print_step(session, "source", short_path(folder))
    if chosen.name:
        _print_step(session, "you", chosen.name)
    if chosen.past:
        _print_step(session, "sessions", "past ones would be archived, and later ones watched")
    return 0
