"""`ormahctl setup` and `uninstall`: connect agents by hooks and the MCP server in their settings, or remove these again.

`setup AGENT` also offers a paragraph about Ormah for the file that the agent reads (CLAUDE.md, AGENTS.md, GEMINI.md).
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ormahctl import managers, render
from ormahctl.commands import service
from ormahctl.commands.service import AGENTS, DECLINED, SERVICE, agreed, daemon, diff, interactive, told
from ormahctl.options import NamedFolder, OneOf, typed
from ormahctl.registry import Verb
from ormahctl.session import Session, pass_session
from ormahctl.setup import change as entry
from ormahctl.setup import harness as paragraph
from ormahd import paths

if TYPE_CHECKING:
    from ormahctl.setup.connect import SettingsChange
    from ormahctl.setup.harness import Harness, Paragraph
    from ormahctl.setup.standing import Standing

_STAYS = {
    "edited": "its paragraph about Ormah was edited, so it was left alone; take it out to have a new one",
    "removed": "its paragraph about Ormah was taken out, so it stays out; --instructions puts it back",
    "unreadable": "it is no text in UTF-8, so nothing was added",
}


def plan(session: Session, harness: Harness, project: Path | None, *, wished: bool) -> Paragraph | None:
    """Return the paragraph planned for the instructions file of an agent; None if the agent reads no such file. `project`:
    the folder whose file is meant, not the person's own. Its commands have no path, because others read it too."""
    path = harness.instructions(project)
    if path is None:
        return None
    program = "ormahctl" if project is not None else entry.program(session.socket_path)
    return paragraph.plan(harness.name, path, program, wished=wished)


def offer(session: Session, harness: Harness, change: Paragraph, *, yes: bool) -> None:
    """Ask whether to add or renew the paragraph of an instructions file, and do so if the person agrees or `yes` is given.
    Without a terminal and `yes`, print a hint instead."""
    if change.changed and not (yes or interactive()):
        if not session.json:
            words = f"ormahctl setup {shlex.quote(harness.name)} --yes"
            render.note(
                f"to have {change.path.name} tell the agent how to use its memory: {words}", label="hint", colour="cyan"
            )
        return
    question = f"Have {change.path.name} tell the agent how to use its memory?"
    if change.state in _STAYS:
        if not session.json:
            render.note(_STAYS[change.state], label=str(change.path))
    elif agreed([change], dry_run=False, yes=yes, quiet=session.json, question=question):
        change.make()
        if not session.json and change.changed:
            word = "renewed" if change.state == "renewed" else "added"
            render.out(f"{word} a paragraph about Ormah  {render.line(str(change.path))}")
            sys.stdout.flush()


def change_shown(change: Paragraph, *, dry_run: bool) -> dict[str, Any]:
    """Return the paragraph's change as a map for JSON output."""
    fields: dict[str, Any] = {"file": str(change.path), "changed": change.changed, "state": change.state}
    return fields | ({"diff": "\n".join(diff(change))} if dry_run else {})


@click.command(
    cls=Verb,
    short_help="Set Ormah up, connect an agent, or show what is connected.",
    example="ormahctl setup\normahctl setup --yes --agents claude-code,codex --no-past\normahctl setup claude-code --dry-run\normahctl setup codex --yes\normahctl setup service",
    excludes=[
        ("--list", "--dry-run", "--yes", "--agents", "--vault", "--name", "--service", "--past", "--deadline", "--mcp",
         "--instructions", "--project"),
    ],
)  # fmt: skip
@click.argument("agent", metavar="[AGENT]", required=False, type=OneOf([*AGENTS, SERVICE]))
@click.option(
    "--list", "looks", is_flag=True, help="Only show which agents are connected, and whether their hooks answer."
)
@click.option("--dry-run", is_flag=True, help="Show what would be changed, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--agents",
    "several",
    metavar="NAMES",
    help="Guided: connect these, with commas between; all: those on this machine; none.",
)
@click.option(
    "--vault",
    metavar="DIR",
    type=NamedFolder(file_okay=False, path_type=Path),
    help="Guided: the folder for the memories.",
)
@click.option("--name", metavar="NAME", help="Guided: your name.")
@click.option("--service/--no-service", default=None, help="Guided: start the daemon at login; or not.")
@click.option("--past/--no-past", default=None, help="Guided: archive past sessions, and watch for later ones; or not.")
@click.option("--deadline", metavar="MS", type=click.IntRange(50, 10_000), default=500, show_default=True,
              help="Milliseconds after which a hook gives up, so that the prompt continues without memories.")  # fmt: skip
