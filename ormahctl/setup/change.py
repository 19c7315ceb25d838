"""One file of somebody else's that we change: what it was, what it becomes, and what is remembered to take that back."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ormahctl.setup import file, record
from ormahctl.setup.edits import apply, between, reverse
from ormahctl.setup.file import Seen
from ormahctl.setup.record import Record


@dataclass(frozen=True)
class FileChange:
    """What would become of one file: `after` its bytes, None where it goes."""

    seen: Seen
    after: bytes | None
    record: Record | None
    """What to remember once it is done; None: nothing any more."""
    was: Record | None

    @property
    def path(self) -> Path:
        return self.seen.path

    @property
    def changed(self) -> bool:
        return self.seen.data != self.after

    def make(self) -> None:
        """Do it.

        Raises:
            Conflict: the file is not what the plan was made for, or may not be written. Nothing was changed.
        """
        if not self.changed:
            return
        with record.alone():
            made = file.write(self.seen, self.after)
            if self.record is not None:
                known = self.was.directories if self.was else ()
                msgspec.structs.replace(self.record, directories=(*known, *made)).store()
            elif self.was is not None:
                self.was.forget()
                _remove_empty(self.was.directories)


def tidy(changes: Sequence[FileChange]) -> None:
    """Take away the directories that we made, once every file that was taken out of them is gone."""
    for one in changes:
        if one.record is None and one.was is not None:
            _remove_empty(one.was.directories)


def whole(owner: str, path: Path, wanted: bytes) -> FileChange:
    """A file that is ours from its first byte to its last. One that was there before comes back when it is taken out."""
    seen = file.read(path)
    was = Record.of(owner, seen.real)
    before, existed = seen.data, seen.data is not None
    if was is not None and was.fits(seen.data):
        before, existed = apply(seen.data or b"", reverse(was.edits)), was.existed
    kept = Record(
        agent=owner, file=str(path), real=str(seen.real), existed=existed, after=record.digest(wanted),
        edits=tuple(between(before or b"", wanted)),
    )  # fmt: skip
    return FileChange(seen, wanted, kept, was)


def taken_out(owner: str) -> tuple[list[FileChange], list[Path]]:
    """Every file of `owner` as it was before us; and those that were edited since, which are left as they are."""
    changes, edited = [], []
    for was in Record.all(owner):
        seen = file.read(Path(was.file))
        if was.fits(seen.data):
            before = apply(seen.data or b"", reverse(was.edits)) if was.existed else None
            changes.append(FileChange(seen, before, None, was))
        elif seen.data is not None:
            edited.append(seen.path)
    return changes, edited


def _remove_empty(directories: tuple[str, ...]) -> None:
    """Take away directories that we made, the innermost first, as far as nobody else uses them."""
    for path in reversed(directories):
        if not os.path.isdir(path):
            continue
        if os.listdir(path):
            return
        os.rmdir(path)
