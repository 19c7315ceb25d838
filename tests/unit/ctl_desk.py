"""A small real server that speaks the wire and answers what a test lays out: for answers no daemon gives on demand.

Hostile contents, other versions, every error code, slow batches. The commands run as real processes against it (tests/forked.py).
"""

from __future__ import annotations

import os
import pty
import re
import socket
import subprocess
import sys
import tempfile
import termios
import threading
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ormahd import __version__, api
from ormahd.rpc.codec import encode, error_reply, read_call, result_reply
from ormahd.rpc.wire import Frames, OrmahError, pack
from tests import forked
from tests.house import wait_until
from tests.surroundings import surroundings

Answer = Callable[[Any], api.Result]


def ctl(
    *args: str | bytes,
    env: dict[str, str],
    stdin: str | bytes = b"",
    cwd: Path | None = None,
    timeout: float = 60.0,
) -> subprocess.CompletedProcess[str]:
    """Run `ormahctl` with `args` to its end; output decoded as UTF-8."""
    given = stdin.encode() if isinstance(stdin, str) else stdin
    command = [sys.executable, "-m", "ormahctl", *args]
    done = subprocess.run(command, input=given, capture_output=True, env=env, cwd=cwd, timeout=timeout, check=False)
    return _decoded(done)


def _decoded(done: subprocess.CompletedProcess[bytes]) -> subprocess.CompletedProcess[str]:
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode("utf-8"), done.stderr.decode("utf-8", "backslashreplace")
    )


