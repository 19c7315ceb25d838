"""`ormahctl setup` and `uninstall`: connect agents by hooks in their settings, or remove these again.

`setup` without an agent shows how the agents of this machine are connected. `setup AGENT` also offers a paragraph about
Ormah for the file that the agent reads (CLAUDE.md, AGENTS.md, GEMINI.md). The vault is never touched.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ormahctl import render
from ormahctl.commands.service import agreed, diff, interactive
from ormahctl.setup import change as entry
from ormahctl.setup import harness as paragraph

if TYPE_CHECKING:
    from ormahctl.session import Session
    from ormahctl.setup.harness import Harness, Paragraph
from typing import TYPE_CHECKING

import click

from ormahctl import managers
from ormahctl.commands.service import AGENTS, DECLINED, SERVICE, daemon, told
from ormahctl.options import OneOf
from ormahctl.registry import Verb
from ormahctl.session import Session, pass_session
from ormahd import paths

if TYPE_CHECKING:
    from ormahctl.setup.connect import SettingsChange, Standing
import os

_STAYS = {
    "edited": "its paragraph about Ormah was edited, so it was left alone; take it out to have a new one",
    "removed": "its paragraph about Ormah was taken out, so it stays out; --instructions puts it back",
    "unreadable": "it is no text in UTF-8, so nothing was added",
}


def plan(session: Session, harness: Harness, project: Path | None, *, wished: bool) -> Paragraph:
    """Return the planned paragraph for one agent. In a project's file, which others read too, commands are named
    without a path."""
    program = "ormahctl" if project is not None else entry.program(session.socket_path)
    return paragraph.plan(harness.name, harness.instructions(project), program, wished=wished)


def offer(session: Session, harness: Harness, change: Paragraph, *, yes: bool) -> None:
    """Ask whether to add or renew the paragraph, and do so. Without a terminal and without `yes`, only mention it."""
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
    short_help="Connect an agent, start the daemon at login, or show what is connected.",
    example="ormahctl setup\normahctl setup claude-code --dry-run\normahctl setup codex --yes\normahctl setup service",
)
@click.argument("agent", metavar="[AGENT]", required=False, type=OneOf([*AGENTS, SERVICE]))
@click.option("--dry-run", is_flag=True, help="Show what would be changed, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--deadline", metavar="MS", type=click.IntRange(50, 10_000), default=500, show_default=True,
              help="Milliseconds after which a hook gives up, so that the prompt continues without memories.")  # fmt: skip
@click.option("--instructions/--no-instructions", default=None,
              help="Add the paragraph to the agent's instructions file even if you removed it; or leave that file alone.")  # fmt: skip
@click.option("--project", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="Add the paragraph to the file of this project, instead of your file for all projects.")  # fmt: skip
@pass_session
def setup(
    session: Session,
    agent: str | None,
    dry_run: bool,
    yes: bool,
    deadline: int,
    instructions: bool | None,
    project: Path | None,
) -> int:
    """Connect AGENT (claude-code, codex or gemini): write Ormah's hooks into its settings.

    It also offers a paragraph that tells the agent how to use its memory, for the file that the agent reads when a
    session begins (CLAUDE.md, AGENTS.md, GEMINI.md). If you edit the paragraph, it is yours and is no longer changed.

    Only Ormah's own entries are added or renewed; the rest of the file stays as it is, byte for byte. The change is
    shown first, and you are asked. A file that cannot be parsed is left alone. `ormahctl uninstall` reverts the change.

    AGENT may be `service`: then systemd or launchd starts the daemon when you log in.

    Without AGENT, it lists the agents on this machine, which of them are connected, and whether their hooks answer.
    """
    from ormahctl.commands import service
    from ormahctl.setup import change as entry
    from ormahctl.setup import connect
    from ormahctl.setup import harness as agents

    if agent is None:
        if dry_run or yes:
            raise click.UsageError(f"name an agent: {', '.join(AGENTS)}", click.get_current_context())
        _look(session)
        return 0
    if agent == SERVICE:
        return service.install(session, dry_run=dry_run, yes=yes)
    harness = agents.AGENTS[agent]
    change = connect.connect(harness, socket=entry.socket_option(session.socket_path), deadline=deadline)
    here = None if project is None else project.resolve()
    text = None if instructions is False else plan(session, harness, here, wished=instructions is True)
    if dry_run:
        agreed([change, *([text] if text else [])], dry_run=True, yes=yes, quiet=session.json)
    elif agreed([change], dry_run=False, yes=yes, quiet=session.json):
        change.make()
        entry.connected(harness.name, {"program": entry.program(session.socket_path)})
        if not session.json:
            _say(session, change)
        if text is not None:
            offer(session, harness, text, yes=yes)
    else:
        return DECLINED
    if session.json:
        more = {"instructions": text and change_shown(text, dry_run=dry_run)}
        render.emit(told(change, dry_run=dry_run) | more)
    elif not dry_run:
        service.offer(session)
    return 0


def _say(session: Session, change: SettingsChange) -> None:
    harness = change.harness
    if not change.changed:
        render.out(f"{harness.title} is connected already  {render.line(str(change.path))}")
    else:
        what = "renewed" if change.replaced else "connected"
        render.out(f"{what} {render.paint(harness.title, 'bold')}  {render.line(str(change.path))}")
        render.out(f"  {', '.join((*change.added, *change.replaced, *change.removed))}")
    sys.stdout.flush()
    if change.changed:
        render.note(harness.after, label="next", colour="cyan")
    if change.comment is not None:
        render.note(
            f"{harness.title} reads this file as plain JSON; for what stands in line {change.comment} (a comment, or a "
            "comma too many) it may pass over the whole file"
        )
    if (off := harness.off()) is not None:
        render.note(f"{harness.title} runs no hooks: {off}")
    if harness.found() is None:
        render.note(f"{harness.title} ({harness.program}) was not found on this machine")
    phase, _, mend = daemon(session)
    if phase is None:
        render.note(mend or "the daemon does not run; a session that begins starts it, or now: ormahctl up")


# ---------------------------------------------------------------- looking


def _look(session: Session) -> None:
    from ormahctl.setup import change as entry
    from ormahctl.setup import connect as look
    from ormahctl.setup import harness as agents
    from ormahctl.setup import service

    socket = entry.socket_option(session.socket_path)
    standings = [look.standing(harness, socket=socket) for harness in agents.AGENTS.values()]
    phase, vault, trouble = daemon(session)
    if session.json:
        found = [
            {
                "agent": one.harness.name, "found": one.found, "connected": one.state in {"yes", "outdated"},
                "state": one.state, "file": str(one.file), "events": one.events, "trouble": one.trouble, "mend": one.mend,
                "answer": one.answer and {"ok": one.answer.ok, "ms": round(one.answer.ms, 1), "trouble": one.answer.trouble},
            }
            for one in standings
        ]  # fmt: skip
        state = {"phase": phase, "vault": vault, "socket": str(session.socket_path), "trouble": trouble}
        render.emit({"agents": found, "daemon": state, "service": service.installed()})
        return
    rows = [
        [one.harness.name, "yes" if one.found else "no", _state(one), _answer(one, phase is not None), _short(one.file)]
        for one in standings
    ]
    render.table(["agent", "on this machine", "connected", "its hook", "file"], rows)
    if phase is None:
        render.out(
            f"daemon  {render.paint('does not run', 'yellow')}  {render.line(trouble or 'start it: ormahctl up')}"
        )
    else:
        render.out(
            f"daemon  {render.paint(phase, 'green' if phase == 'ready' else 'yellow')}  {render.line(vault or '')}"
        )
    render.out(f"service {_service(service.installed())}")
    sys.stdout.flush()
    for one in standings:
        if one.trouble:
            render.note(one.trouble + (f" ({one.mend})" if one.mend else ""), label=one.harness.name)
        elif one.state == "outdated":
            render.note(
                f"its hooks are of another installation or other settings; renew them: {one.mend}",
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
    return f"{'answers' if daemon_answers else 'runs'} in {one.answer.ms:.0f} ms"


def _short(path: Path) -> str:
    home = paths.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


@click.command(
    cls=Verb,
    short_help="Remove Ormah's hooks from the agents' settings.",
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
    from ormahctl.commands import service
    from ormahctl.setup import change as entry
    from ormahctl.setup import connect
    from ormahctl.setup import harness as agents
    from ormahctl.setup import harness as paragraph
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
