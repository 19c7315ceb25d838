"""Update git's index after a commit by Ormah, beside other programs that use the repository.

What the person has staged stays. A commit that moves HEAD but not the index would make the person's next `git commit`
delete the new notes. So the new index is written to another file while Ormah holds `index.lock`, and renamed over the
old one as soon as the branch has moved.

Also finds out whether another program is at work in the repository, and removes locks that a crash left behind.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from ormahd.git.objects import TreeEntry
from ormahd.git.process import GitFailed
from ormahd.git.repository import Git
from ormahd.model.change import Clock
from ormahd.process.disk import read_small, sync_directory, write_small

_numbers = itertools.count()

MARK = "ormah "
"""How the content of an `index.lock` by Ormah begins; the vault's id and the op follow. Git never reads it."""


class IndexLock:
    """The file `index.lock`, with a mark that tells it, after a crash, from a lock of git's own.

    The file is hard-linked into place with its content, so that it never exists without the mark (except on file
    systems without hard links).
    """

    def __init__(self, git: Git, vault_id: str) -> None:
        self.path = git.git_dir / "index.lock"
        self.vault_id = vault_id
        self._mark = f"{MARK}{vault_id} ".encode()
        self._twin = git.git_dir / f"ormah-{vault_id}.lock"
        self._claimed: set[bytes] = set()

    def claim(self, op: str) -> None:
        """Treat a lock that names this op as ours, even if the vault had another id when the lock was taken."""
        self._claimed.add(op.encode())

    def take(self, op: str) -> bool:
        """Take the lock. False if another program holds it. A lock that this vault's daemon left in a crash is taken
        over."""
        if self.ours():
            return True
        content = self._mark + f"{op} pid {os.getpid()}\n".encode()
        write_small(self._twin, content)
        try:
            os.link(self._twin, self.path)
        except FileExistsError:
            return False
        except OSError:  # a file system without hard links
            try:
                fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            except FileExistsError:
                return False
            with open(fd, "wb") as file:
                file.write(content)
        finally:
            with contextlib.suppress(FileNotFoundError):
                self._twin.unlink()
        return True

    def ours(self) -> bool:
        """Whether the lock file bears our mark. Only one daemon has the vault at a time, so the lock is then ours."""
        try:
            found = read_small(self.path)
        except OSError:
            return False
        words = found.split(b" ", 3)
        claimed = len(words) > 2 and words[0] + b" " == MARK.encode() and words[2] in self._claimed
        return claimed or found.startswith(self._mark)

    def release(self) -> None:
        if self.ours():
            with contextlib.suppress(FileNotFoundError):
                self.path.unlink()


