"""Transactions: the only way to change the vault (DESIGN section 5).

Also defines the tree entries whose content Ormah never reads: symbolic links, submodules, the executable bit. A join
takes them over from git unchanged, and then updates the folder as a checkout would.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import stat
from collections.abc import Callable, Collection, Iterable, Sequence
from types import TracebackType
from typing import Self

from msgspec import Struct

from ormahd.errors import BadRequest, Conflict, Internal
from ormahd.git import oplog
from ormahd.model.change import Committed, Kind
from ormahd.vault.worktree import Worktree, safe_path

LINK, SUBMODULE, EXECUTABLE = "120000", "160000", "100755"
REMOVED = "0"

log = logging.getLogger(__name__)


class PathEntry(Struct, frozen=True):
    """One entry of a git tree that an op is to set: a symlink, a submodule or an executable bit. `oid`: its object
    id; None: only the mode of the existing file changes. `was`: the object id of the symlink or submodule that was at
    the path before; None: there was none. When `mode` is REMOVED, the entry is removed."""

    path: str
    mode: str
    oid: str | None
    was: str | None

    @property
    def removed(self) -> bool:
        return self.mode == REMOVED


ReadLink = Callable[[str], bytes | None]
"""Returns the target of the link with this blob id; None when the id is no link's."""


def check(worktree: Worktree, entries: Iterable[PathEntry], freed: Collection[str], read: ReadLink) -> None:
    """Raise Conflict when the folder has something else at the path of a symlink or submodule of `entries`. `freed`:
    paths of files that the same op removes; they are no conflict. `read` returns the target of a symlink by its blob
    id."""
    for entry in entries:
        if entry.oid is None and not entry.removed:
            continue
        with contextlib.suppress(FileNotFoundError), worktree.parent(entry.path) as (folder, name):
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISLNK(found.st_mode):
                target = os.fsencode(os.readlink(name, dir_fd=folder))
                fits = target in {read(oid) for oid in (entry.was, entry.oid) if oid is not None}
            else:
                fits = entry.path in freed or (stat.S_ISDIR(found.st_mode) and entry.mode in {SUBMODULE, REMOVED})
            if not fits:
                raise Conflict(
                    f"{entry.path} is in the way of what the other side has there",
                    hint="move it away, or commit it with git, and repeat",
                    data={"path": entry.path},
                )


def settle(worktree: Worktree, entries: Iterable[PathEntry], read: ReadLink) -> None:
    """Make the symlinks, submodules and executable bits in the folder match `entries`, which have just been
    committed. A file that a person has meanwhile put at one of these paths is left alone. Entries that the file
    system cannot hold are logged; git reports them as missing."""
    for entry in entries:
        try:
            _settle(worktree, entry, read)
        except FileNotFoundError:
            continue
        except (OSError, Conflict) as exc:
            log.warning("%s could not be brought into step: %s", entry.path, exc)


def _settle(worktree: Worktree, entry: PathEntry, read: ReadLink) -> None:
    with worktree.parent(entry.path, []) as (folder, name):
        if entry.oid is None and not entry.removed:
            _set_mode(folder, name, executable=entry.mode == EXECUTABLE)
        elif entry.mode == SUBMODULE:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, dir_fd=folder)
        else:
            target = None if entry.oid is None else read(entry.oid)
            _set_link(folder, name, None if entry.was is None else read(entry.was), target)


def _set_mode(folder: int, name: str, *, executable: bool) -> None:
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if not stat.S_ISREG(found.st_mode):
        return
    mode = stat.S_IMODE(found.st_mode)
    # each of user, group and others that may read may execute, as in git
    wanted = mode | (mode & 0o444) >> 2 if executable else mode & ~0o111
    if wanted != mode:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        try:
            os.fchmod(fd, wanted)
        finally:
            os.close(fd)


def _set_link(folder: int, name: str, was: bytes | None, target: bytes | None) -> None:
    try:
        now: bytes | None = os.fsencode(os.readlink(name, dir_fd=folder))
    except FileNotFoundError:
        now = None
    except OSError:  # no link: the empty folder of a removed submodule, or a person's file
        if target is None:
            with contextlib.suppress(OSError):
                os.rmdir(name, dir_fd=folder)
        return
    if now == target or now not in {None, was}:
        return
    if target is None:
        os.unlink(name, dir_fd=folder)
        return
    fresh = f".{secrets.token_hex(8)}.tmp"
    os.symlink(os.fsdecode(target), fresh, dir_fd=folder)
    os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)


