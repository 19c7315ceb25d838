"""Keep a Unix socket to one user: its directory, its file, and the user at the other end of a connection."""

from __future__ import annotations

import _socket
import ctypes
import os
import socket
import stat
import struct
import sys
from pathlib import Path

from ormahd.errors import BadRequest

_UCRED = struct.Struct("iII")  # pid, uid, gid: <sys/socket.h>, unix(7)


def peer_uid(sock: socket.socket) -> int:
    """Return the user id of the process at the other end of `sock`.

    Raises:
        OSError: the kernel does not know it, for example because the connection is closed already.
    """
    if hasattr(socket, "SO_PEERCRED"):
        uid: int = _UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))[1]
        return uid
    libc = ctypes.CDLL(None, use_errno=True)
    found, group = ctypes.c_uint32(), ctypes.c_uint32()  # uid_t and gid_t of macOS and the BSDs
    if libc.getpeereid(sock.fileno(), ctypes.byref(found), ctypes.byref(group)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return found.value


def peer_pid(sock: _socket.socket) -> int | None:
    """Return the id of the process that listens at the other end of `sock`. With socket activation that is the service
    manager. None if the system does not support this.

    Raises:
        OSError: the kernel does not know it.
    """
    if hasattr(socket, "SO_PEERCRED"):
        pid: int = _UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))[0]
    elif sys.platform == "darwin":
        local_peerpid = 2  # <sys/un.h> of macOS: LOCAL_PEERPID of SOL_LOCAL (0)
        pid = int(struct.unpack("i", sock.getsockopt(0, local_peerpid, 4))[0])
    else:
        return None
    return pid or None


def identity(path: Path) -> tuple[int, int] | None:
    """Return the device and inode of the file at `path`; None if there is none."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino)


def guarded(directory: Path) -> None:
    """Create the directory with mode 0700, or check that no other user can write to an existing one.

    Raises:
        BadRequest: another user can.
    """
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
    import logging  # not above: commands import this module, and have to start quickly

    log = logging.getLogger("ormahd.socket")
    log.warning("the socket's directory %s is open to others' eyes (mode %04o); better: chmod 700", directory, mode)
