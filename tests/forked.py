"""Processes that begin as forks of one that has imported their program, once for each worker: a real daemon, with its own
environment, folder and descriptors, for a fifth of the CPU of a start. A test about starting starts plainly.

    python -m tests.forked ormahd.__main__ ormahd.daemon    # serves the socket that is its standard input
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any

from tests.surroundings import ROOT, surroundings

NUMBER = struct.Struct("=i")
PRELOADED = {
    "ormahd": (
        "ormahd.daemon",
        "chromadb",
        "chromadb.errors",
        "chromadb.api.shared_system_client",
        "chromadb_rust_bindings",
        "dateparser.date",
        "dateparser.conf",
        "dateparser._parts_of_day",
        "git",
        "huggingface_hub.constants",
        "numpy.random",
        "resource",
        "Stemmer",
        "tomlkit",
    ),
    "ormahctl": (
        "ormahctl.run",
        "ormahctl.options",
        "ormahctl.render",
        "ormahctl.supervise",
        *(
            f"ormahctl.commands.{name}"
            for name in ("daemon", "health", "history", "hook", "recall", "review", "service", "undo", "write")
        ),
        "ormahctl.gateway.reach",
        "ormahctl.setup.connections",
        "ormahctl.setup.connect",
        "ormahctl.setup.harness",
        "ormahctl.setup.service",
        "click._textwrap",
        "rich.cells",
        "rich.table",
        "platformdirs",
        "tempfile",
        "shutil",
    ),
}
"""What is imported before the forks, beside the program itself: it starts no threads, which would not be in them."""
PRELOADED[CLOCKED := "tests.quality.month.clocked"] = PRELOADED["ormahd"]
"""The daemon with a clock that a test moves."""
BEFORE_NUMPY = {
    "OPENBLAS_NUM_THREADS": "1", "ORT_DISABLE_TELEMETRY": "1", "ORT_TELEMETRY_DISABLED": "1", "PYDANTIC_DISABLE_PLUGINS": "__all__",
}  # fmt: skip
"""As `ormahd run` has it, before it imports anything."""


WHEN_RUN = {
    "PATH", "COLUMNS", "TERM", "NO_COLOR", "EDITOR", "VISUAL", "BROWSER", "CODEX_SANDBOX", "_ORMAHCTL_COMPLETE", "COMP_WORDS", "COMP_CWORD",
}  # fmt: skip
"""Variables beside our own that a command reads when it runs. Others are read by the interpreter, the C library or the linker, before
the first line of ours; those are for a process that begins plainly."""


def fits(variables: Iterable[str]) -> bool:
    """Whether a fork of a command hears all these variables as a command that begins plainly does."""
    return all(name.startswith("ORMAH_") or name in WHEN_RUN for name in variables)


_asking = threading.Lock()


class Process:
    """One that was forked, to be used as a `subprocess.Popen`."""

    def __init__(self, args: Sequence[str], fate: IO[bytes]) -> None:
        self.args, self.returncode, self._fate = args, None, fate
        self.pid = self._next()

    returncode: int | None

    def _next(self) -> int:
        said = self._fate.read(NUMBER.size)
        assert len(said) == NUMBER.size, "the process that forks has died"
        return int(NUMBER.unpack(said)[0])

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._fate], [], [], 0)[0]:
            self._end()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._fate], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            self._end()
        assert self.returncode is not None
        return self.returncode

    def _end(self) -> None:
        self.returncode = self._next()
        self._fate.close()

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def start(program: str, *args: str, env: Mapping[str, str], cwd: Path, files: Iterable[IO[bytes]]) -> Process:
    """Begin `python -m program args` (one of `PRELOADED`) in a session of its own; `files`: its input, output and errors."""
    asked = json.dumps({"args": args, "env": dict(env), "cwd": str(cwd)}).encode()
    mine, theirs = os.pipe()
    try:
        with _asking:  # tests ask from several threads, and a request is sent in two parts
            nursery = _nursery(program)
            socket.send_fds(nursery, [NUMBER.pack(len(asked))], [*(file.fileno() for file in files), theirs])
            nursery.sendall(asked)
    finally:
        os.close(theirs)
    return Process([program, *args], os.fdopen(mine, "rb", 0))


def run(
    program: str, *args: str, env: Mapping[str, str], cwd: Path, given: bytes, timeout: float
) -> subprocess.CompletedProcess[bytes]:
    """`python -m program args` from its start to its end."""
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        stdin.write(given)
        stdin.seek(0)
        process = start(program, *args, env=env, cwd=cwd, files=(stdin, stdout, stderr))
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        said = []
        for file in (stdout, stderr):
            file.seek(0)
            said.append(file.read())
    return subprocess.CompletedProcess(args, status, *said)


@cache
def _nursery(program: str) -> socket.socket:
    """The socket of the process that forks `program`; it ends when the socket is closed."""
    ours, theirs = socket.socketpair()
    home = Path(tempfile.mkdtemp(prefix="orm"))
    env = surroundings(home) | BEFORE_NUMPY
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.forked", program if program == CLOCKED else f"{program}.__main__", *PRELOADED[program]], env=env, cwd=ROOT, stdin=theirs,
        stdout=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    theirs.close()

    @atexit.register
    def end() -> None:
        ours.close()
        process.wait(120)
        (home / "runtime_dir").rmdir()
        home.rmdir()

    return ours


# ---------------------------------------------------------------- in the process that forks


def serve(nursery: socket.socket) -> list[str]:
    """Fork for whoever asks. Returns in each fork alone, with the arguments of its program."""
    while True:
        head, fds, *_ = socket.recv_fds(nursery, NUMBER.size, 4)
        if not head:
            os._exit(0)
        (size,) = NUMBER.unpack(head)
        asked = json.loads(_exactly(nursery, size))
        assert _threads() == 1, "a thread would not be in the forks"
        if not os.fork():  # it stays beside the program, to tell how that ends
            nursery.close()
            if child := os.fork():
                _keep(child, fds)
            return _become(asked, fds)
        for fd in fds:
            os.close(fd)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _threads() -> int:
    """Also those of libraries, where the system tells."""
    tasks = Path("/proc/self/task")
    return len(list(tasks.iterdir())) if tasks.exists() else threading.active_count()


def _exactly(nursery: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        found += nursery.recv(size - len(found))
    return found


def _keep(child: int, fds: list[int]) -> None:
    fate = fds.pop()
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2, *fds):
        os.dup2(nothing, fd)
    os.write(fate, NUMBER.pack(child))
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(BrokenPipeError):  # nobody waits for it any more
        os.write(fate, NUMBER.pack(os.waitstatus_to_exitcode(status)))
    os._exit(0)


def _become(asked: dict[str, Any], fds: list[int]) -> list[str]:
    os.setsid()
    for fd, (number, name) in zip(fds, enumerate(("stdin", "stdout", "stderr")), strict=False):
        os.dup2(fd, number)
        if os.isatty(number):  # no place in it can be sought, as in what the stream was opened for
            old = getattr(sys, name)
            setattr(sys, name, os.fdopen(number, old.mode, encoding=old.encoding, errors=old.errors, closefd=False))
    os.closerange(3, 256)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    return list(asked["args"])


def _warm() -> None:
    """Fill the caches of the process that each daemon fills in its first second: patterns, stems, directions of the stand-in's words."""
    from ormahd.embedding import model as choose
    from ormahd.settings import EmbeddingSettings
    from ormahd.text import times, words
    from ormahd.text.secrets import redact
    from ormahd.whisper import analyse, generic, pipeline

    times.warm()
    generic.warm()
    for text in (pipeline.FIRST, "é 中文"):  # words with and without spaces have patterns of their own
        words.fts_text(text)
        words.fts_match(words.query_terms(text))
    analyse.acknowledges(pipeline.FIRST)
    redact(pipeline.FIRST)
    standing_in = choose.load(EmbeddingSettings(model="hashing"), Path(os.devnull))
    analyse.Archetypes(standing_in.embed_query).warm()


