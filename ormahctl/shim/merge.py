"""Git's merge driver: `hook.py --merge --socket PATH BASE OURS THEIRS MARKERS PATH` (DESIGN section 5).

It only sends the three versions to the daemon, or if that does not answer to a child process, `ormahd merge-driver`. It
has its own exit statuses, because Python exits with 1 when it cannot start. The command in git's configuration
(`ormahd.vault.merge_driver`) maps them to git's 0 and 1; any other status leads to a text merge.
"""

import posix
import sys

from ormahctl.shim.wire import ask

_RUN = "import sys, runpy; sys.path.insert(0, sys.argv[1]); del sys.argv[1]; runpy.run_module('ormahd', alter_sys=True, run_name='__main__')"
"""Code of the child process, which runs with `-I`: git starts it in the vault's folder, whose files must not be
imported."""

MERGED = 0
REFUSED = 65
"""Exit status: these are not versions of one note. Our version is kept, and git reports the file as not merged."""
CONFLICT = 66
"""Exit status: a conflict. The text merge writes both versions into the file, between markers."""
NOBODY = 69
"""Exit status: neither the daemon nor a child answered."""

DAEMON_SECONDS = 5.0
LARGE = 262_144
"""Total bytes of three versions above which the daemon is not asked, because comparing long texts would delay its other
requests."""
_KIND = b"g"
_STATUS = {b"=": MERGED, b"x": REFUSED, b"!": CONFLICT}


def main(words: list[str]) -> int:
    """Merge one file for git, and write the result over the file OURS. Return MERGED, REFUSED, CONFLICT or NOBODY.
    `words`: the command line after `--merge`."""
    try:
        return _merge(words)
    except OSError as exc:
        posix.write(2, f"ormah: {exc}\n".encode("utf-8", "replace"))
        return NOBODY


def _merge(words: list[str]) -> int:
    """Merge one file as `main` says. The three versions are sent to the daemon, or to a child process if the daemon
    does not answer or they are large.

    Raises:
        OSError: a file cannot be read or written.
    """
    socket, words = (words[1], words[2:]) if words[0] == "--socket" else ("", words)
    base, ours, theirs, _markers, path = words
    parts = [path.encode("utf-8", "surrogateescape")]
    for name in (base, ours, theirs):
        with open(name, "rb", 0) as file:
            parts.append(file.read())
    body = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    reply = ask(socket, _KIND, body, DAEMON_SECONDS) if socket and len(body) <= LARGE else None
    reply = reply or _ask_child(body)
    if not reply:
        return NOBODY

    # the reply: a status (1 byte), a length (4 bytes), a message for the person, then the merged text
    end = 5 + int.from_bytes(reply[1:5], "big")
    if end > 5:
        posix.write(2, reply[5:end])
    status = _STATUS.get(reply[:1], NOBODY)
    if status == MERGED:
        _write(ours, reply[end:])
    elif status == CONFLICT and len(reply) > end:
        # two texts, each after its length: our version and theirs, with all that could be merged merged in both
        cut = end + 4 + int.from_bytes(reply[end : end + 4], "big")
        _write(ours, reply[end + 4 : cut])
        _write(theirs, reply[cut + 4 :])
    return status


def _ask_child(body: bytes) -> bytes:
    """Return the reply of the child process `ormahd merge-driver` to `body`; b"" if it fails. The child reads all of
    its input before it answers, so writing before reading cannot block for ever."""
    child_stdin, to_child = posix.pipe()
    from_child, child_stdout = posix.pipe()
    root = __file__.rpartition("/ormahctl/")[0]
    streams = [(posix.POSIX_SPAWN_DUP2, child_stdin, 0), (posix.POSIX_SPAWN_DUP2, child_stdout, 1)]
    words = [sys.executable, "-I", "-c", _RUN, root, "merge-driver"]
    child = posix.posix_spawn(sys.executable, words, posix.environ, file_actions=streams)
    posix.close(child_stdin)
    posix.close(child_stdout)
    with open(to_child, "wb", 0) as pipe:
        rest = memoryview(body)
        while rest:
            rest = rest[pipe.write(rest) or 0 :]
    with open(from_child, "rb", 0) as pipe:
        reply = pipe.read()
    return reply if posix.waitpid(child, 0)[1] == 0 else b""


def _write(name: str, data: bytes) -> None:
    """Replace the content of the file `name` by `data`, or leave it unchanged. If the disk is full, git's text merge
    still needs the old content."""
    fresh = name + ".ormah"
    try:
        with open(fresh, "wb", 0) as file:
            rest = memoryview(data)
            while rest:
                rest = rest[file.write(rest) or 0 :]
        posix.replace(fresh, name)
    except OSError:
        posix.unlink(fresh)
        raise
