"""What all commands share: global options, the connection to the daemon, and questions to the person.

The connection is opened when it is first needed. Each call carries the caller's name and the working directory.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import click
from msgspec import UNSET, UnsetType

from ormahctl import render
from ormahd.api import HistoryParams, HistoryResult, Params, Progress, Result
from ormahd.rpc import wire

R = TypeVar("R", bound=Result)

CONNECT_SECONDS = 5.0
CALL_SECONDS = 120.0
"""Seconds that an ordinary call may take: a write waits 5 s for git, a stopping daemon 10 s for requests."""
LONG_SECONDS = 6 * 3600.0
"""Seconds that a call may take that reads every note, or a repository on another machine."""


class Client:
    """Calls the daemon over one connection, in the name of one agent. Not thread-safe."""

    def __init__(self, connection: wire.ClientConnection, *, agent: str) -> None:
        self._connection = connection
        self._agent = agent
        self._cwd = project_folder()
        self._session = agent_session()

    @classmethod
    def open(cls, socket: Path, *, agent: str, timeout: float = CONNECT_SECONDS) -> Client:
        """Connect to the daemon at `socket` within `timeout` seconds.

        Raises:
            Unavailable: no daemon answers there; the error says why and what to do.
        """
        return cls(wire.connect(socket, timeout), agent=agent)

    def call(
        self,
        method: str,
        params: Params,
        result: type[R],
        *,
        on_progress: Callable[[Progress], None] | None = None,
        timeout: float | None = CALL_SECONDS,
    ) -> R:
        """Call a method of the daemon and return its result, which is checked to be a `result`. `on_progress`:
        called with each report of progress. `timeout`: in seconds; None: no limit.

        Raises:
            OrmahError: the daemon's error.
            Incompatible: the answer has another type.
        """
        who = {"agent": self._agent, "cwd": self._cwd, "session": self._session}
        answer = self._connection.call(method, params, **who, on_progress=on_progress, timeout=timeout)
        if not isinstance(answer, result):
            raise wire.Incompatible(
                f"{method}: the answer is no {result.__name__}", hint="restart the daemon: ormahctl restart"
            )
        return answer

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


PERSON = "person"
AGENT_SHELLS = {"CLAUDECODE": "claude-code", "CODEX_THREAD_ID": "codex", "GEMINI_CLI": "gemini"}
"""{environment variable that an agent sets in the shells that it starts: name of the agent}."""

SESSIONS = ("CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID", "GEMINI_SESSION_ID")
PROJECTS = ("CLAUDE_PROJECT_DIR", "GEMINI_PROJECT_DIR")
"""`SESSIONS` and `PROJECTS`: environment variables in which agents give the session's id, and the folder in which the
session began."""
SESSION_CHARACTERS = 1_000
JUDGING = "ORMAH_JUDGING"
"""Environment variable that is set for an agent that Ormah runs as its judge (`ormahd.judge.own_sessions`). Commands of
that agent are refused, so that nothing it does becomes a memory."""


def caller_name() -> str:
    """Return the caller's name if `--agent` is not given: the name of the agent in whose shell the command runs, or
    `person`."""
    return next((agent for variable, agent in AGENT_SHELLS.items() if os.environ.get(variable)), PERSON)


@dataclass
class Session:
    """The global options of a command, and its connection to the daemon, which is opened when it is first needed."""

    json: bool = False
    socket: str | None = None
    agent: str = field(default_factory=caller_name)
    all_commands: bool = False
    """Whether the help lists all commands, not only those that a person needs."""
    may_start: bool = True
    """Whether a call may start the daemon if it is down (`autostart`). False for commands that only report."""
    _client: Client | None = None

    @property
    def client(self) -> Client:
        """The connection to the daemon, which is started first if it is down and may be started.

        Raises Unavailable if no daemon answers.
        """
        if self._client is not None:
            return self._client
        if os.environ.get(JUDGING):
            raise wire.BadRequest(
                "this is a session that Ormah runs as its judge", hint="a judge only answers; it has no memories"
            )
        socket = self.socket_path
        try:
            self._client = Client.open(socket, agent=self.agent)
        except wire.Unavailable as exc:
            if not self.may_start or exc.data.get("reason") not in {"absent", "refused"}:
                raise
            self._start(socket, exc)
            self._client = Client.open(socket, agent=self.agent)
        return self._client

    def follow(
        self,
        what: str,
        method: str,
        params: Params,
        result: type[R],
        *,
        timeout: float | None = LONG_SECONDS,
        counts: bool = False,
    ) -> R:
        """Call a method that may take long, and return its result. On a terminal, a progress bar named `what` is
        shown. `counts`: the bar also shows the number of what is done."""
        with render.Bar(what, counts=counts) as bar:
            return self.client.call(method, params, result, on_progress=bar.follow, timeout=timeout)

    def reconnect(self) -> None:
        """Close the connection, which may have been idle too long; the next call opens another."""
        if self._client is not None:
            self._client.close()
        self._client = None

    def _start(self, socket: Path, absent: wire.Unavailable) -> None:
        """Start the daemon, and warn if its version differs from this command's. `absent`: the error that no daemon
        answers.

        Raises:
            Unavailable: the daemon may not be started automatically (this is `absent`), or does not start.
        """
        from ormahctl import autostart
        from ormahctl.commands.daemon import warn_of_other_version
        from ormahd import paths

        if not autostart.allowed(socket):
            if paths.is_stopped(socket):
                absent.message += "; it was stopped with `ormahctl down`"
            raise absent
        if render.is_terminal(sys.stderr):
            render.note("the daemon was not running; starting it", label="start")
        warn_of_other_version(autostart.start(socket).version)

    @property
    def socket_path(self) -> Path:
        """The path of the daemon's socket: that of `--socket`, else from the environment or the configuration."""
        from ormahd import paths

        return paths.find_socket(self.socket)


