"""Git's merge driver: `hook.py --merge --socket PATH --git PID BASE OURS THEIRS MARKERS PATH` (DESIGN section 5).

It decides nothing itself, but sends the three versions to the helper of this git process if one runs, otherwise to the
daemon, otherwise to a new helper (`ormahd merge-driver`). The helper answers for all further files of that git process.
Its socket lies in a directory that only this user can enter, and listens before the helper starts, so no polling is
needed. Exit statuses are of our own, because Python exits with 1 when it cannot start. The command in git's
configuration (`ormahd.vault.merge_driver`) maps them to git's 0 and 1; any other status leads to a text merge.
"""

import _socket
import posix
import sys

from ormahctl.shim.wire import ask

SOCKET = "/s"
_LONGEST = 103
"""Largest length in bytes of a Unix socket's path on macOS."""
_RUN = "import sys, runpy; sys.path.insert(0, sys.argv[1]); del sys.argv[1]; runpy.run_module('ormahd', alter_sys=True, run_name='__main__')"
"""Options that isolate the interpreter, as for the shim: git runs it in the vault's folder, whose files must not be
imported."""


def socket_folder(git: int) -> str:
    """Return the directory for the helper of the git process `git`; empty if there can be none."""
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


def start_helper(place: str, git: int) -> bool:
    """Start a helper that listens at `place`. Return False if that is impossible."""
    listener = None
    try:
        _private(place)
        listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            if _mode(place + SOCKET):
                posix.unlink(place + SOCKET)  # no process listens there, as was just found
            listener.bind(place + SOCKET)
        except OSError:
            return _mode(place + SOCKET) != 0  # another shim of this git was faster: its helper will do
        listener.listen(16)
        number = listener.fileno()
        posix.set_inheritable(number, True)
        root = __file__.rpartition("/ormahctl/")[0]
        words = [sys.executable, "-I", "-c", _RUN, root, "merge-driver", "--listen", str(number), "--git", str(git)]
        # Git's streams are closed in the helper: their reader would otherwise wait for the helper's end.
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
    """Create the directory with mode 0700. Raise OSError if it exists and other users could use it."""
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


MERGED = 0
REFUSED = 65
"""Exit status: these are not versions of one note. Our version is kept, and git reports the file as not merged."""
CONFLICT = 66
"""Exit status: a conflict. The text merge writes both versions into the file, between markers."""
NOBODY = 69
"""Exit status: neither daemon nor helper answered."""

DAEMON_SECONDS = 5.0
HELPER_SECONDS = 60.0
STARTS = 3
"""Number of attempts to start a helper; another shim of the same git process may replace its socket meanwhile."""
LARGE = 262_144
"""Total bytes of three versions above which the daemon is not asked, because comparing long texts would delay its other
requests."""
_KIND = b"g"
_STATUS = {b"=": MERGED, b"x": REFUSED, b"!": CONFLICT}


def main(words: list[str]) -> int:
    """Merge one file for git, and write the result over OURS. Return one of the exit statuses above."""
    try:
        return _merge(words)
    except OSError as exc:
        posix.write(2, f"ormah: {exc}\n".encode("utf-8", "replace"))
        return NOBODY


def _merge(words: list[str]) -> int:
    options = {"--socket": "", "--git": "0"}
    while words and words[0] in options:
        options[words[0]] = words[1]
        words = words[2:]
    base, ours, theirs, _markers, path = words
    versions = [_read(name) for name in (base, ours, theirs)]
    parts = [path.encode("utf-8", "surrogateescape"), *versions]
    reply = _ask(options["--socket"], int(options["--git"]), b"".join(len(p).to_bytes(4, "big") + p for p in parts))
    if not reply:
        return NOBODY
    end = 5 + int.from_bytes(reply[1:5], "big")
    if end > 5:
        posix.write(2, reply[5:end])
    status = _STATUS.get(reply[:1], NOBODY)
    if status == MERGED:
        _write(ours, reply[end:])
    elif status == CONFLICT and len(reply) > end:  # both sides, with all merged that can be
        cut = end + 4 + int.from_bytes(reply[end : end + 4], "big")
        _write(ours, reply[end + 4 : cut])
        _write(theirs, reply[cut + 4 :])
    return status


def _ask(socket: str, git: int, body: bytes) -> bytes | None:
    place = socket_folder(git)
    reply = ask(place + SOCKET, _KIND, body, HELPER_SECONDS) if place else None
    if reply is None and socket and len(body) <= LARGE:
        reply = ask(socket, _KIND, body, DAEMON_SECONDS)
    for _ in range(STARTS):
        if not reply and place and start_helper(place, git):
            reply = ask(place + SOCKET, _KIND, body, HELPER_SECONDS)
    return reply


def _read(name: str) -> bytes:
    with open(name, "rb", 0) as file:
        return file.read()


def _write(name: str, data: bytes) -> None:
    """Write the file whole or not at all: on a full disk the text merge still needs the old content."""
    fresh = name + ".ormah"
    try:
        with open(fresh, "wb", 0) as file:
            left = memoryview(data)
            while left:
                left = left[file.write(left) or 0 :]
        posix.replace(fresh, name)
    except OSError:
        posix.unlink(fresh)
        raise
