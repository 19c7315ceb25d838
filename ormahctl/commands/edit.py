"""`ormahctl edit`: open the note itself in the person's editor, and wait until the daemon has taken the edit in."""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import time
from pathlib import Path

import click

from ormahctl import render
from ormahctl.commands.notices import fields, peek
from ormahctl.complete import NodeId
from ormahctl.registry import Verb
from ormahctl.session import Session, pass_session
from ormahd.api import (
    DoctorParams,
    DoctorResult,
    HelloParams,
    HelloResult,
    HistoryParams,
    HistoryResult,
    NodeResult,
)
from ormahd.rpc.wire import BadRequest, InvalidNote, NotFound, Unavailable

WAIT_SECONDS = 10.0
"""The daemon lets a file rest (1.5 s by default) before it takes an edit in; then commit and index follow at once."""
POLL_SECONDS = 0.1


@click.command(cls=Verb, short_help="Open a memory in your editor.", example="EDITOR=nano ormahctl edit 97acbe8e")
@click.argument("node_id", metavar="ID", type=NodeId())
@pass_session
def edit(session: Session, node_id: str) -> None:
    """Open the note of the memory ID in VISUAL or EDITOR (else vi).

    It is the file in the vault; what you save there is committed under your name and found at once.
    """
    node = peek(session, node_id)
    hello = session.client.call("hello", HelloParams(client="ormahctl"), HelloResult)
    file = Path(hello.vault) / node.path
    try:
        before = file.read_bytes()
    except OSError as exc:
        raise NotFound(
            f"{file}: {exc.strerror}", hint="the vault is elsewhere, or the note was moved; try again"
        ) from exc
    _open_editor(file)
    try:
        unchanged = file.read_bytes() == before
    except FileNotFoundError:
        render.note(f"{node.path} is gone; the daemon takes that in")
        return
    if unchanged:
        _report(session, node, "unchanged", None)
        return
    session.reconnect()  # the editor may have been open for hours
    try:
        node, commit = _taken_in(session, node, file)
    except Unavailable as exc:
        exc.hint = f"the edit is safe in {file} and is taken in when the daemon runs; {exc.hint or ''}".rstrip("; ")
        raise
    _report(session, node, "edited", commit)


def _open_editor(file: Path) -> None:
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
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


def _taken_in(session: Session, node: NodeResult, file: Path) -> tuple[NodeResult, str | None]:
    """Wait until the daemon's version of the note is the file's; (node, commit), or the old node when it takes longer."""
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        try:
            now = peek(session, node.id)
        except NotFound:
            _broken(session, node)
        else:
            if now.digest == hashlib.sha256(_bytes(file)).hexdigest():
                return now, _commit(session, node)
        time.sleep(POLL_SECONDS)
    _broken(session, node)
    render.note("saved; the daemon has not taken it in yet and will do so by itself")
    return node, None


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return b""  # an editor that replaces files is between its two steps; asked again in a moment


def _commit(session: Session, node: NodeResult) -> str | None:
    newest = session.client.call("history.list", HistoryParams(node_id=node.id, limit=1), HistoryResult).ops
    return newest[0].commit if newest and newest[0].kind in {"edit", "adopt"} else None


def _broken(session: Session, node: NodeResult) -> None:
    """Raise InvalidNote with the line and the mend, when the edit made the note unreadable."""
    found = session.client.call("admin.doctor", DoctorParams(), DoctorResult).findings
    for finding in found:
        if finding.path == node.path and finding.level != "info":
            line = f"line {finding.line}: " if finding.line else ""
            raise InvalidNote(
                f"{node.path} cannot be read as a note any more: {line}{finding.what}",
                hint=finding.mend or f"open it again: ormahctl edit {node.short_id}",
                data={"path": node.path, "line": finding.line},
            )


def _report(session: Session, node: NodeResult, word: str, commit: str | None) -> None:
    if session.json:
        render.emit(fields(node) | {"changed": word != "unchanged", "commit": commit})
        return
    render.out(f"{word} {render.paint(node.short_id, 'bold')}  {render.line(node.path)}")
    if commit:
        render.out(f"  commit {commit[:8]}")
