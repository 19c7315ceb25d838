"""The paragraph in the file that an agent reads (CLAUDE.md, AGENTS.md, GEMINI.md), offered by `ormahctl setup AGENT`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ormahctl import render
from ormahctl.commands.connecting import agreed, diff, interactive
from ormahctl.setup import entry, paragraph

if TYPE_CHECKING:
    from ormahctl.session import Session
    from ormahctl.setup.harness import Harness
    from ormahctl.setup.paragraph import Paragraph

_STAYS = {
    "edited": "its paragraph about Ormah was edited, so it was left alone; take it out to have a new one",
    "removed": "its paragraph about Ormah was taken out, so it stays out; --instructions puts it back",
    "unreadable": "it is no text in UTF-8, so nothing was added",
}


def plan(session: Session, harness: Harness, project: Path | None, *, wished: bool) -> Paragraph:
    """The paragraph for one agent. In a project's file, which others read too, the commands go by their plain name."""
    program = "ormahctl" if project is not None else entry.program(session.socket_path)
    return paragraph.plan(harness.name, harness.instructions(project), program, wished=wished)


def offer(session: Session, harness: Harness, change: Paragraph, *, yes: bool) -> None:
    """Ask whether to add or renew it, and do so; without a terminal and without `yes` only say that there is such a thing."""
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


def told(change: Paragraph, *, dry_run: bool) -> dict[str, Any]:
    """The paragraph for programs."""
    fields: dict[str, Any] = {"file": str(change.path), "changed": change.changed, "state": change.state}
    return fields | ({"diff": "\n".join(diff(change))} if dry_run else {})
