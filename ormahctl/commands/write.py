"""`ormahctl remember`, `update`, `edit`, `outdated` and `connect`: commands that write one memory.

Remarks about a write go to stderr: redacted secrets, moved notes, git being busy, missing parts. `edit` opens the note
in the person's editor and waits until the daemon has indexed the edit.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from ormahctl import render
from ormahctl.commands.spaces import warn_of_similar_space
from ormahctl.options import EDGE, GUARD, SHARE, TIER, TYPE, TYPES, LinkType, OneOf, text_or_stdin
from ormahctl.registry import Verb
from ormahctl.session import Session, pass_session, space
from ormahd import api
from ormahd.rpc.wire import BadRequest, InvalidNote, NotFound, Unavailable


def print_done(verb: str, short_id: str, commit: str | None, *, space: str | None = None) -> None:
    """Print one line about a write: what was done (`verb`), to which memory, and the command that undoes it.
    `commit`: None if nothing was committed. `space`: named in the line, if it is given."""
    back = f", undo: ormahctl undo {commit[:8]}" if commit else ""
    render.out(f"{verb} {render.paint(short_id, 'bold')}{f' in {render.line(space)}' if space else ''}{back}")


def print_remarks(redacted: Sequence[str], demoted: Sequence[str]) -> None:
    """Print on stderr which kinds of secrets were redacted, and which memories left the tier core because it was
    full. `demoted`: their ids."""
    if redacted:
        kinds = ", ".join(sorted(set(redacted)))
        render.note(f"taken out before anything was written: {kinds}", label="secret")
    if demoted:
        ids = ", ".join(name[:8] for name in demoted)
        render.note(f"core is full; moved to working: {ids}")


def print_close(near: Sequence[api.Near], newer: str) -> None:
    """Print the memories that are close to the one just written, whose short id is `newer`. If there are any, print
    the command that marks the closest one as replaced."""
    for node in near:
        render.out(f"  close to {node.short_id}  {node.created[:10]}  {render.cut(render.line(node.content), 60)}")
    if near:
        seems = "it seems to replace it; if so" if near[0].standing == "replaced" else "if it replaces one of them"
        render.out(f"  {seems}: ormahctl outdated {near[0].short_id} --by {newer}")


def fields(node: api.NodeResult) -> dict[str, Any]:
    """Return a node as `--json` prints it: its fields, `path` and `connections`."""
    found: dict[str, Any] = msgspec.to_builtins(node)
    for twin in ("text", "node_id"):
        found.pop(twin)
    return found


def peek(session: Session, node_id: str) -> api.NodeResult:
    """Return the node, without counting that as a use."""
    return session.client.call("agent.get", api.NodeParams(node_id=node_id, touch=False), api.NodeResult)


def print_written(session: Session, done: api.WriteResult, verb: str, *, before: api.NodeResult | None = None) -> None:
    """Print the result of a write. With `--json`, print the commit and the node as it is now; or `before`, if the
    write removed the node."""
    if session.json:
        try:
            node = fields(before or peek(session, done.node_id))
        except NotFound:  # it was removed since; the write itself succeeded
            node = {"id": done.node_id, "short_id": done.node_id[:8]}
        remarks = ("changed", "commit", "op", "redacted", "demoted", "degraded", "near")
        render.emit(node | {name: getattr(done, name) for name in remarks})
        return
    print_done(verb if done.changed else "nothing to change in", done.short_id, done.commit)
    print_remarks(done.redacted, done.demoted)


@click.command(
    cls=Verb,
    short_help="Store a memory.",
    example="ormahctl remember 'Prefers TypeScript over JavaScript' --type preference --about-self\n"
    "ormahctl remember - --title 'How we deploy' --type procedure < deploy.md",
)
@click.argument("text")
@click.option(
    "--type",
    type=TYPE,
    metavar="TYPE",
    default="fact",
    show_default=True,
    help=f"What kind of memory it is: {', '.join(TYPES)}.",
)
@click.option(
    "--tier", type=TIER, default="working", show_default=True, help="The tier: how close at hand the memory is."
)
@click.option(
    "--space",
    "space_",
    metavar="NAME",
    help="The space it belongs to. Default: ORMAH_SPACE, or that of the current project.",
)
@click.option("--global", "global_", is_flag=True, help="Make it global: it belongs to no space.")
@click.option("--title", help="A title of one line.")
@click.option("--tag", "tags", multiple=True, help="A tag; may be given several times.")
@click.option("--about-self", is_flag=True, help="Mark it as being about you.")
@click.option("--confidence", type=SHARE, default=1.0, show_default=True, help="How certain it is, 0 to 1.")
@click.option(
    "--link", "links", type=LinkType(), multiple=True, help="An edge to another memory, such as supports:1a2b3c4d."
)
@click.option("--replaces", metavar="ID", multiple=True, help="A memory that this one replaces; may be repeated.")
@click.option("--rejected", metavar="WHY", help="It was tried and given up; WHY is the reason.")
@click.option(
    "--evidence", metavar="FILE", multiple=True, help="A file of this project that it rests on; may be repeated."
)
@click.option("--verbose", is_flag=True, help="Also its file, connections, and similar memories that it may replace.")
@pass_session
def remember(
    session: Session,
    /,
    text: str,
    space_: str | None,
    global_: bool,
    links: tuple[api.Link, ...],
    verbose: bool,
    **given: Any,
) -> None:
    """Store TEXT as a memory; with '-' the text is read from stdin.

    A text that its space has already, with the same type, is not stored twice. Passwords and keys are redacted first.
    """
    content = text_or_stdin(text, "the memory")
    params = api.RememberParams(content=content, space=space(space_, global_), connections=list(links), **given)
    done = session.client.call("agent.remember", params, api.RememberResult)
    if session.json:
        names = ["short_id", "path", "commit", "op", "space", "links", "redacted", "demoted"]
        names += ["existing", "degraded", "near", "replaced"]
        render.emit({"id": done.node_id} | {name: getattr(done, name) for name in names})
        return
    print_done("known already:" if done.existing else "remembered", done.short_id, done.commit, space=done.space)
    if verbose:
        _print_context(done)
    print_remarks(done.redacted, done.demoted)
    if space_ is not None:
        warn_of_similar_space(session, space_)


def _print_context(done: api.RememberResult) -> None:
    """Print what `--verbose` adds: the memory's file, what it replaces, its connections, and the memories close to
    it."""
    render.out(f"  {render.line(done.path or '')}")
    for node_id in done.replaced:
        render.out(f"  replaces {node_id[:8]}")
    for edge in done.links:
        if edge.id not in done.replaced:
            title = render.cut(render.line(edge.title or ""), 60)
            render.out(f"  {edge.edge} {edge.short_id} ({edge.weight:.2f})  {title}".rstrip())
    print_close(done.near, done.short_id)
    if "vectors" in done.degraded:
        render.note("neighbours were not looked for: the model is not loaded yet")


CLEARABLE = ("title", "space", "tags", "valid_until", "rejected", "paths", "commands", "guard", "evidence")


@click.command(
    cls=Verb,
    short_help="Change fields of a memory.",
    example="ormahctl update 97acbe8e --tier core --tag languages\nformat-it < note.txt | ormahctl update 97acbe8e --content -",
    excludes=[("--space", "--global")],
)
@click.argument("node_id", metavar="ID")
@click.option("--content", metavar="TEXT|-", help="The new text; '-' reads it from stdin.")
@click.option("--title", help="The new title.")
@click.option("--type", type=TYPE, metavar="TYPE", help="The new type.")
@click.option("--tier", type=TIER, help="The new tier.")
@click.option("--space", metavar="NAME", help="The new space.")
@click.option("--global", "global_", is_flag=True, help="Make it global: it belongs to no space.")
@click.option("--tag", "tags", multiple=True, help="Add a tag; may be given several times.")
@click.option("--untag", "untags", multiple=True, help="Remove a tag; may be given several times.")
@click.option("--confidence", type=SHARE, help="How certain it is, 0 to 1.")
@click.option("--rejected", metavar="WHY", help="It was tried and given up; WHY is the reason.")
@click.option(
    "--evidence", metavar="FILE", multiple=True, help="A file of this project that it rests on; may be repeated."
)
@click.option("--guard", type=GUARD, help="Before such a command or edit by an agent: ask you, or refuse it (deny).")
@click.option(
    "--clear",
    "cleared",
    type=OneOf(CLEARABLE),
    multiple=True,
    metavar="FIELD",
    help=f"Take a field away: {', '.join(CLEARABLE)}.",
)
@pass_session
def update(
    session: Session,
    /,
    node_id: str,
    content: str | None,
    global_: bool,
    tags: tuple[str, ...],
    untags: tuple[str, ...],
    cleared: tuple[str, ...],
    **given: Any,
) -> None:
    """Change fields of the memory ID; the rest of its note stays as it is, byte for byte."""
    both = {tag.strip().casefold() for tag in tags} & {tag.strip().casefold() for tag in untags}
    if both:
        raise click.UsageError(f"--tag {min(both)} and --untag {min(both)} exclude each other")
    changes = {name: value for name, value in given.items() if value not in (None, ())}
    options = {name: f"--{name}" for name in changes}
    if tags or untags:
        options["tags"] = "--tag" if tags else "--untag"
    for field in cleared:
        if field in options:
            raise click.UsageError(f"--clear {field} and {options[field]} exclude each other")
    if content is not None:
        changes["content"] = text_or_stdin(content, "the text")
    changes |= {name: [] if name == "tags" else None for name in cleared}
    if global_:
        changes["space"] = None
    if not changes and not tags and not untags:
        raise click.UsageError("nothing to change was named")
    params = api.UpdateParams(node_id=node_id, add_tags=list(tags), remove_tags=list(untags), **changes)
    print_written(session, session.client.call("agent.update", params, api.WriteResult), "updated")


def file_of(vault: str, path: str) -> Path:
    """Return the file of a memory in the vault `vault`. The path of a section of a source is absolute and ends with
    `:` and a line, which are removed."""
    return Path(path.rpartition(":")[0]) if path.startswith("/") else Path(vault) / path


WAIT_SECONDS = 10.0
"""Seconds to wait for an edit: the daemon waits until the file is at rest (1.5 s by default), then commits and indexes
it."""
POLL_SECONDS = 0.1


@click.command(cls=Verb, short_help="Open a memory in your editor.", example="EDITOR=nano ormahctl edit 97acbe8e")
@click.argument("node_id", metavar="ID")
@pass_session
def edit(session: Session, node_id: str) -> None:
    """Open the note of the memory ID in VISUAL or EDITOR (otherwise vi).

    What you save is committed under your name, and can be found at once.
    """
    # open the file
    node = peek(session, node_id)
    hello = session.client.call("hello", api.HelloParams(client="ormahctl"), api.HelloResult)
    file = file_of(hello.vault, node.path)
    try:
        before = file.read_bytes()
    except OSError as exc:
        raise NotFound(
            f"{file}: {exc.strerror}", hint="the vault is elsewhere, or the note was moved; try again"
        ) from exc
    _open_editor(file)

    # a file of a source is not in the vault
    if node.path.startswith("/"):
        render.note("it is a file of yours: what you saved is found in a moment, and Ormah commits nothing of it")
        return
    try:
        unchanged = file.read_bytes() == before
    except FileNotFoundError:
        render.note(f"{node.path} is gone; the daemon takes that in")
        return
    if unchanged:
        _print_edit(session, node, "unchanged", None)
        return

    # wait until the daemon has indexed the edit
    session.reconnect()  # the editor may have been open for hours
    try:
        node, commit = _wait_for_edit(session, node, file)
    except Unavailable as exc:
        exc.hint = f"the edit is safe in {file} and is taken in when the daemon runs; {exc.hint or ''}".rstrip("; ")
        raise
    _print_edit(session, node, "edited", commit)


def _open_editor(file: Path) -> None:
    """Open a file in the person's editor (VISUAL, EDITOR, or vi on a terminal), and wait until the editor ends.

    Raises:
        BadRequest: there is no editor, it cannot be started, or it ended with an error.
    """
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ("vi" if sys.stdin.isatty() else "")
    if not command:
        raise BadRequest("there is no terminal to edit on", hint="ormahctl update ID --content TEXT")
    try:
        words = shlex.split(command)
        status = subprocess.run([*words, str(file)], check=False).returncode if words else 127
    except (ValueError, OSError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else str(exc)
        raise BadRequest(
            f"the editor '{command}' cannot be started: {why}",
            hint="set VISUAL or EDITOR, as in: EDITOR=nano ormahctl edit ID",
        ) from exc
    if status:
        raise BadRequest(
            f"the editor '{command}' ended with status {status}",
            hint=f"what it saved, if anything, is in {file} and is taken in by itself",
        )


def _wait_for_edit(session: Session, node: api.NodeResult, file: Path) -> tuple[api.NodeResult, str | None]:
    """Wait until the daemon has indexed the note's file as it is now. Return (node, the commit of the edit). After
    `WAIT_SECONDS`, return `node` as it was before, and None.

    Raises:
        InvalidNote: the edit made the note unreadable.
    """
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        try:
            now = peek(session, node.id)
            if now.digest == hashlib.sha256(file.read_bytes()).hexdigest():
                newest = api.HistoryParams(node_id=node.id, limit=1)
                ops = session.client.call("history.list", newest, api.HistoryResult).ops
                return now, ops[0].commit if ops and ops[0].kind == "edit" else None
        except FileNotFoundError:
            pass  # an editor that replaces files is between its two steps
        except NotFound:
            _refuse_broken(session, node)
        time.sleep(POLL_SECONDS)
    _refuse_broken(session, node)
    render.note("saved; the daemon has not taken it in yet and will do so by itself")
    return node, None


def _refuse_broken(session: Session, node: api.NodeResult) -> None:
    """Raise InvalidNote, with the line and what to do, if the edit made the note unreadable."""
    found = session.client.call("admin.doctor", api.DoctorParams(), api.DoctorResult).findings
    for finding in found:
        if finding.path == node.path and finding.level != "info":
            line = f"line {finding.line}: " if finding.line else ""
            raise InvalidNote(
                f"{node.path} cannot be read as a note any more: {line}{finding.what}",
                hint=finding.mend or f"open it again: ormahctl edit {node.short_id}",
                data={"path": node.path, "line": finding.line},
            )


def _print_edit(session: Session, node: api.NodeResult, word: str, commit: str | None) -> None:
    """Print what became of an edit: `word`, `edited` or `unchanged`, and its commit."""
    if session.json:
        render.emit(fields(node) | {"changed": word != "unchanged", "commit": commit})
        return
    print_done(word, node.short_id, commit)


@click.command(
    cls=Verb,
    short_help="Mark a memory as outdated.",
    example="ormahctl outdated 97acbe8e --reason 'moved to Postgres'\normahctl outdated 97acbe8e --by 1a2b3c4d\n"
    "ormahctl outdated 97acbe8e --revoke",
    excludes=[("--reason", "--revoke"), ("--by", "--revoke")],
)
@click.argument("node_id", metavar="ID")
@click.option("--reason", metavar="R", help="Why it no longer holds.")
@click.option("--by", metavar="ID", help="The memory that replaces it, instead of one that was named before.")
@click.option("--revoke", is_flag=True, help="Remove the mark, and the edges that came with it.")
@pass_session
def outdated(session: Session, node_id: str, reason: str | None, by: str | None, revoke: bool) -> None:
    """Mark the memory ID as no longer valid. It stays in the vault, but searches no longer find it."""
    params = api.OutdatedParams(node_id=node_id, reason=reason, revoke=revoke, by=by)
    verb = "valid again" if revoke else "outdated"
    print_written(session, session.client.call("agent.outdated", params, api.WriteResult), verb)


@click.command(
    cls=Verb,
    short_help="Connect two memories by an edge.",
    example="ormahctl connect 97acbe8e supports 1a2b3c4d --reason 'the build needs it'",
    excludes=[("--remove", "--weight", "--reason")],
)
@click.argument("source_id", metavar="A")
@click.argument("edge", type=EDGE, metavar="EDGE")
@click.argument("target_id", metavar="B")
@click.option("--weight", type=SHARE, default=0.5, show_default=True, help="Weight of the edge, 0 to 1.")
@click.option("--reason", help="The reason for the edge.")
@click.option("--remove", is_flag=True, help="Remove the edge.")
@pass_session
def connect(
    session: Session, source_id: str, edge: str, target_id: str, weight: float, reason: str | None, remove: bool
) -> None:
    """Connect memory A to memory B.

    EDGE is one of supports, part_of, depends_on, defines, derived_from, evolved_from, related_to, contradicts.
    """
    params = api.ConnectParams(
        source_id=source_id, target_id=target_id, edge=edge, weight=weight, reason=reason, remove=remove
    )
    verb = "disconnected" if remove else "connected"
    print_written(session, session.client.call("agent.connect", params, api.WriteResult), verb)
