"""Send orders from a command to the gateway, and start one if none runs. Without asyncio, which is slow to import."""

from __future__ import annotations

import _socket
import contextlib
import os
import time
from pathlib import Path
from typing import Final

import msgspec

from ormahctl.gateway.access import read_staying_file
from ormahctl.gateway.opening import COMMAND, HEADER, Order, OrderResult
from ormahctl.shim import gateway
from ormahctl.shim.wire import exactly
from ormahd.rpc.wire import BadRequest, OrmahError, Unavailable

SECONDS: Final = 30.0
POLL_SECONDS: Final = 0.05


def order(
    socket: Path, name: str, params: dict[str, object], *, start: bool = True, seconds: float = SECONDS
) -> dict[str, object]:
    """Have the gateway of the daemon at `socket` carry out the order `name` within `seconds`, and return its result.
    With `start`, a gateway is started if none runs.

    Raises:
        Unavailable: there is no gateway, or it does not start or answer.
        BadRequest: the order failed.
    """
    body = msgspec.json.encode(Order(name, params))
    answer = _send_frame(os.fspath(socket), COMMAND + len(body).to_bytes(4, "big") + body, start, seconds)
    outcome = msgspec.json.decode(answer, type=OrderResult)
    if outcome.error is not None:
        raise BadRequest(outcome.error, hint=outcome.hint)
    return outcome.result


def status(socket: Path) -> dict[str, object] | None:
    """Return the state of the gateway of the daemon at `socket` (`host._status`); None if none runs."""
    with contextlib.suppress(Unavailable):
        return order(socket, "status", {}, start=False)
    return None


def reopen(socket: Path) -> None:
    """Start the gateway of the daemon at `socket` if its page is to stay: it opens the page where it was."""
    if read_staying_file(socket) is not None:
        with contextlib.suppress(OrmahError):  # its log says why; the daemon runs all the same
            order(socket, "status", {})


def stop(socket: Path) -> None:
    """End the gateway of the daemon at `socket`, if one runs."""
    with contextlib.suppress(Unavailable):  # it ended before it could answer, or none runs
        order(socket, "stop", {}, start=False)


def _send_frame(socket: str, frame: bytes, start: bool, seconds: float) -> bytes:
    """Send `frame` to the gateway, and return the body of its answer. With `start`, a gateway is started if none
    runs, at most twice.

    Raises:
        Unavailable: there is no gateway, or none answers within `seconds`.
    """
    deadline, start_count = time.monotonic() + seconds, 0
    while True:
        try:
            channel = gateway.connect(socket)
            if channel is None and not start:
                raise Unavailable("no gateway runs", data={"reason": "absent"})
            if channel is None and gateway.begin(socket):
                start_count += 1
        except OSError as exc:
            raise Unavailable(f"the gateway cannot be reached: {exc.strerror or exc}") from exc
        if channel is not None:
            answer = _exchange(channel, frame, seconds)
            if answer is not None:
                return answer
        if start_count > 1 or time.monotonic() > deadline:
            raise Unavailable(f"the gateway does not start: {gateway.last_log_line(socket) or 'it does not answer'}")
        time.sleep(POLL_SECONDS)


def _exchange(channel: _socket.socket, frame: bytes, seconds: float) -> bytes | None:
    """Send `frame` on `channel`, close `channel`, and return the body of the answer; None if the gateway ended before
    it answered."""
    try:
        channel.settimeout(seconds)
        channel.sendall(frame)
        head = exactly(channel, HEADER)
        return exactly(channel, int.from_bytes(head[1:], "big"))
    except (OSError, EOFError):
        return None
    finally:
        channel.close()
