"""The one door for every change (DESIGN section 5)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Self

from msgspec import Struct

from ormahd.errors import BadRequest, Conflict, Internal
from ormahd.git import message
from ormahd.model.change import Change, Committed, Kind
from ormahd.vault.tree_entries import EXECUTABLE, PathEntry
from ormahd.vault.worktree import safe_path

__all__ = ["Change", "Committed", "HistoryMoved", "Kind", "Transaction", "Wish"]


FIRST_BODY = "The files as the person wrote them; the next commit of this op holds what Ormah changes in them."


WITHHELD = "The words are in the notes alone: git runs them through a filter, and this message through none."


class Wish(Struct, frozen=True):
    """What a transaction asks for one path; `expect` is the sha256 of the version it was decided on (None: no file)."""

    node_id: str | None
    expect: str | None
    data: bytes | None
    first: bytes | None = None
    """What the op's first commit has at the path."""
    apart: bool = False
    """Whether the history gets something else than the folder: `held`, or no such file (None)."""
    held: bytes | None = None

    @property
    def in_history(self) -> bytes | None:
        return self.held if self.apart else self.data


class Transaction:
    """Collects changes; nothing touches the disk inside the block. Leaving it commits; an exception changes nothing.

    `op` is known from the start, so that a note or a message may name it; `committed` is set after the block, and stays
    None when nothing changed.
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
        queue: bool,
        first: str | None,
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
        self.queue = queue
        self.first = first
        self.committed: Committed | None = None
        self.wishes: dict[str, Wish] = {}
        self.joins: str | None = None
        self.joined_on: str | None = None
        self.entries: tuple[PathEntry, ...] = ()
        self._commit = commit
        self._open = False

    def put(
        self, path: str, data: bytes, *, node_id: str | None, expect: str | None, first: bytes | None = None
    ) -> None:
        """Store `data` at `path`. Refused with Conflict, on leaving, when the file is not the version `expect` then.

        `first` are the bytes that the op's first commit has there (the transaction's `first` is its subject)."""
        self._wish(path, Wish(node_id, expect, bytes(data), first))

    def leave(
        self, path: str, data: bytes, *, node_id: str | None, expect: str | None, held: bytes | None,
        first: bytes | None = None,
    ) -> None:  # fmt: skip
        """Store `data` at `path` in the folder, while the history gets `held` there (None: no such file, so that git no
        longer knows the file, and it stays where it is). `expect` and `first` as for `put`."""
        self._wish(path, Wish(node_id, expect, bytes(data), first, held != data, held))

    def remove(self, path: str, *, node_id: str | None, expect: str | None) -> None:
        """Remove the file. One that is gone from the folder already is removed from the history when HEAD has the version
        `expect`; with `expect=None` it must be gone (that is how a person's deletion is taken in)."""
        self._wish(path, Wish(node_id, expect, None))

    def join(self, commit: str, *, on: str | None, entries: Iterable[PathEntry] = ()) -> None:
        """Bring in the history of another commit: the changes of this transaction are what its files come to here.

        `on` is the commit that HEAD was when this was decided (None: none yet). Other notes may be committed since; refused
        with HistoryMoved, on leaving, when HEAD no longer goes on from it. The op's commit has `commit` as its second
        parent, also when no file changes; HEAD moves to `commit` itself where that is all.
        `entries` are lines of its tree that are no files to us.
        """
        if not self._open:
            raise Internal("a transaction takes changes only inside its block")
        self.joins, self.joined_on, self.entries = commit, on, tuple(entries)

    def withhold(self, notes: int) -> None:
        """Have the messages say nothing of the notes' words: a filter of the person's (git-crypt) applies to so many of them, and messages
        pass no filter."""
        what = "a filtered note" if notes == 1 else f"{notes} filtered notes"
        self.subject = f"{self.kind.capitalize()}: {what}"
        self.body = WITHHELD
        self.first = None if self.first is None else f"Take in: {what}"

    def make_executable(self, path: str) -> None:
        """Have a file that is put may be run, in the folder and in the history."""
        self.entries += (PathEntry(path, EXECUTABLE, None, None),)

    def messages(self, nodes: Sequence[str]) -> tuple[str, str | None]:
        """The message of the op's commit, and that of the commit that goes before it (None: there is none)."""
        own = message.compose(
            self.subject, self.body, op=self.op, kind=self.kind, source=self.source, run=self.run, nodes=nodes,
            trailers=self.trailers,
        )  # fmt: skip
        if self.first is None:
            return own, None
        before = message.compose(
            self.first,
            FIRST_BODY,
            op=self.op,
            kind=self.kind,
            source=self.source,
            run=self.run,
            trailers=[message.FIRST],
        )
        return own, before

    def _wish(self, path: str, wish: Wish) -> None:
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
    """HEAD does not go on from the commit that a join was decided on. Nothing was changed; decide it again."""


def is_local(path: str) -> bool:
    """Whether the path is the running daemon's own, however it is spelled on a disk that does not tell cases apart."""
    folded = path.casefold()
    return folded.startswith(_LOCAL) or folded + "/" in _LOCAL


_LOCAL = (".ormah/lock", ".ormah/intent/", ".ormah/tmp/", ".ormah/conflicts/", ".ormah/creating")
