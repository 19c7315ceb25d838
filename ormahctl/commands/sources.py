"""`ormahctl sources`: add, remove and list folders of the person whose files Ormah finds in place."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

import click

from ormahctl import offline, render
from ormahctl.options import OneOf
from ormahctl.registry import Verb
from ormahctl.session import Session, pass_session
from ormahd.api import SourceListed, SourcesParams, SourcesResult
from ormahd.rpc.wire import Unavailable


@click.command(
    cls=Verb,
    short_help="Find notes of your folders in place.",
    example="ormahctl sources add ~/Notes --space personal\normahctl sources add docs --exclude drafts/\n"
    "ormahctl sources\normahctl sources remove ~/Notes",
    excludes=[("--space", "--global")],
)
@click.argument("what", type=OneOf(["list", "add", "remove"]), default="list")
@click.argument("folder", metavar="[DIR|NAME]", required=False)
@click.option("--space", metavar="S", help="The space of its notes.  [default: its repository, or its name]")
@click.option("--global", "everywhere", is_flag=True, help="Its notes belong to no space: every project finds them.")
@click.option("--include", metavar="GLOB", multiple=True, help="Only files that match, as in .gitignore. Repeatable.")
@click.option("--exclude", metavar="GLOB", multiple=True, help="No files that match, as in .gitignore. Repeatable.")
@pass_session
def sources(
    session: Session, /, what: str, folder: str | None, space: str | None, everywhere: bool, **globs: tuple[str, ...]
) -> None:
    """List the folders of yours whose files are found in place: markdown, text and PDF.

    `add DIR`: have its files found, shown and whispered; nothing is ever written into them. `remove`: they are not found
    any more.
    """
    if (folder is None) != (what == "list") or (what != "add" and (space or everywhere or any(globs.values()))):
        raise click.UsageError("sources list, add DIR with its options, or remove DIR")
    if folder is None:
        listed = session.client.call("ingest.sources", SourcesParams(), SourcesResult)
        render.emit(listed) if session.json else _print_sources(listed.sources)
        return
    if what == "add":
        done, running = add_source(session, folder, "global" if everywhere else space or "", **globs)
    else:
        done = json.loads(offline.answer("sources", "remove", "--", os.path.expanduser(folder)))
        running = _reload_daemon(session)
    if session.json:
        render.emit(done | {"running": running})
        return
    if what == "remove":
        render.out(f"removed {render.line(done['path'])}: nothing of it is found any more; its files stay as they are")
        return
    render.out(f"added {render.line(done['path'])}, space {render.line(done['space'] or 'global')}")
    when = "in the background" if running else "when the daemon runs"
    render.note(f"it is read {when}, and never written; how far it is: ormahctl sources")


def add_source(
    session: Session, folder: str, space: str, include: Sequence[str] = (), exclude: Sequence[str] = ()
) -> tuple[dict[str, Any], bool]:
    """Add a folder to the sources, in the configuration. Return ({"path": folder, "space": space}, whether a daemon
    runs).

    `space`: "": the default, from the folder's repository or name; `global`: none. `include` and `exclude`: patterns
    as in .gitignore.
    """
    patterns = [word for glob in include for word in ("--include", glob)]
    patterns += [word for glob in exclude for word in ("--exclude", glob)]
    place = os.path.abspath(os.path.expanduser(folder))
    done: dict[str, Any] = json.loads(offline.answer("sources", "add", "--space", space, *patterns, "--", place))
    return done, _reload_daemon(session)


def _reload_daemon(session: Session) -> bool:
    """Have a running daemon read the list of sources again. Return False if no daemon runs."""
    try:
        session.client.call("ingest.sources", SourcesParams(reload=True), SourcesResult)
    except Unavailable:
        return False
    return True


def _print_sources(listed: Sequence[SourceListed]) -> None:
    """Print a table of the sources, and on stderr the files that could not be read."""
    if not listed:
        render.note("no folder is a source; name one: ormahctl sources add DIR --space S")
        return
    rows = []
    for source in listed:
        read = "not yet" if source.read is None else render.moment(source.read)
        place = [render.line(source.path), render.line(source.space or "global")]
        rows.append([*place, f"{source.files:,}", f"{source.sections:,}", read])
    render.table(["folder", "space", "files", "sections", "read"], rows)
    for source in listed:
        for path, why in source.troubles.items():
            render.note(render.line(why), label=render.line(path))
