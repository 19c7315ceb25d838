"""Walk the vault and list the files whose `stat` differs from the known one. Also the result of a scan, and a record of
the files that scans have examined."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from ormahd.errors import Unavailable
from ormahd.model.change import FileState
from ormahd.process import priority
from ormahd.vault.excluded import Excluded, is_note_name


class ScanAborted(Unavailable):
    """The scan ended before it had read the whole vault, because Ormah is stopping."""

    def __init__(self) -> None:
        super().__init__("the vault was not read to its end: Ormah is stopping", hint="`ormahctl up` starts it again")


MAX_NOTE_BYTES = 10_000_000
"""Largest file that is read. A memory holds 1,000,000 characters, so a larger file is no note."""


class ScanResult(Struct):
    """The result of a scan.

    `skipped`: (path, reason). `waiting_until`: when to scan again, in `time.monotonic()`; None: no need. `problems`:
    what `doctor` is to say about files (see `finding`).
    """

    indexed: int = 0
    """The number of files that were indexed without a commit: the history has them already, or is not to have them."""
    edited: int = 0
    """The number of files that a person added, edited or moved, and that were committed."""
    removed: int = 0
    skipped: list[tuple[str, str]] = field(default_factory=list)
    waiting: set[str] = field(default_factory=set)
    """The paths of files that are not at rest yet, or wait for another git to end. "": the whole folder."""
    waiting_until: float | None = None
    problems: list[dict[str, Any]] = field(default_factory=list)

    def __add__(self, later: ScanResult) -> ScanResult:
        untils = [until for until in (self.waiting_until, later.waiting_until) if until is not None]
        return ScanResult(
            self.indexed + later.indexed, self.edited + later.edited,
            self.removed + later.removed, self.skipped, self.waiting | later.waiting, min(untils, default=None),
            later.problems,
        )  # fmt: skip

    def wait(self, path: str, seconds: float) -> None:
        self.waiting.add(path)
        until = time.monotonic() + seconds
        self.waiting_until = until if self.waiting_until is None else min(self.waiting_until, until)


STRIDE = 64
"""The number of files of a folder that are examined between two calls of `priority.give`."""
MARKER = ".ormah/vault.toml"
"""If this file is missing, the vault counts as missing: the mount point of an unmounted disk is an empty folder."""


NS = 2**63 - 1
"""The largest distance from 1970, in nanoseconds, that an mtime may have here: the largest integer in SQLite. Some file
systems store later times."""


class FileStat(Struct, frozen=True):
    """What is known of a file by its stat alone. `changed_ns`: the later of mtime and ctime."""

    path: str
    size: int
    mtime_ns: int
    inode: int
    changed_ns: int


class WalkResult(Struct):
    """The result of a walk. Paths are posix and relative to the vault's root. "Known" means known to the index."""

    changed: dict[str, FileStat] = field(default_factory=dict)
    """New files and those whose stat differs from what is known."""
    gone: list[str] = field(default_factory=list)
    """Known paths that do not exist any more, or are excluded now."""
    skipped: list[tuple[str, str]] = field(default_factory=list)
    """(path, reason) of what was not read as a note, for `doctor`."""
    passed_by: list[str] = field(default_factory=list)
    """Paths that could not be examined, or that are a link, a pipe or another repository. Known notes there do not count
    as gone."""
    present: set[str] = field(default_factory=set)
    """The paths of all notes that exist, known or not."""


def mtime_ns(found: os.stat_result) -> int:
    """Return a file's mtime in nanoseconds, limited to the range from -`NS` to `NS`."""
    return max(-NS, min(found.st_mtime_ns, NS))


def seen(path: str, found: os.stat_result) -> FileStat:
    return FileStat(path, found.st_size, mtime_ns(found), found.st_ino, max(found.st_mtime_ns, found.st_ctime_ns))


def differs(row: FileState, met: FileStat) -> bool:
    return row.mtime_ns != met.mtime_ns or row.size != met.size or row.inode != met.inode


def homes(paths: Iterable[str]) -> set[str]:
    """Return all folders that contain one of these files, directly or in subfolders."""
    found: set[str] = set()
    for path in paths:
        folder = path.rpartition("/")[0]
        while folder and folder not in found:
            found.add(folder)
            folder = folder.rpartition("/")[0]
    return found


def below(tops: Collection[str]) -> Callable[[str], bool]:
    """Return a function that tells whether a path is one of `tops`, or below one."""
    exact, prefixes = set(tops), tuple(top + "/" for top in tops)
    return lambda path: path in exact or path.startswith(prefixes)


