"""Carry an agent's MCP messages between standard input, standard output and the gateway: `hook.py --mcp [--socket PATH]`.

The gateway serves all sessions, so each session needs only this small process. It forwards lines, and reads only whether
a line is a request or an answer. If the gateway ends, open requests are answered with an error. The next line connects
again, starts the gateway if none runs, and repeats `initialize`, whose second answer is dropped.

It ends with its input, or with the process that started it. Uses builtin modules only.
"""

import _json  # the parser of `json` without the package, which imports a dozen more
import _signal  # type: ignore[import-not-found] # built in; `signal` would import enum and more
import _socket
import _thread
import posix
import select
import sys
import time

from ormahctl.shim import gateway
from ormahctl.shim.start import configured_socket

PATIENCE = 8.0
"""Seconds to wait for the gateway before a request gets an error: agents give up after ten."""
FAREWELL = 10.0
"""Seconds after the end of the input in which answers are still passed on."""
WATCH = 2.0
"""Seconds between two checks whether the process that started this one still runs."""
RETRY = 0.03
STARTS = 3
"""How often the gateway is started for one request: if it ends each time, something is broken."""
PIECE = 1 << 18
_JUDGING = b"ORMAH_JUDGING"
_UNREACHED = -32000
"""Code of the errors with which this process answers itself (JSON-RPC reserves -32000 to -32099 for servers)."""


def main(words: "list[str]") -> int:
    """Serve one agent until its input ends. Return the exit status: 0; or 69 for an agent that Ormah runs as its
    judge, or if no socket can be determined. `words`: the command line after `--mcp`."""
    given = words[1] if len(words) == 2 and words[0] == "--socket" else ""
    if posix.environ.get(_JUDGING):
        sys.stderr.write("this is a session that Ormah runs as its judge: a judge only answers, it has no memories\n")
        return 69
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    try:
        socket = configured_socket(given)
    except (KeyError, OSError):
        sys.stderr.write("there is no home directory, or no working directory: set HOME, or pass --socket PATH\n")
        return 69
    try:
        for standard in (0, 1):
            posix.fstat(standard)  # a closed one would become the socket to the gateway
        Pump(socket).run()
    except OSError:
        return 0  # the agent is gone
    return 0


def serve(socket: str) -> None:
    """Replace this process by `hook.py --mcp`, which carries an agent's MCP session to the gateway and needs little
    memory (RAM)."""
    root = __file__.rpartition("/shim/")[0]
    posix.execv(sys.executable, [sys.executable, "-I", "-S", f"{root}/hook.py", "--mcp", "--socket", socket])


