"""Read commits with the files that each of them changed, from `git log --raw`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ormahd.git.repository import Git

_FILES = {b"100644", b"100755"}


class FileDiff(NamedTuple):
    """A regular file that a commit changed: `old` and `new` are its blobs before and after; None: no regular file."""

    path: str
    old: str | None
    new: str | None


class LoggedCommit(NamedTuple):
    """One commit. `time`: when it was committed, in seconds since 1970. `only_in_a`: whether it is reachable only from
    `A` of the revision `A...B`. `files`: what it changed against its first parent."""

    commit: str
    parents: list[str]
    time: int
    message: str
    only_in_a: bool
    files: list[FileDiff]


def read_commits(git: Git, revision: str) -> Iterator[LoggedCommit]:
    """Yield the commits of a revision (`B`, or `A...B`), parents before their children. Moved files are not matched.

    Raises GitFailed, for example if a commit that `revision` names is not in the repository.
    """
    order = ["-z", "--reverse", "--topo-order", "--encoding=UTF-8", "--format=%m%x1f%H%x1f%P%x1f%ct%x1f%B"]
    diff = ["--raw", "--no-abbrev", "--no-renames", "--no-ext-diff", "--diff-merges=first-parent", "--no-color"]
    commit: LoggedCommit | None = None
    records = git.stream("log", *order, *diff, revision, "--")
    for record in records:
        record = record.lstrip(b"\n")
        if record.startswith(b":"):
            old_mode, new_mode, old, new, _ = record[1:].split(b" ")
            path = next(records).decode("utf-8", "replace")
            was, now = (oid.decode() if mode in _FILES else None for mode, oid in ((old_mode, old), (new_mode, new)))
            if commit is not None and (was or now):
                commit.files.append(FileDiff(path, was, now))
        elif record:
            if commit is not None:
                yield commit
            mark, name, parents, seconds, message = record.decode("utf-8", "replace").split("\x1f", 4)
            commit = LoggedCommit(name, parents.split(), int(seconds), message, mark == "<", [])
    if commit is not None:
        yield commit
