"""Connect to the gateway of a daemon's socket, and start it if none runs.

The process that starts the gateway holds a lock on a file beside the socket, and hands the open file to the gateway. The
lock lasts as long as the gateway, so that each socket has one gateway however many processes want it at once. Uses
builtin modules only, for processes that should stay small.
"""

import _socket
import fcntl
import posix
import sys

from ormahctl.shim.wire import peer

SUFFIX = ".gateway"
"""The gateway's socket is at the daemon's path with this suffix. Its lock and log add `.lock` and `.log` to that."""
LONGEST_PATH = 103
"""Bytes that a Unix socket's path may have on macOS (Linux: 107)."""
SANDBOXED = (b"CODEX_SANDBOX", b"CODEX_SANDBOX_NETWORK_DISABLED")
"""Variables that Codex sets in its sandbox. A gateway started there could not connect, so it would serve no client."""
_OF_A_SESSION = (
    *(b"ORMAH_SPACE", b"ORMAH_SOCKET", b"CLAUDE_PROJECT_DIR", b"GEMINI_PROJECT_DIR", b"CLAUDE_CODE_SESSION_ID"),
    *(b"CODEX_THREAD_ID", b"GEMINI_SESSION_ID", b"CLAUDECODE", b"GEMINI_CLI"),
    *(b"LISTEN_PID", b"LISTEN_FDS", b"LISTEN_FDNAMES", b"NOTIFY_SOCKET"),
)
"""Environment variables about one session or process. The gateway does not get them, because it serves all sessions."""
_RUN = (
    "import sys; sys.path.insert(0, sys.argv[1]); from ormahctl.gateway.main import main; sys.exit(main(sys.argv[2:]))"
)
_FILES = 1024
"""Descriptors below this number are closed in the gateway: a harness may leave some open."""


def address(socket: str) -> str:
    """Return the path of the gateway's socket for the daemon's socket at `socket`."""
    return socket + SUFFIX


def connect(socket: str) -> "_socket.socket | None":
    """Return a connection to the gateway of the daemon's socket `socket`, or None if no gateway listens.

    Raises:
        OSError: the path is too long, this user may not connect, or the gateway is another user's.
    """
    path = address(socket)
    if len(path.encode(sys.getfilesystemencoding(), "surrogateescape")) > LONGEST_PATH:
        raise OSError(
            f"the gateway's socket has a path that is too long: {path} (set a shorter one: daemon.socket, or --socket)"
        )
    channel = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        channel.connect(path)
        owner = peer(channel, path)
    except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError, BlockingIOError):
        channel.close()
        return None
    except OSError:
        channel.close()
        raise
    if owner not in (posix.geteuid(), 0):
        channel.close()
        raise OSError(f"the socket {path} is held by user {owner}, not by us")
    return channel


def begin(socket: str) -> bool:
    """Start the gateway in the background, without waiting. Return False if another process starts or runs it.

    Raises:
        OSError: a gateway may not be started here (Codex's sandbox), or the socket's directory cannot be used.
    """
    if any(posix.environ.get(name) for name in SANDBOXED):
        raise OSError("the gateway is not running, and is not started from inside a sandbox")
    _make_directory(socket.rpartition("/")[0] or "/")
    lock = take_lock(socket)
    if lock is None:
        return False
    try:
        _spawn(socket, lock)
    finally:
        posix.close(lock)
    return True


def take_lock(socket: str) -> "int | None":
    """Take the lock of the gateway. Return the descriptor that holds it; None if another process holds the lock."""
    lock = posix.open(
        address(socket) + ".lock", posix.O_RDWR | posix.O_CREAT | posix.O_CLOEXEC | posix.O_NOFOLLOW, 0o600
    )
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        posix.close(lock)
        return None
    except OSError:
        posix.close(lock)
        raise
    return lock


def last_log_line(socket: str) -> str:
    """Return the last line of the gateway's log, which says why it ended; "" if there is none."""
    try:
        fd = posix.open(address(socket) + ".log", posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        return ""
    try:
        size = posix.fstat(fd).st_size
        posix.lseek(fd, max(0, size - 4096), 0)
        lines = posix.read(fd, 4096).decode("utf-8", "replace").strip().splitlines()
    finally:
        posix.close(fd)
    return lines[-1] if lines else ""


def _spawn(socket: str, lock: int) -> None:
    """Start the gateway as a daemon process (double fork), because harnesses end their child processes. `lock`: the
    descriptor of the gateway's lock, which the gateway inherits."""
    root = __file__.rpartition("/ormahctl/")[0]
    variables = {name: value for name, value in posix.environ.items() if name not in _OF_A_SESSION}
    words = [sys.executable, "-I", "-c", _RUN, root, socket, str(lock)]
    child = posix.fork()
    if child:
        posix.waitpid(child, 0)
        return
    try:
        posix.setsid()
        if posix.fork():
            posix._exit(0)
        posix.chdir("/")
        silent = posix.open("/dev/null", posix.O_RDONLY)
        log_flags = posix.O_WRONLY | posix.O_CREAT | posix.O_TRUNC | posix.O_APPEND | posix.O_NOFOLLOW
        log = posix.open(address(socket) + ".log", log_flags, 0o600)
        for fd, standard in ((silent, 0), (log, 1), (log, 2)):
            posix.dup2(fd, standard)
        posix.closerange(3, lock)
        posix.closerange(lock + 1, _FILES)
        posix.set_inheritable(lock, True)
        posix.execve(sys.executable, words, variables)
    finally:
        posix._exit(127)


def _make_directory(directory: str) -> None:
    """Create `directory` and its missing parents with mode 0700. An existing directory is left as it is."""
    try:
        posix.mkdir(directory, 0o700)
    except FileExistsError:
        return
    except FileNotFoundError:
        _make_directory(directory.rpartition("/")[0] or "/")
        posix.mkdir(directory, 0o700)
