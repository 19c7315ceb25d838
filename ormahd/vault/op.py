"""An op on its way into the history: what it does to each file, and its commit's message."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from ormahd.model.change import ChangedFile, Kind, Stat, sha256


class FileChange(Struct, frozen=True):
    """What an op does to one file. `base`: the file's bytes before the op (None: no file). `data`: its bytes after
    the op (None: the op removes the file)."""

    path: str
    node_id: str | None
    base: bytes | None
    data: bytes | None

    @property
    def old(self) -> str | None:
        """The sha256 of the file's bytes before the op; None: there was no file."""
        return None if self.base is None else sha256(self.base)

    def committed(self, stat: Stat | None = None) -> ChangedFile:
        """Return the change as listeners get it. `stat`: the stat of the file afterwards, where known."""
        return ChangedFile(self.path, self.node_id, self.old, self.data, stat)


class PlannedOp(Struct, frozen=True):
    """An op that is ready to be written. `message`: the commit message with its trailers. `person`: whether the person
    is the author."""

    op: str
    kind: Kind
    source: str
    subject: str
    message: str
    person: bool
    time: datetime
    changes: tuple[FileChange, ...]
    joins: str | None = None
    """The commit whose history the op joins: it becomes the second parent of the op's commit, or (fast-forward) is that
    commit."""
