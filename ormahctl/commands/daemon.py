"""`ormahctl up`, `ormahctl down`: run the daemon, stop it."""

from __future__ import annotations

import sys

import click

from ormahctl import render, supervise
from ormahctl.commands.status import skew
from ormahctl.session import Session, pass_session
from ormahctl.verbs import Verb

READY_SECONDS = 600.0
"""The first start reads and embeds a whole vault; later ones load a model."""


@click.command(
    cls=Verb, short_help="Start the daemon.", example="ormahctl up\normahctl up --wait && ormahctl recall tea"
)
@click.option("--wait", is_flag=True, help="Return only when all is loaded (phase ready).")
@pass_session
def up(session: Session, wait: bool) -> None:
    """Start the daemon and return when it answers; a running one is left alone.

    As a service of systemd or launchd where it is installed as one, else detached from the terminal.
    """
    socket = session.socket_path
    started = supervise.start(socket, flag=session.socket)
    hello = started.hello
    if wait and hello.phase != "ready":
        hello = supervise.wait_until_ready(socket, _phase, READY_SECONDS)
    if session.json:
        fields = {
            "started": started.how != "running",
            "how": started.how,
            "phase": hello.phase,
            "version": hello.version,
        }
        render.emit(fields | {"vault": hello.vault, "vault_id": hello.vault_id, "socket": str(socket)})
    else:
        word = "is running already" if started.how == "running" else f"is up ({started.how})"
        render.out(f"ormahd {hello.version} {word}: {hello.phase}, vault {render.line(hello.vault)}")
    sys.stdout.flush()
    skew(hello.version)


def _phase(phase: str) -> None:
    if phase != "ready":
        render.note(f"{phase} …", label="phase", colour="cyan")


@click.command(cls=Verb, short_help="Stop the daemon.", example="ormahctl down")
@pass_session
def down(session: Session) -> None:
    """Ask the daemon to stop and return when it has; running requests finish first."""
    socket = session.socket_path
    pid = supervise.stop(socket, flag=session.socket)
    if session.json:
        render.emit({"stopped": pid is not None, "pid": pid, "socket": str(socket)})
    elif pid is None:
        render.out("ormahd is not running")
    else:
        render.out(f"ormahd has stopped (pid {pid})")
