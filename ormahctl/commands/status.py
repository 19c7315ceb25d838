"""`ormahctl status`: how the daemon is doing. Exit 69 when it does not answer."""

from __future__ import annotations

import sys

import click
import msgspec

from ormahctl import render
from ormahctl.registry import Verb
from ormahctl.session import Session, pass_session
from ormahd import __version__
from ormahd.api import EmbeddingHealth, HealthResult, NoParams, SyncHealth, VectorsHealth

RUNTIMES = {"onnx": "ONNX Runtime", "torch": "torch"}
SECONDS = 10.0
"""A daemon that cannot say in this time how it is, is not well."""


@click.command(
    cls=Verb, short_help="How the daemon is doing.", example="ormahctl status\normahctl --json status | jq .phase"
)
@pass_session
def status(session: Session) -> None:
    """Show the daemon's phase, vault, index, who is connected, and whatever is missing. Exit status 69 when it does not answer."""
    session.starts = False
    health = session.client.call("admin.health", NoParams(), HealthResult, timeout=SECONDS)
    from ormahctl.setup import look, service

    connected, starts = list(look.connected()), service.starts_at_login()
    if session.json:
        render.emit(msgspec.to_builtins(health) | {"agents": connected, "starts_at_login": starts})
        return
    colour = "green" if health.phase == "ready" and not health.degraded else "yellow"
    since = render.lasting(health.uptime_seconds)
    render.out(f"{render.paint(health.phase, colour)} · ormahd {health.version} · pid {health.pid} · up {since}")
    index = health.index
    resting = f", {health.archived:,} of them archived" if health.archived else ""
    _line("vault", f"{render.line(health.vault)}  ({render.count(health.nodes, 'memory', 'memories')}{resting})")
    pending = f", {render.count(index.pending_vectors, 'text')} waiting for the model" if index.pending_vectors else ""
    state = "up to date" if index.fresh else "catching up"
    _line("index", f"{state}, {render.count(index.notes, 'note')}, {render.size(index.bytes)}{pending}")
    _line("model", render.line(index.model) + _served(health.embedding))
    if health.vectors is not None:
        _line("vectors", _searched(health.vectors))
    _line("agents", f"{', '.join(connected)} connected" if connected else "none is connected: ormahctl setup")
    last = "nothing yet, as far as the log goes back"
    if health.last_whisper is not None:
        last = f"last {render.moment(health.last_whisper)}, for {render.line(health.last_whisper_agent or '?').removeprefix('agent:')}"
    _line("whispers", last)
    _line("at login", "starts by itself" if starts else "does not start by itself: ormahctl setup service")
    _line("watcher", render.line(health.watcher))
    _line("socket", render.line(health.socket))
    clients = render.count(health.clients, "client")
    _line("process", f"{health.rss_mb:.0f} MB, {render.count(health.threads, 'thread')}, {clients}")
    if health.queued or health.busy:
        busy = f": {render.line(health.busy)}" if health.busy else ""
        _line("git", render.paint(f"busy{busy}; {render.count(health.queued, 'write')} safe and waiting", "yellow"))
    if health.sync is not None:
        _sync(health.sync)
    if health.conflicts:
        waiting = render.count(health.conflicts, "conflict waits", "conflicts wait")
        _line("conflicts", render.paint(f"{waiting} for you: ormahctl sync --conflicts", "yellow"))
    for name, job in health.jobs.items():
        if job.last_error:
            _line("job", render.paint(f"{render.line(name)} failed: {render.line(job.last_error)}", "red"))
        elif job.running:
            _line("job", f"{render.line(name)} is at work")
    paused = [name for name, job in health.jobs.items() if job.paused]
    if paused:
        _line("paused", "all jobs" if len(paused) == len(health.jobs) else ", ".join(map(render.line, paused)))
    if health.proposals:
        _line("waiting", f"{render.count(health.proposals, 'proposal')} for you: ormahctl proposals")
    if health.degraded:
        _line("degraded", render.paint(", ".join(map(render.line, health.degraded)), "yellow"))
    for warning in health.warnings:
        _line("warning", render.paint(render.line(warning), "yellow"))
    sys.stdout.flush()
    skew(health.version)


def _served(embedding: EmbeddingHealth | None) -> str:
    """What runs the model; nothing to say until it is loaded."""
    if embedding is None or embedding.runtime not in RUNTIMES:
        return ""
    return f" · {RUNTIMES[embedding.runtime]} {render.line(embedding.version)}, {embedding.precision}"


def _searched(vectors: VectorsHealth) -> str:
    """Return where vectors are searched, and which server is given them too."""
    server = f"the Chroma server {render.line(vectors.server)}" if vectors.server else "the embedded Chroma"
    if vectors.searched == "nowhere":
        return "not searched yet: the model is loading"
    if vectors.searched != "memory":
        return f"searched by {server}"
    if vectors.trouble:
        return render.paint(
            f"searched here, in memory: {server} cannot be asked ({render.line(vectors.trouble)})", "yellow"
        )
    return f"searched here, in memory; {server} learns them too" if vectors.server else "searched here, in memory"


def _sync(sync: SyncHealth) -> None:
    if sync.offline_since is not None:
        since = f"offline since {render.moment(sync.offline_since)}; what is new here follows"
        _line("sync", render.paint(f"{render.line(sync.remote)} is {since}", "yellow"))
    elif sync.trouble is not None:
        _line("sync", render.paint(f"failed: {render.line(sync.trouble)}", "red"))
    else:
        last = f"last {render.moment(sync.last)}" if sync.last else "not yet in this life of the daemon"
        every = f", every {sync.interval_minutes:g} min" if sync.interval_minutes else ""
        _line("sync", f"{render.line(sync.remote)}, {last}{every}")


def skew(version: str) -> None:
    """Say it when the daemon is of another version than this command."""
    if version != __version__:
        render.note(f"the daemon is version {version}, this command {__version__}; restart it: ormahctl restart")


def _line(name: str, text: str) -> None:
    render.out(f"{render.pad(name, 9)} {text}", hang=10)
