"""Moving the branch: compare-and-swap, flushed, and read back."""

from __future__ import annotations

import subprocess
from enum import Enum, auto

from ormahd.errors import Internal
from ormahd.git import message
from ormahd.git.process import GitFailed
from ormahd.git.repository import Git, Identity
from ormahd.process.disk import sync_directory


class Moved(Enum):
    YES = auto()
    RACED = auto()
    """HEAD is not at the commit that ours was built on: build again."""
    HELD = auto()
    """Somebody holds the lock of the ref."""


class HeadMover:
    """A git that moves what HEAD names (the branch, or HEAD itself where it is detached), with a line in the reflog. It starts when
    it is made and then waits to be told from where to where, so that nobody has to wait for its start. Told nothing, it does nothing.
    """

    def __init__(self, git: Git, *, who: Identity, seconds: int, reason: str) -> None:
        self._git = git
        self._mends = git.mender.mends
        env = {
            "GIT_COMMITTER_NAME": who.name,
            "GIT_COMMITTER_EMAIL": who.email,
            "GIT_COMMITTER_DATE": f"@{seconds} +0000",
        }
        self._child: subprocess.Popen[bytes] | None = git.start("update-ref", "-m", reason, "--stdin", env=env)

    def move(self, old: str | None, new: str) -> Moved:
        """From the commit `old` (None: no commit yet) to `new`; once only. YES only after it was read back."""
        git, child = self._git, self._child
        if child is None:
            raise Internal("HEAD is moved once by each of these")
        self._child = None
        branch = git.branch()
        folder = git.ref_files.folder(branch)
        _, complaint = child.communicate(f"update HEAD {new} {old or git.null}\n".encode())
        if child.returncode:
            said = complaint.decode("utf-8", "replace")
            if git.head() != old:
                return Moved.RACED
            if git.mender.mends != self._mends or git.mender.after(GitFailed(["update-ref"], child.returncode, said)):
                return Moved.RACED
            if "File exists" in said or "Unable to create" in said:
                return Moved.HELD
            raise GitFailed(["update-ref"], child.returncode, said)
        sync_directory(folder)
        return Moved.YES if _arrived(git, new) else Moved.RACED

    def drop(self) -> None:
        """Nothing is to be moved."""
        child, self._child = self._child, None
        if child is not None:
            child.communicate()


def _arrived(git: Git, new: str) -> bool:
    """Whether HEAD is at `new`, or already further on."""
    head = git.head()
    return head is not None and is_ancestor(git, new, head)


def within(git: Git, commit: str, head: str | None) -> bool:
    """Whether HEAD's history has the commit."""
    return head is not None and is_ancestor(git, commit, head)


def is_ancestor(git: Git, commit: str, of: str) -> bool:
    """Whether the history of `of` holds `commit` (or is it)."""
    if commit == of:
        return True
    try:
        git.run("merge-base", "--is-ancestor", commit, of)
    except GitFailed as exc:
        if exc.status == 1:
            return False
        raise
    return True


def is_of(git: Git, commit: str, op: str) -> bool:
    """Whether a commit is one of the op's."""
    text = git.run("log", "-1", "--format=%B", commit).decode("utf-8", "replace")
    return message.parse(text).trailer("Ormah-Op") == op


def find_commit(git: Git, op: str, *, since: str | None = None) -> str | None:
    """The commit that holds an op: on any branch, or only among those that HEAD has more than the commit `since`."""
    where = ["--branches", "HEAD"] if since is None else ["HEAD", f"^{since}"]
    for record in git.log(*where, "--fixed-strings", f"--grep=Ormah-Op: {op}", "--format=%H%n%B"):
        commit, _, text = record.decode("utf-8", "replace").partition("\n")
        if message.parse(text).trailer("Ormah-Op") == op:
            return commit.strip()
    return None
