"""Update git's index after a commit by Ormah, beside other programs that use the repository.

If a commit moved HEAD and not the index, the person's next `git commit` would delete the new notes. Therefore the new
index, which keeps what the person has staged, is written to another file while Ormah holds `index.lock`. It is renamed
over the old one as soon as the branch has moved.

This module also tells which other programs use the repository, and removes the locks that a crash of Ormah left.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from ormahd.git.objects import TreeEntry
from ormahd.git.process import GitFailed
from ormahd.git.repository import NULL, Git
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
        try:
            self._begin()
        except OSError:  # git does not start
            self._file.unlink(missing_ok=True)
            raise

    def _begin(self) -> None:
        """Start `git update-index` on a copy of the index."""
        git, entries = self._git, self.entries
        if self._index.exists():
            _twin(self._index, self._file)
        elif (head := git.head()) is not None:  # else the index would hold only our paths, and a commit delete the rest
            git.run("read-tree", head, env={"GIT_INDEX_FILE": str(self._file)})
        lines = []
        for path, entry in entries.items():
            mode, oid = (entry.mode.decode(), entry.oid) if entry else ("0", NULL)
            lines.append(f"{mode} {oid}\t".encode() + path + b"\0")
        index = {"GIT_INDEX_FILE": str(self._file)}
        self._child = git.start("update-index", "-z", "--index-info", env=index)
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
        """Wait until the new index file is written, without putting it in place. Raises GitFailed, for example if git
        cannot read the old index."""
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


_OPERATIONS = {
    "MERGE_HEAD": "a merge is under way",
    "rebase-merge": "a rebase is under way",
    "rebase-apply": "a rebase or `git am` is under way",
    "CHERRY_PICK_HEAD": "a cherry-pick is under way",
    "REVERT_HEAD": "a revert is under way",
    "sequencer": "a cherry-pick or revert of several commits is under way",
    "BISECT_LOG": "a bisect is under way",
}


def ref_locks(git: Git) -> list[Path]:
    """Return the paths of the ref lock files that would block moving HEAD, whether they exist or not."""
    branch = git.branch()
    locks = [git.git_dir / "HEAD.lock", git.common / "packed-refs.lock"]
    return [*locks, git.common / f"{branch}.lock"] if branch else locks


def busy(git: Git, lock: IndexLock, *, held: bool = False) -> str | None:
    """Return why Ormah cannot commit now, as a clause for people, or None. `held`: the caller holds index.lock."""
    if why := under_way(git):
        return why
    path = standing_lock(git, lock, held=held)
    return None if path is None else f"another git program holds {path.name}"


def standing_lock(git: Git, lock: IndexLock, *, held: bool = False) -> Path | None:
    """Return the path of a lock file of another git program that keeps Ormah from committing, or None."""
    if not held and os.path.lexists(lock.path) and not lock.ours():
        return lock.path
    return next((path for path in ref_locks(git) if os.path.lexists(path)), None)


def under_way(git: Git) -> str | None:
    """Return which git operation a person has begun and not ended (such as a merge), as a clause, or None.

    During such an operation the folder need not match HEAD.
    """
    return next((why for name, why in _OPERATIONS.items() if os.path.lexists(git.git_dir / name)), None)


def clear_ours(git: Git, vault_id: str, moving: set[str], *, patience: float = 2.0) -> list[str]:
    """Delete the ref locks that a git process started by Ormah left at a crash. Return a sentence about each. The
    caller holds the vault's lock.

    `moving`: the commits to which Ormah was moving a ref at the crash. A ref lock is that of Ormah's `git update-ref`
    if it is empty or contains one of these commits. Such a process that still runs gets `patience` seconds to end by
    itself.
    """
    discard(git, vault_id)
    locks = [path for path in ref_locks(git) if moving and path.name != "packed-refs.lock"]
    deadline = time.monotonic() + patience
    while any(path.exists() for path in locks) and time.monotonic() < deadline:
        time.sleep(0.02)
    said = []
    for path in locks:
        with contextlib.suppress(FileNotFoundError):
            if path.read_text("ascii", "replace").strip() in {"", *moving}:
                path.unlink()
                said.append(f"removed the {path.name} that we held when we were stopped")
    return said
