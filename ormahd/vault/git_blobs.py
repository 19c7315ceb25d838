"""Many blobs at once, from a child of its own: the long-lived one answers questions that somebody waits for."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence

from ormahd.vault.git import Git
from ormahd.vault.git_run import GitFailed


def read_blobs(git: Git, oids: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """(id, bytes) of each blob, in order, as they come; leaving early ends the command. Raises GitFailed for a missing one."""
    if not oids:
        return
    child = git.start("cat-file", "--batch", "--buffer")
    stdin, stdout, stderr = child.stdin, child.stdout, child.stderr
    assert stdin is not None
    assert stdout is not None
    assert stderr is not None

    def ask() -> None:
        with contextlib.suppress(BrokenPipeError, ValueError):  # nobody reads any more
            stdin.write("".join(f"{oid}\n" for oid in oids).encode())
            stdin.close()

    asking = threading.Thread(target=ask, name="git-blobs", daemon=True)
    asking.start()
    try:
        for oid in oids:
            words = stdout.readline().split()
            if len(words) != 3 or words[1] != b"blob":
                raise GitFailed(["cat-file", oid], 1, f"the blob {oid} is missing")
            data = stdout.read(int(words[2]))
            stdout.read(1)
            yield oid, data
    finally:
        child.kill()
        asking.join()
        for pipe in (stdin, stdout, stderr):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        child.wait()
