"""`ormahctl uninstall`: take our hooks out of the agents' settings again. The vault is not touched."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from ormahctl import render
from ormahctl.commands.connecting import AGENTS, DECLINED, SERVICE, agreed, daemon, interactive, told
from ormahctl.options import OneOf
from ormahctl.registry import Verb
from ormahctl.session import Session, pass_session


@click.command(
    cls=Verb,
    short_help="Take our hooks out of the agents' settings again.",
    example="ormahctl uninstall --dry-run\normahctl uninstall codex",
)
@click.argument("agent", metavar="[AGENT]", required=False, type=OneOf([*AGENTS, SERVICE]))
@click.option("--dry-run", is_flag=True, help="Show what would be changed, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_session
def uninstall(session: Session, agent: str | None, dry_run: bool, yes: bool) -> int:
    """Take back what `ormahctl setup` added to the settings of AGENT, or of all agents and the service. Nothing else.

    AGENT may be `service`. For all it shows the changes and asks, on a terminal.

    A file that nobody else changed since is afterwards what it was before, to the byte. The vault stays where it is,
    and so do the daemon and its configuration.
    """
    from ormahctl.commands import service
    from ormahctl.setup import connect, entry, paragraph
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
    """The answer for one agent; further files of it (Codex has two) under `others`."""
    from ormahctl.setup import harness as agents

    path = str(agents.AGENTS[agent].target())
    none = {"agent": agent, "file": path, "changed": False, "added": [], "replaced": [], "removed": []}
    return (rows[0] if rows else none) | {"others": rows[1:]}


def _vault(session: Session) -> str:
    """Where the vault is: as the daemon says, else as it is configured."""
    from ormahd import paths

    told_by = daemon(session)[1]
    given = told_by or os.environ.get("ORMAH_VAULT") or os.environ.get("ORMAH_VAULT_PATH")
    return str(paths.expand(Path(given or paths.configured().get("vault") or paths.default_vault())))
