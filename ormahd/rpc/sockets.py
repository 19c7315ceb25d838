"""The listening socket: made safely, found again when somebody takes it away, or handed over by systemd or launchd.

The socket is 0600 in a directory of ours; whoever connects is asked for by the kernel as well (`peer.py`). Liveness is
a connection that is taken, never a pid file: a file that nobody listens at is replaced, one that somebody listens at is
left alone, and so is everything that is no socket.
"""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import errno
import fcntl
import logging
import os
import socket
import stat
from collections.abc import Callable, Iterator, MutableMapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from ormahd.errors import BadRequest, Conflict, Unavailable
from ormahd.paths import MAX_SOCKET_PATH

log = logging.getLogger("ormahd.socket")

BACKLOG: Final = 128
PROBE_SECONDS: Final = 1.0
FIRST_FD: Final = 3  # sd_listen_fds(3)
LAUNCHD_NAME: Final = "ormahd"
"""The key of the socket in the launchd property list."""


class Listening(Struct, frozen=True):
    """A listening socket. `identity` is its file's device and inode; `ours`: we made the file and take it away again."""

    sock: socket.socket
    path: Path
    identity: tuple[int, int] | None
    ours: bool


def listen(path: Path) -> Listening:
    """Listen at `path`, in a directory that only we can change.

    Raises:
        Conflict: a daemon listens there already.
        BadRequest: the path is too long, no socket lies there, or the directory is not safe.
    """
    path = Path(os.path.abspath(path))
    if len(os.fsencode(path)) > MAX_SOCKET_PATH:
        raise BadRequest(
            f"the socket's path has {len(os.fsencode(path))} bytes, the system takes {MAX_SOCKET_PATH}: {path}",
            hint="set a shorter one: daemon.socket in config.toml, ORMAH_SOCKET, or --socket",
        )
    _guarded(path.parent)
    with _alone(path.parent):
        _make_way(path)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # Linux gives the file the socket's own mode: no moment with a wider one, and no umask for other threads.
            with contextlib.suppress(OSError):
                os.fchmod(sock.fileno(), 0o600)
            sock.bind(os.fspath(path))
            path.chmod(0o600)
            sock.listen(BACKLOG)
            sock.setblocking(False)
            return Listening(sock, path, _identity(path), ours=True)
        except OSError as exc:
            sock.close()
            raise Unavailable(f"cannot listen at {path}: {exc.strerror or exc}") from exc


def intact(listening: Listening) -> bool:
    """True while the file at the path is the socket that we listen at."""
    return listening.identity is None or _identity(listening.path) == listening.identity


def release(listening: Listening) -> None:
    """Stop listening; the file goes too when it is still ours."""
    try:
        if listening.ours:
            with _alone(listening.path.parent):
                if intact(listening):  # while the socket is open its inode cannot be given to another file
                    listening.path.unlink()
    except OSError as exc:
        log.warning("the socket file %s could not be removed: %s", listening.path, exc.strerror)
    finally:
        listening.sock.close()


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino)


