"""`ormahctl logs`: the last lines of the daemon's log."""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from pathlib import Path

import click

from ormahctl import render
from ormahctl.client import Client
from ormahctl.registry import Verb
from ormahctl.session import Session, pass_session
from ormahd import paths
from ormahd.api import HealthResult, HelloParams, HelloResult, NoParams
from ormahd.rpc.wire import NotFound, OrmahError

LOG_NAME = "ormahd.log"
POLL_SECONDS = 0.2
SECONDS = 5.0


@click.command(
    cls=Verb, short_help="The last lines of the log.", example="ormahctl logs -n 100\normahctl logs --follow"
)
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(0),
    metavar="N",
    default=50,
    show_default=True,
    help="So many of the last lines.",
)
@click.option("-f", "--follow", is_flag=True, help="Go on printing what is added, until Ctrl-C.")
@pass_session
def logs(session: Session, lines: int, follow: bool) -> None:
    """Print the last lines of the daemon's log, also while it is down."""
    if session.json and follow:
        raise click.UsageError("--json and --follow exclude each other", click.get_current_context())
    file = _log_file(session)
    try:
        with file.open(encoding="utf-8", errors="replace") as stream:
            last = deque(stream, maxlen=lines)
            place = stream.tell()
            inode = os.fstat(stream.fileno()).st_ino
    except FileNotFoundError:
        raise NotFound(
            f"there is no log at {file}", hint="under systemd it is in the journal: journalctl --user -u ormahd"
        ) from None
    if session.json:
        render.emit({"path": str(file), "lines": [text.rstrip("\n") for text in last]})
        return
    for text in last:
        render.out(render.safe(text.rstrip("\n")))
    if follow:
        _follow(file, place, inode)


def _follow(file: Path, place: int, inode: int) -> None:
    """Print what is added to `file` from `place` on, also behind a turning over of the log."""
    while True:
        sys.stdout.flush()
        time.sleep(POLL_SECONDS)
        try:
            found = file.stat()
        except FileNotFoundError:
            continue
        if found.st_ino != inode or found.st_size < place:
            place, inode = 0, found.st_ino
        if found.st_size == place:
            continue
        with file.open("rb") as stream:
            stream.seek(place)
            data = stream.read()
        whole = data[: data.rfind(b"\n") + 1]
        place += len(whole)
        for text in whole.decode("utf-8", "replace").splitlines():
            render.out(render.safe(text))


def _log_file(session: Session) -> Path:
    """Where the log is: asked of the daemon, or, while it is down, worked out from the vault."""
    try:
        session.starts = False
        client = session.client
        told = _told(client)
        if told is not None:
            return told
        hello = client.call("hello", HelloParams(client="ormahctl"), HelloResult, timeout=SECONDS)
        vault, vault_id = Path(hello.vault), hello.vault_id
    except OrmahError:  # it is down, hangs or stumbles: just then the log is wanted
        vault = Path(os.environ.get("ORMAH_VAULT") or paths.configured().get("vault") or paths.default_vault())
        vault_id = _vault_id(vault)
    return paths.state_dir(vault, vault_id) / LOG_NAME


def _told(client: Client) -> Path | None:
    """The log file that the daemon names; None when it cannot say."""
    try:
        file = client.call("admin.health", NoParams(), HealthResult, timeout=SECONDS).log_file
    except OrmahError:
        return None
    return Path(file) if file else None


def _vault_id(vault: Path) -> str:
    import tomllib

    file = vault / ".ormah" / "vault.toml"
    try:
        value = tomllib.loads(file.read_text("utf-8")).get("id")
    except (OSError, ValueError):
        value = None
    if not isinstance(value, str):
        raise NotFound(f"there is no vault at {vault}, so there is no log either", hint="start the daemon: ormahctl up")
    return value