@click.option(
    "--mcp/--no-mcp",
    default=True,
    help="Add Ormah's MCP server, by which the agent searches and stores; or leave it out.",
)
@click.option("--instructions/--no-instructions", default=None,
              help="Add the paragraph to the agent's instructions file even if you removed it; or leave that file alone.")  # fmt: skip
@click.option("--project", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="Add the paragraph to the file of this project, instead of your file for all projects.")  # fmt: skip
@pass_session
def setup(
    session: Session,
    /,
    agent: str | None,
    looks: bool,
    dry_run: bool,
    yes: bool,
    deadline: int,
    mcp: bool,
    instructions: bool | None,
    project: Path | None,
    **guided: Any,
) -> int:
    """Set Ormah up: without AGENT, on a terminal, in five questions at most; with AGENT, connect this one agent.

    The guided set-up connects the agents of this machine, chooses the vault, starts the daemon, archives past sessions,
    and checks a hook and the MCP server. An option answers its question; --yes answers all others with their
    defaults. `ormahctl uninstall` takes everything out again, and never a memory.

    To connect AGENT is to write Ormah's hooks and its MCP server into the agent's settings.

    AGENT is claude-code, codex, gemini, cursor, opencode, claude-desktop or vscode. The first three have hooks, by which memories
    are whispered into prompts. The others have the tools of the MCP server alone.

    With AGENT, setup also offers a paragraph that tells the agent how to use its memory, for the file that the agent reads when a
    session begins (CLAUDE.md, AGENTS.md, GEMINI.md). If you edit the paragraph, it is yours and is no longer changed.

    Only Ormah's own entries are added or renewed; the rest of the file stays as it is, byte for byte. The change is
    shown first, and you are asked. A file that cannot be parsed is left alone. `ormahctl uninstall` reverts the change.

    AGENT may be `service`: then systemd or launchd starts the daemon when you log in.

    Without AGENT and without a terminal, it lists the agents on this machine, as --list does.
    """
    context = click.get_current_context()
    answers = {name: value for name, value in guided.items() if value is not None}
    if looks and agent is not None:
        raise click.UsageError(f"--list shows all agents, and takes none: leave {agent} out", context)
    _check(context, agent, answers, instructions, project)
    if agent is None:
        named = bool(answers) or any(typed(one) for one in ("deadline", "mcp"))
        if looks or not (yes or dry_run or named or (interactive() and not session.json)):
            _look(session)
            return 0
        return _guide(session, answers, dry_run=dry_run, asks=not (yes or dry_run), deadline=deadline, mcp=mcp)
    if instructions is False and project is not None:
        raise click.UsageError("--no-instructions and --project exclude each other", context)
    if agent == SERVICE:
        return service.install(session, dry_run=dry_run, yes=yes)
    from ormahctl.setup import connect
    from ormahctl.setup import harness as agents

    harness = agents.AGENTS[agent]
    words = entry.server_command(session.socket_path) if mcp else None
    changes = connect.plans(harness, socket=entry.socket_option(session.socket_path), deadline=deadline, server=words)
    here = None if project is None else project.resolve()
    text = None if instructions is False else plan(session, harness, here, wished=instructions is True)
    return _connect(session, harness, changes, text, dry_run=dry_run, yes=yes)


def _check(
    context: click.Context, agent: str | None, answers: dict[str, Any], instructions: bool | None, project: Path | None
) -> None:
    """Raise UsageError for options that contradict `agent`, or that need an agent if `agent` is None."""
    if agent is not None and answers:
        first = {"several": "agents"}.get(min(answers), min(answers))
        raise click.UsageError(f"--{first} is for the set-up without AGENT; there --agents {agent} names it", context)
    if agent is None and (instructions is not None or project is not None):
        raise click.UsageError("--instructions and --project belong to one AGENT: name it", context)
    if instructions is False and project is not None:
        raise click.UsageError("--no-instructions and --project exclude each other", context)
    given = [one for one in ("deadline", "mcp", "instructions", "project") if typed(one)]
    if agent == SERVICE and given:
        raise click.UsageError(f"--{given[0]} is for an agent, and the service is none", context)
    if agent is None and answers.get("several", "all") != "all":
        _check_several(context, answers["several"], given)
    if agent is not None and agent != SERVICE:
        _check_agent(context, agent, given)


