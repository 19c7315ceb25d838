"""Move the branch that HEAD is on by compare-and-swap, fsync the move, and read it back."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from enum import Enum, auto

from ormahd.errors import Internal
from ormahd.git import commit_message
from ormahd.git.process import GitFailed
from ormahd.git.repository import NULL, Git, Signature
from ormahd.process.disk import sync_directory

MIN_FREE_BYTES = 65_536
"""Free bytes below which a disk counts as full."""


class Moved(Enum):
    """The outcome of moving HEAD's branch."""

    YES = auto()
    RACED = auto()
    """HEAD was not at the expected commit: the caller has to build its commit again."""
    HELD = auto()
    """Another program holds the lock of the ref."""


class HeadMover:
    """A `git update-ref` process that can move HEAD's branch (or a detached HEAD) once, with a line in the reflog.

    It is started early, so that `move` need not wait for the start of a process. The caller must call `move` or
    `drop`, which end the process.
    """

    def __init__(self, git: Git, *, who: Signature, seconds: int, reason: str) -> None:
        """`who`, `seconds`, `reason`: the name, time (since 1970) and text for the reflog."""
        self._git = git
        env = {
            "GIT_COMMITTER_NAME": who.name,
            "GIT_COMMITTER_EMAIL": who.email,
            "GIT_COMMITTER_DATE": f"@{seconds} +0000",
        }
        self._child: subprocess.Popen[bytes] | None = git.start("update-ref", "-m", reason, "--stdin", env=env)

    def move(self, old: str | None, new: str) -> Moved:
        """Move HEAD from the commit `old` (None: no commit yet) to `new`; callable once. `Moved.YES`: a read of HEAD
        has confirmed the move."""
        git, child = self._git, self._child
        if child is None:
            raise Internal("HEAD is moved once by each of these")
        self._child = None
        branch = git.branch()
        folder = git.git_dir if branch is None else (git.git_dir / branch).parent
        _, errors = child.communicate(f"update HEAD {new} {old or NULL}\n".encode())
        if child.returncode and not _arrived(git, new):
            stderr = errors.decode("utf-8", "replace")
            if git.head() != old:
                return Moved.RACED
            if "File exists" in stderr:
                return Moved.HELD
            if "couldn't write" in stderr and shutil.disk_usage(folder).free < MIN_FREE_BYTES:  # git gives no reason
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
            raise GitFailed(["update-ref"], child.returncode, stderr)
        sync_directory(folder)
        return Moved.YES if _arrived(git, new) else Moved.RACED

    def drop(self) -> None:
        """End the process without moving anything."""
        child, self._child = self._child, None
        if child is not None:
            child.communicate()


def _arrived(git: Git, new: str) -> bool:
    """Whether HEAD is at `new`, or at a descendant of it."""
    head = git.head()
    return head is not None and is_ancestor(git, new, head)


def within(git: Git, commit: str, head: str | None) -> bool:
    """Whether `commit` is `head` or an ancestor of it; False if `head` is None."""
    return head is not None and is_ancestor(git, commit, head)


def is_ancestor(git: Git, commit: str, of: str) -> bool:
    """Whether `commit` is an ancestor of `of`, or equal to it."""
    if commit == of:
        return True
    try:
        git.run("merge-base", "--is-ancestor", commit, of)
    except GitFailed as exc:
        if exc.status == 1:
            return False
        raise
    return True


def find_commit(git: Git, op: str) -> str | None:
    """Return the newest commit of an op, on any branch; None if there is none."""
    return next(find_commits(git, "Ormah-Op", op, "--branches"), None)


def find_commits(git: Git, trailer: str, value: str, *revisions: str) -> Iterator[str]:
    """Yield the commits of HEAD whose last trailer of this name has this value, newest first. `revisions`: further
    revisions, or revisions to leave out, as `git log` takes them."""
    for record in git.log("HEAD", *revisions, "--fixed-strings", f"--grep={trailer}: {value}", "--format=%H%n%B"):
        commit, _, text = record.decode("utf-8", "replace").partition("\n")
        if commit_message.parse(text).trailer(trailer) == value:
            yield commit.strip()
