"""Update git's index after a commit by Ormah, beside other programs that use the repository.

If a commit moved HEAD and not the index, the person's next `git commit` would delete the new notes. Therefore the new
index, which keeps what the person has staged, is written to another file while Ormah holds `index.lock`. It is renamed
over the old one as soon as the branch has moved.

This module also says which other programs use the repository, and removes the locks that a crash of Ormah left.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from ormahd.git.objects import TreeEntry
from ormahd.git.process import GitFailed
from ormahd.git.repository import NULL, Git
from ormahd.process import disk, own_files

_numbers = itertools.count()

MARK = b"ormah "
"""The first word of an `index.lock` that Ormah made; the op follows, and on a second line the commits from and to which
HEAD moves. Git never reads this content. Only one daemon uses a vault at a time, so no other process can hold such a
lock."""
TEMPORARY = "index.ormah-"
"""The beginning of the names of Ormah's own files beside git's index."""


class IndexLock:
    """Takes and releases git's lock on its index, the file `index.lock`. Its content shows after a crash that Ormah
    made it, and not git.

    The content is written to another file, which is then hard-linked to `index.lock`. So the lock is never without
    its content, except on file systems without hard links.
    """

    def __init__(self, git: Git) -> None:
        self.path = git.git_dir / "index.lock"
        self._twin = git.git_dir / f"{TEMPORARY}lock"

    def take(self, op: str) -> bool:
        """Take the lock for `op`. Return False if another program holds it.

        If an `index.lock` is left that Ormah's daemon made before a crash, it serves as the lock.
        """
        if self.is_ours():
            return True
        content = MARK + f"{op} pid {os.getpid()}\n".encode()
        self._twin.write_bytes(content)
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
            self._twin.unlink(missing_ok=True)
        return True

    def note_move(self, op: str, head: str | None, tip: str) -> None:
        """Write durably into the lock that HEAD is about to move from the commit `head` (None: no commit yet) to `tip`."""
        content = MARK + f"{op} pid {os.getpid()}\n{head or NULL} {tip}\n".encode()
        disk.write_and_sync(os.open(self._twin, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644), content)
        os.replace(self._twin, self.path)
        disk.sync_directory(self.path.parent)

    def noted_move(self) -> tuple[str | None, str] | None:
        """Return what `note_move` wrote into the lock file that exists now: (head, tip). None if it wrote nothing, or there
        is no such lock."""
        content = self._content()
        words = content.decode("ascii", "replace").partition("\n")[2].split() if content.startswith(MARK) else []
        return (None if words[0] == NULL else words[0], words[1]) if len(words) == 2 else None

    def is_ours(self) -> bool:
        """Whether the content of the lock file shows that Ormah made it."""
        return self._content().startswith(MARK)

    def _content(self) -> bytes:
        """Return the content of the lock file; b"" if there is none."""
        try:
            return own_files.read(self.path)
        except OSError:
            return b""

    def release(self) -> None:
        """Remove the lock file, if Ormah made it."""
        if self.is_ours():
            self.path.unlink(missing_ok=True)


class NextIndex:
    """Prepares git's index for the next commit: a `git update-index` that runs in parallel writes it to a separate
    file.

    `publish` renames this file over git's index. Used only while `index.lock` is held.
    """

    def __init__(self, git: Git, entries: Mapping[bytes, TreeEntry | None]) -> None:
        """`entries`: {committed path, relative to the repository's top: its entry in the new HEAD; None: deleted}."""
        self._git = git
        self.entries = entries
        # A new name each time: an orphaned git of a killed daemon may still be writing to an earlier one.
        self._file = git.git_dir / f"{TEMPORARY}{os.getpid()}-{next(_numbers)}"
        self._index = git.git_dir / "index"
        self._child: subprocess.Popen[bytes] | None = None
        try:
            self._begin()
        except OSError:  # git does not start
            self._file.unlink(missing_ok=True)
            raise

    def _begin(self) -> None:
        """Start `git update-index` on a copy of the index."""
        if self._index.exists():
            try:  # a hard link is as good as a copy, because git never changes an index file in place
                os.link(self._index, self._file)
            except OSError:
                self._file.write_bytes(self._index.read_bytes())
        elif (head := self._git.head()) is not None:
            # Else the index would hold only our paths, and the person's next commit would delete all others.
            self._git.run("read-tree", head, env={"GIT_INDEX_FILE": str(self._file)})
        with tempfile.TemporaryFile() as lines:
            for path, entry in self.entries.items():
                mode, oid = (entry.mode.decode(), entry.oid) if entry else ("0", NULL)
                lines.write(f"{mode} {oid}\t".encode() + path + b"\0")
            lines.seek(0)
            env = {"GIT_INDEX_FILE": str(self._file)}
            self._child = self._git.start("update-index", "-z", "--index-info", env=env, stdin=lines)

    def wait(self) -> None:
        """Wait until the new index file is written; it is not in place yet. Raises GitFailed, for example if git cannot
        read the old index."""
        child, self._child = self._child, None
        if child is None:
            return
        _, stderr = child.communicate()
        if child.returncode:
            raise GitFailed(["update-index"], child.returncode, stderr.decode("utf-8", "replace"))

    def publish(self) -> None:
        """Rename the new index over the old one and fsync the folder; git has already fsynced the file."""
        self.wait()
        if self._file.exists():
            os.replace(self._file, self._index)
            # If git changed nothing, both names are links to one file, and renaming between those does nothing.
            self._file.unlink(missing_ok=True)
            disk.sync_directory(self._git.git_dir)

    def drop(self) -> None:
        """Wait until the git process has ended, and delete the new index file if it was not put in place."""
        with contextlib.suppress(GitFailed):
            self.wait()
        self._file.unlink(missing_ok=True)


def blobs_in_index(git: Git, paths: list[bytes]) -> dict[bytes, str]:
    """Return `{path: blob id}` of the paths in `paths` (relative to the repository's top) that are in git's index."""
    found: dict[bytes, str] = {}
    for at in range(0, len(paths), 500):
        names = [os.fsdecode(path) for path in paths[at : at + 500]]
        for record in git.run("ls-files", "-s", "-z", "--", *names).split(b"\0"):
            meta, _, path = record.partition(b"\t")
            if path:
                found[path] = meta.split(b" ")[1].decode()
    return found


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
    """Return the paths of the ref lock files that would keep git from moving HEAD, whether they exist or not."""
    branch = git.branch()
    locks = [git.git_dir / "HEAD.lock", git.git_dir / "packed-refs.lock"]
    return [*locks, git.git_dir / f"{branch}.lock"] if branch else locks


def busy(git: Git, lock: IndexLock, *, held: bool = False) -> str | None:
    """Return why Ormah cannot commit now, as a clause for people; None if it can. `held`: the caller holds
    index.lock."""
    if why := operation_under_way(git):
        return why
    path = blocking_lock(git, lock, held=held)
    return None if path is None else f"another git program holds {path.name}"


def blocking_lock(git: Git, lock: IndexLock, *, held: bool = False) -> Path | None:
    """Return the path of a lock file by which another git program keeps Ormah from committing; None if there is none.
    `held`: the caller holds index.lock."""
    if not held and os.path.lexists(lock.path) and not lock.is_ours():
        return lock.path
    return next((path for path in ref_locks(git) if os.path.lexists(path)), None)


def operation_under_way(git: Git) -> str | None:
    """Return which git operation a person has begun and not ended (such as a merge), as a clause; None if there is
    none.

    During such an operation the folder need not match HEAD.
    """
    return next((why for name, why in _OPERATIONS.items() if os.path.lexists(git.git_dir / name)), None)


def clear_leftovers(git: Git, lock: IndexLock, *, patience: float = 2.0) -> list[str]:
    """Delete what an interrupted write left in the git directory: temporary files beside the index, and ref locks.
    Return a sentence about each ref lock. The caller holds the vault's lock. `lock`: the index lock that the write
    left.

    A ref lock counts as that of Ormah's `git update-ref` if it is empty, or holds the commit to which HEAD was to move.
    If that process still runs, it has `patience` seconds to end by itself.
    """
    for path in git.git_dir.glob(f"{TEMPORARY}*"):
        path.unlink(missing_ok=True)
    noted = lock.noted_move()
    locks = [path for path in ref_locks(git) if noted is not None and path.name != "packed-refs.lock"]
    deadline = time.monotonic() + patience
    while any(path.exists() for path in locks) and time.monotonic() < deadline:
        time.sleep(0.02)
    sentences = []
    for path in locks:
        with contextlib.suppress(FileNotFoundError):
            text = path.read_text("ascii", "replace").strip()
            if noted is not None and text in {"", noted[1]}:
                path.unlink()
                sentences.append(f"removed the {path.name} that we held when we were stopped")
    return sentences
