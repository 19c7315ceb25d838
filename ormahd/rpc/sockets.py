"""The listening socket: create it safely or take it over from systemd or launchd, and accept connections of this user
only.

The socket's file has mode 0600 and its directory must not be writable for others; the server also checks the user of
each peer (`peer.py`). Whether a daemon is running is tested by connecting, not by a pid file. A socket file on which no
process listens is replaced, and one that was removed is made again. A socket file on which a process listens, and any
file that is no socket, is left alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import errno
import fcntl
import logging
import os
import selectors
import socket
import stat
import time
from collections import deque
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from ormahd.errors import BadRequest, Conflict, OrmahError, Unavailable
from ormahd.paths import MAX_SOCKET_PATH
from ormahd.rpc.connection import Counts
from ormahd.rpc.peer import guarded, identity, peer_uid

log = logging.getLogger("ormahd.socket")

BACKLOG: Final = 128
PROBE_SECONDS: Final = 1.0
FIRST_FD: Final = 3  # sd_listen_fds(3)
LAUNCHD_NAME: Final = "ormahd"
"""The key of the socket in the launchd property list."""


class Listening(Struct, frozen=True):
    """A listening socket. `identity`: device and inode of its file, None if there was no file. `ours`: this process
    created the file, and removes it at its end."""

    sock: socket.socket
    path: Path
    identity: tuple[int, int] | None
    ours: bool


def listen(path: Path) -> Listening:
    """Listen at `path`, in a directory that no other user can write to.

    Raises:
        Conflict: another process listens there already.
        BadRequest: the path is too long, the file there is no socket of this user, or the directory is not safe.
        Unavailable: the system refused to create the socket.
    """
    path = Path(os.path.abspath(path))
    if len(os.fsencode(path)) > MAX_SOCKET_PATH:
        raise BadRequest(
            f"the socket's path has {len(os.fsencode(path))} bytes, the system takes {MAX_SOCKET_PATH}: {path}",
            hint="set a shorter one: daemon.socket in config.toml, ORMAH_SOCKET, or --socket",
        )
    guarded(path.parent)
    with _locked(path.parent):
        _remove_stale_socket(path)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # On Linux the file gets the mode of the socket, so it is never more open, and the process-wide umask stays as it is.
            with contextlib.suppress(OSError):
                os.fchmod(sock.fileno(), 0o600)
            sock.bind(os.fspath(path))
            path.chmod(0o600)
            sock.listen(BACKLOG)
            sock.setblocking(False)
            return Listening(sock, path, identity(path), ours=True)
        except OSError as exc:
            sock.close()
            raise Unavailable(f"cannot listen at {path}: {exc.strerror or exc}") from exc


def intact(listening: Listening) -> bool:
    """Return whether the file at the path is still the socket that this process listens on."""
    return listening.identity is None or identity(listening.path) == listening.identity


def release(listening: Listening) -> None:
    """Close the listening socket. Remove its file if this process created it and it was not replaced."""
    try:
        if listening.ours:
            with _locked(listening.path.parent):
                if intact(listening):  # the inode cannot be reused while the socket is open
                    listening.path.unlink()
    except OSError as exc:
        log.warning("the socket file %s could not be removed: %s", listening.path, exc.strerror)
    finally:
        listening.sock.close()


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Context manager: hold an exclusive lock on `directory`. Only one daemon at a time checks and changes its sockets."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _remove_stale_socket(path: Path) -> None:
    """Remove a socket file on which no process listens.

    Raises:
        BadRequest: another kind of file is there, or another user's.
        Conflict: a process listens.
    """
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
            pass  # a process listens and is busy
    raise Conflict(
        f"a daemon is already running: somebody listens at {path}",
        hint="see: ormahctl status; stop it with: ormahctl down",
        data={"reason": "running"},
    )


# ---------------------------------------------------------------- sockets from systemd or launchd


def activated(environ: MutableMapping[str, str]) -> Listening | None:
    """Return the listening socket that systemd or launchd passed to this process, or None if there is none.

    The variables by which systemd passes it (`LISTEN_*`) are removed from `environ`, so that child processes do not
    use them.

    Raises:
        BadRequest: the descriptor passed is not a listening Unix stream socket.
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
    if identity(path) is not None and stat.S_IMODE(path.lstat().st_mode) & 0o077:
        log.warning("the socket %s is open to others (SocketMode=0600 is missing); they are refused one by one", path)
    return Listening(sock, path, identity(path), ours=False)


def systemd_fds(environ: MutableMapping[str, str]) -> list[int]:
    """Return the descriptors that systemd passed to this process (sd_listen_fds(3)); an empty list if there are none."""
    pid, count = environ.pop("LISTEN_PID", ""), environ.pop("LISTEN_FDS", "")
    environ.pop("LISTEN_FDNAMES", None)
    if pid != str(os.getpid()) or not count.isdecimal():
        return []
    return list(range(FIRST_FD, FIRST_FD + int(count)))


