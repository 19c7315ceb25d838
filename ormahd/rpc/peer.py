"""Ask the kernel for the user of the process at the other end of a Unix socket."""

from __future__ import annotations

import ctypes
import os
import socket
import struct

_UCRED = struct.Struct("iII")  # pid, uid, gid: <sys/socket.h>, unix(7)


def peer_uid(sock: socket.socket) -> int:
    """Return the user id of the process at the other end.

    Raises:
        OSError: the kernel does not tell it, for example because the connection is closed already.
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