def _check_several(context: click.Context, named: str, given: Sequence[str]) -> None:
    """Raise UsageError for an option that would change nothing, because no agent that was named has hooks."""
    from ormahctl.commands import guided
    from ormahctl.setup import harness as agents

    if any(agents.AGENTS[name].events for name in guided.agents_of(named)):
        return
    _check_hooks(context, given, f"with --agents {named} there are none", f" of --agents {named}: there are no hooks")


def _check_hooks(context: click.Context, given: Sequence[str], none: str, left: str) -> None:
    """Raise UsageError for an option that would change nothing without hooks. `none`, `left`: how its message for
    `--deadline`, and for `--no-mcp`, ends."""
    if "deadline" in given:
        raise click.UsageError(f"--deadline is for hooks, and {none}", context)
    if "mcp" in given and not context.params["mcp"]:
        raise click.UsageError(f"--no-mcp would leave nothing{left}", context)


def _check_agent(context: click.Context, agent: str, given: Sequence[str]) -> None:
    """Raise UsageError for an option that would change nothing, because this agent has no hooks or reads no such file."""
    from ormahctl.setup import harness as agents

    harness = agents.AGENTS[agent]
    if not harness.events:
        only = f": {agent} has no hooks, only the MCP server; to take it out again: ormahctl uninstall {agent}"
        _check_hooks(context, given, f"{agent} has none: leave it out", only)
    if harness.reads is None and (context.params["instructions"] or "project" in given):
        name = "project" if "project" in given else "instructions"
        raise click.UsageError(
            f"--{name} is for an instructions file, and setup knows none of {agent}: leave it out", context
        )


def _guide(session: Session, answers: dict[str, Any], *, dry_run: bool, asks: bool, deadline: int, mcp: bool) -> int:
    """Set up the vault, the daemon and the agents: by the options (`answers`), and by questions for what they leave open.
    Return the exit status."""
    from ormahctl.commands import guided

    if asks and not interactive():
        raise click.UsageError("there is no terminal to ask on: give --yes", click.get_current_context())
    names = {"several": "agents"}
    given = guided.SetupChoices(
        agents=guided.agents_of(answers.get("several", "none")),
        vault=answers["vault"].expanduser().absolute() if "vault" in answers else None,
        name=answers.get("name"), service=answers.get("service", False), past=answers.get("past", False),
        deadline=deadline, mcp=mcp,
    )  # fmt: skip
    named = frozenset(names.get(name, name) for name in answers)
    return guided.run(session, guided.choose(session, given, named=named, asks=asks), dry_run=dry_run)


def _connect(
    session: Session,
    harness: Harness,
    changes: Sequence[SettingsChange],
    text: Paragraph | None,
    *,
    dry_run: bool,
    yes: bool,
) -> int:
    """Print the changes of an agent's settings, make them if the person agrees, and offer the paragraph `text` of its
    instructions file. Return the exit status."""
    if dry_run:
        agreed([*changes, *([text] if text else [])], dry_run=True, yes=yes, quiet=session.json)
    elif agreed(changes, dry_run=False, yes=yes, quiet=session.json):
        for change in changes:
            change.make()
        entry.connected(harness.name, {"program": entry.program(session.socket_path)})
        if not session.json:
            _say(session, harness, changes)
        if text is not None:
            offer(session, harness, text, yes=yes)
    else:
        return DECLINED
    if session.json:
        others = [told(change, dry_run=dry_run) for change in changes[1:]]
        more = {"others": others, "instructions": text and change_shown(text, dry_run=dry_run)}
        render.emit(told(changes[0], dry_run=dry_run) | more)
    elif not dry_run:
        service.offer(session)
    return 0


