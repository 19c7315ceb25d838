"""Read and replace a settings file of another program, never over a change that another program has just made.

Symbolic links stay, and the file they name is replaced; mode, owner and extended attributes are kept. Edits are
splices, which can be reversed.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

from ormahd.rpc.wire import Conflict, OrmahError


class InvalidSettings(OrmahError):
    """Raised for an agent's settings file that cannot be parsed. The file is left as it is. The daemon never sends
    this error."""

    code: ClassVar[str] = "invalid_settings"
    exit_status: ClassVar[int] = 5


class Splice(NamedTuple):
    """One edit of a file: at the byte `start`, the bytes `removed` are replaced by `inserted`."""

    start: int
    removed: bytes
    inserted: bytes


def apply(data: bytes, edits: Iterable[Splice]) -> bytes:
    """Return `data` after all `edits`. Each is applied to the result of the edit before it.

    Raises:
        Conflict: the bytes that an edit removes are not at its position.
    """
    for start, removed, inserted in edits:
        end = start + len(removed)
        if data[start:end] != removed:
            raise Conflict(f"byte {start} of the file is not what it was")
        data = data[:start] + inserted + data[end:]
    return data


def reverse(edits: Sequence[Splice]) -> list[Splice]:
    """Return the edits that `apply` needs to undo `edits`."""
    return [Splice(start, inserted, removed) for start, removed, inserted in reversed(edits)]


LARGEST = 16_000_000
"""Largest size in bytes of a file that is read. No settings file is as large."""


@dataclass(frozen=True)
class FileRead:
    """A file as it was read. `data`: its bytes, or None if it did not exist."""

    path: Path
    data: bytes | None

    @property
    def real(self) -> Path:
        """The path with symlinks resolved."""
        return Path(os.path.realpath(self.path))


def read(path: Path) -> FileRead:
    """Read the file at `path`, following symlinks. A missing file is no error.

    Raises:
        InvalidSettings: it is no regular file, too large, or this user may not read it.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return FileRead(path, None)
    except OSError as exc:
        raise InvalidSettings(
            f"{path} cannot be read: {exc.strerror}", hint="move it away, or run this as its owner"
        ) from None
    try:
        kind = os.fstat(fd)
        if not stat.S_ISREG(kind.st_mode):
            what = "a directory" if stat.S_ISDIR(kind.st_mode) else "no regular file"
            raise InvalidSettings(f"{path} is {what}, where the settings file belongs", hint="move it away")
        if kind.st_size > LARGEST:
            raise InvalidSettings(f"{path} has {kind.st_size:,} bytes: that is no settings file", hint="look into it")
        with open(fd, "rb", closefd=False) as opened:
            return FileRead(path, opened.read())
    finally:
        os.close(fd)


def write(seen: FileRead, data: bytes | None) -> None:
    """Replace the content of the file `seen` by `data`, durably. Missing directories are created. If `data` is None,
    remove the file, and its directory if that is then empty.

    Raises:
        Conflict: the file has changed since it was read, is read-only, or belongs to another user. Nothing was
            changed.
    """
    real = seen.real
    before = _check_writable(seen)
    if data is None:
        _check_unchanged(seen)
        real.unlink(missing_ok=True)
        _sync(real.parent)
        if not os.listdir(real.parent):
            real.parent.rmdir()
        return

    # a new file beside it, with the same owner and mode
    try:
        real.parent.mkdir(parents=True, exist_ok=True)
        fresh = real.with_name(f".{real.name}.{secrets.token_hex(4)}.ormah")
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as exc:
        if exc.errno not in {errno.EACCES, errno.EPERM, errno.EROFS}:
            raise
        hint = "if another program manages this file, add the hooks there: --dry-run shows them"
        raise Conflict(f"{real} cannot be written: {exc.strerror}", hint=hint) from None
    try:
        with open(fd, "wb") as opened:
            opened.write(data)
            opened.flush()
            if before is not None:
                now = os.fstat(fd)
                if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
                    os.fchown(fd, before.st_uid, before.st_gid)
                shutil.copystat(real, fresh)
                os.utime(fresh)
            os.fsync(fd)
        _check_unchanged(seen)
        if before is None:
            os.link(fresh, real)  # unlike a rename, it never replaces a file that appeared meanwhile
            fresh.unlink()
        else:
            fresh.replace(real)
    except FileExistsError:
        fresh.unlink()
        raise _changed_error(seen) from None
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    _sync(real.parent)


def _check_writable(seen: FileRead) -> os.stat_result | None:
    """Return the present stat of the file `seen`; None if it did not exist when it was read.

    Raises:
        Conflict: the file was removed meanwhile, or this user may not replace it.
    """
    if seen.data is None:
        return None
    try:
        status = seen.real.stat()
    except FileNotFoundError:
        raise _changed_error(seen) from None
    if not status.st_mode & stat.S_IWUSR:
        raise Conflict(f"{seen.real} is read-only", hint=f"if it may be changed: chmod u+w {seen.real}, then try again")
    if status.st_uid != os.geteuid() and os.geteuid() != 0:
        raise Conflict(f"{seen.real} belongs to user {status.st_uid}, not to you", hint="run this as its owner")
    return status


def _check_unchanged(seen: FileRead) -> None:
    """Raise Conflict if the file no longer has the content with which it was read."""
    if read(seen.path).data != seen.data:
        raise _changed_error(seen)


def _changed_error(seen: FileRead) -> Conflict:
    """Return the error for a file that another program has changed meanwhile."""
    return Conflict(f"{seen.path} was changed by somebody else in the meantime; it was left alone", hint="try again")


def _sync(directory: Path) -> None:
    """Write the entries of `directory` to the disk (fsync), so that a rename in it survives a crash."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
