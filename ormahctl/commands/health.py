"""`ormahctl doctor`, `verify`, `rebuild` and `logs`: find and repair problems, and read the daemon's log."""

from __future__ import annotations

import os
import sys
import tomllib
from collections import deque
from pathlib import Path

import click
import msgspec

from ormahctl import offline, render
from ormahctl.commands.judge import test_judge
from ormahctl.registry import Verb
from ormahctl.session import Session, pass_session
from ormahd import api, paths
from ormahd.rpc.wire import NotFound, OrmahError, Unavailable

FOUND = 1
_COLOURS = {"error": "red", "warning": "yellow", "info": "cyan"}


@click.command(
    cls=Verb,
    short_help="Find problems, and say how to fix them.",
    example="ormahctl doctor\normahctl doctor --fix\normahctl doctor --judge",
    excludes=[("--judge", "--fix")],
)
@click.option("--fix", is_flag=True, help="Fix what needs no decision.")
@click.option("--judge", is_flag=True, help="Ask the judge (jobs.judge) a test question, and show its answer and cost.")
@pass_session
def doctor(session: Session, fix: bool, judge: bool) -> int:
    """Check vault, index, git and models, also while the daemon is down. Exit status 1 if there is an error or a warning,
    or if the judge's answer cannot be used.
    """
    if judge:
        return test_judge(session)
    findings = examine(session, fix=fix)
    if session.json:
        render.emit({"findings": findings})
    else:
        print_findings(findings)
        if not findings:
            render.out("all is well")
    return FOUND if any(finding.level != "info" for finding in findings) else 0


def examine(session: Session, *, fix: bool) -> list[api.Finding]:
    """Return what is wrong with the vault, the index, git, the models and the agents' settings. With `fix`, problems
    that need no decision are mended first. If the daemon is down, it is not started; a child process examines
    instead."""
    session.may_start = False
    daemon = None
    try:
        found = session.follow("examining", "admin.doctor", api.DoctorParams(fix=fix), api.DoctorResult, counts=True)
        daemon = session.client.call("hello", api.HelloParams(client="ormahctl"), api.HelloResult).version
    except Unavailable as exc:
        if exc.data.get("reason") not in {"absent", "refused"}:
            raise
        if not session.json:
            render.note("the daemon is not running; looking without it")
        output = offline.answer("doctor", "--json", *(["--fix"] if fix else []), fine={0, FOUND})
        found = msgspec.json.decode(output, type=api.DoctorResult)
    from ormahctl.setup import connections

    return found.findings + connections.findings(daemon, session.socket_path)


def print_findings(findings: list[api.Finding]) -> None:
    """Print each finding with its level, its place (path and line) and what is wrong, and below it how to mend it."""
    for finding in findings:
        line = f":{finding.line}" if finding.line else ""
        place = f"{render.line(finding.path)}{line}: " if finding.path else ""
        level = render.paint(f"{render.line(finding.level)}:", _COLOURS.get(finding.level, "yellow"))
        render.out(f"{level} {place}{render.line(finding.what)}")
        if finding.mend:
            render.out(f"  {render.line(finding.mend)}")


@click.command(cls=Verb, short_help="Compare the index with the vault.", example="ormahctl verify")
@pass_session
def verify(session: Session) -> int:
    """Compare the index with the vault, note by note. Exit status 1 if they differ."""
    found = session.follow("verifying", "admin.verify", api.NoParams(), api.VerifyResult, counts=True)
    if session.json:
        render.emit(found)
    elif found.ok:
        render.out("the index equals the vault")
    else:
        for difference in found.differences:
            place = render.line(difference.path or difference.id or "")
            values = f": {difference.detail}" if difference.detail else ""
            render.out(f"{place}: {render.line(difference.what)}{render.line(values)}")
        sys.stdout.flush()
        render.note("the index can be made anew from the vault: ormahctl rebuild", label="hint")
    return 0 if found.ok else FOUND


@click.command(cls=Verb, short_help="Rebuild the index from the vault.", example="ormahctl rebuild")
@pass_session
def rebuild(session: Session) -> None:
    """Rebuild the index from the vault. Searches continue meanwhile."""
    done = session.follow("rebuilding", "admin.rebuild", api.NoParams(), api.RebuildResult, counts=True)
    if session.json:
        render.emit(done)
    else:
        render.out(f"indexed {render.count(done.nodes_indexed, 'memory', 'memories')} in {done.seconds:.1f} s")


LOG_NAME = "ormahd.log"
LINES = 100
"""Number of lines of the log that are printed; the file has more."""
SECONDS = 5.0


@click.command(cls=Verb, short_help="Print the last lines of the log.", example="ormahctl logs")
@pass_session
def logs(session: Session) -> None:
    """Print the last lines of the daemon's log, and its path (on stderr)."""
    file = _log_file(session)
    try:
        with file.open(encoding="utf-8", errors="replace") as stream:
            last = deque(stream, maxlen=LINES)
    except FileNotFoundError:
        raise NotFound(
            f"there is no log at {file}", hint="under systemd it is in the journal: journalctl --user -u ormahd"
        ) from None
    if session.json:
        render.emit({"path": str(file), "lines": [text.rstrip("\n") for text in last]})
        return
    for text in last:
        render.out(render.safe(text.rstrip("\n")))
    sys.stdout.flush()
    render.note(str(file), label="log")


def _log_file(session: Session) -> Path:
    """Return the path of the daemon's log. If the daemon does not answer, compute the path from the configured
    vault.

    Raises:
        NotFound: there is no vault.
    """
    session.may_start = False
    try:
        file = session.client.call("admin.health", api.NoParams(), api.HealthResult, timeout=SECONDS).log_file
        if file:
            return Path(file)
    except OrmahError:  # it is down, hangs or stumbles: just then the log is wanted
        render.note("the daemon does not answer; this is the log of the vault that is configured")
    vault = Path(os.environ.get("ORMAH_VAULT") or paths.configured().get("vault") or paths.default_vault())
    try:
        vault_id = tomllib.loads((vault / ".ormah" / "vault.toml").read_text("utf-8"))["id"]
    except (OSError, ValueError, KeyError):
        raise NotFound(
            f"there is no vault at {vault}, so there is no log either", hint="start the daemon: ormahctl up"
        ) from None
    return paths.state_dir(vault, vault_id) / LOG_NAME
