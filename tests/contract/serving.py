"""A real server with small answers, and raw connections to it, for the tests of the wire."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import msgspec

from ormahd import api
from ormahd.actions.amend import Progress
from ormahd.errors import NotFound
from ormahd.rpc.server import Limits, Server
from ormahd.rpc.sockets import Listening
from ormahd.state.events import EventStream
from tests.house import wait_until

LIMIT_SECONDS = 120.0


class Answers:
    """What the server under test answers: hello says who we are, a recall does what its query says."""

    def __init__(self) -> None:
        self.gates: dict[str, threading.Event] = {}
        self.begun: list[str] = []

    def gate(self, name: str) -> threading.Event:
        return self.gates.setdefault(name, threading.Event())

    def __call__(self, call: api.Call, progress: Progress) -> api.Result:
        if call.method == "hello":
            return api.HelloResult(
                version="0", protocol=api.PROTOCOL, capabilities=[], vault="/v", vault_id="v", phase="ready"
            )
        if call.method == "agent.recall":
            return self.recall(call.params, progress)
        if call.method == "agent.remember":
            self.wait(call.params.content)
            return api.RememberResult(text=call.params.content, node_id="n", short_id="n")
        self.wait(call.method)
        return api.RebuildResult(status="ok", nodes_indexed=0, seconds=0.0)

    def wait(self, name: str) -> None:
        self.begun.append(name)
        if name in self.gates:
            assert self.gates[name].wait(LIMIT_SECONDS), f"{name} was never let through"

    def recall(self, params: api.RecallParams, progress: Progress) -> api.Result:
        word, _, rest = params.query.partition(" ")
        if word == "wait":
            self.wait(rest)
        if word == "fault":
            raise ZeroDivisionError(rest)
        if word == "exit":
            raise SystemExit(3)
        if word == "missing":
            raise NotFound(f"no memory {rest}", hint="look again", data={"id": rest})
        if word == "steps":
            for done in range(int(rest)):
                progress(done, int(rest), "counting")
        text = "x" * int(rest) if word == "size" else params.query
        return api.RecallResult(text=text, results=[])


@contextlib.contextmanager
def serving(
    answer: Callable[..., api.Result] | None = None,
    at: Path | Listening | None = None,
    hook: Any = None,
    events: EventStream | None = None,
    **values: Any,
) -> Iterator[Server]:
    """A server that runs; its socket lies in a directory of its own."""
    with tempfile.TemporaryDirectory(prefix="ormah-") as directory:
        server = Server(at or Path(directory) / "s" / "o.sock", Limits(**values), events=events)
        server.start(answer or Answers(), hook)
        try:
            yield server
        finally:
            server.stop(LIMIT_SECONDS)


def until(condition: Callable[[], Any], what: str = "the condition") -> Any:
    return wait_until(condition, what, LIMIT_SECONDS, every=0.005)


class Raw:
    """A connection that sends and receives whatever bytes a test likes."""

    def __init__(self, path: Path) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(LIMIT_SECONDS)
        self.sock.connect(str(path))

    def frame(self, kind: bytes, body: bytes) -> None:
        self.sock.sendall(kind + struct.pack(">I", len(body)) + body)

    def json(self, value: Any) -> None:
        self.frame(b"j", json.dumps(value).encode())

    def msgpack(self, value: Any) -> None:
        self.frame(b"m", msgspec.msgpack.encode(value))

    def exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self.sock.recv(count - len(data))
            if not more:
                assert not data, "the server sends whole frames"
                raise EOFError
            data += more
        return data

    def read(self) -> tuple[bytes, bytes]:
        kind, length = struct.unpack(">cI", self.exactly(5))
        try:
            return kind, self.exactly(length) if length else b""
        except EOFError:
            raise AssertionError("the server sends whole frames") from None

    def reply(self) -> dict[str, Any]:
        kind, body = self.read()
        found: dict[str, Any] = json.loads(body) if kind == b"j" else msgspec.msgpack.decode(body)
        return found

    def ended(self) -> bool:
        """True when the server has closed; frames that still come are a failure."""
        try:
            return self.sock.recv(1) == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        self.sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def lively(path: Path) -> bool:
    """True when the server answers a new connection."""
    with Raw(path) as raw:
        raw.json({"id": 1, "method": "hello"})
        return raw.reply()["result"]["phase"] == "ready"
