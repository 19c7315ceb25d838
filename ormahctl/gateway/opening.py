"""The first frame of a connection: who connects, and what for.

A frame is a kind (1 byte), a length (4 bytes, big endian) and a body. Kind `p`: a pump begins an MCP session, whose
messages follow as lines (`ormahctl.shim.pump`). Kind `c`: a command sends an order to the gateway itself
(`ormahctl.gateway.reach`). The body of an order is JSON, and so is that of the frame that answers it.
"""

from __future__ import annotations

import os
from typing import Final

import msgspec

SESSION: Final = b"p"
COMMAND: Final = b"c"
HEADER: Final = 5
LARGEST: Final = 65_536
"""Largest body of a first frame, in bytes."""


class Opening(msgspec.Struct, frozen=True):
    """The first frame of an MCP session, from the pump: the process that an agent starts as its MCP server.

    `space`: `ORMAH_SPACE`. `project`: the folder where the session began.
    """

    cwd: str | None
    space: str | None
    project: str | None
    session: str | None


def read_opening(body: bytes) -> Opening | None:
    """Decode the body of a frame of kind `p`; None if it is malformed."""
    fields = body.split(b"\0")
    if len(fields) != 5:
        return None
    cwd, space, project, session = map(_text, fields[:4])
    absolute = [path if path is not None and os.path.isabs(path) else None for path in (cwd, project)]
    return Opening(absolute[0], space, absolute[1], session)


def _text(field: bytes) -> str | None:
    """Return a field's text; None if it is empty or not UTF-8."""
    try:
        return field.decode() or None
    except UnicodeDecodeError:
        return None


class Order(msgspec.Struct, frozen=True):
    """A request that an `ormahctl` command sends to the gateway itself, not to the daemon. `name`: a key of
    `host.ORDERS`."""

    name: str
    params: dict[str, object] = {}


class OrderResult(msgspec.Struct, frozen=True):
    """The answer to an order: a result, or an error with a hint."""

    result: dict[str, object] = {}
    error: str | None = None
    hint: str | None = None