def check_root(root: Path) -> None:
    """Raise Unavailable if the vault is missing, because otherwise all its notes would count as deleted."""
    if not (root / MARKER).is_file():
        what = "is gone" if not root.is_dir() else f"lacks {MARKER}"
        raise Unavailable(
            f"the vault {root} {what}",
            hint="is its disk mounted? Put the folder back; nothing was taken for deleted",
            data={"path": str(root)},
        )


def walk(
    root: Path,
    known: Mapping[str, FileState],
    excluded: Excluded,
    *,
    paths: Collection[str] | None = None,
    doubted: Collection[str] = (),
) -> WalkResult:
    """Find the files of the folder that differ from `known` ({path: state}); with `paths` examine only these files and
    folders, existing or not.

    `doubted`: paths that count as changed even if their stat is the same. Raises Unavailable if the vault is missing or
    disappears during the walk.
    """
    check_root(root)
    excluded.refresh()
    walker = _Walker(root, known, excluded, set(doubted))
    if paths is None:
        walker.everything()
    else:
        walker.only(paths)
    check_root(root)
    return walker.out


def unseen(found: WalkResult, tree: Iterable[str], known: Collection[str], excluded: Excluded) -> list[str]:
    """Return the paths of HEAD (`tree`) that are notes and are neither in the folder nor in the index (`known`): they
    were deleted while no daemon ran."""
    shields = tuple(path + "/" for path, _ in found.skipped)
    names = {path for path, _ in found.skipped}
    return [
        path for path in tree
        if path not in found.present and path not in known and path not in names
        and is_note_name(path.rpartition("/")[2]) and not path.startswith(shields)
        and not excluded.by_name(path)
    ]  # fmt: skip


def behind(found: WalkResult, tree: Iterable[str], excluded: Excluded) -> set[str]:
    """Return the paths of HEAD (`tree`) that are notes, and at or above which the walk passed something by: they are
    not deleted."""
    shielded = below(found.passed_by)
    return {
        path for path in tree
        if shielded(path) and path not in found.present and is_note_name(path.rpartition("/")[2])
        and not excluded.by_name(path)
    }  # fmt: skip


