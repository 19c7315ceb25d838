"""`ormahctl model`: the embedding model in use, and choosing another one.

The daemon's own program does it, in a process of its own: a model is loaded beside the daemon.
"""

from __future__ import annotations

import json
from pathlib import Path

import click

from ormahctl import offline, render
from ormahctl.options import OneOf
from ormahctl.registry import Verb
from ormahctl.session import Session, pass_session


@click.command(
    cls=Verb,
    short_help="Show or choose the embedding model.",
    example="ormahctl model\normahctl model use ~/models/multilingual-e5-small",
)
@click.argument("what", type=OneOf(["use"]), required=False)
@click.argument("name", required=False)
@pass_session
def model(session: Session, what: str | None, name: str | None) -> int:
    """Show the embedding model, or choose another one.

    `use NAME` loads the model NAME (a folder, or the name of a model whose files are on this machine) and sets it in the
    configuration file. The daemon embeds all notes again after a restart.
    """
    if (what is None) != (name is None):
        raise click.UsageError("model use needs a NAME")
    words = []
    if name is not None:
        folder = Path(name).expanduser()
        words = [str(folder.absolute()) if folder.is_dir() else name]  # the daemon's program may be in another folder
    found = json.loads(offline.answer("model", *words))
    if session.json:
        render.emit(found)
        return 0
    runtime = f"{found['runtime']} {found['version']}".strip()
    render.out(f"{render.line(found['name'])}: {render.line(runtime)}, {found['dimensions']} dimensions")
    if name is not None:
        render.out(f"It is set in {render.line(found['file'])}. To use it: ormahctl restart")
    return 0
