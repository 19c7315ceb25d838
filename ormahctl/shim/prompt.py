"""A harness's hook: `hook.py --hook EVENT --harness NAME [--socket PATH] [--deadline MS]` (DESIGN section 7).

Sends its standard input to the daemon and prints the reply, without parsing either: the daemon knows the events and the
format of each harness. On any failure it prints nothing and exits with 0, because another status may discard the
person's prompt. One alarm limits the whole run; if a system call blocks, the signal's handler ends the process.
"""

import _signal  # type: ignore[import-not-found] # built in; `signal` would import enum and more
import posix

from ormahctl.shim.start import socket_path
from ormahctl.shim.wire import ask

DEADLINE_MS = 500
LONGEST_MS = 60_000
LARGEST_INPUT = 16_777_216
"""Largest size of stdin in bytes; the daemon would reject a larger frame (`rpc.server.Limits`)."""
LARGEST_OUTPUT = 65_536
"""Largest size of the output in bytes: several times what any harness accepts."""
SILENT = b"the daemon does not answer, so this session begins without memories. To start it: ormahctl up"
NOTICE = b'{"systemMessage":"Ormah: %b"}'
"""A notice to the person at the start of a session, as `systemMessage`, which every supported harness shows."""
NOT_RUNNING = b"Ormah is not running"
_KIND = b"h"
_JUDGING = b"ORMAH_JUDGING"
"""Environment variable of a session that Ormah runs as its judge (`ormahd.judge.own_sessions`). Its hooks do nothing:
it gets no memories, and none are made of it."""
_TRANSCRIPT_EVENTS = ("Stop", "SessionEnd", "AfterAgent")
"""Events after which a transcript has grown. If no daemon answers, `_spool` stores them for the next one."""
_MAX_SPOOLED = 1_000
_PIECE = 1 << 20


def main(words: "list[str]") -> int:
    """Answer one event of a harness, and end the process with status 0 in any case. `words`: the command line after
    `--hook`."""
    try:
        _hook(words)
    finally:
        posix._exit(0)  # there is nothing to clean up, and Python's own cleanup would take as long as the request


def _hook(words: "list[str]") -> None:
    """Send stdin to the daemon and print the reply. If no daemon answers: store the event for the next one if its
    transcript has grown, start the daemon at the start of a session, and print a notice to the person."""
    # the command line
    event = words[0]
    options = {"--harness": "", "--socket": "", "--deadline": str(DEADLINE_MS)}
    at = 1
    while at + 1 < len(words):
        options[words[at]] = words[at + 1]
        at += 2
    _alarm(options["--deadline"])
    posix.fstat(1)  # raises if stdout is closed: the socket to the daemon would get its number
    body = _read_stdin()
    if body is None or posix.environ.get(_JUDGING):
        return

    # the frame: harness, event, folder and space, each ended by NUL, then the JSON
    texts = (options["--harness"], event, _project_or_directory())
    named = b"".join(text.encode("utf-8", "surrogateescape") + b"\0" for text in texts)
    space = posix.environ.get(b"ORMAH_SPACE", b"")
    socket = socket_path(options["--socket"])
    reply = ask(socket, _KIND, named + space + b"\0" + body, None)

    # no daemon answered
    if reply is None and event in _TRANSCRIPT_EVENTS:
        _spool(socket, named + space + b"\0", body)
    if reply is None and event == "SessionStart":
        from ormahctl.shim.start import begin

        notice = begin(socket) or SILENT
        if b'"compact"' not in body:
            reply = NOTICE % notice
    if reply is None and event == "StatusLine":
        reply = NOT_RUNNING
    if reply and len(reply) <= LARGEST_OUTPUT:
        _write(reply)


def _alarm(deadline: str) -> None:
    """Make the process end with status 0 after `deadline` milliseconds, and at SIGINT, SIGTERM or SIGHUP."""
    for number in (_signal.SIGALRM, _signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP):
        _signal.signal(number, lambda *_: posix._exit(0))
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, (_signal.SIGALRM,))
    given = int(deadline) if deadline.isdecimal() and len(deadline) < 9 else DEADLINE_MS
    _signal.setitimer(_signal.ITIMER_REAL, min(max(given, 1), LONGEST_MS) / 1000)


def _read_stdin() -> "bytes | None":
    """Return all of stdin, which is read to its end so that the harness can finish writing; None if it has more than
    `LARGEST_INPUT` bytes."""
    pieces: list[bytes] = []
    room = LARGEST_INPUT
    while room >= 0:
        piece = posix.read(0, _PIECE)
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)
        room -= len(piece)
    return None


def _spool(socket: str, named: bytes, body: bytes) -> None:
    """Store an event in the folder `SOCKET.spool`, where the next daemon finds it. `named`: the fields before the
    JSON. Only the session's id and the transcript's path are stored of `body`, not what was said."""
    fields = [name + b": " + value for name in (b'"session_id"', b'"transcript_path"') if (value := _field(body, name))]
    if len(fields) < 2:
        return
    folder = socket + ".spool"
    try:
        if len(posix.listdir(folder)) >= _MAX_SPOOLED:
            return
    except FileNotFoundError:
        posix.mkdir(folder, 0o700)
    name = f"{folder}/{posix.stat(folder).st_mtime_ns}-{posix.getpid()}"
    fd = posix.open(name + ".part", posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_NOFOLLOW, 0o600)
    posix.write(fd, named + b"{" + b", ".join(fields) + b"}")
    posix.close(fd)
    posix.rename(name + ".part", name)


def _field(body: bytes, name: bytes) -> bytes:
    """Return the string value of the field `name` in the JSON object `body`, with its quotes; b"" if there is none.
    `name` includes its quotes."""
    at = body.find(name)
    while at > 0 and body[at - 1 : at] == b"\\":  # part of a string value, not a field
        at = body.find(name, at + 1)

    # the value begins after colon and white space, and ends at the next quote that is not escaped
    begin = at + len(name)
    while at >= 0 and body[begin : begin + 1] in (b" ", b":", b"\n", b"\t", b"\r"):
        begin += 1
    end = begin + 1
    while at >= 0 and body[begin : begin + 1] == b'"' and end < len(body):
        if body[end : end + 1] == b'"':
            return body[begin : end + 1]
        end += 2 if body[end : end + 1] == b"\\" else 1
    return b""


def _write(reply: bytes) -> None:
    """Write `reply` to stdout, also if that is a pipe that does not block."""
    rest = memoryview(reply)
    while rest:
        try:
            rest = rest[posix.write(1, rest) :]
        except BlockingIOError:  # the pipe is non-blocking: retry until its reader, or the alarm, ends this
            _signal.sigtimedwait((), 0.001)


def _project_or_directory() -> str:
    """Return `project=FOLDER` if the harness names the folder in which the session began. Otherwise return the
    working directory; "" if that was removed."""
    for name in (b"CLAUDE_PROJECT_DIR", b"GEMINI_PROJECT_DIR"):
        folder = posix.environ.get(name, b"")
        if folder.startswith(b"/"):
            return "project=" + folder.decode("utf-8", "surrogateescape")
    try:
        return posix.getcwd()
    except OSError:  # it was removed, or may not be read
        return ""