def launchd_fds(name: str, libc: Any = None) -> list[int]:
    """Return the descriptors of the socket `name` of the launchd job (launch_activate_socket(3)); an empty list without
    launchd. `libc`: the C library; None: this process's.

    Raises:
        BadRequest: launchd reported an error.
    """
    libc = libc or ctypes.CDLL(None)
    if not hasattr(libc, "launch_activate_socket"):  # not macOS
        return []
    fds, count = ctypes.POINTER(ctypes.c_int)(), ctypes.c_size_t()
    status = libc.launch_activate_socket(name.encode(), ctypes.byref(fds), ctypes.byref(count))
    if status in {errno.ESRCH, errno.ENOENT}:  # not started by launchd; no such socket in the job
        return []
    if status != 0:
        raise BadRequest(f"launchd gave no socket: {os.strerror(status)}", hint="renew the job: ormahctl setup service")
    found = [fds[index] for index in range(count.value)]
    libc.free(fds)
    return found


GUARD_SECONDS: Final = 10.0
"""Interval between two checks whether the socket's file still exists."""
PAUSE_SECONDS: Final = 1.0
"""How long no connection is accepted after the process ran out of file descriptors or memory."""
_SCARCE: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Listener:
    """Accepts connections, and creates the socket's file again if it was removed. Used by the server's loop only,
    except `path`, `intact`, `lost` and `check_soon`: any thread.

    A connection of another user is closed, and counted as refused.
    """

    def __init__(self, listening: Listening, selector: selectors.BaseSelector, counts: Counts) -> None:
        self._listening = listening
        self._selector = selector
        self._counts = counts
        self.accepted: deque[socket.socket] = deque()
        """Accepted connections that the server's loop has not taken over yet."""
        self.lost: str | None = None
        """The reason, as a sentence for people, why clients can no longer connect; None if they can."""
        self.paused_until: float | None = None
        self._registered = False
        self._guard_at = 0.0

    @property
    def path(self) -> Path:
        """Return the path of the socket."""
        return self._listening.path

    @property
    def intact(self) -> bool:
        """Whether the socket's file is still the one that this process listens on."""
        return intact(self._listening)

    def open(self) -> None:
        """Begin to accept connections."""
        self._guard_at = time.monotonic() + GUARD_SECONDS
        self._register()

    def close(self) -> None:
        """Stop accepting connections, and close the socket."""
        self._unregister()
        release(self._listening)

    def _register(self) -> None:
        """Register the listening socket with the selector."""
        self._selector.register(self._listening.sock, selectors.EVENT_READ, self.accept)
        self._registered = True

    def _unregister(self) -> None:
        """Unregister the listening socket from the selector. Clients then wait in the backlog."""
        if self._registered:
            self._selector.unregister(self._listening.sock)
            self._registered = False

    def seconds_to_check(self, now: float) -> float:
        """Return how many seconds remain until `do_periodic_work` has to check the socket's file again."""
        return max(0.0, self._guard_at - now)

    def check_soon(self) -> None:
        """Make the next `do_periodic_work` check the socket's file. Any thread may call it."""
        self._guard_at = 0.0

    def accept(self) -> None:
        """Accept all waiting connections. Close those of other users."""
        for _ in range(BACKLOG):
            try:
                sock, _ = self._listening.sock.accept()
            except BlockingIOError:
                return
            except OSError as exc:
                if exc.errno in _SCARCE:
                    log.warning("no connection can be taken for a moment: %s", exc.strerror)
                    self._unregister()
                    self.paused_until = time.monotonic() + PAUSE_SECONDS
                return
            sock.setblocking(False)
            try:
                uid = peer_uid(sock)
            except OSError:  # the peer has disconnected already
                sock.close()
                continue
            if uid == os.geteuid():
                self.accepted.append(sock)
                continue
            log.warning("a process of user %d was refused", uid)
            self._counts.add("refused")
            sock.close()

    def do_periodic_work(self, now: float) -> None:
        """Do periodic work: accept connections again after PAUSE_SECONDS, and check the socket's file."""
        if self.paused_until is not None and now >= self.paused_until:
            self.paused_until = None
            self._register()
        if now >= self._guard_at:
            self._guard_at = now + GUARD_SECONDS
            self._guard()

    def _guard(self) -> None:
        """Check that the socket's file is still the one that this process listens on. If not, try to create it again.

        If that fails, `lost` says what to do. A socket from systemd or launchd cannot be created again.
        """
        before, self.lost = self.lost, None
        if self.intact:
            return
        if not self._listening.ours:
            self.lost = f"the socket {self.path} was taken away; begin again: systemctl --user restart ormahd.socket"
        else:
            try:
                self._replace(listen(self.path))
            except OrmahError as exc:
                self.lost = f"the socket {self.path} was taken away and cannot be made again: {exc.message}"
        if self.lost and self.lost != before:
            log.error("%s", self.lost)

    def _replace(self, fresh: Listening) -> None:
        """Accept connections from the new listening socket, and close the old one."""
        self.accept()  # clients that connected before the file was removed
        self._unregister()
        self._listening.sock.close()
        self._listening = fresh
        if self.paused_until is None:
            self._register()
        log.warning("the socket %s had been taken away; it is there again", self.path)
