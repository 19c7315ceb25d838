"""Replaces files of the vault without losing a concurrent save.

A new version is staged in `.ormah/tmp`, which git ignores, so that neither `git add -A` nor an editor's file list shows
it. Then it is atomically exchanged with the file (renameat2). If the displaced file is not the version that the change
was based on, it is a save of that moment, and is put back.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct, field

from ormahd.errors import BadRequest, Conflict, Unavailable
from ormahd.model.change import Stat, sha256
from ormahd.process.disk import (
    copy_bytes,
    exists,
    forget,
    make_folder,
    move,
    read_regular,
    rename2,
    sync,
    sync_directory,
    write_all,
)

STAGING = ".ormah/tmp"
MAX_COMPONENT = 255
"""Longest file name in bytes, as on all common file systems."""
MAX_PATH = 2000
"""Longest path of a file in bytes; with the vault's own path it stays below Linux's limit of 4,096."""

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_IGNORED_BY_HFS = "\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u206a\u206b\u206c\u206d\u206e\u206f\ufeff"


def safe_path(path: str) -> str:
    """Return `path` unchanged if a note may have it: relative, posix, canonical, without `.git`. Raises BadRequest."""
    parts = path.split("/")
    try:
        sizes = [len(part.encode("utf-8", "surrogateescape")) for part in parts]
        odd = "\0" in path or sum(sizes) + len(sizes) - 1 > MAX_PATH or max(sizes) > MAX_COMPONENT
    except UnicodeEncodeError:
        odd = True
    if odd or any(part in {"", ".", ".."} or _is_dot_git(part) for part in parts):
        raise BadRequest(f"{path!r} cannot be a note's path", hint="give a path inside the vault, with / between names")
    return path


def _is_dot_git(part: str) -> bool:
    """Whether a name means `.git` on some file system, so that git refuses it: HFS+ ignores some characters, NTFS
    ignores trailing dots and stream names."""
    if part.isascii() and "git" not in part.lower():
        return False  # a fast answer for nearly every name
    plain = "".join(c for c in part if c not in _IGNORED_BY_HFS).split(":")[0].rstrip(" .").casefold()
    return plain in {".git", "git~1"} or ("\\" in part and any(_is_dot_git(piece) for piece in part.split("\\")))


class Displaced(Conflict):
    """Raised when a file in the folder is not the version that the change is based on. `found`: the bytes that the
    file has instead (None: there is no file)."""

    def __init__(self, path: str, found: bytes | None) -> None:
        what = "is gone" if found is None else "changed"
        super().__init__(f"{path} {what} since it was read", hint="read it again and repeat", data={"path": path})
        self.found = found


class Write(Struct):
    """One change of a file in the folder. `old`: the sha256 of the version that is replaced (None: no file). `data`:
    the new bytes (None: the file is removed). `late`: whether it is a second write, which merges a save that was made
    during the first."""

    path: str
    old: str | None
    data: bytes | None
    late: bool = False
    placed: bool = False
    made: list[str] = field(default_factory=list)
    """Folders that were created for the file, outermost first."""
    inode: int | None = None
    """The inode of the file that is replaced, as `check` saw it."""
    stat: Stat | None = None
    """The stat of the staged file, which stays the same when the file is placed. None: nothing was staged, or a new
    file was there already with the same bytes."""

    @property
    def token(self) -> str:
        """The name of the staged file, and then of the version that it displaced."""
        return sha256(os.fsencode(self.path))[:32] + ".late" * self.late


class Worktree:
    """Reads, replaces and removes files in the vault's folder without losing what others save at the same time. Paths
    are posix and relative to the root; symlinks in a path are not followed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._held: int | None = None

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Context manager: keep the folder of staged files (`.ormah/tmp`) open during the block. Only one thread may
        use this; helper threads that stage files in the block must end before the block does."""
        fd = self._open_staging()
        try:
            self._held = fd
            yield
        finally:
            self._held = None
            os.close(fd)

    @contextlib.contextmanager
    def parent(self, path: str, made: list[str] | None = None) -> Iterator[tuple[int, str]]:
        """Context manager: yield (descriptor of the parent folder, file name). Missing folders are created and added
        to `made`; without `made`, a missing one raises FileNotFoundError. A symlink or a nested repository in the
        path raises Conflict."""
        # Open the folders one inside the other, without following links.
        *folders, name = safe_path(path).split("/")
        try:
            fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError as exc:
            hint = "is its disk mounted? Put the folder back; nothing was taken for deleted"
            raise Unavailable(f"the vault {self.root} is gone", hint=hint) from exc
        try:
            for depth, folder in enumerate(folders):
                try:
                    inner = os.open(folder, _DIRECTORY, dir_fd=fd)
                except FileNotFoundError:
                    if made is None:
                        raise
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(folder, 0o777, dir_fd=fd)
                        made.append("/".join(folders[: depth + 1]))
                    inner = os.open(folder, _DIRECTORY, dir_fd=fd)
                except OSError as exc:
                    if exc.errno not in {errno.ENOTDIR, errno.ELOOP}:
                        raise
                    raise Conflict(
                        f"{path}: {'/'.join(folders[: depth + 1])} is a link or a file, not a folder",
                        hint="links inside the vault are not followed; put a real folder there",
                    ) from exc
                os.close(fd)
                fd = inner
                if exists(fd, ".git"):
                    raise Conflict(
                        f"{path} lies in another git repository ({'/'.join(folders[: depth + 1])})",
                        hint="open that folder as a vault of its own",
                    )
            yield fd, name
        finally:
            os.close(fd)

    def read(self, path: str) -> bytes | None:
        """Return the file's bytes; None: there is no file. Raises Conflict for anything that is no regular file (a
        symlink, a device)."""
        try:
            with self.parent(path) as (folder, name):
                return read_regular(folder, name, path)
        except FileNotFoundError:
            return None

    def is_absent(self, path: str) -> bool:
        """Whether nothing (file, folder or symlink) is at `path`. Faster than `read`: one system call instead of a
        dozen."""
        try:
            os.lstat(os.path.join(self.root, safe_path(path)))
        except FileNotFoundError:
            return os.path.isdir(self.root)
        except OSError:  # `read` will report what is in the way
            return False
        return False

    # The steps of one write, in order: check, stage, place and finish; or drop instead of placing it

    def check(self, write: Write, *, probe: bool = False) -> None:
        """Raise Displaced if the file is not the version `write.old`. Create the missing folders of its path.

        Raises OSError if the folder would not take the staged file; with `probe`, also if the file itself may not be
        changed.
        """
        made = write.made if write.data is not None else None
        try:
            with self.parent(write.path, made) as (folder, name), self._staging() as staging:
                found = read_regular(folder, name, write.path)
                if _digest(found) != write.old and (write.old is not None or found != write.data):
                    raise Displaced(write.path, found)
                write.inode = None if found is None else os.stat(name, dir_fd=folder, follow_symlinks=False).st_ino
                if probe and found is not None:
                    os.utime(name, dir_fd=folder)
                if os.fstat(folder).st_dev != os.fstat(staging).st_dev:
                    raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), write.path)
                if not os.access(".", os.W_OK | os.X_OK, dir_fd=folder):
                    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), write.path)
        except FileNotFoundError as exc:
            raise Displaced(write.path, None) from exc

    def stage(self, write: Write) -> None:
        """Write the new version durably to the staged file of `write`, with the permissions of the file that it
        replaces."""
        if write.data is None:
            return

        # The permissions of the file that is replaced.
        before = None
        if write.old is not None:
            with contextlib.suppress(FileNotFoundError), self.parent(write.path) as (folder, name):
                before = os.stat(name, dir_fd=folder, follow_symlinks=False)

        # Write under another name, then rename: a staged file is always complete.
        with self._staging() as staging:
            part = f"{write.token}.part"
            forget(staging, part)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            fd = os.open(part, flags, 0o666, dir_fd=staging)
            try:
                write_all(fd, write.data)
                if before is not None:
                    os.fchmod(fd, stat.S_IMODE(before.st_mode))
                found = os.fstat(fd)
                write.stat = found.st_size, found.st_mtime_ns, found.st_ino
                sync(fd)
            except OSError:  # the disk is full: what was written is of no use
                forget(staging, part)
                raise
            finally:
                os.close(fd)
            os.rename(part, write.token, src_dir_fd=staging, dst_dir_fd=staging)

    def place(self, write: Write) -> None:
        """Put the staged version in place of the file, or remove the file. If the file is not the version
        `write.old`, nothing is changed and Displaced is raised."""
        made = write.made if write.data is not None else None
        try:
            with self.parent(write.path, made) as (folder, name), self._staging() as staging:
                if write.data is None:
                    self._place_removal(write, folder, name, staging)
                elif write.old is None:
                    self._place_new(write, folder, name, staging)
                else:
                    self._place_over(write, folder, name, staging)
        except FileNotFoundError as exc:
            raise Displaced(write.path, None) from exc
        write.placed = True

    def _place_new(self, write: Write, folder: int, name: str, staging: int) -> None:
        """Move the staged file to the path, where no file may be. Raises Displaced if a file with other content is
        there."""
        try:
            move(staging, write.token, folder, name)
        except FileExistsError:
            found = read_regular(folder, name, write.path)
            if found != write.data:
                raise Displaced(write.path, found) from None
            write.stat = None

    def _place_over(self, write: Write, folder: int, name: str, staging: int) -> None:
        """Exchange the staged file with the file, which must be the version `write.old`; else raise Displaced."""
        found = read_regular(folder, name, write.path)
        if found is None or sha256(found) != write.old:
            raise Displaced(write.path, found)
        if rename2(staging, write.token, folder, name, exchange=True):
            self._restore_late_save(write, folder, name, staging)
            return
        # No exchange on this file system: keep the old version under a second name, check it, then rename over it.
        backup = write.token + ".old"
        forget(staging, backup)
        try:
            os.link(name, backup, src_dir_fd=folder, dst_dir_fd=staging, follow_symlinks=False)
        except OSError:
            copy_bytes(found, staging, backup)
        out = read_regular(folder, name, write.path)
        if out != found:
            forget(staging, backup)
            raise Displaced(write.path, out)
        os.rename(write.token, name, src_dir_fd=staging, dst_dir_fd=folder)
        os.rename(backup, write.token, src_dir_fd=staging, dst_dir_fd=staging)

    def _restore_late_save(self, write: Write, folder: int, name: str, staging: int) -> None:
        """Put the file back if a person saved it just before it was exchanged with the staged file, and raise
        Displaced.

        Putting it back may displace a still newer save. So this is repeated until the displaced version is one that
        Ormah placed.
        """
        old, placed, displaced = write.old, _digest(write.data), False
        while (found := _digest(read_regular(staging, write.token, write.path, strict=False))) != old:
            rename2(staging, write.token, folder, name, exchange=True)
            placed, old, displaced = found, placed, True
        if displaced:
            raise Displaced(write.path, read_regular(folder, name, write.path, strict=False))

    def _place_removal(self, write: Write, folder: int, name: str, staging: int) -> None:
        """Move the file to the staged file's name. If it is not the version `write.old`, move it back and raise
        Displaced."""
        forget(staging, write.token)
        read_regular(folder, name, write.path)
        move(folder, name, staging, write.token)
        out = read_regular(staging, write.token, write.path, strict=False)
        if out is None or sha256(out) != write.old:
            with contextlib.suppress(FileExistsError):  # a newer save is already there
                move(staging, write.token, folder, name)
            raise Displaced(write.path, out)

    def replace(self, write: Write) -> bytes | None:
        """Take all steps of one write, durably: check, stage, place and finish. Return what `finish` returns. Raises as
        `check`."""
        self.check(write)
        self.stage(write)
        self.place(write)
        for folder in self.folders(write):
            sync_directory(folder)
        return self.finish(write)

    def write_where_moved(self, write: Write) -> None:
        """If a person has moved the file since `check` and not changed it, write the new version to its new path."""
        for folder, folders, names in os.walk(self.root):
            folders[:] = [name for name in folders if name not in {".git", ".ormah"}]
            for name in names:
                path = os.path.relpath(os.path.join(folder, name), self.root)
                with contextlib.suppress(OSError, Conflict):
                    if os.lstat(os.path.join(folder, name)).st_ino == write.inode:
                        self.replace(Write(path, write.old, write.data))
                        return

    def drop(self, write: Write) -> None:
        """Remove the staged file and the folders that `check` created, because the write is not done."""
        with self._staging() as staging:
            forget(staging, write.token)
        for made in reversed(write.made):
            with contextlib.suppress(OSError):  # not empty any more
                os.rmdir(self.root / made)
        write.made.clear()

    def finish(self, write: Write) -> bytes | None:
        """Remove the old version of the file, to which `place` gave the name of the staged file. Return None.

        An editor that had the file open may have written into the old version after `place`. Then nothing is removed,
        and the bytes of the old version are returned.
        """
        late = None
        with self._staging() as staging:
            if write.placed and write.old is not None:
                out = read_regular(staging, write.token, write.path, strict=False)
                late = out if out is not None and sha256(out) != write.old else None
            if late is None:
                forget(staging, write.token)
        if write.placed and write.data is None and late is None:
            for parent in Path(write.path).parents[:-1]:  # empty folders go, as in a checkout by git
                try:
                    os.rmdir(self.root / parent)
                except OSError:
                    break
        return late

    def read_staged(self, write: Write) -> bytes | None:
        """Return the bytes of the file that has the name of the staged file: the staged version, or the one that it
        displaced. None: there is none."""
        with contextlib.suppress(FileNotFoundError, Conflict), self._staging() as staging:
            return read_regular(staging, write.token, write.path, strict=False)
        return None

    def folders(self, write: Write) -> set[str]:
        """Return the folders in which the write added, replaced or removed an entry. The caller must fsync them."""
        paths = [write.path, *write.made]
        return {os.path.join(self.root, path.rpartition("/")[0]) for path in paths}

    @contextlib.contextmanager
    def _staging(self) -> Iterator[int]:
        """Context manager: yield a descriptor of the folder of staged files."""
        if self._held is not None:
            yield self._held
            return
        fd = self._open_staging()
        try:
            yield fd
        finally:
            os.close(fd)

    def _open_staging(self) -> int:
        """Return a new descriptor of the folder of staged files, which is created if it is missing."""
        try:
            return os.open(self.root / STAGING, _DIRECTORY)
        except (FileNotFoundError, NotADirectoryError):
            return os.open(make_folder(self.root, STAGING), _DIRECTORY)


def _digest(data: bytes | None) -> str | None:
    """Return the sha256 of `data`; None for None."""
    return None if data is None else sha256(data)
