"""What all commands share: the options before the command's name, and the connection, opened when it is needed."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import UNSET, UnsetType

if TYPE_CHECKING:
    from ormahctl.client import Client
    from ormahd.rpc.wire import Unavailable

PERSON = "person"
AGENT_SHELLS = {"CLAUDECODE": "claude-code", "CODEX_THREAD_ID": "codex", "GEMINI_CLI": "gemini"}
"""A variable that an agent's program sets in the shells that it starts -> the agent."""

SESSIONS = ("CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID", "GEMINI_SESSION_ID")
PROJECTS = ("CLAUDE_PROJECT_DIR", "GEMINI_PROJECT_DIR")
"""Variables that agents' programs set for what they start: the session, and the folder in which it began."""
SESSION_CHARACTERS = 1_000


def who() -> str:
    """Who runs this command where `--agent` does not say: the agent in whose shell it is, else a person."""
    return next((agent for variable, agent in AGENT_SHELLS.items() if os.environ.get(variable)), PERSON)


@dataclass
class Session:
    json: bool = False
    socket: str | None = None
    agent: str = field(default_factory=who)
    starts: bool = True
    """Whether a call may start the daemon where it is down (`autostart`). False for commands that only look."""
    _client: Client | None = None

    @property
    def client(self) -> Client:
        """The connection to the daemon; raises Unavailable when nobody answers."""
        if self._client is None:
            self._client = self.connect()
        return self._client

    def reconnect(self) -> None:
        """Let go of a connection that may have been idle for long; the next call opens another."""
        if self._client is not None:
            self._client.close()
        self._client = None

    def connect(self) -> Client:
        """A further connection of its own; starts the daemon where it is down and may be started.

        Raises:
            Unavailable: nobody answers.
        """
        from ormahctl.client import Client
        from ormahd.rpc.wire import Unavailable

        socket = self.socket_path
        try:
            return Client.open(socket, agent=self.agent)
        except Unavailable as exc:
            if not self.starts or exc.data.get("reason") not in {"absent", "refused"}:
                raise
            self._start(socket, exc)
        return Client.open(socket, agent=self.agent)

    def _start(self, socket: Path, absent: Unavailable) -> None:
        from ormahctl import autostart, render
        from ormahctl.commands.status import skew
        from ormahd import paths

        if not autostart.allowed(socket):
            if paths.is_stopped(socket):
                absent.message += "; it was stopped with `ormahctl down`"
            raise absent
        if render.terminal(sys.stderr):
            render.note("the daemon was not running; starting it", label="start", colour="cyan")
        skew(autostart.start(socket).version)

    @property
    def socket_path(self) -> Path:
        from ormahd import paths

        return paths.find_socket(self.socket)


pass_session = click.make_pass_decorator(Session, ensure=True)


def space(named: str | None = None, is_global: bool = False) -> str | UnsetType | None:
    """The space of a call: the option, then `ORMAH_SPACE`, else unset, and the daemon detects it from where we are.

    `ORMAH_SPACE=global` means memories without a space, as `--global` does.
    """
    if named is not None and is_global:
        raise click.UsageError("--space and --global exclude each other", click.get_current_context(silent=True))
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
    """The session of the agent in whose shell this command runs, as its hooks name it; None where the shell does not say."""
    given = next((os.environ[name] for name in SESSIONS if os.environ.get(name)), None)
    return given if given is not None and given.isprintable() and len(given) <= SESSION_CHARACTERS else None


def here() -> str | None:
    """The folder of the project where the agent's program names it, else the absolute working directory; None where that is gone
    or cannot be written down as UTF-8."""
    try:
        named = next((os.environ[name] for name in PROJECTS if os.path.isabs(os.environ.get(name, ""))), None)
        path = os.getcwd() if named is None else named
        path.encode()
    except (OSError, UnicodeEncodeError):
        return None
    return path