class PathChange(Struct, frozen=True):
    """A requested change of one path. `expect`: sha256 of the version that the change is based on (None: no file).
    `data`: the bytes to write (None: the file is to be removed)."""

    node_id: str | None
    expect: str | None
    data: bytes | None


class Transaction:
    """Collects changes in a `with` block and commits them at its end. If the block raises, nothing is changed.

    `op`: the op's id, known from the start, so that a note or a message can name it. `committed`: set after the
    block; stays None when nothing changed.
    """

    def __init__(
        self,
        op: str,
        subject: str,
        *,
        kind: Kind,
        source: str,
        body: str,
        run: str | None,
        person: bool,
        trailers: Iterable[tuple[str, str]],
        commit: Callable[[Transaction], Committed | None],
    ) -> None:
        self.op = op
        self.subject = subject
        self.kind = kind
        self.source = source
        self.body = body
        self.run = run
        self.person = person
        self.trailers = tuple(trailers)
        self.committed: Committed | None = None
        self.wishes: dict[str, PathChange] = {}
        self.joins: str | None = None
        self.joined_on: str | None = None
        self.entries: tuple[PathEntry, ...] = ()
        self._commit = commit
        self._open = False

    def put(self, path: str, data: bytes, *, node_id: str | None, expect: str | None) -> None:
        """Store `data` at `path`. The commit raises Conflict when the file is no longer the version `expect`."""
        self._wish(path, PathChange(node_id, expect, bytes(data)))

    def remove(self, path: str, *, node_id: str | None, expect: str | None) -> None:
        """Remove the file. A file that is already missing in the folder is removed from the history when HEAD has
        the version `expect`. With `expect=None` the file must be missing in the folder: that is how a person's
        deletion is committed."""
        self._wish(path, PathChange(node_id, expect, None))

    def join(self, commit: str, *, on: str | None, entries: Iterable[PathEntry] = ()) -> None:
        """Join the history of another commit: this transaction's changes are the merge result for the files.

        `on`: the commit that HEAD was when the merge was decided (None: no commit yet). Later commits to other notes
        are allowed; the commit raises HistoryMoved when HEAD no longer descends from `on`. The op's commit has
        `commit` as second parent, even when no file changes; if that would be a fast-forward, HEAD moves to `commit`
        itself. `entries`: the symlinks, submodules and executable bits that the merge result gets from `commit`.
        """
        if not self._open:
            raise Internal("a transaction takes changes only inside its block")
        self.joins, self.joined_on, self.entries = commit, on, tuple(entries)

    def message(self, nodes: Sequence[str]) -> str:
        """Return the message of the op's commit. `nodes`: the ids of the memories that it names."""
        return oplog.compose(
            self.subject, self.body, op=self.op, kind=self.kind, source=self.source, run=self.run, nodes=nodes,
            trailers=self.trailers,
        )  # fmt: skip

    def _wish(self, path: str, wish: PathChange) -> None:
        if not self._open:
            raise Internal("a transaction takes changes only inside its block")
        if safe_path(path) in self.wishes:
            raise BadRequest(f"{path} is changed twice in one transaction", hint="decide first, then put once")
        if is_local(path):
            raise BadRequest(f"{path} is not a file for the history", hint="it belongs to the running daemon")
        self.wishes[path] = wish

    def __enter__(self) -> Self:
        if self._open or self.committed is not None:
            raise Internal("a transaction is used once")
        self._open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open = False
        if kind is None:
            self.committed = self._commit(self)


class HistoryMoved(Conflict):
    """Raised when HEAD does not descend from the commit that a join was based on. Nothing was changed; the join must
    be planned again."""


def is_local(path: str) -> bool:
    """Whether the path is a file of the running daemon, in any spelling on a case-insensitive disk."""
    folded = path.casefold()
    return folded.startswith(_LOCAL) or folded + "/" in _LOCAL


_LOCAL = (".ormah/lock", ".ormah/intent/", ".ormah/tmp/", ".ormah/conflicts/", ".ormah/creating")
