"""`ormahctl model`: which embedding models there are, choosing one, and what it can do.

The daemon's own program does it, in a process of its own: a model is loaded and compared beside the daemon.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from ormahctl import offline, render
from ormahctl.options import OneOf
from ormahctl.registry import Verb
from ormahctl.session import Session, pass_session

COLUMN = 19
"""Columns of what a line of the report is about."""


@click.command(
    cls=Verb,
    short_help="List, choose or check embedding models.",
    example="ormahctl model list\normahctl model check\normahctl model use intfloat/multilingual-e5-small --download\n"
    "ormahctl model use my-model --from ~/downloads/my-model",
)
@click.argument("what", type=OneOf(["list", "use", "check"]), default="list")
@click.argument("name", required=False)
@click.option(
    "--download", is_flag=True, help="With use: download the model from the Hugging Face hub if it is not here."
)
@click.option("--from", "source", metavar="FOLDER", help="With use: copy the model from this folder.")
@pass_session
def model(session: Session, what: str, name: str | None, download: bool, source: str | None) -> int:
    """Show embedding models, and choose one.

    `list`: the models on this machine, and usual ones that can be downloaded, with size and languages. `check`: load the
    model in use (or NAME), and say how it runs and which languages it reads. `use`: check NAME, then set it in the
    configuration file; the daemon embeds all notes again after a restart. Nothing is downloaded without `--download`.
    """
    context = click.get_current_context()
    if what == "use" and name is None:
        raise click.UsageError("model use needs a NAME (ormahctl model list shows some)", context)
    if what == "list" and name is not None:
        raise click.UsageError("model list takes no NAME", context)
    if what != "use" and (download or source):
        raise click.UsageError("--download and --from belong to model use", context)
    if download and source:
        raise click.UsageError("--download and --from exclude each other", context)
    arguments = [what, *([] if name is None else [name]), *(["--download"] if download else [])]
    if source:
        arguments += ["--from", str(Path(source).expanduser().absolute())]
    if what != "list":
        render.aside("loading the model; one that is new here is compared first, which takes a minute")
    found = json.loads(offline.answer("model", *arguments))
    if session.json:
        render.emit(found)
    elif what == "list":
        _list(found["models"])
    else:
        _report(found["report"])
        if what == "use":
            render.out(f"embedding.model = {render.line(found['report']['name'])} in {render.line(found['file'])}")
            render.out("Restart the daemon to use it: ormahctl restart")
    return 0


def _list(models: list[dict[str, Any]]) -> None:
    rows = []
    for one in models:
        where = "in use" if one["used"] else "here" if one["where"] else "download"
        size = render.size(one["mb"] * 1e6) if one["mb"] else ""
        rows.append([one["name"], where, size, (one["languages"] or "").removesuffix(" languages")])
    render.table(["model", "where", "size", "languages"], rows, right=[2])
    hint = "to choose one: ormahctl model use NAME; with --download where it is not here"
    render.note(hint, label="hint", colour="cyan")


def _report(one: dict[str, Any]) -> None:
    _line("model", f"{one['name']} ({one['family'] or 'of no known family'})")
    _line("files", f"{one['where']}, {render.size(one['mb'] * 1e6)}")
    _line("runs on", f"{one['runtime']}, {one['precision']}{', because ' + one['why'] if one['why'] else ''}")
    _line(
        "vectors", f"{one['dimensions']} dimensions, {one['window']} tokens, pooling {one['pooling'] or 'of its own'}"
    )
    for kind in ("query", "document"):
        if prefix := one[f"{kind}_prefix"]:
            _line(f"before a {kind}", json.dumps(prefix, ensure_ascii=False))
    _line("speed", f"{one['milliseconds']} ms for a question")
    _line("reads", ", ".join(one["read"]) or "none of the languages that were tried")
    if one["unread"]:
        _line("does not read", f"{', '.join(one['unread'])}: there words alone decide")


def _line(head: str, text: str) -> None:
    render.out(f"{render.paint(render.pad(head, COLUMN), 'bold')}{render.line(text)}", hang=COLUMN)
