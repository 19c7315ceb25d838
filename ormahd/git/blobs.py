"""Ask git about many objects at once, in a separate git process.

The long-lived git process in `repository.py` thus stays free for short questions.
"""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Iterator, Sequence

from ormahd.git.process import GitFailed
from ormahd.git.repository import Git

CHUNK = 1 << 16


def read_blobs(git: Git, oids: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Yield `(id, bytes)` of each blob, in the given order. Closing the iterator ends the git command.

    Raises GitFailed for a missing blob.
    """
    if not oids:
        return
    with _asked(git, ["cat-file", "--batch", "--buffer"], oids) as child:
        stdout = child.stdout
        assert stdout is not None
        for oid in oids:
            words = stdout.readline().split()
            if len(words) != 3 or words[1] != b"blob":
                raise GitFailed(["cat-file", oid], 1, f"the blob {oid} is missing")
            data = stdout.read(int(words[2]))
            stdout.read(1)
            yield oid, data


def ask_many(git: Git, arguments: Sequence[str], names: Sequence[str]) -> Iterator[bytes]:
    """Yield the NUL-separated records of a git command that reads `names` from its standard input. Raises GitFailed."""
    if not names:
        return
    with _asked(git, arguments, names) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        rest = b""
        while piece := child.stdout.read1(CHUNK):  # type: ignore[attr-defined]
            *records, rest = (rest + piece).split(b"\0")
            yield from records
        if rest:
            yield rest
        complaint = child.stderr.read().decode("utf-8", "replace")
        if status := child.wait():
            raise GitFailed(arguments, status, complaint)


@contextlib.contextmanager
def _asked(git: Git, arguments: Sequence[str], names: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Context manager: run a git command during the block, and give the block its process. A thread writes `names` to
    the command's standard input, one per line.

    The thread is needed because git and the caller would otherwise block on each other's full pipes.
    """
    child = git.start(*arguments)
    stdin = child.stdin
    assert stdin is not None

    def tell() -> None:
        with contextlib.suppress(BrokenPipeError):  # the command was ended early
            stdin.write("".join(f"{name}\n" for name in names).encode())
            stdin.close()

    telling = threading.Thread(target=tell, name="git-names", daemon=True)
    telling.start()
    try:
        yield child
    finally:
        child.kill()
        telling.join()
        for pipe in (stdin, child.stdout, child.stderr):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        child.wait()
