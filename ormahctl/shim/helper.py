"""The helper of one git process: started where no daemon answers, asked for all further files of that git.

It is `ormahd merge-driver`, on a socket in a directory that only we can enter. The socket listens before the helper is
started, so that nobody has to wait and look whether it is there yet.
"""

import _socket
import posix
import sys

SOCKET = "/s"
_LONGEST = 103
"""Bytes that a Unix socket's path may have on macOS."""
_RUN = "import sys, runpy; sys.path.insert(0, sys.argv[1]); del sys.argv[1]; runpy.run_module('ormahd', alter_sys=True, run_name='__main__')"
"""Isolated, as the shim itself: from a vault's folder, which is where git runs us, nothing must be imported."""


def place(git: int) -> str:
    """The directory for the helper of the git process `git`; empty where there can be none."""
    if git <= 0:
        return ""
    environ = posix.environ
    for name in (b"XDG_RUNTIME_DIR", b"TMPDIR"):
        base = environ.get(name, b"").decode("utf-8", "surrogateescape").rstrip("/")
        found = f"{base}/ormah-merge-{posix.geteuid()}-{git}"
        if (
            base.startswith("/")
            and len((found + SOCKET).encode("utf-8", "surrogateescape")) <= _LONGEST
            and _is_directory(_mode(base))
        ):
            return found
    return f"/tmp/ormah-merge-{posix.geteuid()}-{git}"  # noqa: S108 - made 0700, or refused


def start(place: str, git: int) -> bool:
    """Start a helper that listens at `place`; False where that cannot be."""
    listener = None
    try:
        _private(place)
        listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            if _mode(place + SOCKET):
                posix.unlink(place + SOCKET)  # nobody listens there, as we have just seen
            listener.bind(place + SOCKET)
        except OSError:
            return _mode(place + SOCKET) != 0  # another shim of this git was faster: its helper will do
        listener.listen(16)
        number = listener.fileno()
        posix.set_inheritable(number, True)
        root = __file__.rpartition("/ormahctl/")[0]
        words = [sys.executable, "-I", "-c", _RUN, root, "merge-driver", "--listen", str(number), "--git", str(git)]
        # Nothing of git's streams is kept open: whoever reads them would wait for the helper too.
        silent = [
            (posix.POSIX_SPAWN_OPEN, 0, "/dev/null", posix.O_RDWR, 0),
            (posix.POSIX_SPAWN_DUP2, 0, 1),
            (posix.POSIX_SPAWN_DUP2, 0, 2),
        ]
        posix.posix_spawn(sys.executable, words, posix.environ, file_actions=silent)
    except OSError:
        return False
    else:
        return True
    finally:
        if listener is not None:
            listener.close()


def _private(place: str) -> None:
    """Make the directory 0700; raise OSError when one is there that is not ours alone."""
    try:
        posix.mkdir(place, 0o700)
    except FileExistsError:
        found = posix.lstat(place)
        if not _is_directory(found.st_mode) or found.st_uid != posix.geteuid() or found.st_mode & 0o077:
            raise PermissionError(f"{place} is not ours") from None


def _mode(path: str) -> int:
    try:
        return posix.lstat(path).st_mode
    except OSError:
        return 0


def _is_directory(mode: int) -> bool:
    return mode & 0o170000 == 0o040000
