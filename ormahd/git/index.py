"""Update git's index after a commit by Ormah, beside other programs that use the repository.

If a commit moved HEAD and not the index, the person's next `git commit` would delete the new notes. Therefore the new
index, which keeps what the person has staged, is written to another file while Ormah holds `index.lock`. It is renamed
over the old one as soon as the branch has moved.

This module also detects other programs that use the repository, and removes locks that a crash left behind.
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
"""The first word of an `index.lock` that Ormah made; the vault's id and the op follow. Git never reads this content."""


class IndexLock:
    """Takes and releases git's lock on its index, the file `index.lock`. Its content shows after a crash that Ormah
    made it, and not git.

    The content is written to another file, which is then hard-linked to `index.lock`. So the lock is never without
    its content, except on file systems without hard links.
    """

    def __init__(self, git: Git, vault_id: str) -> None:
        self.path = git.git_dir / "index.lock"
        self.vault_id = vault_id
        self._mark = f"{MARK}{vault_id} ".encode()
        self._twin = git.git_dir / f"ormah-{vault_id}.lock"
        self._claimed: set[bytes] = set()

    def claim(self, op: str) -> None:
        """From now on treat an `index.lock` that names this op as Ormah's, even if it names an earlier id of the
        vault."""
        self._claimed.add(op.encode())

    def take(self, op: str) -> bool:
        """Take the lock for `op`. Return False if another program holds it.

        If an `index.lock` is left that Ormah's daemon made before a crash, it serves as the lock.
        """
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
        """Whether the content of the lock file shows that Ormah made it. Only one daemon uses a vault at a time, so
        no other process can hold it."""
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
    """Prepares git's index for the next commit: a `git update-index` that runs in parallel writes it to a separate
    file.

    `publish` renames this file over git's index. Used only while `index.lock` is held.
    """

    def __init__(self, git: Git, vault_id: str, entries: Mapping[bytes, TreeEntry | None]) -> None:
        """`entries`: {committed path, relative to the repository's top: its entry in the new HEAD; None: deleted}."""
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
        """Wait until the new index file is written, without putting it in place. If git cannot read the old index, that
        is repaired, and git runs again. Raises GitFailed."""
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
        """Rename the new index over the old one and fsync the folder; git has already fsynced the file."""
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
    """Return git options that disable every filter in the person's git configuration.

    `update-index` may run filters, to compare very recent files with their blobs, and fails if a filter fails. Without
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
    """Delete the temporary files that an interrupted update of git's index left."""
    for path in [*git.git_dir.glob(f"index.ormah-{vault_id}*"), git.git_dir / f"ormah-{vault_id}.lock"]:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()


def entries(git: Git, paths: list[bytes]) -> dict[bytes, str]:
    """Return `{path: blob id}` of those of `paths` (relative to the repository's top) that are in git's index."""
    found: dict[bytes, str] = {}
    for at in range(0, len(paths), 500):
        names = [os.fsdecode(path) for path in paths[at : at + 500]]
        for record in git.run("ls-files", "-s", "-z", "--", *names).split(b"\0"):
            meta, _, path = record.partition(b"\t")
            if path:
                found[path] = meta.split(b" ")[1].decode()
    return found


def _twin(index: Path, copy: Path) -> None:
    """Hard-link `index` to `copy`, or copy it where that is not possible.

    A hard link is as good as a copy, because git never changes an index file in place.
    """
    try:
        os.link(index, copy)
    except FileNotFoundError:
        raise
    except OSError:
        copy.write_bytes(index.read_bytes())


STALE = timedelta(minutes=10)
"""Age from which a lock of another program is removed, if also no process uses it (DESIGN 5)."""

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
"""Those of `_OPERATIONS` that git records as refs: in a repository with reftables there are no such files."""
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
    """Return the paths of the ref lock files that would block moving HEAD, whether they exist or not."""
    return git.ref_files.locks(git.branch())


def busy(git: Git, lock: IndexLock, *, held: bool = False) -> str | None:
    """Return why Ormah cannot commit now, as a clause for people, or None. `held`: the caller holds index.lock."""
    if why := under_way(git):
        return why
    if not held and os.path.lexists(lock.path) and not lock.ours():
        return "another git program holds index.lock"
    for path in ref_locks(git):
        if os.path.lexists(path):
            return f"another git program holds {path.name}"
    return None


def under_way(git: Git) -> str | None:
    """Return which git operation a person has begun and not ended (such as a merge), as a clause, or None.

    During such an operation the folder need not match HEAD.
    """
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
    """Delete the ref locks that a git process started by Ormah left at a crash. Return a sentence about each. The
    caller holds the vault's lock.

    `moving`: the commits to which Ormah was moving a ref at the crash. Ormah's `git update-ref` made a ref lock if
    the lock contains one of these commits, or if it is empty and no other git runs in this repository. A git process
    of the crashed daemon that still runs gets `patience` seconds to end by itself.
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
    """Delete index and ref locks that are older than STALE and that no process uses. Return a sentence about each."""
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
    """Whether another process has the file `path` open, or a git process that may write runs in this repository.

    True if that is unknown (neither /proc nor `lsof` exists).
    """
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
    """Whether a git process that may write runs in this repository. False if that is unknown."""
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
    """Whether a git process (its folder in /proc) may hold a lock.

    Commands that only read cannot: a `git log` may stay open in a pager for hours. Children of this daemon
    (`Git.start`) do not count either. The parent's pid follows the name in parentheses in /proc/PID/stat.
    """
    parent = int((process / "stat").read_text("utf-8", "replace").rsplit(")", 1)[-1].split()[1])
    words = set((process / "cmdline").read_bytes().split(b"\0"))
    return not (words & _READERS or (parent == os.getpid() and b"--git-dir" in words))


def _folders_by_lsof() -> list[str]:
    """Return the working directories of all git processes, found by `lsof`; none if it is not installed."""
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
