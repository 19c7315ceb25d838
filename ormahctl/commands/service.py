"""`ormahctl setup service` and `uninstall service`: make systemd or launchd start the daemon at login.

Also holds what `setup` and `uninstall` share: to ask before a settings file is changed, and to report the result.
"""

from __future__ import annotations

import difflib
import getpass
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

import click

from ormahctl import managers, render, supervise
from ormahctl.session import Session, interactive
from ormahctl.setup import change, service
from ormahctl.setup.change import ConfigChange
from ormahd import paths
from ormahd.rpc.wire import BadRequest, Unavailable

SERVICE = "service"
DECLINED = 1
HELLO_SECONDS = 2.0


def agreed(
    changes: Sequence[ConfigChange], *, dry_run: bool, yes: bool, quiet: bool, question: str | None = None
) -> bool:
    """Return whether to make the changes. With `dry_run`: print them as diffs and return False. With `yes`, or if
    nothing would change: return True without asking. Otherwise print the diffs and ask `question`. `quiet`: a dry
    run prints nothing.

    Raises:
        BadRequest: an answer is needed, and there is no terminal to ask at.
    """
    real = [change for change in changes if change.changed]
    if dry_run:
        for change in [] if quiet else real:
            print_diff(change, sys.stdout)
        if not real and not quiet:
            render.out("nothing would change")
        return False
    if yes or not real:
        return True
    if not interactive():
        raise BadRequest(
            f"this changes {', '.join(str(change.path) for change in real)}, and there is no terminal to ask on",
            hint="give --yes, or --dry-run to see the change",
        )
    for change in real:
        print_diff(change, sys.stderr)
    if click.confirm(question or ("Change it?" if len(real) == 1 else "Change them?"), err=True):
        return True
    render.note("nothing was changed")
    return False


def print_diff(change: ConfigChange, stream: TextIO) -> None:
    """Print a change of a file to `stream`, as a unified diff with colours."""
    colours = {"+": "green", "-": "red", "@": "cyan"}
    for text in diff(change):
        colour = colours.get(text[:1]) if not text.startswith(("+++", "---")) else "bold"
        text = render.safe(text)
        stream.write((render.paint(text, colour, stream) if colour else text) + "\n")


def diff(change: ConfigChange) -> list[str]:
    """Return the lines, without line ends, of a unified diff between the file as it was read and as it will be."""
    before, after = (
        (data or b"").decode("utf-8", "backslashreplace").splitlines(keepends=True)
        for data in (change.seen.data, change.after)
    )
    names = [str(change.path) if data is not None else "/dev/null" for data in (change.seen.data, change.after)]
    lines: list[str] = []
    for text in difflib.unified_diff(before, after, names[0], names[1]):
        lines.append(text.removesuffix("\n").removesuffix("\r"))
        if not text.endswith("\n"):
            lines.append("\\ No newline at end of file")
    return lines


def short_path(path: Path) -> str:
    """Return a path with `~` for the home directory."""
    home = paths.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


def daemon_status(session: Session) -> tuple[str | None, str | None, str | None]:
    """Return (phase, vault, error message) of the daemon. All are None if no daemon answers. If it answers with an
    error, only the message is set."""
    try:
        hello = supervise.hello(session.socket_path, HELLO_SECONDS)
    except Unavailable as exc:
        return None, None, exc.message
    return (hello.phase, hello.vault, None) if hello else (None, None, None)


def current_vault(session: Session) -> tuple[Path, bool]:
    """Return (the vault's folder, whether that folder is certain). It is certain if it has a vault already, or if
    the running daemon, the environment or the configuration names it; then the person need not be asked."""
    running = daemon_status(session)[1]
    given = os.environ.get("ORMAH_VAULT") or os.environ.get("ORMAH_VAULT_PATH")
    configured = paths.configured().get("vault")
    path = paths.expand(Path(running or given or configured or paths.default_vault()))
    return path, bool(running or given or configured) or (path / ".ormah").is_dir()


