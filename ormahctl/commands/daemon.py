"""`ormahctl up`, `down`, `restart` and `status`: start, stop and look at the daemon.

`status` exits with 69 if the daemon does not answer.
"""

from __future__ import annotations

import json
import sys

import click
import msgspec

from ormahctl import offline, render, supervise
from ormahctl.autostart import is_configured
from ormahctl.commands.judge import judge_lines
from ormahctl.gateway import reach
from ormahctl.registry import Verb
from ormahctl.session import Session, pass_session
from ormahd import __version__, paths
from ormahd.api import HealthResult, NoParams, StatsParams, StatsResult, SyncHealth, WhereResult
from ormahd.rpc.wire import BadRequest

SOURCE_NAMES = {"hook": "hooks", "watcher": "sessions", "folder": "folders"}
"""Names of sources in the reply of `status`, where the watcher is that of the vault."""
SECONDS = 10.0
"""Seconds that `status` waits for the daemon's reply."""


@click.command(
    cls=Verb,
    short_help="Show how Ormah is doing.",
    example="ormahctl status\normahctl status --here\normahctl status --verbose\normahctl --json status | jq .phase",
)
@click.option("--verbose", is_flag=True, help="Also all numbers.")
@click.option("--here", "project_only", is_flag=True, help="Only where the last session in this project stopped.")
@pass_session
def status(session: Session, verbose: bool, project_only: bool) -> None:
    """Show the daemon's phase, the vault, what waits for you, and what does not work. Exit status 69 if the daemon is down."""
    session.may_start = False
    if project_only:
        _print_last_stop(session)
        return

    # ask the daemon; what setup and gateway know is read without it
    health = session.client.call("admin.health", NoParams(), HealthResult, timeout=SECONDS)
    counted = StatsParams(days=14, tags=20)
    stats = session.client.call("admin.stats", counted, StatsResult) if verbose else None
    from ormahctl.setup import connections, service

    connected, lost, starts = list(connections.connected()), connections.lost(), service.starts_at_login()
    gateway = reach.status(session.socket_path)
    both = {"agents": connected, "starts_at_login": starts, "gateway": gateway}
    if session.json:
        render.emit(msgspec.to_builtins(health) | both | ({"stats": stats} if verbose else {}))
        return

    # the daemon, its vault and its index
    colour = "green" if health.phase == "ready" and not health.degraded else "yellow"
    since = render.lasting(health.uptime_seconds)
    render.out(f"{render.paint(health.phase, colour)} · ormahd {health.version} · up {since}")
    index = health.index
    resting = f", {health.archived:,} of them archived" if health.archived else ""
    _row("vault", f"{render.line(health.vault)}  ({render.count(health.nodes, 'memory', 'memories')}{resting})")
    if not index.fresh or index.pending_vectors:
        pending = f", {render.count(index.pending_vectors, 'text')} left" if index.pending_vectors else ""
        _row("index", f"catching up{pending}")

    # agents, and what they were told
    _row("agents", f"{', '.join(connected)} connected" if connected else "none is connected: ormahctl setup")
    for agent, file in lost.items():
        _row("agents", render.paint(f"{file} lost Ormah's entry: ormahctl setup {agent}", "yellow"))
    if health.last_whisper is not None:
        agent = render.line(health.last_whisper_agent or "?").removeprefix("agent:")
        _row("whispers", f"last {render.moment(health.last_whisper)}, for {agent}")
    else:
        _row("whispers", "none yet")

    # what is learned from sessions, and the other machines
    why = health.learning.why
    more = f", {render.count(health.learning.waiting, 'session')} left to read" if health.learning.waiting else ""
    _row("learning", f"sessions are read by {health.learning.by}{more}" if why is None else f"off: {render.line(why)}")
    if health.sync is not None:
        _print_sync(health.sync)

    # what a person may open or has to decide
    waiting = [render.count(health.proposals, "proposal")] if health.proposals else []
    waiting += [render.count(health.conflicts, "conflict")] if health.conflicts else []
    if gateway and gateway["port"]:
        _row("page", f"open at http://127.0.0.1:{gateway['port']}/; for a link to it: ormahctl web")
    if waiting:
        _row("waiting", render.paint(f"{' and '.join(waiting)} for you: ormahctl review", "yellow"))
    _print_troubles(health)
    if verbose:
        render.out()
        render.facts(msgspec.to_builtins(health) | both | {"stats": msgspec.to_builtins(stats)})
    sys.stdout.flush()
    warn_of_other_version(health.version)


def _print_last_stop(session: Session) -> None:
    """Print where the last session in this project stopped: the person's last request, edited files, the failed
    command with its error, and the open question."""
    found = session.client.call("agent.where", NoParams(), WhereResult, timeout=SECONDS)
    if session.json:
        render.emit(found)
    elif found.request is None:
        render.note("no session in this project is archived")
    else:
        when = render.moment(found.time) if found.time else "at an unknown time"
        _row("last", f"{when}, with {found.harness}: ormahctl show {render.line(found.session or '')}")
        _row("asked", f"“{render.line(found.request)}”")
        facts = {"edited": ", ".join(found.files), "failed": found.command, "with": found.error}
        facts |= {"open": found.question, "branch": found.branch}
        for name, text in facts.items():
            if text:
                _row(name, render.line(text))