pass_session = click.make_pass_decorator(Session, ensure=True)


def space(named: str | None = None, is_global: bool = False) -> str | UnsetType | None:
    """Return the space to pass in a call: `named`, else `ORMAH_SPACE`. Return None for memories without a space:
    with `is_global`, or for `ORMAH_SPACE=global`. Return UNSET if nothing names a space; the daemon then finds it
    from the working directory.

    Raises:
        UsageError: both `named` and `is_global` are given, or `ORMAH_SPACE` is not UTF-8.
    """
    if named is not None and is_global:
        raise click.UsageError("--space and --global exclude each other")
    if is_global:
        return None
    if named is not None:
        return named
    given = os.environ.get("ORMAH_SPACE", "").strip()
    if not given:
        return UNSET
    try:
        given.encode()
    except UnicodeEncodeError:
        raise click.UsageError("ORMAH_SPACE is not valid UTF-8") from None
    return None if given.casefold() == "global" else given


def agent_session() -> str | None:
    """Return the session id that an agent set in the environment (`SESSIONS`), or None if there is no valid one."""
    given = next((os.environ[name] for name in SESSIONS if os.environ.get(name)), None)
    return given if given is not None and given.isprintable() and len(given) <= SESSION_CHARACTERS else None


def project_folder() -> str | None:
    """Return the project's folder if the agent gives one (`PROJECTS`), otherwise the working directory; None if that
    was removed or the path is not UTF-8."""
    try:
        named = next((os.environ[name] for name in PROJECTS if os.path.isabs(os.environ.get(name, ""))), None)
        path = os.getcwd() if named is None else named
        path.encode()
    except (OSError, UnicodeEncodeError):
        return None
    return path


def undo_run(session: Session, run: str) -> str:
    """Return the command that undoes all changes of a run: with the commit of one of them, as `history` lists it."""
    ops = session.client.call("history.list", HistoryParams(run=run, limit=1), HistoryResult).ops
    return f"ormahctl undo --run {ops[0].commit[:8] if ops else run}"


def interactive() -> bool:
    """Whether a person can be asked: stdin and stderr are terminals."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