def install(session: Session, *, dry_run: bool, yes: bool) -> int:
    """Write the service's files, then enable and start the service, if the person agrees. A daemon that was started
    by hand is stopped, and the service runs instead. Return the exit status. `dry_run`: only show the files. `yes`:
    do not ask.

    Raises:
        Unavailable: this machine has no service manager.
    """
    # plan the files, and ask
    state = managers.state()
    if state == "none":
        raise _no_manager_error()
    socket = session.socket_path
    changes = service.install(socket)
    changed = any(planned.changed for planned in changes)
    commands = [] if state == "answers" else [shlex.join(command) for command in managers.enable_commands()]
    if not agreed(changes, dry_run=dry_run, yes=yes, quiet=session.json):
        if dry_run and session.json:
            render.emit({"files": [_change_fields(planned, dry_run=True) for planned in changes], "commands": commands})
        return 0 if dry_run else DECLINED
    for planned in changes:
        planned.make()

    # without a reachable service manager, the person runs its commands after the next login
    stopped = enable(socket, changed=changed) if state == "answers" else None
    if session.json:
        done = {"started": state == "answers", "stopped": stopped, "commands": commands}
        render.emit({"files": [_change_fields(planned) for planned in changes], **done})
        return 0

    # report what was done, and what the person may do
    word = "is" if not changed else "is now"
    render.out(f"ormahd {word} a service of {'launchd' if managers.MACOS else 'systemd'}: it starts when you log in")
    for planned in changes:
        render.out(f"  {render.line(str(planned.path))}")
    sys.stdout.flush()
    if stopped is not None:
        what = f"the daemon that was started by hand (pid {stopped}) has stopped, the service runs in its place"
        render.note(what, label="note", colour="cyan")
    if commands:
        what = "no service manager answers in this session (no login session, or ssh without one). Log in, and type:"
        render.note(what, label="next")
        sys.stderr.flush()
        for text in commands:
            render.out(f"  {text}")
    if not managers.MACOS and (commands or os.environ.get("SSH_CONNECTION")) and not managers.lingers():
        words = f"loginctl enable-linger {shlex.quote(getpass.getuser())}"
        what = f"to have it from the start of the machine, without a login: {words}"
        render.note(what, label="hint")
    warn_of_shell()
    return 0


def warn_of_shell() -> None:
    """Name the settings of this shell that the service will not have."""
    if ignored := service.ignored_settings(os.environ):
        render.note(
            f"settings of this shell that the service does not have: {', '.join(ignored)}; put them into config.toml"
        )


def enable(socket: Path, *, changed: bool) -> int | None:
    """Enable and start the service. `changed`: its files are new or were changed. Return the pid of a daemon that
    ran before and was stopped; None if none was stopped.

    A daemon that was started by hand has to stop, because it would keep the vault and the socket from the service.
    """
    paths.private_dir(socket.parent)
    stopped = supervise.stop(socket) if changed or managers.service_pid() == 0 else None
    _run_commands(managers.enable_commands())
    return stopped


def plan_removal() -> tuple[list[ConfigChange], list[str]]:
    """Return (the changes that restore the files that `install` wrote, the names of files that were edited since and
    are left alone)."""
    changes, edited = change.plan_restores(service.OWNER)
    return changes, [str(path) for path in edited]


def remove(changes: Sequence[ConfigChange]) -> None:
    """Stop and disable the service, and restore its files."""
    answers = managers.state() == "answers"
    if answers:
        _run_commands(managers.disable_commands(), check=False)
    change.make_restores(changes)
    if answers:
        _run_commands(managers.reload_commands(), check=False)


def uninstall(session: Session, *, dry_run: bool, yes: bool) -> int:
    """Remove the service, if the person agrees. Memories and the agents' hooks stay. Return the exit status."""
    changes, edited = plan_removal()
    if not agreed(changes, dry_run=dry_run, yes=yes or not interactive(), quiet=session.json):
        if session.json and dry_run:
            render.emit({"files": [_change_fields(planned, dry_run=True) for planned in changes], "edited": edited})
        return 0 if dry_run else DECLINED
    if changes:
        remove(changes)
    if session.json:
        render.emit({"files": [_change_fields(planned) for planned in changes], "edited": edited})
        return 0
    render.out("ormahd is no service any more" if changes else "ormahd is not installed as a service by setup")
    for path in edited:
        render.note(f"{path} was edited since and stays; remove it yourself if it is not wanted")
    return 0


def _run_commands(commands: Sequence[Sequence[str]], *, check: bool = True) -> None:
    """Run the commands one after the other. With `check`, stop at the first one that fails.

    Raises:
        Unavailable: a command failed. The service's files stay, so setup can be repeated.
    """
    for command in commands:
        done = managers.run_tool(*command)
        if check and done.returncode:
            output = (done.stderr or done.stdout).strip().splitlines()
            raise Unavailable(
                f"{shlex.join(command)}: {output[-1] if output else f'status {done.returncode}'}",
                hint="the files are written; mend that, then: ormahctl setup service",
            )


def _no_manager_error() -> Unavailable:
    """Return the error for a machine without a service manager, with a hint for WSL or for containers."""
    what = "systemd is not what runs this machine"
    if managers.is_wsl():
        hint = "put systemd=true under [boot] in /etc/wsl.conf, type wsl --shutdown in Windows, then try again"
    else:
        hint = "in a container start it with: ormahd run; else commands and sessions start it when they need it"
    return Unavailable(f"there is no service manager here ({what})", hint=hint)


def _change_fields(planned: ConfigChange, *, dry_run: bool = False) -> dict[str, Any]:
    """Return a change of a file as a map for JSON output: `file` and `changed`, for a dry run also `diff`."""
    fields: dict[str, Any] = {"file": str(planned.path), "changed": planned.changed}
    return fields | ({"diff": "\n".join(diff(planned))} if dry_run else {})
