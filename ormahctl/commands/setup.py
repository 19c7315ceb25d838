"""`ormahctl setup`: connect an agent, or look how the agents of this machine are connected."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ormahctl import managers, render
from ormahctl.commands.connecting import AGENTS, DECLINED, SERVICE, agreed, daemon, told
from ormahctl.options import OneOf
from ormahctl.registry import Verb
from ormahctl.session import Session, pass_session
from ormahd import paths

if TYPE_CHECKING:
    from ormahctl.setup.connect import Change
    from ormahctl.setup.look import Standing


@click.command(
    cls=Verb,
    short_help="Connect an agent, have the daemon start at login, or look how that stands.",
    example="ormahctl setup\normahctl setup claude-code --dry-run\normahctl setup codex --yes\normahctl setup service",
)
@click.argument("agent", metavar="[AGENT]", required=False, type=OneOf([*AGENTS, SERVICE]))
@click.option("--dry-run", is_flag=True, help="Show what would be changed, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--deadline", metavar="MS", type=click.IntRange(50, 10_000), default=500, show_default=True,
              help="After so many milliseconds a hook gives up, and the prompt goes on without memories.")  # fmt: skip
@click.option("--instructions/--no-instructions", default=None,
              help="Also put the paragraph into the file that the agent reads where you took it out; or leave that file alone.")  # fmt: skip
@click.option("--project", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="That paragraph goes into the file of this project, not into yours for all projects.")  # fmt: skip
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
    """Write our hooks into the settings of AGENT: claude-code, codex or gemini.

    Then it offers a paragraph that tells the agent how to use its memory, for the file that it reads when a session begins
    (CLAUDE.md, AGENTS.md, GEMINI.md). One that you edit is yours from then on.

    Only our own entries are added or renewed; everything else in the file stays as it is, to the byte. The change is
    shown and asked for first. A file that cannot be read is left alone. `ormahctl uninstall` takes it back.

    AGENT may be `service`: then systemd or launchd starts the daemon when you log in.

    Without AGENT: which agents are on this machine, which are connected, and whether their hooks answer.
    """
    from ormahctl.commands import instructions as offers
    from ormahctl.commands import service
    from ormahctl.setup import connect, entry
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
    text = None if instructions is False else offers.plan(session, harness, here, wished=instructions is True)
    if dry_run:
        agreed([change, *([text] if text else [])], dry_run=True, yes=yes, quiet=session.json)
    elif agreed([change], dry_run=False, yes=yes, quiet=session.json):
        change.make()
        entry.connected(harness.name, {"program": entry.program(session.socket_path)})
        if not session.json:
            _say(session, change)
        if text is not None:
            offers.offer(session, harness, text, yes=yes)
    else:
        return DECLINED
    if session.json:
        more = {"instructions": text and offers.told(text, dry_run=dry_run)}
        render.emit(told(change, dry_run=dry_run) | more)
    elif not dry_run:
        service.offer(session)
    return 0


def _say(session: Session, change: Change) -> None:
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
    from ormahctl.setup import entry, look, service
    from ormahctl.setup import harness as agents

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
