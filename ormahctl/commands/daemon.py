"""`ormahctl up`, `down`, `restart`: run the daemon, stop it, run it anew."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from ormahctl import offline, render, supervise
from ormahctl.autostart import is_usual
from ormahctl.commands.status import skew
from ormahctl.registry import Verb
from ormahctl.session import Session, pass_session
from ormahd import __version__, paths
from ormahd.rpc.wire import BadRequest

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
    """Ask the daemon to stop and return when it has; running requests finish first.

    It stays down until `ormahctl up` or the next start of the machine: no command and no agent starts it by itself.
    """
    socket = session.socket_path
    pid = supervise.stop(socket)
    stays = _mark(socket)
    if session.json:
        render.emit({"stopped": pid is not None, "pid": pid, "socket": str(socket)})
        return
    render.out("ormahd is not running" if pid is None else f"ormahd has stopped (pid {pid})")
    if stays:
        render.note("it stays down until: ormahctl up", label="note", colour="cyan")


def _mark(socket: Path) -> bool:
    """Note that a person wants it down, where commands would start it otherwise. Whether that is so."""
    if not paths.autostart() or not is_usual(socket):
        return False
    paths.private_dir(socket.parent)
    paths.down_mark(socket).write_bytes(b"")
    return True


@click.command(
    cls=Verb, short_help="Stop the daemon and start it again.", example="ormahctl restart\normahctl restart --wait"
)
@click.option("--wait", is_flag=True, help="Return only when all is loaded (phase ready).")
@pass_session
def restart(session: Session, wait: bool) -> None:
    """Stop the daemon and start it again, after an update or a change of the settings; one that is down is started. With
    settings that no daemon could start with, the one that runs is left running."""
    socket = session.socket_path
    before = supervise.version(socket)
    if before is not None:
        _refuse_faults()
    pid = supervise.stop(socket)
    started = supervise.start(socket, flag=session.socket)
    hello = started.hello
    if wait and hello.phase != "ready":
        hello = supervise.wait_until_ready(socket, _phase, READY_SECONDS)
    if session.json:
        fields = {"stopped": pid, "how": started.how, "phase": hello.phase, "version": hello.version, "before": before}
        render.emit(fields | {"vault": hello.vault, "vault_id": hello.vault_id, "socket": str(socket)})
    else:
        instead = f", in place of {before}" if before not in {None, hello.version} else ""
        word = "has started again" if pid is not None else "was not running and has started"
        render.out(
            f"ormahd {hello.version} {word} ({started.how}){instead}: {hello.phase}, vault {render.line(hello.vault)}"
        )
    sys.stdout.flush()
    if hello.version != __version__:
        another = f"the daemon that was started is version {hello.version}, this command {__version__}"
        mend = "its service is of another installation; renew it: ormahctl setup service"
        render.note(f"{another}; {mend}" if started.how != "detached" else another)


def _refuse_faults() -> None:
    """Raise BadRequest where the daemon would not come up again with the settings as they are."""
    told = json.loads(offline.answer("config", "check", "--json", fine=(0, 1)))["findings"]
    faults = [one for one in told if one["level"] == "error"]
    if faults:
        more = f" (and {len(faults) - 1} more: ormahctl config check)" if len(faults) > 1 else ""
        raise BadRequest(
            f"{faults[0]['what']}{more}; the daemon still runs, with the settings that it was started with",
            hint=faults[0]["mend"] or "mend it, then: ormahctl restart",
        )