def _resolve() -> None:
    """Have msgspec look at the fields of every call and reply, which takes longer than most commands."""
    from ormahd import api
    from ormahd.rpc import codec

    codec.read_call(codec.MSGPACK, codec.encode(codec.MSGPACK, api.Call(method="hello")))
    for asks, replies in api.METHODS.values():
        codec.resolved(asks)
        codec.read_reply(codec.MSGPACK, codec.encode(codec.MSGPACK, api.Reply()), codec.resolved(replies))


def _leave(ended: SystemExit) -> None:
    """End as the interpreter does, but without taking apart what was imported: that costs a fork more than most commands."""
    if not isinstance(ended.code, int) or threading.active_count() > 1:
        raise ended
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not stream.closed:
            stream.flush()
    os._exit(ended.code)


def main(program: str, *preloaded: str) -> None:
    from ormahd.process import priority

    priority.few_arenas()
    gc.disable()  # as `ormahd run` does while it imports
    module = importlib.import_module(program)
    for name in preloaded:
        importlib.import_module(name)
    if "ormahd.daemon" in preloaded:
        _warm()
    _resolve()
    gc.freeze()  # no fork goes through all of this when it first collects, and so has no copy of it
    nursery = socket.socket(fileno=os.dup(0))
    arguments = serve(nursery)
    gc.enable()
    sys.argv = [str(module.__file__), *arguments]
    try:
        module.main()
    except SystemExit as ended:
        _leave(ended)


if __name__ == "__main__":
    main(*sys.argv[1:])
