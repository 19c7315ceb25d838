"""The process that a harness starts: one deadline, all or nothing on stdout, status 0 whatever happens.

Who answers here is a socket of the test's own; what the daemon answers stands in `test_hooks.py`.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ormahd.vault.merge_driver import SHIM
from tests.house import open_house
from tests.tables import rows

DEADLINE_MS = 400
PATIENT_MS = 60_000
"""For those that get an answer: a busy machine may start a process, and run the listener's thread, late."""
"""Seconds: far beyond the deadline, for a machine that is busy with other tests."""
SAID = b'{"hookSpecificOutput":{"hookEventName":"UserPromptSubmit","additionalContext":"caf\xc3\xa9"}}'

Act = Callable[[socket.socket, bytes], None]


def receive(connection: socket.socket) -> bytes:
    """One frame's body."""
    with connection.makefile("rb") as stream:
        head = stream.read(5)
        assert head[:1] == b"h"
        return stream.read(int.from_bytes(head[1:], "big"))


def frame(body: bytes, kind: bytes = b"h") -> bytes:
    return kind + len(body).to_bytes(4, "big") + body


@dataclass
class Listener:
    """Answers each connection with `act`, and keeps what was asked."""

    path: Path
    act: Act
    asked: list[bytes] = field(default_factory=list)

    @contextlib.contextmanager
    def listening(self) -> Iterator[Listener]:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(os.fspath(self.path))
            listener.listen()
            threading.Thread(target=self._serve, args=(listener,), daemon=True).start()
            yield self
            listener.shutdown(socket.SHUT_RDWR)

    def _serve(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection, contextlib.suppress(OSError, AssertionError):
                    body = receive(connection)
                    self.asked.append(body)
                    self.act(connection, body)


@pytest.fixture
def home() -> Iterator[Path]:
    with open_house() as house:
        yield house.home


def words(path: Path, event: str = "UserPromptSubmit", *more: str) -> list[str]:
    given = ["--harness", "claude-code", "--socket", str(path), "--deadline", str(PATIENT_MS)]
    return [sys.executable, "-I", "-S", str(SHIM), "--hook", event, *given, *more]


def hurried(path: Path) -> list[str]:
    return [*words(path), "--deadline", str(DEADLINE_MS)]


def run(command: list[str], given: bytes = b"{}", **more: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command, input=given, capture_output=True, timeout=120, **more)  # type: ignore[call-overload,no-any-return]


def silent(done: subprocess.CompletedProcess[bytes]) -> None:
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@contextlib.contextmanager
def answering(home: Path, act: Act) -> Iterator[Listener]:
    with Listener(home / "s", act).listening() as listener:
        yield listener


def test_it_sends_what_it_is_told_and_prints_what_it_is_answered(home: Path) -> None:
    with answering(home, lambda c, _: c.sendall(frame(SAID))) as daemon:
        given = '{"prompt": "wo steht das\u2028?"}'.encode() + b"\xff\x00tail"
        done = run(words(daemon.path), given, cwd=home, env={"ORMAH_SPACE": "shop"})
        assert (done.returncode, done.stdout, done.stderr) == (0, SAID, b"")
        harness, event, cwd, space, rest = daemon.asked[0].split(b"\0", 4)
        assert (harness, event, Path(os.fsdecode(cwd)), space) == (
            b"claude-code",
            b"UserPromptSubmit",
            home.resolve(),
            b"shop",
        )
        assert rest == given


def test_it_names_the_project_where_the_harness_does(home: Path) -> None:
    with answering(home, lambda c, _: c.sendall(frame(SAID))) as daemon:
        given = b'{"prompt": "why?"}'
        for variables, expected in (
            ({"CLAUDE_PROJECT_DIR": "/src/shop"}, b"project=/src/shop"),
            ({"GEMINI_PROJECT_DIR": "/src/shop"}, b"project=/src/shop"),
            ({"CLAUDE_PROJECT_DIR": "relative"}, os.fsencode(home.resolve())),
            ({"CLAUDE_PROJECT_DIR": ""}, os.fsencode(home.resolve())),
        ):
            done = run(words(daemon.path), given, cwd=home, env=variables)
            assert (done.returncode, done.stdout) == (0, SAID)
            assert daemon.asked[-1].split(b"\0", 4)[2] == expected


def test_it_imports_what_is_built_in_and_nothing_else(home: Path) -> None:
    options = ["-X", "importtime"]
    command = words(home / "nobody")
    asked = run([*command[:3], *options, *command[3:]])
    bare = run([*command[:3], *options, "-c", "pass"])

    def imported(done: subprocess.CompletedProcess[bytes]) -> set[str]:
        lines = done.stderr.decode().splitlines()
        return {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")}

    ours = {"ormahctl", "ormahctl.shim", "ormahctl.shim.prompt", "ormahctl.shim.start", "ormahctl.shim.wire"}
    assert imported(asked) - imported(bare) == ours | {"_socket"}


def test_without_a_daemon_it_is_silent(home: Path) -> None:
    (home / "file").write_text("no socket")
    with socket.socket(socket.AF_UNIX) as left_over:
        left_over.bind(os.fspath(home / "left"))
    places = [
        home / "nobody",
        home / "file",
        home / "left",
        home,
        home / "file" / "below",
        home / ("x" * 200),
        Path("a\nb"),
    ]
    for place in places:
        silent(run(words(place)))


def test_only_the_start_of_a_session_says_that_the_daemon_is_away(home: Path) -> None:
    for harness in ("claude-code", "codex", "gemini"):
        done = run([*words(home / "nobody", "SessionStart"), "--harness", harness], b'{"source":"startup"}')
        assert done.returncode == 0
        said = json.loads(done.stdout)
        assert set(said) == {"systemMessage"}
        assert "ormahctl up" in said["systemMessage"]
    for event in ("Stop", "SessionEnd", "BeforeAgent", "NoSuchEvent"):
        silent(run(words(home / "nobody", event)))
    silent(run(words(home / "nobody", "SessionStart"), b'{"source":"compact"}'))


@pytest.mark.parametrize(
    "reply",
    [
        b"", b"h", b"h\0\0\0", frame(SAID)[:-1], frame(SAID, b"j"), b"h\xff\xff\xff\xff" + SAID, frame(b""),
        b"\0" * 5, frame(b"x" * 70_000), b"j\0\0\0\x02{}",
    ],
    ids=lambda reply: f"{reply[:12]!r}x{len(reply)}",
)  # fmt: skip
def test_half_an_answer_or_a_strange_one_is_none(home: Path, reply: bytes) -> None:
    with answering(home, lambda c, _: c.sendall(reply)) as daemon:
        silent(run(words(daemon.path)))


def test_an_answer_that_comes_in_pieces_is_printed_whole(home: Path) -> None:
    def drip(connection: socket.socket, _: bytes) -> None:
        for byte in frame(SAID):
            connection.sendall(bytes([byte]))

    with answering(home, drip) as daemon:
        assert run(words(daemon.path)).stdout == SAID


def test_who_hangs_is_left_at_the_deadline(home: Path) -> None:
    over = threading.Event()

    def hang_after(sent: bytes) -> Act:
        def act(connection: socket.socket, _: bytes) -> None:
            connection.sendall(sent)
            over.wait()

        return act

    for number, sent in enumerate((b"", frame(SAID)[:20])):
        with Listener(home / f"h{number}", hang_after(sent)).listening() as daemon:
            begun = time.monotonic()
            silent(run(hurried(daemon.path)))  # which ends at all
            assert time.monotonic() - begun >= DEADLINE_MS / 1000
    over.set()


def test_a_daemon_that_never_takes_the_connection_or_the_bytes(home: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.fspath(home / "deaf"))
        listener.listen(0)
        waiting = [socket.socket(socket.AF_UNIX) for _ in range(8)]
        for one in waiting:  # until its queue is full, and a connection has to wait for its turn
            one.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                one.connect(os.fspath(home / "deaf"))
        for given in (b"{}", b"x" * 8_000_000):
            silent(run(hurried(home / "deaf"), given))
        for one in waiting:
            one.close()


def test_stdin_that_never_ends_is_closed_or_is_endless(home: Path) -> None:
    with answering(home, lambda c, _: c.sendall(frame(SAID))) as daemon:
        reader, writer = os.pipe()
        os.write(writer, b'{"prompt": "who waits')
        begun = time.monotonic()
        silent(subprocess.run(hurried(daemon.path), stdin=reader, capture_output=True, timeout=120))
        assert time.monotonic() - begun >= DEADLINE_MS / 1000
        os.close(writer)
        os.close(reader)
        closed = ["sh", "-c", 'exec "$@" <&-', "sh", *words(daemon.path)]
        silent(subprocess.run(closed, capture_output=True, timeout=120))
        with Path("/dev/zero").open("rb") as zero:
            silent(subprocess.run(hurried(daemon.path), stdin=zero, capture_output=True, timeout=120))
        assert daemon.asked == []


def test_a_large_prompt_is_handed_over_whole(home: Path) -> None:
    given = b'{"prompt": "' + b"word " * 2_000_000 + b'"}'
    with answering(home, lambda c, _: c.sendall(frame(SAID))) as daemon:
        done = run([*words(daemon.path), "--deadline", "20000"], given)
        assert done.stdout == SAID
        assert daemon.asked[0].endswith(given)


def test_nobody_reads_what_it_prints(home: Path) -> None:
    with answering(home, lambda c, _: c.sendall(frame(SAID))) as daemon:
        for shell in rows(__file__, "nobody_reads_what_it_prints"):
            done = subprocess.run(["bash", "-c", shell, "bash", *words(daemon.path)], capture_output=True, timeout=120)
            assert (done.returncode, done.stdout, done.stderr) == (0, b"", b""), shell
        reader, writer = os.pipe()
        flags = fcntl.fcntl(writer, fcntl.F_GETFL)
        for blocking in (True, False):
            fcntl.fcntl(writer, fcntl.F_SETFL, flags | os.O_NONBLOCK)
            with contextlib.suppress(BlockingIOError):
                while True:
                    os.write(writer, b"x" * 4096)
            with contextlib.suppress(BlockingIOError):
                while True:
                    os.write(writer, b"x")
            fcntl.fcntl(writer, fcntl.F_SETFL, flags if blocking else flags | os.O_NONBLOCK)
            done = subprocess.run(hurried(daemon.path), input=b"{}", stdout=writer, stderr=subprocess.PIPE, timeout=120)
            assert (done.returncode, done.stderr) == (0, b"")
        os.close(reader)
        os.close(writer)


def test_a_signal_does_not_give_it_another_status(home: Path) -> None:
    arrived = threading.Event()

    def act(connection: socket.socket, _: bytes) -> None:
        arrived.set()
        with contextlib.suppress(OSError):
            connection.recv(1)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        arrived.clear()
        with Listener(home / f"i{number}", act).listening() as daemon:
            process = subprocess.Popen(
                [*words(daemon.path), "--deadline", "60000"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            assert arrived.wait(120)
            process.send_signal(number)
            assert process.communicate(timeout=120) == (b"", b"")
            assert process.returncode == 0


def test_surroundings_that_are_gone_or_hostile(home: Path) -> None:
    with answering(home, lambda c, _: c.sendall(frame(SAID))) as daemon:
        gone = home / "gone"
        gone.mkdir()
        removed = 'cd "$1" && rmdir "$1" && shift && exec "$@"'
        assert run(["sh", "-c", removed, "sh", str(gone), *words(daemon.path)]).stdout == SAID
        assert daemon.asked[-1].split(b"\0")[2] == b""
        trap = home / "trap"
        trap.mkdir()
        for name in ("json", "_socket", "posix", "sitecustomize", "encodings", "ormahctl", "_signal"):
            (trap / f"{name}.py").write_text("raise SystemExit(9)")
        evil = {
            "PYTHONPATH": str(trap), "PYTHONHOME": str(trap), "PYTHONSTARTUP": str(trap / "json.py"),
            "PYTHONINSPECT": "1", "PYTHONVERBOSE": "2", "PYTHONWARNINGS": "error", "PYTHONIOENCODING": "utf-16",
            "PYTHONMALLOC": "debug", "LC_ALL": "C",
        }  # fmt: skip
        done = run(words(daemon.path), cwd=trap, env=evil)
        assert (done.returncode, done.stdout, done.stderr) == (0, SAID, b"")


def test_words_that_make_no_sense(home: Path) -> None:
    shim = [sys.executable, "-I", "-S", str(SHIM), "--hook"]
    for more in ([], ["UserPromptSubmit"], ["UserPromptSubmit", "--harness"], ["--socket", "--deadline", "x"], [""]):
        done = run([*shim, *more], env={"XDG_RUNTIME_DIR": str(home)})
        silent(done)
    for deadline in ("0", "-5", "x", "", "99999999999999999999", "1e3", "٣"):
        silent(run([*words(home / "nobody"), "--deadline", deadline]))


def test_a_broken_installation_costs_nobody_a_prompt(tmp_path: Path) -> None:
    for broken in rows(__file__, "a_broken_installation_costs_nobody_a_prompt"):
        package = tmp_path / "ormahctl"
        (package / "shim").mkdir(parents=True, exist_ok=True)
        (package / "hook.py").write_bytes(SHIM.read_bytes())
        (package / "shim" / "prompt.py").write_text(broken)
        silent(run([sys.executable, "-I", "-S", "-B", str(package / "hook.py"), "--hook", "UserPromptSubmit"]))


def test_it_finds_the_default_socket(home: Path) -> None:
    (home / "ormah").mkdir()
    with Listener(home / "ormah" / "ormahd.sock", lambda c, _: c.sendall(frame(SAID))).listening():
        shim = [sys.executable, "-I", "-S", str(SHIM), "--hook", "UserPromptSubmit", "--harness", "claude-code"]
        assert run(shim, env={"XDG_RUNTIME_DIR": str(home)}).stdout == SAID
        silent(run(shim, env={"XDG_RUNTIME_DIR": str(home), "ORMAH_VAULT": str(home / "other")}))
