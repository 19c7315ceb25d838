"""Whether somebody else is at work in the repository, and which locks a crash left behind."""

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
"""A lock of somebody else's is removed only when it is older than this and no process has to do with it (DESIGN 5)."""

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
"""Those of them that git keeps as refs, where refs are no files."""
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
    """The lock files that stand in the way of moving HEAD."""
    return git.ref_files.locks(git.branch())


def busy(git: Git, lock: IndexLock, *, held: bool = False) -> str | None:
    """Why we must wait, as a clause for people, or None. `held`: index.lock is ours at the moment."""
    if why := under_way(git):
        return why
    if not held and os.path.lexists(lock.path) and not lock.ours():
        return "another git program holds index.lock"
    for path in ref_locks(git):
        if os.path.lexists(path):
            return f"another git program holds {path.name}"
    return None


def under_way(git: Git) -> str | None:
    """The operation that a person has begun and not ended, as a clause, or None: HEAD and folder are half done."""
    for name, why in _OPERATIONS.items():
        if os.path.lexists(git.git_dir / name):
            return why
    if not git.ref_files.plain:  # there these are refs, and no files
        for name in _REFS:
            if git.resolve(name) is not None:
                return _OPERATIONS[name]
    # While the message of a commit (or of a revert: it leaves no mark) is typed, git holds no lock; a commit of ours in
    # between would make theirs fail, or take its changes away. Only a message younger than HEAD can be of such a one.
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
    """Remove what a crash of ours left beside the index lock; sentences on what was done. Only while we hold the vault.

    `moving`: the commits to which we were moving a ref when we stopped. A ref's lock with such a commit in it is of our
    own `git update-ref`, and an empty one too when no other git is at work; an orphan of ours that still lives gets
    `patience` seconds to end by itself.
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
            # In a lock of the tables of all refs stand names of tables, whatever made it.
            if text in moving or ((not text or not git.ref_files.plain) and not in_use(git, path)):
                path.unlink()
                said.append(f"removed the {path.name} that we held when we were stopped")
    return said


def clear_stale(git: Git, lock: IndexLock, clock: Clock) -> list[str]:
    """Remove locks of others that are older than STALE and that no process has to do with."""
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
    """Whether some process has the file open, or a git runs inside this repository. Unknown counts as yes."""
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
    """Whether a git that may change something runs inside this repository. Unknown counts as no."""
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
    """Whether a git may hold a lock: it is not one that only reads (a `git log` stands in its pager for hours), and not
    our own child (`Git.start`; its parent stands in /proc after the name in brackets)."""
    parent = int((process / "stat").read_text("utf-8", "replace").rsplit(")", 1)[-1].split()[1])
    words = set((process / "cmdline").read_bytes().split(b"\0"))
    return not (words & _READERS or (parent == os.getpid() and b"--git-dir" in words))


def _folders_by_lsof() -> list[str]:
    """Where the gits of this system run."""
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
