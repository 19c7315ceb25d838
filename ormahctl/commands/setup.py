"""`ormahctl setup` and `uninstall`: connect agents by hooks and the MCP server in their settings, or remove these again.

`setup AGENT` also offers a paragraph about Ormah for the file that the agent reads (CLAUDE.md, AGENTS.md, GEMINI.md).
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from ormahctl import managers, render
from ormahctl.commands import service
from ormahctl.commands.service import DECLINED, SERVICE, agreed, current_vault, daemon_status, diff, short_path
from ormahctl.options import NamedFolder, OneOf, typed
from ormahctl.registry import Verb
from ormahctl.session import Session, interactive, pass_session
from ormahctl.setup import change as entry
from ormahctl.setup import connect, connections, paragraph
from ormahctl.setup import harness as agents
from ormahctl.setup import service as units
from ormahctl.setup.connect import SettingsChange
from ormahctl.setup.connections import AgentStatus
from ormahctl.setup.harness import HARNESSES, Agent, Harness
from ormahctl.setup.paragraph import Paragraph

DIR = NamedFolder(file_okay=False, path_type=Path)
DEADLINE, DEADLINE_HELP = click.IntRange(50, 10_000), "Milliseconds after which a hook gives up."
GUIDED = ("--agents", "--vault", "--source", "--name", "--service", "--past")
"""Options that answer a question of the guided set-up."""
_KEPT_PARAGRAPHS = {
    "edited": "its paragraph about Ormah was edited, so it was left alone; take it out to have a new one",
    "removed": "its paragraph about Ormah was taken out, so it stays out; `ormahctl uninstall` and `setup` put it back",
    "unreadable": "it is no text in UTF-8, so nothing was added",
}


@click.command(
    cls=Verb,
    short_help="Set Ormah up, connect an agent, or show what is connected.",
    example="ormahctl setup\normahctl setup --yes --agents claude-code,codex --no-past\normahctl setup claude-code --dry-run\normahctl setup codex --yes\normahctl setup service",
    excludes=[("--list", "--dry-run", "--yes", *GUIDED, "--deadline", "--no-instructions")],
)
@click.argument("agent", metavar="[AGENT]", required=False, type=OneOf([*agents.AGENTS, SERVICE]))
@click.option(
    "--list", "looks", is_flag=True, help="Only show which agents are connected, and whether their hooks answer."
)
@click.option("--dry-run", is_flag=True, help="Show what would be changed, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask: all agents found, the usual vault, no source.")
@click.option(
    "--agents", metavar="NAMES", help="Guided: connect these, with commas between; all: those on this machine; none."
)
@click.option("--vault", metavar="DIR", type=DIR, help="Guided: the folder for the memories.")
@click.option(
    "--source", metavar="DIR", multiple=True, type=DIR, help="Guided: a folder of notes to find in place. Repeatable."
)
@click.option("--name", metavar="NAME", help="Guided: your name.")
@click.option("--service/--no-service", default=None, help="Guided: start the daemon at login; or not.")
@click.option("--past/--no-past", default=None, help="Guided: archive past sessions, and watch for later ones; or not.")
@click.option("--deadline", metavar="MS", type=DEADLINE, default=500, show_default=True, help=DEADLINE_HELP)
@click.option("--no-instructions", is_flag=True, help="With AGENT: leave the agent's instructions file alone.")
@pass_session
def setup(
    session: Session,
    /,
    agent: str | None,
    looks: bool,
    dry_run: bool,
    yes: bool,
    deadline: int,
    no_instructions: bool,
    **guided: Any,
) -> int:
    """Set Ormah up: without AGENT, on a terminal, in six questions at most; with AGENT, connect this one agent.

    The guided set-up connects your agents, chooses the vault, offers your Obsidian vaults as sources, starts the
    daemon, archives past sessions, and checks that agents get answers. An option answers its question; --yes answers all
    others with their defaults.

    AGENT is claude-code, codex, gemini, cursor, opencode, claude-desktop or vscode. The first three get hooks, which
    whisper memories into prompts, and the MCP server; the others get the server alone. A paragraph for CLAUDE.md,
    AGENTS.md or GEMINI.md is offered too. AGENT may also be `service`: then systemd or launchd starts the daemon when you
    log in.

    Changes are shown first, and you are asked. The rest of a settings file stays as it is, byte for byte. `ormahctl
    uninstall` takes everything out again, and never a memory. With neither AGENT nor options, and no terminal, it
    does the same as --list.
    """
    # check how the options fit together
    answers = {name: value for name, value in guided.items() if value not in (None, ())}
    if looks and agent is not None:
        raise click.UsageError(f"--list shows all agents, and takes none: leave {agent} out")
    if agent is not None and answers:
        first = min(answers)
        raise click.UsageError(f"--{first} is for the set-up without AGENT; there --agents {agent} names it")
    if (no_instructions or (agent is not None and typed("deadline"))) and agent not in HARNESSES:
        option = "--no-instructions" if no_instructions else "--deadline"
        raise click.UsageError(f"{option} is for one agent with hooks: {', '.join(HARNESSES)}")

    # without an agent: show the state, or the guided set-up
    if agent is None:
        if looks or not (yes or dry_run or answers or typed("deadline") or (interactive() and not session.json)):
            _print_agents(session)
            return 0
        from ormahctl.commands import guided as steps

        if not (yes or dry_run or interactive()):
            raise click.UsageError("there is no terminal to ask on: give --yes")
        chosen = steps.choose(session, answers, asks=not (yes or dry_run), deadline=deadline)
        return steps.run(session, chosen, dry_run=dry_run)
    if agent == SERVICE:
        return service.install(session, dry_run=dry_run, yes=yes)
    if agent not in HARNESSES:
        return _add_server(session, agent, dry_run=dry_run, yes=yes)
    return _connect(session, HARNESSES[agent], deadline, dry_run=dry_run, yes=yes, instructions=not no_instructions)


def _connect(session: Session, harness: Harness, deadline: int, *, dry_run: bool, yes: bool, instructions: bool) -> int:
    """Connect a harness: show the changes of its settings, and make them if the person agrees. Then offer the
    paragraph for its instructions file, if `instructions` is set. Return the exit status.

    `deadline`: milliseconds after which a hook gives up. `dry_run`: only show the changes. `yes`: do not ask.
    """
    words = entry.server_command(session.socket_path)
    changes = connect.plan(harness, socket=entry.socket_option(session.socket_path), deadline=deadline, server=words)
    text = None
    if instructions:
        text = paragraph.plan(harness.name, harness.instructions(), entry.program(session.socket_path))
    if not agreed([*changes, *([text] if text and dry_run else [])], dry_run=dry_run, yes=yes, quiet=session.json):
        if not dry_run:
            return DECLINED
    else:
        for change in changes:
            change.make()
        entry.store_program(harness.name, entry.program(session.socket_path))
        if not session.json:
            _print_connected(session, harness, changes)
        if text is not None:
            _offer_paragraph(session, harness, text, yes=yes)
    if session.json:
        others = [change_fields(change, dry_run=dry_run) for change in changes[1:]]
        about = text and {"file": str(text.path), "changed": text.changed, "state": text.state}
        if about and text and dry_run:
            about["diff"] = "\n".join(diff(text))
        render.emit(change_fields(changes[0], dry_run=dry_run) | {"others": others, "instructions": about})
    return 0


def change_fields(change: SettingsChange, *, dry_run: bool = False) -> dict[str, Any]:
    """Return a change of a settings file as a map for JSON output. For a dry run it has the diff too."""
    fields = {"agent": change.harness.name, "file": str(change.path)}
    fields |= {name: getattr(change, name) for name in ("changed", "added", "replaced", "removed", "server")}
    return fields | ({"dry_run": True, "diff": "\n".join(diff(change))} if dry_run else {})


def _offer_paragraph(session: Session, harness: Harness, change: Paragraph, *, yes: bool) -> None:
    """Ask whether to write `change`, the paragraph about Ormah, into an instructions file, and write it if the
    person agrees. With `yes`, do not ask. Without a terminal and `yes`, print a hint instead."""
    if change.changed and not (yes or interactive()):
        if not session.json:
            words = f"ormahctl setup {shlex.quote(harness.name)} --yes"
            render.note(f"to have {change.path.name} tell the agent how to use its memory: {words}", label="hint")
        return
    question = f"Have {change.path.name} tell the agent how to use its memory?"
    if change.state in _KEPT_PARAGRAPHS:
        if not session.json:
            render.note(_KEPT_PARAGRAPHS[change.state], label=str(change.path))
    elif agreed([change], dry_run=False, yes=yes, quiet=session.json, question=question):
        change.make()
        if not session.json and change.changed:
            render.out(f"{change.state} a paragraph about Ormah  {render.line(str(change.path))}")
            sys.stdout.flush()


def _print_connected(session: Session, harness: Harness, changes: Sequence[SettingsChange]) -> None:
    """Print which entries were added or renewed in a harness's settings files, what the person has to do next, and
    what keeps the hooks from working."""
    title = render.paint(harness.title, "bold")
    changed = [change for change in changes if change.changed]
    if not changed:
        render.out(f"{harness.title} is connected already  {render.line(str(changes[0].path))}")
    for change in changed:
        renewed = change.replaced or change.server == "renewed"
        render.out(f"{'renewed' if renewed else 'connected'} {title}  {render.line(str(change.path))}")
        render.out(f"  {', '.join(entry_names(change))}")
    sys.stdout.flush()
    if changed:
        render.note(harness.after, label="next")
    warn_of_obstacles(harness, changes)
    if harness.found() is None:
        render.note(f"{harness.title} ({harness.program}) was not found on this machine")
    phase, _, mend = daemon_status(session)
    if phase is None:
        render.note(mend or "the daemon does not run; a session that begins starts it, or now: ormahctl up")


def entry_names(change: SettingsChange) -> list[str]:
    """Return the names of the entries that a change adds, renews or removes: events that have hooks, and `MCP
    server`."""
    hooks = [*change.added, *change.replaced, *change.removed]
    return [*hooks, *(["MCP server"] if change.server in {"added", "renewed", "removed"} else [])]


def warn_of_obstacles(harness: Harness, changes: Sequence[SettingsChange]) -> None:
    """Print what keeps the agent from using Ormah's entries: another MCP server of the same name, or hooks that are
    switched off."""
    for change in changes:
        path = render.line(str(change.path))
        if change.server == "foreign":
            render.note(
                f"{path} has another MCP server named ormah, which was left alone; take it out to have this one"
            )
    if (off := harness.off()) is not None:
        render.note(f"{harness.title} runs no hooks: {off}")


def _add_server(session: Session, name: str, *, dry_run: bool, yes: bool) -> int:
    """Add the MCP server to an agent without hooks by that agent's own command, if the person agrees. If it has no
    such command, print what to paste into its settings. Return the exit status."""
    agent = agents.AGENTS[name]
    words = entry.server_command(session.socket_path)
    status = connections.agent_status(agent, socket=None, server=words)
    command = agent.adding(words)
    asks = command is not None and status.state != "yes" and not (dry_run or yes)
    if asks and not interactive():
        raise click.UsageError(f"this runs {shlex.join(command or [])}: give --yes")
    if asks and not click.confirm(f"Run {shlex.join(command or [])}?", err=True):
        return DECLINED
    added = status.state != "yes" and not dry_run and agents.add_server(agent, words)
    if session.json:
        about = {"agent": name, "file": str(agent.server_file()), "changed": added, "connected": status.state == "yes"}
        render.emit(about | {"command": command, "snippet": agent.snippet(words)})
    elif status.state == "yes":
        render.out(f"{agent.title} is connected already  {render.line(str(agent.server_file()))}")
    elif added:
        render.out(f"connected {render.paint(agent.title, 'bold')}  by {shlex.join((command or [])[:3])} …")
        render.note(agent.after, label="next")
    else:
        print_snippet(agent, words)
    return 0


def print_snippet(agent: Agent, words: Sequence[str]) -> None:
    """Print the entry that a person adds to an agent's settings, and the file to add it to. `words`: the command of
    the MCP server."""
    render.out(f"add this to {render.line(str(agent.server_file()))}, then {agent.after}:")
    render.out(agent.snippet(words))
    render.note("`ormahctl setup --list` and `ormahctl doctor` see whether it is there", label="hint")


# ---------------------------------------------------------------- looking


def _print_agents(session: Session) -> None:
    """Print a table of all agents, with how each is connected and whether its hook answers. Below it, print the
    state of the daemon and the service, and what is wrong."""
    socket, server = entry.socket_option(session.socket_path), entry.server_command(session.socket_path)
    statuses = [connections.agent_status(agent, socket=socket, server=server) for agent in agents.AGENTS.values()]
    phase, vault, trouble = daemon_status(session)

    # as JSON
    if session.json:
        found = []
        for status in statuses:
            answer = status.answer
            reply = answer and {"ok": answer.ok, "ms": round(answer.ms, 1), "trouble": answer.trouble}
            fields: dict[str, Any] = {"agent": status.agent.name, "found": status.found}
            fields |= {"connected": status.state in {"yes", "outdated"}, "state": status.state}
            fields |= {"file": str(status.file), "events": status.events, "server": status.server}
            found.append(fields | {"trouble": status.trouble, "mend": status.mend, "answer": reply})
        daemon_state = {"phase": phase, "vault": vault, "socket": str(session.socket_path), "trouble": trouble}
        render.emit({"agents": found, "daemon": daemon_state, "service": units.installed()})
        return

    # as a table
    rows = []
    for status in statuses:
        state = "cannot be read" if status.state == "unreadable" else status.state
        tools = "another's" if status.server == "foreign" else status.server
        row = [status.agent.name, "yes" if status.found else "no", state, _answer_text(status), tools]
        rows.append([*row, short_path(status.file)])
    render.table(["agent", "found", "connected", "hook", "tools", "file"], rows)

    # daemon and service
    if phase is None:
        how = f"{render.paint('does not run', 'yellow')}  {render.line(trouble or 'start it: ormahctl up')}"
    else:
        how = f"{render.paint(phase, 'green' if phase == 'ready' else 'yellow')}  {render.line(vault or '')}"
    render.out(f"daemon  {how}")
    service_state = "not installed; to have the daemon from login on: ormahctl setup service"
    if managers.state() == "none":
        service_state = "none on this machine; commands and sessions start the daemon"
    render.out(f"service {'starts the daemon when you log in' if units.installed() else service_state}")
    sys.stdout.flush()
    for status in statuses:
        if status.trouble:
            render.note(status.trouble + (f" ({status.mend})" if status.mend else ""), label=status.agent.name)
        elif status.state == "outdated":
            what = "its entries are of another installation or other settings; renew them"
            render.note(f"{what}: {status.mend}", label=status.agent.name)
        if status.answer is not None and not status.answer.ok:
            render.note(f"its hook {status.answer.trouble}", label=status.agent.name)

    # an agent that could be connected
    ready = next((status.agent.name for status in statuses if status.state == "no" and status.found), None)
    if ready is not None:
        render.note(f"to connect one: ormahctl setup {ready}", label="hint")


def _answer_text(status: AgentStatus) -> str:
    """Return how an agent's hook answered, in a word with the milliseconds: `ok`; `runs` if no daemon answered the
    hook; `fails`; `-` if there is no hook."""
    if status.answer is None:
        return "-"
    if not status.answer.ok:
        return "fails"
    return f"{'ok' if status.answer.output else 'runs'}, {status.answer.ms:.0f} ms"


# ---------------------------------------------------------------- uninstall


@click.command(
    cls=Verb,
    short_help="Remove Ormah's entries from the agents' settings.",
    example="ormahctl uninstall --dry-run\normahctl uninstall codex",
)
@click.argument("agent", metavar="[AGENT]", required=False, type=OneOf([*agents.AGENTS, SERVICE]))
@click.option("--dry-run", is_flag=True, help="Show what would be changed, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_session
def uninstall(session: Session, agent: str | None, dry_run: bool, yes: bool) -> int:
    """Remove what `ormahctl setup` added to the settings of AGENT, or of all agents and the service.

    AGENT may be `service`. A file that was not changed since gets its old content, byte for byte. Entries that an agent
    added by its own command, or that you pasted, are named, and you take them out. The vault and the configuration stay.
    """
    if agent == SERVICE:
        return service.uninstall(session, dry_run=dry_run, yes=yes)

    # plan: service, settings of harnesses, paragraphs; other agents are only named
    units, edited = service.plan_removal() if agent is None else ([], [])
    chosen = [agents.AGENTS[agent]] if agent else list(agents.AGENTS.values())
    changes = [
        change for program in chosen if isinstance(program, agents.Harness) for change in connect.disconnect(program)
    ]
    texts = [paragraph.removal(program.name) for program in chosen]
    paragraphs = [change for found, _ in texts for change in found]
    connected = [name for name in connections.connected() if name not in HARNESSES and agents.AGENTS[name] in chosen]
    # only Ormah's entries are removed, and setup adds them again; so a person is asked about all agents, a script is not
    sure = yes or agent is not None or not interactive()
    if agreed([*changes, *paragraphs, *units], dry_run=dry_run, yes=sure, quiet=session.json):
        if units:
            service.remove(units)
        entry.make_restores([*changes, *paragraphs])
        for program in chosen:
            entry.store_program(program.name, None)
    elif not dry_run:
        return DECLINED

    # report as JSON
    vault, _ = current_vault(session)
    removed = [change.path for change in paragraphs if change.changed]
    if session.json:
        rows = [change_fields(change, dry_run=dry_run) for change in changes]
        more = {"vault": str(vault), "instructions": [str(path) for path in removed], "left": connected}
        if agent is None:
            render.emit({"agents": rows} | more)
        else:
            none = {"agent": agent, "changed": False, "added": [], "replaced": [], "removed": []}
            render.emit((rows[0] if rows else none) | {"others": rows[1:]} | more)
        return 0
    if dry_run:
        return 0

    # report for a person: what was removed, what stays, and why
    for change in changes:
        suffix = "" if change.after is not None else "  (the file was ours alone, and is gone)"
        title = render.paint(change.harness.title, "bold")
        render.out(f"disconnected {title}  {render.line(str(change.path))}{suffix}")
    if units:
        render.out("ormahd is no service any more")
    for path in removed:
        render.out(f"took the paragraph about Ormah out of {render.line(str(path))}")
    for path in [path for _, stays in texts for path in stays]:
        render.note(f"{path}: its paragraph about Ormah was edited and stays; take it out yourself if it is not wanted")
    for unit in edited:
        render.note(f"{unit} was edited since and stays; remove it yourself if it is not wanted")
    for name in connected:
        render.note(f"{name} has the MCP server ormah still: take it out of {agents.AGENTS[name].server_file()}")
    if not changes and not connected:
        render.out(f"{agents.AGENTS[agent].title if agent else 'no agent'} is{' not' if agent else ''} connected")
    render.out(f"your memories stay: {render.line(str(vault))}")
    return 0