def _say(session: Session, harness: Harness, changes: Sequence[SettingsChange]) -> None:
    title = render.paint(harness.title, "bold")
    if not any(change.changed for change in changes):
        render.out(f"{harness.title} is connected already  {render.line(str(changes[0].path))}")
    for change in changes:
        if change.changed:
            renewed = change.replaced or change.server == "renewed"
            render.out(f"{'renewed' if renewed else 'connected'} {title}  {render.line(str(change.path))}")
            render.out(f"  {', '.join(entries(change))}")
    sys.stdout.flush()
    if any(change.changed for change in changes):
        render.note(harness.after, label="next", colour="cyan")
    warn(harness, changes)
    if harness.found() is None:
        render.note(f"{harness.title} ({harness.program}) was not found on this machine")
    phase, _, mend = daemon(session)
    if phase is None:
        render.note(mend or "the daemon does not run; a session that begins starts it, or now: ormahctl up")


def entries(change: SettingsChange) -> list[str]:
    """Return the names of the entries that a change adds, renews or removes."""
    hooks = [*change.added, *change.replaced, *change.removed]
    return [*hooks, *(["MCP server"] if change.server in {"added", "renewed", "removed"} else [])]


def warn(harness: Harness, changes: Sequence[SettingsChange]) -> None:
    """Print what keeps the agent from using the entries in its settings, such as hooks that are switched off."""
    for change in changes:
        if change.comment is not None:
            render.note(
                f"{harness.title} reads {render.line(str(change.path))} as plain JSON; for what stands in line {change.comment} "
                "(a comment, or a comma too many) it may pass over the whole file"
            )
        if change.server == "foreign":
            render.note(
                f"{render.line(str(change.path))} has another MCP server named ormah, which was left alone; take it out to "
                "have this one"
            )
    if (off := harness.off()) is not None:
        render.note(f"{harness.title} runs no hooks: {off}")


# ---------------------------------------------------------------- looking


def _look(session: Session) -> None:
    from ormahctl.setup import harness as agents
    from ormahctl.setup import service as units
    from ormahctl.setup import standing as look

    socket, server = entry.socket_option(session.socket_path), entry.server_command(session.socket_path)
    standings = [
        look.standing(harness, socket=socket, server=server, deeply=True) for harness in agents.AGENTS.values()
    ]
    phase, vault, trouble = daemon(session)
    if session.json:
        found = [
            {
                "agent": one.harness.name, "found": one.found, "connected": one.state in {"yes", "outdated"},
                "state": one.state, "file": str(one.file), "events": one.events, "server": one.server, "trouble": one.trouble, "mend": one.mend,
                "answer": one.answer and {"ok": one.answer.ok, "ms": round(one.answer.ms, 1), "trouble": one.answer.trouble},
            }
            for one in standings
        ]  # fmt: skip
        state = {"phase": phase, "vault": vault, "socket": str(session.socket_path), "trouble": trouble}
        render.emit({"agents": found, "daemon": state, "service": units.installed()})
        return
    rows = [
        [
            one.harness.name,
            "yes" if one.found else "no",
            _state(one),
            _answer(one, phase is not None),
            "another's" if one.server == "foreign" else one.server,
            _short(one.file),
        ]
        for one in standings
    ]
    render.table(["agent", "found", "connected", "hook", "tools", "file"], rows)
    if phase is None:
        render.out(
            f"daemon  {render.paint('does not run', 'yellow')}  {render.line(trouble or 'start it: ormahctl up')}"
        )
    else:
        render.out(
            f"daemon  {render.paint(phase, 'green' if phase == 'ready' else 'yellow')}  {render.line(vault or '')}"
        )
    render.out(f"service {_service(units.installed())}")
    sys.stdout.flush()
    for one in standings:
        if one.trouble:
            render.note(one.trouble + (f" ({one.mend})" if one.mend else ""), label=one.harness.name)
        elif one.state == "outdated":
            render.note(
                f"its entries are of another installation or other settings; renew them: {one.mend}",
                label=one.harness.name,
            )
        if one.answer is not None and not one.answer.ok:
            render.note(f"its hook {one.answer.trouble}", label=one.harness.name)
    ready = next((one.harness.name for one in standings if one.state == "no" and one.found), None)
    if ready is not None:
        render.note(f"to connect one: ormahctl setup {ready}", label="hint", colour="cyan")


