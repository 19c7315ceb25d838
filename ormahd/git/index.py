"""Update git's index after a commit by Ormah, leaving what the person has staged untouched.

A commit that moves HEAD but not the index would make the person's next `git commit` delete the new notes. So the new
index is written to another file while Ormah holds `index.lock`, and renamed over the old one as soon as the branch
has moved.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from ormahd.git.objects import Entry
from ormahd.git.process import GitFailed
from ormahd.git.repository import Git
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

    def __init__(self, git: Git, vault_id: str, entries: Mapping[bytes, Entry | None]) -> None:
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
