"""Transactions: the only way to change the vault (DESIGN section 5)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Self

from msgspec import Struct

from ormahd.errors import BadRequest, Conflict, Internal
from ormahd.git import commit_message
from ormahd.model.change import Committed, Kind
from ormahd.vault.worktree import safe_path


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
        """For the arguments see `Vault.transaction`. `commit` is called at the end of the block, and returns the
        commit; None: nothing changed."""
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
        self._commit = commit
        self._open = False

    def put(self, path: str, data: bytes, *, node_id: str | None, expect: str | None) -> None:
        """Store `data` at `path`. The commit raises Conflict when the file is no longer the version `expect`."""
        self._wish(path, PathChange(node_id, expect, bytes(data)))

    def remove(self, path: str, *, node_id: str | None, expect: str | None) -> None:
        """Remove the file. A file that is already missing in the folder is removed from the history, if HEAD has the
        version `expect`. `expect` None: the file must be missing in the folder; so a person's deletion is committed."""
        self._wish(path, PathChange(node_id, expect, None))

    def join(self, commit: str, *, on: str | None) -> None:
        """Join the history of `commit`: the changes of this transaction are the merged files.

        `on`: the commit that was HEAD when the merge was decided (None: no commit yet). Later commits to other notes
        are allowed; the commit raises HistoryMoved when HEAD no longer descends from `on`. The op's commit gets
        `commit` as its second parent, even when no file changes. If that would be a fast-forward, HEAD moves to
        `commit` itself.
        """
        if not self._open:
            raise Internal("a transaction takes changes only inside its block")
        self.joins, self.joined_on = commit, on

    def message(self, nodes: Sequence[str]) -> str:
        """Return the message of the op's commit. `nodes`: the ids of the memories that it names."""
        return commit_message.compose(
            self.subject,
            self.body,
            op=self.op,
            kind=self.kind,
            source=self.source,
            run=self.run,
            nodes=nodes,
            trailers=self.trailers,
        )

    def _wish(self, path: str, wish: PathChange) -> None:
        """Record a requested change. Raises Internal outside the `with` block, and BadRequest for a path that is
        changed twice or cannot be committed."""
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


_LOCAL = (".ormah/lock", ".ormah/tmp/", ".ormah/conflicts/", ".ormah/creating")