class _Walker:
    def __init__(self, root: Path, known: Mapping[str, FileState], excluded: Excluded, doubted: set[str]) -> None:
        self.root = root
        self.base = str(root)
        self.known = known
        self.excluded = excluded
        self.doubted = doubted
        self.out = WalkResult()
        self.fresh: dict[str, FileStat] = {}
        self.old: list[str] = []
        self.ways: dict[str, bool] = {}

    def skip(self, path: str, why: str) -> None:
        self.out.skipped.append((path, why))
        self.out.passed_by.append(path)

    def everything(self) -> None:
        self.folders([""])
        self.settle()
        self.excluded.changed = False
        self.missing(self.known)

    # Folders, level by level, so that git is asked once per level about all new folders

    def folders(self, level: list[str]) -> None:
        while level:
            below: list[str] = []
            for folder in level:
                below += self.folder(folder)
            level = self.allowed(below)

    def folder(self, folder: str) -> list[str]:
        """Examine the files of one folder, and return the paths of its subfolders."""
        prefix = folder + "/" if folder else ""
        inner: list[str] = []
        notes: list[os.DirEntry[str]] = []
        ignore: os.stat_result | None = None
        try:
            with os.scandir(self.base + "/" + folder if folder else self.base) as entries:
                for entry in entries:
                    name = entry.name
                    if name.startswith("."):
                        if name == ".git" and folder:
                            self.skip(folder, "a git repository of its own")
                            return []
                        if name == ".gitignore":
                            ignore = entry.stat(follow_symlinks=False)
                    elif entry.is_dir(follow_symlinks=False):
                        inner.append(prefix + name)
                    elif is_note_name(name):
                        notes.append(entry)
                    elif entry.is_symlink():
                        self.skip(prefix + name, "a link; links are not followed")
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as exc:
            if not folder:
                raise Unavailable(f"the vault {self.base} cannot be read: {exc.strerror}",
                                  hint="look at the folder's permissions") from exc  # fmt: skip
            self.skip(folder, f"the folder cannot be read: {exc.strerror}")
            return []
        if ignore is not None and stat.S_ISFIFO(ignore.st_mode):
            self.skip(folder, ".gitignore is a pipe there, for which git would wait for ever")
            return []
        self.excluded.ignore_file(prefix + ".gitignore", ignore)
        for number, entry in enumerate(notes):
            if not number % STRIDE:
                priority.give()
            try:
                self.file(prefix + entry.name, entry.stat(follow_symlinks=False))
            except FileNotFoundError:
                continue
            except OSError as exc:
                self.skip(prefix + entry.name, f"cannot be looked at: {exc.strerror}")
        return inner

    def allowed(self, folders: list[str]) -> list[str]:
        """Return those of `folders` that are to be walked: not templates, and not ignored by git.

        Folders with known notes count as not ignored, because git does not ignore tracked files.
        """
        for folder in folders:
            if not _is_text(folder):
                self.skip(_shown(folder), "the folder's name is not UTF-8")
        named = [folder for folder in folders if _is_text(folder) and not self.excluded.template(folder)]
        ignored = self.excluded.by_git([folder for folder in named if folder not in self.known_folders])
        return [folder for folder in named if folder not in ignored]

    @cached_property
    def known_folders(self) -> set[str]:
        return homes(self.known)

    # Files

    def file(self, path: str, found: os.stat_result) -> None:
        if not stat.S_ISREG(found.st_mode):
            self.skip(path, f"{_what(found.st_mode)}, no regular file")
            return
        row = self.known.get(path)
        if row is None:
            if not _is_text(path):
                self.skip(_shown(path), "the name is not UTF-8")
            elif original := self.excluded.conflicted(path):
                self.skip(path, f"a conflicted copy of {original}: take over what it has more, and delete it")
            elif not self.excluded.template(path):
                self.fresh[path] = seen(path, found)
            return
        path = row.path  # an equal string that is already in memory
        self.out.present.add(path)
        if self.excluded.changed:
            self.old.append(path)
        if (
            row.mtime_ns != mtime_ns(found) or row.size != found.st_size or row.inode != found.st_ino
            or path in self.doubted
        ):  # fmt: skip
            self.out.changed[path] = seen(path, found)

    def settle(self) -> None:
        """Move the new files that git does not ignore to `out.changed`, and then skip the files that are too large.

        If ignore files changed, git is asked about the known files as well; those that it now ignores count as gone.
        """
        ignored = self.excluded.by_git([*self.fresh, *self.old])
        for path, state in self.fresh.items():
            if path not in ignored:
                self.out.present.add(path)
                self.out.changed[path] = state
        for path in ignored.intersection(self.old):
            self.out.present.discard(path)
            self.out.changed.pop(path, None)
        for path in [p for p, state in self.out.changed.items() if state.size > MAX_NOTE_BYTES]:
            size = self.out.changed.pop(path).size
            self.out.skipped.append((path, f"too large: {size:,} bytes, at most {MAX_NOTE_BYTES:,} are read"))

    def missing(self, known: Collection[str]) -> None:
        shielded = below(self.out.passed_by)
        self.out.gone += [path for path in known if path not in self.out.present and not shielded(path)]

    # Some paths only

    def only(self, paths: Collection[str]) -> None:
        wanted = sorted({path.strip("/") for path in paths})
        if "" in wanted:
            self.everything()
            return
        level: list[str] = []
        absent: list[str] = []
        for path in wanted:
            if self.excluded.by_name(path) and path not in self.known:
                continue
            found = self.lstat(path)
            if found is None:
                absent.append(path)
            elif stat.S_ISDIR(found.st_mode):
                level.append(path)
            elif is_note_name(path.rpartition("/")[2]):
                self.file(path, found)
            elif path in self.known_folders:
                self.skip(path, f"{_what(found.st_mode)}, no folder")
        level = self.allowed(level)
        self.folders(level)
        self.settle()
        exact = {path for path in absent if path in self.known}
        tops = tuple(path + "/" for path in [*(path for path in absent if path not in exact), *level])
        gone = set(exact)
        if tops:
            gone |= {path for path in self.known if path.startswith(tops)}
        self.missing(sorted(gone - self.out.present))

    def lstat(self, path: str) -> os.stat_result | None:
        """Return the stat of `path`; None if it does not exist, or one of its folders is a symlink or another
        repository."""
        try:
            return os.lstat(self.base + "/" + path) if self.passable(path.rpartition("/")[0]) else None
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as exc:
            self.skip(path, f"cannot be looked at: {exc.strerror}")
            return None

    def passable(self, folder: str) -> bool:
        """Whether neither `folder` nor a folder above it is a symlink or another repository. Cached for one walk."""
        if not folder:
            return True
        known = self.ways.get(folder)
        if known is None:
            at = self.base + "/" + folder
            known = (
                self.passable(folder.rpartition("/")[0])
                and stat.S_ISDIR(os.lstat(at).st_mode)
                and not os.path.lexists(at + "/.git")
            )
            self.ways[folder] = known
        return known


def _what(mode: int) -> str:
    kinds = {stat.S_IFLNK: "a link", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFDIR: "a folder"}
    return kinds.get(stat.S_IFMT(mode), "a device")


def _shown(path: str) -> str:
    return path.encode("utf-8", "replace").decode()


def _is_text(path: str) -> bool:
    return path.isascii() or not any("\ud800" <= c <= "\udfff" for c in path)
