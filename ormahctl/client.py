"""The connection of a command to the daemon: typed calls from where we are, in the name of who asks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from ormahctl.session import agent_session, here
from ormahd.api import Params, Progress, Result
from ormahd.rpc import wire

R = TypeVar("R", bound=Result)

CONNECT_SECONDS = 5.0
CALL_SECONDS = 120.0
"""Longer than any but the long calls may take: a write waits 5 s for git, a stopping daemon drains for 10 s."""


class Client:
    """One connection. Not for several threads at once."""

    def __init__(self, connection: wire.ClientConnection, *, agent: str) -> None:
        self._connection = connection
        self._agent = agent
        self._cwd = here()
        self._session = agent_session()

    @classmethod
    def open(cls, socket: Path, *, agent: str, timeout: float = CONNECT_SECONDS) -> Client:
        """Connect to the daemon at `socket` within `timeout` seconds.

        Raises:
            Unavailable: nobody answers there; the error says why and what to do.
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
        """Ask and wait. `timeout` in seconds, None: as long as the daemon works."""
        answer = self._connection.call(
            method, params, agent=self._agent, cwd=self._cwd, session=self._session, on_progress=on_progress,
            timeout=timeout,
        )  # fmt: skip
        if not isinstance(answer, result):
            raise wire.Incompatible(
                f"{method}: the answer is no {result.__name__}", hint="restart the daemon: ormahctl restart"
            )
        return answer

    def close(self) -> None:
        self._connection.close()