class NextIndex:
    """The next index file, with the committed paths, written by `git update-index` while the daemon does other work.

    Used only while the index lock is held.
    """

    def __init__(self, git: Git, vault_id: str, entries: Mapping[bytes, TreeEntry | None]) -> None:
        """`entries`: {path relative to the top: its entry in the new HEAD; None: no file}."""
        self._git = git
        self.entries = entries
        # A new name each time: an orphaned git of a killed daemon may still be writing to an earlier one.
        self._file = git.git_dir / f"index.ormah-{vault_id}-{os.getpid()}-{next(_numbers)}"
        self._index = git.git_dir / "index"
        self._child: subprocess.Popen[bytes] | None = None
        self._input = b""
        git.look_out()
        if not os.path.lexists(self._index):
            git.mender.index(
                head=git.head()
            )  # else the new index holds only our paths, and the next commit deletes the rest
        try:
            self._begin()
        except OSError:  # git does not start
            self._file.unlink(missing_ok=True)
            raise

    def _begin(self) -> None:
        """Start `git update-index` on a copy of the index."""
        git, entries = self._git, self.entries
        with contextlib.suppress(FileNotFoundError):
            _twin(self._index, self._file)
        lines = []
        for path, entry in entries.items():
            mode, oid = (entry.mode.decode(), entry.oid) if entry else ("0", git.null)
            lines.append(f"{mode} {oid}\t".encode() + path + b"\0")
        index = {"GIT_INDEX_FILE": str(self._file)}
        self._child = git.start(*_without_filters(git), "update-index", "-z", "--index-info", env=index)
        self._input = b"".join(lines)
        assert self._child.stdin
        with contextlib.suppress(BrokenPipeError):
            # What fits the pipe is sent now, so that git works at the same time; `ready` sends the rest.
            os.set_blocking(self._child.stdin.fileno(), False)
            sent = os.write(self._child.stdin.fileno(), self._input) if self._input else 0
            self._input = self._input[sent:]
            os.set_blocking(self._child.stdin.fileno(), True)
            if not self._input:
                self._child.stdin.close()

    def ready(self) -> None:
        """Wait until the new index file is written; it is not yet in place. Raises GitFailed, leaving the repository
        unchanged."""
        try:
            self._ended()
        except GitFailed:
            if not self._git.mender.index(head=self._git.head()):
                raise
            self._file.unlink(missing_ok=True)  # a hard link to the index that was set aside
            self._begin()
            self._ended()

    def _ended(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        if child.stdin and not child.stdin.closed and not self._input:
            child.stdin.close()
        _, complaint = _communicate(child, self._input)
        if child.returncode:
            raise GitFailed(["update-index"], child.returncode, complaint.decode("utf-8", "replace"))

    def publish(self) -> None:
        """Rename the new index over the old one, and fsync the folder. Git has fsynced the file's content."""
        self.ready()
        if self._file.exists():
            os.replace(self._file, self._index)
            # If git changed nothing, both names are links to one file, and renaming between those does nothing.
            self._file.unlink(missing_ok=True)
            sync_directory(self._git.git_dir)

    def drop(self) -> None:
        with contextlib.suppress(GitFailed):
            self.ready()
        with contextlib.suppress(FileNotFoundError):
            self._file.unlink()


def _without_filters(git: Git) -> list[str]:
    """Return options that disable every filter the person has configured.

    `update-index` may compare a file as young as the index with its blob, and a failing filter would end it. Without
    filters such a file only counts as changed, and git compares it again later.
    """
    names = {key[len("filter.") :].rpartition(".")[0] for key in git.settings() if key.startswith("filter.")}
    settings = [f"filter.{name}.{key}" for name in sorted(names) for key in ("clean=", "process=", "required=false")]
    return [word for setting in settings for word in ("-c", setting)]


def _communicate(child: subprocess.Popen[bytes], rest: bytes) -> tuple[bytes, bytes]:
    if child.stdin and child.stdin.closed:
        child.stdin = None
        return child.communicate()
    return child.communicate(rest)


def discard(git: Git, vault_id: str) -> None:
    """Delete the files of an interrupted index update."""
    for path in [*git.git_dir.glob(f"index.ormah-{vault_id}*"), git.git_dir / f"ormah-{vault_id}.lock"]:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()


def entries(git: Git, paths: list[bytes]) -> dict[bytes, str]:
    """Return `{path: blob id}` of the index's entries for `paths` (relative to the top)."""
    found: dict[bytes, str] = {}
    for at in range(0, len(paths), 500):
        names = [os.fsdecode(path) for path in paths[at : at + 500]]
        for record in git.run("ls-files", "-s", "-z", "--", *names).split(b"\0"):
            meta, _, path = record.partition(b"\t")
            if path:
                found[path] = meta.split(b" ")[1].decode()
    return found


def _twin(index: Path, copy: Path) -> None:
    """Hard-link the index to another name. This serves as a copy, because git never writes into an index in place."""
    try:
        os.link(index, copy)
    except FileNotFoundError:
        raise
    except OSError:
        copy.write_bytes(index.read_bytes())


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
"""Git operations under way that git records as refs; with `reftable` they are not files."""
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