def quick(
    *args: str, env: dict[str, str], stdin: str | bytes = b"", cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """As `ctl`, in a fork of a process that has imported it."""
    given = stdin.encode() if isinstance(stdin, str) else stdin
    return _decoded(forked.run("ormahctl", *args, env=env, cwd=cwd or Path.cwd(), given=given, timeout=120.0))


@dataclass
class Desk:
    """`answers[method]` is a result, an error, or a function of the parameters; `calls` is what came."""

    home: Path
    socket: Path
    answers: dict[str, api.Result | OrmahError | Answer] = field(default_factory=dict)
    calls: list[api.Call] = field(default_factory=list)
    progress: list[api.Progress] = field(default_factory=list)

    def ctl(
        self, *args: str | bytes, env: dict[str, str] | None = None, **more: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run `ormahctl` to its end: a fork of a process that has imported it, unless something is read at its start."""
        if not forked.fits(env or {}) or any(isinstance(word, bytes) for word in args):
            return ctl(*args, env=self.env | (env or {}), **more)
        return quick(*map(str, args), env=self.env | (env or {}), **more)

    @property
    def env(self) -> dict[str, str]:
        return surroundings(self.home) | {"ORMAH_SOCKET": str(self.socket)}

    def params(self, method: str) -> list[Any]:
        """The parameters of all calls of `method`, in the order they came."""
        return [call.params for call in self.calls if call.method == method]

    def _serve(self, connection: socket.socket) -> None:
        frames = Frames()
        with connection, suppress(BrokenPipeError):  # a command that was interrupted does not wait for its answer
            while data := _receive(connection):
                frames.feed(data)
                while (frame := frames.next()) is not None:
                    kind, body = frame
                    call = read_call(kind, body)
                    self.calls.append(call)
                    for step in self.progress:
                        connection.sendall(pack(kind, encode(kind, api.Reply(id=call.id, progress=step))))
                    try:
                        answer = self.answers[call.method]
                        if isinstance(answer, OrmahError):
                            raise answer
                        reply = result_reply(call.id, answer if isinstance(answer, api.Result) else answer(call.params))
                    except OrmahError as exc:
                        reply = error_reply(call.id, exc)
                    connection.sendall(pack(kind, encode(kind, reply)))


def _receive(connection: socket.socket) -> bytes:
    try:
        return connection.recv(65_536)
    except OSError:
        return b""


@contextmanager
def open_desk() -> Iterator[Desk]:
    with tempfile.TemporaryDirectory(prefix="orm") as directory:
        home = Path(directory)
        desk = Desk(home, home / "s")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
            listening.bind(str(desk.socket))
            listening.listen(16)

            def accept() -> None:
                while True:
                    try:
                        connection, _ = listening.accept()
                    except OSError:
                        return
                    threading.Thread(target=desk._serve, args=(connection,), daemon=True).start()

            threading.Thread(target=accept, daemon=True).start()
            desk.answers["hello"] = api.HelloResult(
                version=__version__, protocol=1, capabilities=[], vault=str(home / "vault"), vault_id="v", phase="ready"
            )
            yield desk
            listening.shutdown(socket.SHUT_RDWR)


def on_terminal(
    desk: Desk, *args: str, status: int = 0, plainly: bool = False, typed: Sequence[bytes] = (), **env: str
) -> str:
    """What a terminal is sent when `ormahctl` runs in it: a fork, unless `plainly`. `typed`: what a person types at each
    question; a single byte is a key that is read without Enter."""
    answers = list(typed)
    ours, theirs = pty.openpty()
    environment = desk.env | {"TERM": "xterm-256color", "COLUMNS": "120"} | env
    process: subprocess.Popen[bytes] | forked.Process
    if plainly or not forked.fits(env):
        command = [sys.executable, "-m", "ormahctl", *args]
        process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
        os.close(theirs)
    else:
        with os.fdopen(theirs, "rb", 0) as terminal:
            process = forked.start("ormahctl", *args, env=environment, cwd=Path.cwd(), files=[terminal] * 3)
    pieces = []
    while True:
        try:
            piece = os.read(ours, 65_536)
        except OSError:  # Linux: the other end is closed
            break
        if not piece:
            break
        pieces.append(piece)
        if answers and re.search(rb"quit\S*\r\n$|]: $", b"".join(pieces[-2:])):
            # what is typed before the terminal is raw would be thrown away
            wait_until(lambda: len(answers[0]) > 1 or not termios.tcgetattr(ours)[3] & termios.ICANON, "a raw terminal")
            os.write(ours, answers.pop(0))
    os.close(ours)
    assert process.wait(120) == status
    return b"".join(pieces).decode()


STATS = api.StatsResult(
    total_nodes=2, by_tier={"core": 2}, by_type={"fact": 2}, by_space={"": 2}, total_edges=1, by_edge={"supports": 1}, plain_files=0
)  # fmt: skip


FIELDS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


def _made(kind: type[Any], name: str, changed: dict[str, Any]) -> Any:
    """A result as the table `name` has it, but for what a test changes."""
    needed = kind.__struct_fields__[: len(kind.__struct_fields__) - len(kind.__struct_defaults__)]
    return kind(**dict.fromkeys(needed) | FIELDS[name] | changed)


def hit(**changed: Any) -> api.RecallHit:
    return _made(api.RecallHit, "hit", changed)


def node(**changed: Any) -> api.NodeResult:
    return _made(api.NodeResult, "node", {"connections": api.Connections()} | changed)


def write(**changed: Any) -> api.WriteResult:
    return _made(api.WriteResult, "write", changed)


def remembered(**changed: Any) -> api.RememberResult:
    return _made(api.RememberResult, "remembered", changed)


def op(**changed: Any) -> api.OpResult:
    return _made(api.OpResult, "op", changed)


def task(**changed: Any) -> api.TaskRow:
    return _made(api.TaskRow, "task", changed)


def health(**changed: Any) -> api.HealthResult:
    parts = {
        "version": __version__, "index": _made(api.IndexHealth, "index", {}), "vectors": api.VectorsHealth("memory", None, None),
        "jobs": {"j": task()}, "learning": api.LearningHealth(by="rules"),
    }  # fmt: skip
    return _made(api.HealthResult, "health", parts | changed)