class Pump:
    """Carries the messages of one agent's MCP session to the gateway and back. The main thread reads the agent, and a
    thread for each connection reads the gateway."""

    def __init__(self, socket: str) -> None:
        self.socket = socket
        self.lock = _thread.allocate_lock()
        """Guards the attributes below."""
        self.channel: _socket.socket | None = None
        self.waiting: dict[object, _socket.socket] = {}
        """{id of a request that is not answered yet: the connection on which it is sent}."""
        self.sending: object = None
        """The id of the request that the main thread is sending now."""
        self.hello, self.initialized = b"", b""
        self.hello_id: object = None
        self.greeted = False
        """Whether the agent has its answer to `initialize`."""
        self.dropping = False
        """Whether the next answer to `initialize` is dropped, because `initialize` was repeated."""
        self.writing = _thread.allocate_lock()

    def run(self) -> None:
        """Forward the agent's lines until its input ends, or the process that started this one has ended."""
        try:  # noqa: SIM105 - `contextlib` is no builtin
            self._connect()
        except OSError:
            pass  # the first request says what is wrong
        parent, lines = posix.getppid(), Lines()
        while posix.getppid() == parent:
            if select.select([0], [], [], WATCH)[0]:
                data = posix.read(0, PIECE)
                if not data:
                    self._wait_for_answers()
                    return
                for line in lines.add(data):
                    self._forward(line)

    def _forward(self, line: bytes) -> None:
        """Send a line of the agent to the gateway. If that cannot be reached, answer a request with an error."""
        message = read(line)
        method, request_id = message.get("method"), message.get("id")
        asks = isinstance(method, str) and isinstance(request_id, (int, str))
        if method == "notifications/initialized":
            self.initialized = line

        # send it on the connection, or on a new one if that ends meanwhile
        for _ in range(STARTS):
            try:
                channel = self.channel or self._connect()
            except OSError as exc:
                if asks:
                    self._send_error(request_id, (exc.strerror or str(exc)).strip())
                return
            with self.lock:
                if self.channel is not channel:
                    continue  # it ended just now
                if asks:
                    self.waiting[request_id], self.sending = channel, request_id
                if method == "initialize":
                    self.hello, self.hello_id, self.greeted = line, request_id, False
                inner = message.get("params") if method == "notifications/cancelled" else None
                if isinstance(inner, dict) and isinstance(cancelled := inner.get("requestId"), (int, str)):
                    self.waiting.pop(cancelled, None)
            try:
                channel.sendall(line)
                sent = True
            except OSError:
                sent = False
            with self.lock:
                self.sending = None
                ended = not sent or self.channel is not channel
                was_unanswered = ended and self.waiting.pop(request_id, None) is not None
                self.channel = None if not sent and self.channel is channel else self.channel
            if sent:
                if was_unanswered:
                    self._send_error(request_id, "it ended")
                return

    def _connect(self) -> _socket.socket:
        """Connect to the gateway, begin a session, and return the connection. If no gateway runs, one is started. A
        thread then passes the gateway's lines to the agent.

        Raises:
            OSError: the gateway does not answer within `PATIENCE` seconds; the message has its last log line.
        """
        deadline, start_count = time.monotonic() + PATIENCE, 0
        while (channel := gateway.connect(self.socket)) is None:
            if gateway.begin(self.socket):
                start_count += 1
            if start_count > STARTS or time.monotonic() > deadline:
                raise OSError(gateway.last_log_line(self.socket) or "it does not answer")
            time.sleep(RETRY)
        with self.lock:
            self.channel, self.dropping = channel, self.greeted
        channel.sendall(opening() + (self.hello + self.initialized if self.greeted else b""))
        _thread.start_new_thread(self._forward_answers, (channel,))
        return channel

    def _forward_answers(self, channel: _socket.socket) -> None:
        """Pass the gateway's lines to the agent until the connection ends. Then answer the requests that were open
        on it with an error."""
        try:
            lines = Lines()
            while data := _receive(channel):
                for line in lines.add(data):
                    if self._note_answer(line):
                        self._write(line)
            with self.lock:
                self.channel = None if self.channel is channel else self.channel
                lost = [
                    key for key, connection in self.waiting.items() if connection is channel and key is not self.sending
                ]
                for key in lost:
                    del self.waiting[key]
            complaint = gateway.last_log_line(self.socket)
            for key in lost:
                self._send_error(key, "it ended" + (f" ({complaint})" if complaint else ""))
        except OSError:
            posix._exit(0)  # the agent is gone

    def _note_answer(self, line: bytes) -> bool:
        """Mark the request that `line` answers as answered. Return whether to pass `line` to the agent: False for
        the answer to a repeated `initialize`."""
        message = read(line)
        key = message.get("id")
        if "method" in message or not isinstance(key, (int, str)):
            return True
        with self.lock:
            if key == self.hello_id and self.dropping:
                self.dropping = False
                return False
            self.greeted = self.greeted or key == self.hello_id
            self.waiting.pop(key, None)
        return True

    def _wait_for_answers(self) -> None:
        """Pass on what the gateway still answers after the end of the input, for at most `FAREWELL` seconds."""
        end = time.monotonic() + FAREWELL
        while self.waiting and time.monotonic() < end:
            time.sleep(RETRY)
        if (channel := self.channel) is not None:
            channel.shutdown(_socket.SHUT_WR)
        while self.channel is not None and time.monotonic() < end:
            time.sleep(RETRY)

    def _send_error(self, key: object, why: str) -> None:
        """Answer the agent's request `key` with an error. `why`: what is wrong with the gateway."""
        identifier = _json.encode_basestring_ascii(key) if isinstance(key, str) else str(key)
        text = _json.encode_basestring_ascii(
            f"Ormah's gateway cannot be reached: {why}. The memories are safe. Try again; the gateway's log is "
            f"{gateway.address(self.socket)}.log"
        )
        self._write(
            f'{{"jsonrpc":"2.0","id":{identifier},"error":{{"code":{_UNREACHED},"message":{text}}}}}\n'.encode()
        )

    def _write(self, line: bytes) -> None:
        """Write one line to the agent. The threads take turns."""
        with self.writing:
            while line:
                line = line[posix.write(1, line) :]


def _receive(channel: _socket.socket) -> bytes:
    """Return the next bytes from `channel`; b"" if the connection has ended or failed."""
    try:
        return channel.recv(PIECE)
    except OSError:
        return b""


class Lines:
    """Splits a stream of bytes into lines. The beginning of an incomplete line is stored until the rest arrives."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def add(self, data: bytes) -> "list[bytes]":
        """Add `data`, and return the lines that are now complete, each with its line end."""
        if b"\n" not in data:
            self._rest += data
            return []
        whole, _, rest = data.rpartition(b"\n")
        lines = (bytes(self._rest) + whole).split(b"\n")
        self._rest = bytearray(rest)
        return [line + b"\n" for line in lines if line.strip()]


class _Options:
    """Options for `_json.make_scanner`: those of `json.loads`, except that strings may have control characters."""

    strict = False
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float
    memo: "dict[str, str]" = {}


_scan = _json.make_scanner(_Options)  # type: ignore[arg-type] # it takes anything with these attributes


def read(line: bytes) -> "dict[str, object]":
    """Return the JSON object in `line`; {} if `line` is not one. The gateway answers such a line with an error."""
    try:
        found = _scan(line.decode("utf-8", "replace").strip(), 0)[0]
    except (ValueError, StopIteration, RecursionError, SystemError):
        return {}  # SystemError: some versions of Python set no exception where `json.decoder` is not imported
    return found if isinstance(found, dict) else {}


def opening() -> bytes:
    """Return the frame that begins a session: kind, length, then fields that each end with NUL.

    The fields, which may be empty: working directory, `ORMAH_SPACE`, project's folder, session's id.
    """
    try:
        cwd = posix.getcwdb()
    except OSError:  # it was removed
        cwd = b""
    fields = [cwd, posix.environ.get(b"ORMAH_SPACE", b"")]
    fields.append(_first_variable(b"CLAUDE_PROJECT_DIR", b"GEMINI_PROJECT_DIR"))
    fields.append(_first_variable(b"CLAUDE_CODE_SESSION_ID", b"CODEX_THREAD_ID", b"GEMINI_SESSION_ID"))
    body = b"".join(field + b"\0" for field in fields)
    return b"p" + len(body).to_bytes(4, "big") + body


def _first_variable(*names: bytes) -> bytes:
    """Return the value of the first environment variable of `names` that is set; b"" if none is."""
    return next((value for name in names if (value := posix.environ.get(name, b""))), b"")
