"""Carry an agent's MCP messages between standard input, standard output and the gateway: `hook.py --mcp [--socket PATH]`.

The gateway serves all sessions, so each session needs only this small process. It forwards lines. Of each line it reads
only whether it is a request or an answer, because it stores requests until they are answered. If the gateway ends, it
is started again, `initialize` is repeated and its second answer dropped, and unanswered requests are sent again. No
change is made twice, because the gateway gives the daemon an id for each. A request gets an error if it cannot be
forwarded in time, or if the gateway hangs.

It ends with its input, or with the process that started it. Uses builtin modules only.
"""

import _json  # the parser of `json` without the package, which imports a dozen more
import _signal  # type: ignore[import-not-found] # built in; `signal` would import enum and more
import _socket
import posix
import select
import sys
import time

from ormahctl.shim import gateway
from ormahctl.shim.start import configured_socket

PATIENCE = 8.0
"""Seconds to wait for the gateway before a request gets an error: agents give up after ten."""
QUIET = 4.0
"""Seconds without data from the gateway, while a request waits, after which it gets a ping."""
SILENCE = 5.0
"""Seconds within which the gateway must answer the ping. Otherwise it hangs, and the waiting requests get an error."""
FAREWELL = 10.0
"""Seconds after the end of the input in which answers are still passed on."""
WATCH = 2.0
"""Seconds between two checks whether the process that started this one still runs."""
RETRY = 0.03
STARTS = 3
"""How often the gateway is started for one request: if it ends each time, something is broken."""
TRIES = 3
"""How often a request is sent at most, if the gateway ends each time."""
LARGEST = 64 << 20
"""Largest message, in bytes."""
PIECE = 1 << 18
_JUDGING = b"ORMAH_JUDGING"
_PING_ID = "ormah-pump"
_PING = b'{"jsonrpc":"2.0","id":"ormah-pump","method":"ping"}\n'
"""Any answer counts, also an error: the protocol of 2026 has no such method."""
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
    """Carries the messages of one agent's MCP session to the gateway and back. If the gateway ends, it connects
    again, and sends the requests again that were not answered."""

    def __init__(self, socket: str) -> None:
        self.socket = socket
        self.parent = posix.getppid()
        self.nonce = posix.urandom(12).hex()
        self.channel: _socket.socket | None = None
        self.from_agent, self.from_gateway = Lines(), Lines()
        self.to_agent, self.to_gateway = bytearray(), bytearray()
        self.waiting: dict[object, tuple[bytes, int]] = {}
        """{id of a request, or a tuple for a notification, or an `Odd`: (line, number of times that it was sent)}."""
        self.hello: bytes = b""
        self.hello_id: object = None
        self.greeted = False
        self.initialized: bytes = b""
        self.dropping = False
        """Whether the next answer to `initialize` is dropped, because `initialize` was repeated."""
        self.heard = 0.0
        """Time of the last data from the gateway, or of the first request after a time without requests."""
        self.asked = 0.0
        """Time of the ping that is not answered yet; 0 if there is none."""
        self.ended = 0.0
        self.deadline = 0.0
        self.starts = 0
        self.trouble = ""
        self.numbers = 0

    # ------------------------------------------------------------ the loop

    def run(self) -> None:
        self._expect()
        watch = time.monotonic() + WATCH
        while not self._over():
            readers: list[int | _socket.socket] = [] if self.ended else [0]
            writers: list[int | _socket.socket] = [1] if self.to_agent else []
            if self.channel is not None:
                readers.append(self.channel)
                writers += [self.channel] if self.to_gateway else []
            connecting = self.channel is None and self.deadline > 0
            readable, writable, _ = select.select(readers, writers, [], RETRY if connecting else WATCH)
            if 0 in readable:
                self._hear_agent()
            if 1 in writable:
                del self.to_agent[: posix.write(1, self.to_agent[: select.PIPE_BUF])]
            if self.channel is not None and self.channel in writable:
                self._tell_gateway()
            if self.channel is not None and self.channel in readable:
                self._hear_gateway()
            if self.channel is None and self.deadline > 0:
                self._reach()
            elif self.channel is not None and self.waiting:
                self._doubt(time.monotonic())
            if time.monotonic() >= watch:
                watch = time.monotonic() + WATCH
                if posix.getppid() != self.parent:
                    return

    def _over(self) -> bool:
        if not self.ended:
            return False
        return (not self.waiting and not self.to_agent) or time.monotonic() > self.ended + FAREWELL

    # ------------------------------------------------------------ the agent

    def _hear_agent(self) -> None:
        data = posix.read(0, PIECE)
        if not data:
            self.ended = time.monotonic()
            return
        for line in self.from_agent.add(data):
            self._sort(line)

    def _sort(self, line: bytes) -> None:
        """Forward one line that the agent sent. Put a request into `waiting` until it is answered, and a notification
        until it is sent."""
        message = read(line)
        method, key = message.get("method"), message.get("id")
        asks = "result" not in message and "error" not in message
        if method == "notifications/cancelled":
            inner = message.get("params")
            self.waiting.pop(inner.get("requestId") if isinstance(inner, dict) else None, None)
        if method == "notifications/initialized":
            self.initialized = line
        named = isinstance(key, (int, str)) and not isinstance(key, bool)
        if asks and not named and ("id" in message or not isinstance(method, str)):
            self.numbers += 1
            key = Odd(self.numbers)
        elif not asks or not named:
            key = None
        if method == "initialize" and isinstance(key, (int, str)):
            self.hello, self.hello_id, self.greeted = line, key, False
        if self.channel is not None:
            if key is not None:
                if not self.waiting:
                    self.heard, self.asked = time.monotonic(), 0.0
                self.waiting[key] = (line, 1)
            self.to_gateway += line
        elif asks:  # an answer to a gateway that has ended is of no use to the next one
            self.numbers += 1
            self.waiting[key if key is not None else (self.numbers,)] = (line, 0)
            self._expect()

    def _expect(self) -> None:
        """Begin to connect to the gateway, unless there is a connection or an attempt already."""
        if self.channel is None and not self.deadline:
            self.deadline = time.monotonic() + PATIENCE
            self.starts, self.trouble = 0, "it does not answer"

    # ------------------------------------------------------------ the gateway

    def _reach(self) -> None:
        """Try once to connect to the gateway; start it if none runs; give up after too many starts or too long."""
        try:
            self.channel = gateway.connect(self.socket)
            if self.channel is not None:
                self._greet()
                return
            said = gateway.complaint(self.socket)
            if self.starts <= STARTS and gateway.begin(self.socket):
                if self.starts:
                    self.trouble = said or "it ends at its start"
                self.starts += 1
            broken = self.starts > STARTS
        except OSError as exc:
            broken = True
            self.trouble = (exc.strerror or str(exc)).strip()
        if broken or time.monotonic() > self.deadline:
            self._give_up()

    def _greet(self) -> None:
        """Begin a session on a new connection: send `opening`, repeat the handshake, send unanswered requests again."""
        assert self.channel is not None
        self.channel.setblocking(False)
        self.deadline = self.asked = 0.0
        self.heard = time.monotonic()
        self.from_gateway = Lines()
        self.to_gateway[:] = opening(self.nonce)
        self.dropping = bool(self.hello) and self.greeted
        if self.dropping:
            self.to_gateway += self.hello + self.initialized
        for key, (line, tries) in list(self.waiting.items()):
            if self.dropping and line == self.initialized:
                del self.waiting[key]
            else:
                self.to_gateway += line
                self.waiting[key] = (line, tries + 1)
                if isinstance(key, tuple):
                    del self.waiting[key]

    def _tell_gateway(self) -> None:
        assert self.channel is not None
        try:
            del self.to_gateway[: self.channel.send(self.to_gateway)]
        except BlockingIOError:
            pass
        except OSError:
            self._lose()

    def _hear_gateway(self) -> None:
        assert self.channel is not None
        try:
            data = self.channel.recv(PIECE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lose()
            return
        self.heard, self.asked = time.monotonic(), 0.0
        for line in self.from_gateway.add(data):
            self._answered(line)

    def _answered(self, line: bytes) -> None:
        message = read(line)
        key = message.get("id")
        if "method" not in message and isinstance(key, (int, str)):
            if key == _PING_ID:
                return
            if self.dropping and key == self.hello_id:
                self.dropping = False
                return
            if key == self.hello_id:
                self.greeted = True
            self.waiting.pop(key, None)
        elif key is None and "error" in message:
            self.waiting.pop(next((one for one in self.waiting if isinstance(one, Odd)), None), None)
        self.to_agent += line

    def _doubt(self, now: float) -> None:
        """Send a ping if nothing came from the gateway for `QUIET` seconds. Give up if nothing comes within `SILENCE`
        seconds after the ping. `now`: monotonic time."""
        if self.asked and now > self.asked + SILENCE:
            assert self.channel is not None
            self.channel.close()
            self.channel = None
            self.trouble = "it hangs"
            self._give_up()
        elif not self.asked and now > self.heard + QUIET:
            self.to_gateway += _PING
            self.asked = now

    def _lose(self) -> None:
        """Close a connection that the gateway ended. Connect again at once if requests wait, else when the agent
        sends a line."""
        assert self.channel is not None
        self.channel.close()
        self.channel = None
        said = gateway.complaint(self.socket)
        for key in [key for key, (_, tries) in self.waiting.items() if tries >= TRIES]:
            self._refuse(key, "it ended each time at this request" + (f" ({said})" if said else ""))
        if self.waiting:
            self._expect()

    def _give_up(self) -> None:
        """Answer every waiting request with an error. The next request begins to connect again."""
        self.deadline = 0.0
        for key in list(self.waiting):
            self._refuse(key, self.trouble)

    def _refuse(self, key: object, why: str) -> None:
        del self.waiting[key]
        if isinstance(key, tuple):
            return
        shown = _json.encode_basestring_ascii(key) if isinstance(key, str) else str(key)
        shown = "null" if isinstance(key, Odd) else shown
        text = _json.encode_basestring_ascii(
            f"Ormah's gateway cannot be reached: {why}. The memories are safe. Try again; the gateway's log is "
            f"{gateway.address(self.socket)}.log"
        )
        self.to_agent += f'{{"jsonrpc":"2.0","id":{shown},"error":{{"code":{_UNREACHED},"message":{text}}}}}\n'.encode()


class Odd:
    """Key in `Pump.waiting` for a line that is no valid message or is a request without a valid id. The gateway
    answers it by an error whose id is null."""

    def __init__(self, number: int) -> None:
        self.number = number


class Lines:
    """Splits a stream of bytes into lines. The beginning of an incomplete line is stored until the rest arrives."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def add(self, data: bytes) -> "list[bytes]":
        """Add `data`, and return the lines that are now complete, each with its line end. Raises ConnectionResetError
        if a line is too large."""
        if b"\n" not in data:
            self._rest += data
            if len(self._rest) > LARGEST:
                sys.stderr.write(f"a message has more than {LARGEST >> 20} MB; the session ends\n")
                raise ConnectionResetError
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


def opening(nonce: str) -> bytes:
    """Return the frame that begins a session: kind, length, then fields that each end with NUL.

    The fields: folder of this installation, `nonce`, working directory, `ORMAH_SPACE`, project's folder, session's id.
    Fields may be empty.
    """
    root = __file__.rpartition("/ormahctl/")[0].encode("utf-8", "surrogateescape")
    fields = [root, nonce.encode(), _cwd(), posix.environ.get(b"ORMAH_SPACE", b"")]
    fields.append(_first(b"CLAUDE_PROJECT_DIR", b"GEMINI_PROJECT_DIR"))
    fields.append(_first(b"CLAUDE_CODE_SESSION_ID", b"CODEX_THREAD_ID", b"GEMINI_SESSION_ID"))
    body = b"".join(field + b"\0" for field in fields)
    return b"p" + len(body).to_bytes(4, "big") + body


def _first(*names: bytes) -> bytes:
    return next((value for name in names if (value := posix.environ.get(name, b""))), b"")


def _cwd() -> bytes:
    try:
        return posix.getcwdb()
    except OSError:  # it was removed
        return b""