def _service(installed: bool) -> str:
    if installed:
        return "starts the daemon when you log in"
    if managers.state() == "none":
        return "none on this machine; commands and sessions start the daemon"
    return "not installed; to have the daemon from login on: ormahctl setup service"


def _state(one: Standing) -> str:
    return "cannot be read" if one.state == "unreadable" else str(one.state)


def _answer(one: Standing, daemon_answers: bool) -> str:
    if one.answer is None:
        return "-"
    if not one.answer.ok:
        return "fails"
    return f"{'ok' if daemon_answers else 'runs'}, {one.answer.ms:.0f} ms"


def _short(path: Path) -> str:
    home = paths.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


@click.command(
    cls=Verb,
    short_help="Remove Ormah's entries from the agents' settings.",
    example="ormahctl uninstall --dry-run\normahctl uninstall codex",
)
@click.argument("agent", metavar="[AGENT]", required=False, type=OneOf([*AGENTS, SERVICE]))
@click.option("--dry-run", is_flag=True, help="Show what would be changed, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_session
def uninstall(session: Session, agent: str | None, dry_run: bool, yes: bool) -> int:
    """Remove what `ormahctl setup` added to the settings of AGENT, or of all agents and the service.

    AGENT may be `service`. On a terminal it shows the changes and asks if all are removed.

    A file that was not changed since gets its old content, byte for byte. The vault, the daemon and its configuration
    stay.
    """
    from ormahctl.setup import connect
    from ormahctl.setup import harness as agents
    from ormahctl.setup.change import tidy

    if agent == SERVICE:
        return service.uninstall(session, dry_run=dry_run, yes=yes)
    units, edited = service.plan_removal() if agent is None else ([], [])
    chosen = [agents.AGENTS[agent]] if agent else list(agents.AGENTS.values())
    changes = [change for harness in chosen for change in connect.disconnect(harness)]
    # only what is ours goes, and setup brings it back: a person who means all agents is asked, a script is not
    sure = yes or agent is not None or not interactive()
    texts = paragraph.removal([harness.name for harness in chosen])
    if agreed([*changes, *texts.changes, *units], dry_run=dry_run, yes=sure, quiet=session.json):
        if units:
            service.remove(units)
        for change in changes:
            change.make()
        texts.make()
        tidy([*changes, *texts.changes])
        for harness in chosen:
            entry.disconnected(harness.name)
    elif not dry_run:
        return DECLINED
    vault = _vault(session)
    if session.json:
        rows = [told(change, dry_run=dry_run) for change in changes]
        more = {"vault": vault, "instructions": [str(one.path) for one in texts.changes]}
        render.emit({"agents": rows} | more if agent is None else _one(agent, rows) | more)
        return 0
    if dry_run:
        return 0
    for change in changes:
        gone = "" if change.after is not None else "  (the file was ours alone, and is gone)"
        title = render.paint(change.harness.title, "bold")
        render.out(f"disconnected {title}  {render.line(str(change.path))}{gone}")
    if units:
        render.out("ormahd is no service any more")
    for text in texts.changes:
        render.out(f"took the paragraph about Ormah out of {render.line(str(text.path))}")
    for place in texts.edited:
        render.note(
            f"{place}: its paragraph about Ormah was edited and stays; take it out yourself if it is not wanted"
        )
    for path in edited:
        render.note(f"{path} was edited since and stays; remove it yourself if it is not wanted")
    if not changes:
        render.out(f"{agents.AGENTS[agent].title if agent else 'no agent'} is{' not' if agent else ''} connected")
    render.out(f"your memories stay: {render.line(vault)}")
    return 0


def _one(agent: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the reply for one agent; further files of the agent (Codex has two) are in `others`."""
    from ormahctl.setup import harness as agents

    path = str(agents.AGENTS[agent].target())
    none = {"agent": agent, "file": path, "changed": False, "added": [], "replaced": [], "removed": []}
    return (rows[0] if rows else none) | {"others": rows[1:]}


def _vault(session: Session) -> str:
    """Return the vault's path: from the daemon, otherwise from the configuration."""
    from ormahd import paths

    told_by = daemon(session)[1]
    given = told_by or os.environ.get("ORMAH_VAULT") or os.environ.get("ORMAH_VAULT_PATH")
    return str(paths.expand(Path(given or paths.configured().get("vault") or paths.default_vault())))
