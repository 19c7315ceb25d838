"""Find out whether another program is at work in the repository, and remove locks that a crash left behind."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from datetime import timedelta
from pathlib import Path

from ormahd.git.index import IndexLock, discard
from ormahd.git.repository import Git
from ormahd.model.change import Clock

STALE = timedelta(minutes=10)
"""A lock of another program is removed only if it is older than this and no process uses it (DESIGN 5)."""

_OPERATIONS = {
    "MERGE_HEAD": "a merge is under way",
    "rebase-merge": "a rebase is under way",
    "rebase-apply": "a rebase or `git am` is under way",
    "CHERRY_PICK_HEAD": "a cherry-pick is under way",
    "REVERT_HEAD": "a revert is under way",
    "sequencer": "a cherry-pick or revert of several commits is under way",
    "BISECT_LOG": "a bisect is under way",
}

_REFS = ("CHERRY_PICK_HEAD", "REVERT_HEAD")
"""The operations among these that git keeps as refs; with `reftable` they are not files."""
_MESSAGES = ("MERGE_MSG", "COMMIT_EDITMSG")
_READERS = {
    b"fsmonitor--daemon",
    b"log",
    b"show",
    b"diff",
    b"blame",
    b"grep",
    b"cat-file",
    b"ls-files",
    b"ls-tree",
    b"rev-list",
    b"shortlog",
}


def ref_locks(git: Git) -> list[Path]:
    """Return the paths of the lock files that would block moving HEAD."""
    return git.ref_files.locks(git.branch())


def busy(git: Git, lock: IndexLock, *, held: bool = False) -> str | None:
    """Return why a write must wait, as a clause for people, or None. `held`: the caller holds index.lock."""
    if why := under_way(git):
        return why
    if not held and os.path.lexists(lock.path) and not lock.ours():
        return "another git program holds index.lock"
    for path in ref_locks(git):
        if os.path.lexists(path):
            return f"another git program holds {path.name}"
    return None


def under_way(git: Git) -> str | None:
    """Return which git operation a person has begun and not ended, as a clause, or None. HEAD and folder may not
    agree during one."""
    for name, why in _OPERATIONS.items():
        if os.path.lexists(git.git_dir / name):
            return why
    if not git.ref_files.plain:  # with reftable, these are refs and not files
        for name in _REFS:
            if git.resolve(name) is not None:
                return _OPERATIONS[name]
    # While a person types the message of a commit or revert, git holds no lock. A commit by Ormah meanwhile would make
    # theirs fail, or undo its changes. Only a message file younger than HEAD's last move can belong to such a commit.
    moved = git.ref_files.moved_ns()
    if any(_mtime(git.git_dir / name) > moved for name in _MESSAGES) and _git_at_work(git):
        return "the message of a commit is being written"
    return None


def _mtime(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return -1


def clear_ours(git: Git, vault_id: str, moving: set[str], *, patience: float = 2.0) -> list[str]:
    """Delete the ref locks that Ormah's own git left in a crash. Return a sentence for each. Call only with the
    vault's lock held.

    `moving`: the commits to which a ref was being moved at the crash. A ref lock that contains one of them was made
    by Ormah's `git update-ref`; so was an empty one, if no other git is at work. A git process of the crashed daemon
    that still runs gets `patience` seconds to end by itself.
    """
    discard(git, vault_id)
    locks = [path for path in ref_locks(git) if moving and path.name != "packed-refs.lock"]
    deadline = time.monotonic() + patience
    while any(path.exists() and in_use(git, path) for path in locks) and time.monotonic() < deadline:
        time.sleep(0.02)
    said = []
    for path in locks:
        with contextlib.suppress(FileNotFoundError):
            text = path.read_text("ascii", "replace").strip()
            # A reftable lock holds names of tables, and so does not tell which program made it.
            if text in moving or ((not text or not git.ref_files.plain) and not in_use(git, path)):
                path.unlink()
                said.append(f"removed the {path.name} that we held when we were stopped")
    return said


def clear_stale(git: Git, lock: IndexLock, clock: Clock) -> list[str]:
    """Delete locks of other programs that are older than STALE and that no process uses. Return a sentence for each."""
    said = []
    for path in [lock.path, *ref_locks(git)]:
        try:
            found = path.lstat()
        except FileNotFoundError:
            continue
        age = clock().timestamp() - found.st_mtime
        if age < STALE.total_seconds() or in_use(git, path):
            continue
        with contextlib.suppress(FileNotFoundError):
            if path.lstat().st_mtime_ns == found.st_mtime_ns:
                path.unlink()
                said.append(f"removed a stale {path.name}, {int(age // 60)} minutes old and held by no process")
    return said


def in_use(git: Git, path: Path) -> bool:
    """Whether a process has the file open, or a git runs inside this repository. True if that cannot be found out."""
    proc = Path("/proc")
    if not (proc / "self" / "fd").is_dir():
        return _in_use_by_lsof(path)
    if _git_at_work(git):
        return True
    wanted = os.path.realpath(path)
    for process in proc.iterdir():
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            for descriptor in (process / "fd").iterdir():
                with contextlib.suppress(OSError):
                    if os.readlink(descriptor) == wanted:
                        return True
    return False


def _git_at_work(git: Git) -> bool:
    """Whether a git that may write runs inside this repository. False if that cannot be found out."""
    inside = [os.path.realpath(git.top), os.path.realpath(git.git_dir), os.path.realpath(git.common)]
    proc = Path("/proc")
    if not (proc / "self" / "fd").is_dir():
        return any(_is_inside(cwd, inside) for cwd in _folders_by_lsof())
    for process in proc.iterdir():
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            is_git = os.path.basename(os.readlink(process / "exe")).startswith("git")
            if is_git and _is_inside(os.readlink(process / "cwd"), inside) and _may_lock(process):
                return True
    return False


def _is_inside(cwd: str, places: list[str]) -> bool:
    return any(cwd == place or cwd.startswith(place + "/") for place in places)


def _may_lock(process: Path) -> bool:
    """Whether a git process may hold a lock.

    Not if it only reads (a `git log` may stay open in a pager for hours), nor if it is a child of ours
    (`Git.start`). The parent's pid follows the name in parentheses in /proc/PID/stat.
    """
    parent = int((process / "stat").read_text("utf-8", "replace").rsplit(")", 1)[-1].split()[1])
    words = set((process / "cmdline").read_bytes().split(b"\0"))
    return not (words & _READERS or (parent == os.getpid() and b"--git-dir" in words))


def _folders_by_lsof() -> list[str]:
    """Return the working directories of all git processes."""
    lsof = shutil.which("lsof")
    if lsof is None:
        return []
    done = subprocess.run([lsof, "-a", "-d", "cwd", "-c", "git", "-Fn"], capture_output=True, check=False)
    return [os.fsdecode(line[1:]) for line in done.stdout.splitlines() if line.startswith(b"n")]


def _in_use_by_lsof(path: Path) -> bool:
    lsof = shutil.which("lsof")
    if lsof is None:
        return True
    return subprocess.run([lsof, "-t", "--", str(path)], capture_output=True, check=False).stdout.strip() != b""
