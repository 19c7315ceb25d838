"""Where the commits of a batch land: the person's index and the branch. The gits
for both start beside our files being placed, as soon as index.lock is ours.

Neither of them changes anything before it is told to: the new index lies beside the old one, and the branch moves last.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from ormahd.errors import OrmahError
from ormahd.git.index import NextIndex
from ormahd.git.refs import HeadMover, Moved
from ormahd.git.repository import Git
from ormahd.process.disk import Flusher
from ormahd.vault.ahead import Made
from ormahd.vault.build import DAEMON, Told
from ormahd.vault.intents import Intent


class Landing:
    """Of one batch, by one thread. Begun and used only with index.lock held."""

    def __init__(
        self, git: Git, vault_id: str, flusher: Flusher, built: Callable[[], Made] | None, last: Intent
    ) -> None:
        """`built` gives the commits that were begun (None: none); `last` is the batch's last op, which
        the reflog will name."""
        self._git = git
        self._vault_id = vault_id
        self._index: NextIndex | None = None
        self._mover: HeadMover | None = None
        self._last = last
        self._wait = flusher.beside(lambda: self._begin(built))

    def _begin(self, built: Callable[[], Made] | None) -> None:
        self._mover = _mover(self._git, self._last)
        if built is not None:
            self._index = NextIndex(self._git, self._vault_id, built().told)

    def index(self, told: Told) -> NextIndex:
        """The index that says this: as it was begun, where that is what it says, else begun now. Raises what went wrong with it."""
        self._wait()
        if self._index is not None and self._index.entries != told:
            self._index.drop()
            self._index = None
        if self._index is None:
            self._index = NextIndex(self._git, self._vault_id, told)
        return self._index

    def move(self, head: str | None, tip: str, last: Intent) -> Moved:
        """Move the branch from `head` to `tip`, in the name of the op `last`."""
        mover, self._mover = self._mover, None
        if mover is not None and last is not self._last:
            mover.drop()
            mover = None
        return (mover or _mover(self._git, last)).move(head, tip)

    def publish(self) -> None:
        """Put the index that was asked for in the old one's place: the branch has moved."""
        assert self._index is not None
        self._index.publish()
        self._index = None

    def close(self) -> None:
        """End what was not needed; an index that was not published goes."""
        try:
            # What went wrong is told to whoever asks for the index; where nobody did, nothing lacks.
            with contextlib.suppress(OrmahError, OSError):
                self._wait()
        finally:
            if self._mover is not None:
                self._mover.drop()
            if self._index is not None:
                self._index.drop()


def _mover(git: Git, last: Intent) -> HeadMover:
    reason = f"ormah ({last.kind}): {last.message.splitlines()[0]}"
    return HeadMover(git, who=git.identity() or DAEMON, seconds=int(last.time.timestamp()), reason=reason)
