"""`ormahctl show` and `open`: print one memory with its connections, or open its note.

`open` uses Obsidian if it has the vault, otherwise an editor or the desktop's default program.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final
from urllib.parse import quote

import click

from ormahctl import render
from ormahctl.commands.recall import ask, told
from ormahctl.commands.write import fields, file_of, peek
from ormahctl.obsidian import known_vaults
from ormahctl.options import NodeId
from ormahctl.registry import Verb
from ormahctl.session import Session, pass_session
from ormahctl.times import TimeOrRevision
from ormahd.api import AsOf, Edge, HelloParams, HelloResult, NodeParams, NodeResult
from ormahd.rpc.wire import BadRequest, NotFound


@click.command(
    cls=Verb,
    short_help="Print a memory and its connections.",
    example="ormahctl show 97acbe8e\normahctl show 97acbe8e --as-of yesterday",
)
@click.argument("node_id", metavar="ID", type=NodeId())
@click.option(
    "--as-of",
    type=TimeOrRevision(),
    metavar="WHEN|REV",
    help="Show it as it was at: a day (its end), 7d, an op, commit, branch or tag.",
)
@pass_session
def show(session: Session, node_id: str, as_of: str | None) -> None:
    """Print the memory ID and its connections. ID is a unique prefix of 4 or more characters, or the path of the note."""
    params = NodeParams(node_id=node_id, as_of=as_of)
    if as_of is None:
        node = session.client.call("agent.get", params, NodeResult)
    else:
        node = ask(session, "agent.get", params, NodeResult)
    if session.json:
        render.emit(fields(node))
        return
    if isinstance(node.as_of, AsOf):
        told(node.as_of)
    if node.title:
        render.out(render.paint(render.line(node.title), "bold"), hang=0)
    render.out(" · ".join([node.type, node.tier, render.line(node.space or "global"), node.id]))
    facts = [
        f"by {render.line(node.source)}",
        f"created {render.moment(node.created)}",
        f"updated {render.moment(node.updated)}",
        f"confidence {node.confidence:g}",
        f"importance {node.importance:.2f}",
    ]
    render.out(" · ".join(facts), hang=0)
    if node.access_count:
        found, used = render.count(node.access_count, "time"), render.count(node.use_count, "time")
        render.out(f"found {found}, last on {render.moment(node.last_accessed)}; used {used}")
    if node.tags:
        render.out("tags: " + ", ".join(map(render.line, node.tags)))
    render.out(render.paint(render.line(node.path), "dim"))
    if node.said_in:
        render.out(render.paint(_origin(node.said_in), "dim"), hang=0)
    if node.valid_until:
        why = f": {render.line(node.outdated_reason)}" if node.outdated_reason else ""
        render.out(render.paint(f"outdated since {render.moment(node.valid_until)}{why}", "yellow"))
    elif node.older_than:
        render.out(render.paint(f"older than {node.older_than[:8]}, which seems to replace it", "yellow"))
    render.out()
    render.out(render.safe(node.content), hang=0)
    connections = node.connections
    if connections.out or connections.incoming:
        render.out()
    for edge in connections.out:
        render.out(_edge("→", edge))
    for edge in connections.incoming:
        render.out(_edge("←", edge))


def _origin(said_in: str) -> str:
    """Return in which session a memory was said, in words."""
    return f"said in a session: ormahctl sessions show {render.line(said_in.rpartition('#')[0])}"


def _edge(arrow: str, edge: Edge) -> str:
    reason = f"  ({render.line(edge.reason)})" if edge.reason else ""
    title = render.cut(render.line(edge.title or "?"), 70)
    return f"{arrow} {edge.edge} {edge.short_id}  {title}  {edge.weight:.2f}{reason}"


OPENERS: Final = ("open",) if sys.platform == "darwin" else ("xdg-open",)


@click.command(
    "open",
    cls=Verb,
    short_help="Open a memory's note in Obsidian, or in your editor.",
    example="ormahctl open 97acbe8e\normahctl open 97acbe8e --print",
)
@click.argument("node_id", metavar="ID", type=NodeId())
@click.option("--print", "only", is_flag=True, help="Only print the address or path.")
@pass_session
def open_(session: Session, node_id: str, only: bool) -> None:
    """Open the note of the memory ID in Obsidian, if the vault is one of Obsidian's; otherwise in VISUAL or EDITOR;
    otherwise in the desktop's default program.

    What you save is committed under your name, as with `ormahctl edit`. That command also waits for the commit.
    """
    node = peek(session, node_id)
    hello = session.client.call("hello", HelloParams(client="ormahctl"), HelloResult)
    file = file_of(hello.vault, node.path)
    if not file.is_file():
        raise NotFound(f"{file} is not there", hint="the vault is elsewhere, or the note was moved; try again")
    uri = f"obsidian://open?path={quote(str(file), safe='')}" if _in_obsidian(file) else None
    done = None if only else _open(file, uri)
    if session.json:
        render.emit({"id": node.id, "path": str(file), "uri": uri, "opened": done})
    elif only:
        render.raw(render.line(uri or str(file)))
    else:
        render.out(
            f"opened {render.paint(node.short_id, 'bold')} in {render.line(str(done))}  {render.line(node.path)}"
        )


def _in_obsidian(file: Path) -> bool:
    """Whether Obsidian is installed and has a vault that contains the file."""
    real = Path(os.path.realpath(file))
    return any(Path(os.path.realpath(vault)) in real.parents for vault in known_vaults())


def _open(file: Path, uri: str | None) -> str:
    """Open the note, and return the name of the program."""
    opener = next((found for one in OPENERS if (found := shutil.which(one))), None)
    if uri is not None and opener is not None and _started([opener, uri]):
        return "Obsidian"
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if editor and sys.stdin.isatty():
        try:
            words = shlex.split(editor)
        except ValueError:
            words = []
        if words and _started([*words, str(file)], shown=True):
            return editor
        raise BadRequest(f"the editor '{editor}' did not open {file}", hint="set VISUAL or EDITOR to an editor")
    if opener is not None and _started([opener, str(file)]):
        return Path(opener).name
    raise BadRequest(
        f"nothing here opens {file}",
        hint="set EDITOR, or take the path: ormahctl open ID --print",
        data={"path": str(file)},
    )


def _started(command: list[str], *, shown: bool = False) -> bool:
    """Run a program, and return whether it succeeded. `shown`: its input and output are this terminal."""
    quiet = None if shown else subprocess.DEVNULL
    try:
        return subprocess.run(command, check=False, stdin=quiet, stdout=quiet, stderr=quiet).returncode == 0
    except OSError:
        return False