def _guarded(directory: Path) -> None:
    """Make the directory (0700), or see that an existing one cannot be changed by others."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = directory.stat()
        mode = stat.S_IMODE(found.st_mode)
        if found.st_uid != os.geteuid():
            raise BadRequest(
                f"the socket's directory {directory} belongs to user {found.st_uid}, not to us",
                hint="set another one: daemon.socket, ORMAH_SOCKET, or --socket",
            )
        if not mode & 0o077:
            return
        if not mode & stat.S_ISVTX and all(stat.S_ISSOCK(entry.lstat().st_mode) for entry in directory.iterdir()):
            directory.chmod(0o700)
            return
    except OSError as exc:
        raise BadRequest(
            f"the socket's directory {directory} cannot be used: {exc.strerror}",
            hint="set another one: daemon.socket, ORMAH_SOCKET, or --socket",
        ) from exc
    if mode & 0o022:
        raise BadRequest(
            f"others may write to the socket's directory {directory} (mode {mode:04o})",
            hint="put the socket into a directory of its own: mkdir -m 700, then --socket or daemon.socket",
        )
    log.warning("the socket's directory %s is open to others' eyes (mode %04o); better: chmod 700", directory, mode)


@contextlib.contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """One daemon at a time looks at the sockets of a directory and changes them."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _make_way(path: Path) -> None:
    """Remove a socket that nobody listens at."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.geteuid():
        raise BadRequest(
            f"{path} is there and is not a socket of ours; it was left alone",
            hint="move it away, or set another path: daemon.socket, ORMAH_SOCKET, or --socket",
        )
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(PROBE_SECONDS)
        try:
            probe.connect(os.fspath(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            return
        except (BlockingIOError, TimeoutError):
            pass  # somebody listens and is busy
    raise Conflict(
        f"a daemon is already running: somebody listens at {path}",
        hint="see: ormahctl status; stop it with: ormahctl down",
        data={"reason": "running"},
    )


# ---------------------------------------------------------------- handed over


def activated(environ: MutableMapping[str, str]) -> Listening | None:
    """The socket that systemd or launchd listens at for us, or None. Takes the variables out of `environ`, so that no
    child believes they are meant for it.

    Raises:
        BadRequest: what was handed over is not a listening Unix stream socket.
    """
    fds = systemd_fds(environ) or launchd_fds(LAUNCHD_NAME)
    if not fds:
        return None
    for fd in fds:
        os.set_inheritable(fd, False)
    for spare in fds[1:]:
        log.warning("more than one socket was handed over; the first is used")
        os.close(spare)
    try:
        sock = socket.socket(fileno=fds[0])
        fits = sock.family == socket.AF_UNIX and sock.type == socket.SOCK_STREAM
        fits = fits and bool(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    except OSError as exc:
        raise BadRequest(f"the supervisor handed over descriptor {fds[0]}, which is no socket: {exc.strerror}") from exc
    if not fits:
        raise BadRequest(
            "the supervisor handed over something else than a listening Unix stream socket",
            hint="renew the unit: ormahctl setup service (ListenStream=, Accept=no)",
        )
    sock.setblocking(False)
    name = sock.getsockname()
    path = Path(os.fsdecode(name))
    if _identity(path) is not None and stat.S_IMODE(path.lstat().st_mode) & 0o077:
        log.warning("the socket %s is open to others (SocketMode=0600 is missing); they are refused one by one", path)
    return Listening(sock, path, _identity(path), ours=False)


def systemd_fds(environ: MutableMapping[str, str]) -> list[int]:
    """The descriptors of systemd's protocol (sd_listen_fds(3)), when they are meant for this process."""
    pid, count = environ.pop("LISTEN_PID", ""), environ.pop("LISTEN_FDS", "")
    environ.pop("LISTEN_FDNAMES", None)
    if pid != str(os.getpid()) or not count.isdecimal():
        return []
    return list(range(FIRST_FD, FIRST_FD + int(count)))


def launchd_fds(name: str, activate: Callable[..., int] | None = None) -> list[int]:
    """The descriptors of the socket `name` of our launchd job (launch_activate_socket(3)); none outside of launchd."""
    libc = ctypes.CDLL(None)
    call = activate or getattr(libc, "launch_activate_socket", None)
    if call is None:  # not macOS
        return []
    fds, count = ctypes.POINTER(ctypes.c_int)(), ctypes.c_size_t()
    status = call(name.encode(), ctypes.byref(fds), ctypes.byref(count))
    if status in {errno.ESRCH, errno.ENOENT}:  # not started by launchd; no such socket in the job
        return []
    if status != 0:
        raise BadRequest(f"launchd gave no socket: {os.strerror(status)}", hint="renew the job: ormahctl setup service")
    found = [fds[index] for index in range(count.value)]
    libc.free(fds)
    return found
