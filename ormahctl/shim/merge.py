"""Git's merge driver: `hook.py --merge --socket PATH --git PID BASE OURS THEIRS MARKERS PATH` (DESIGN section 5).

Asks who is there to merge: the helper of this git process, where one was needed before; the daemon; a new helper. It
decides nothing itself. Its statuses are its own, because Python's 1 may mean that it could not even begin: the command
in git's configuration (`ormahd.vault.merge_driver`) makes git's 0 and 1 of them, and of every other one a text merge with
markers.
"""

import posix

from ormahctl.shim import helper
from ormahctl.shim.wire import ask

MERGED = 0
REFUSED = 65
"""Not versions of one note: ours is kept, and git told that it is not merged."""
CONFLICT = 66
"""A person has to choose: both versions belong into the file, between markers."""
NOBODY = 69
"""Neither daemon nor helper answered."""

DAEMON_SECONDS = 5.0
HELPER_SECONDS = 60.0
STARTS = 3
"""Times that a helper is started: another shim of the same git may put its own socket in the place of ours meanwhile."""
LARGE = 262_144
"""Bytes of three versions from which the daemon is spared: comparing long texts would slow what people wait for."""
_KIND = b"g"
_STATUS = {b"=": MERGED, b"x": REFUSED, b"!": CONFLICT}


def main(words: "list[str]") -> int:
    """Merge one file as git asks; the result is written over OURS. One of the statuses above."""
    try:
        return _merge(words)
    except OSError as exc:
        posix.write(2, f"ormah: {exc}\n".encode("utf-8", "replace"))
        return NOBODY


def _merge(words: "list[str]") -> int:
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


def _ask(socket: str, git: int, body: bytes) -> "bytes | None":
    place = helper.place(git)
    reply = ask(place + helper.SOCKET, _KIND, body, HELPER_SECONDS) if place else None
    if reply is None and socket and len(body) <= LARGE:
        reply = ask(socket, _KIND, body, DAEMON_SECONDS)
    for _ in range(STARTS):
        if not reply and place and helper.start(place, git):
            reply = ask(place + helper.SOCKET, _KIND, body, HELPER_SECONDS)
    return reply


def _read(name: str) -> bytes:
    with open(name, "rb", 0) as file:
        return file.read()


def _write(name: str, data: bytes) -> None:
    """Whole or not at all: on a full disk the text merge still needs what was there."""
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