def _print_troubles(health: HealthResult) -> None:
    """Print a row for each problem: git being busy, sources that cannot be read, failed or paused jobs, the judge,
    missing parts of the search."""
    if health.busy:
        _row("git", render.paint(f"busy: {render.line(health.busy)}; writes are refused meanwhile", "yellow"))
    for source in health.sources:
        for wrong in source.troubles:
            since = f"{render.line(wrong.path)}: {render.line(wrong.why)}, since {render.moment(wrong.since)}"
            _row(SOURCE_NAMES.get(source.source, source.source), render.paint(since, "yellow"))
    for error in health.learning.errors:
        _row("learning", render.paint(render.line(error), "yellow"))
    for name, job in health.jobs.items():
        if job.last_error:
            _row("job", render.paint(f"{render.line(name)} failed: {render.line(job.last_error)}", "red"))
        elif job.running:
            _row("job", f"{render.line(name)} is at work")
    paused = [name for name, job in health.jobs.items() if job.paused]
    if paused:
        _row("paused", "all jobs" if len(paused) == len(health.jobs) else ", ".join(map(render.line, paused)))
    if health.judge is not None:
        for name, text in judge_lines(health.judge):
            _row(name, text)
    if health.degraded:
        _row("degraded", render.paint(", ".join(map(render.line, health.degraded)), "yellow"))
    for warning in health.warnings:
        _row("warning", render.paint(render.line(warning), "yellow"))


def _print_sync(sync: SyncHealth) -> None:
    """Print how the synchronisation with the remote is: offline, failed, or when it last ran and how often it runs."""
    if sync.offline_since is not None:
        since = f"offline since {render.moment(sync.offline_since)}; what is new here follows"
        _row("sync", render.paint(f"{render.line(sync.remote)} is {since}", "yellow"))
    elif sync.trouble is not None:
        _row("sync", render.paint(f"failed: {render.line(sync.trouble)}", "red"))
    else:
        last = f"last {render.moment(sync.last)}" if sync.last else "not yet in this life of the daemon"
        every = f", every {sync.interval_minutes:g} min" if sync.interval_minutes else ""
        _row("sync", f"{render.line(sync.remote)}, {last}{every}")


def warn_of_other_version(version: str) -> None:
    """Print a note if `version`, the running daemon's, differs from the version of this command."""
    if version != __version__:
        render.note(f"the daemon is version {version}, this command {__version__}; restart it: ormahctl restart")


def _row(name: str, text: str) -> None:
    """Print one row of `status`: a heading of at most 9 columns, then the text."""
    render.out(f"{render.pad(name, 9)} {text}", hang=10)


@click.command(cls=Verb, short_help="Start the daemon.", example="ormahctl up")
@pass_session
def up(session: Session) -> None:
    """Start the daemon, as a service if it is installed as one, and return when it answers."""
    socket = session.socket_path
    started = supervise.start(socket, flag=session.socket)
    reach.reopen(socket)
    hello = started.hello
    if session.json:
        fields = {"started": started.how != "running", "how": started.how}
        fields |= {"phase": hello.phase, "version": hello.version}
        render.emit(fields | {"vault": hello.vault, "vault_id": hello.vault_id, "socket": str(socket)})
    else:
        word = "is running already" if started.how == "running" else f"is up ({started.how})"
        render.out(f"ormahd {hello.version} {word}: {hello.phase}, vault {render.line(hello.vault)}")
    sys.stdout.flush()
    warn_of_other_version(hello.version)


@click.command(cls=Verb, short_help="Stop the daemon.", example="ormahctl down")
@pass_session
def down(session: Session) -> None:
    """Stop the daemon and its gateway. Running requests finish first.

    It stays down until `ormahctl up` or the next boot: no command and no agent starts it.
    """
    socket = session.socket_path
    reach.stop(socket)
    pid = supervise.stop(socket)
    stays = paths.autostart() and is_configured(socket)
    if stays:  # commands and agents would start it again
        paths.private_dir(socket.parent)
        paths.down_mark(socket).write_bytes(b"")
    if session.json:
        render.emit({"stopped": pid is not None, "pid": pid, "socket": str(socket)})
        return
    render.out("ormahd is not running" if pid is None else f"ormahd has stopped (pid {pid})")
    if stays:
        render.note("it stays down until: ormahctl up", label="note", colour="cyan")


@click.command(cls=Verb, short_help="Stop the daemon and start it again.", example="ormahctl restart")
@pass_session
def restart(session: Session) -> None:
    """Stop the daemon and start it again, or start it if it is down. If the settings are invalid, nothing is stopped."""
    socket = session.socket_path
    before = supervise.version(socket)
    if before is not None:
        _refuse_faults()
    reach.stop(socket)
    pid = supervise.stop(socket)
    started = supervise.start(socket, flag=session.socket)
    reach.reopen(socket)
    hello = started.hello
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
    """Raise BadRequest if the settings are invalid. A daemon that stops now could not start again with them."""
    findings = json.loads(offline.answer("config", "check", "--json", fine=(0, 1)))["findings"]
    faults = [finding for finding in findings if finding["level"] == "error"]
    if faults:
        more = f" (and {len(faults) - 1} more: ormahctl config check)" if len(faults) > 1 else ""
        raise BadRequest(
            f"{faults[0]['what']}{more}; the daemon still runs, with the settings that it was started with",
            hint=faults[0]["mend"] or "mend it, then: ormahctl restart",
        )
