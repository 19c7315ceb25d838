"""Walk the vault and list the files whose `stat` differs from the known one."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from ormahd.errors import Unavailable
from ormahd.model.change import FileState, finding
from ormahd.process import priority
from ormahd.vault.excluded import Excluded, is_note_name
from ormahd.watch.reading import NS, FileStat

MAX_NOTE_BYTES = 10_000_000
"""Largest file that is read. A memory holds 1,000,000 characters, so a larger file is no note."""
STRIDE = 64
"""The number of files of a folder that are examined between two calls of `priority.give`."""
MARKER = ".ormah/vault.toml"
"""If this file is missing, the vault counts as missing: the mount point of an unmounted disk is an empty folder."""
MEND_UNREADABLE = "make it readable, or move it out of the vault"
MEND_REPOSITORY = "move it out of the vault; `ormahctl sources add` finds its notes there"
NO_MEND = "nothing need be done"
MEND_LINK = f"{NO_MEND}; a note is read where it lies itself in the vault"
MEND_NAME = "rename it; `convmv -f latin1 -t utf-8` does many"


class WalkResult(Struct):
    """The result of a walk. Paths are posix and relative to the vault's root. "Known" means known to the index."""

    changed: dict[str, FileStat] = field(default_factory=dict)
    """New files and those whose stat differs from what is known."""
    present: set[str] = field(default_factory=set)
    """The paths of all notes that exist, known or not."""
    skipped: dict[str, dict[str, Any]] = field(default_factory=dict)
    """{path: finding for `doctor`} of what was not read as a note: too large, unreadable, a link, a pipe, another
    repository."""

    def skip(self, path: str, level: str, what: str, mend: str) -> None:
        """Record that the file or folder at `path` is not read, with what `doctor` says about it (see `finding`)."""
        self.skipped[path] = finding(path, level, what, mend)

    def absent(self, paths: Iterable[str]) -> list[str]:
        """Return the paths in `paths` that do not exist any more, or are excluded now. A path at or below a skipped one
        does not count as absent."""
        skipped = below(self.skipped)
        return [path for path in paths if path not in self.present and not skipped(path)]


def folders_of(paths: Iterable[str]) -> set[str]:
    """Return all folders that contain one of the files `paths`, directly or in a subfolder."""
    found: set[str] = set()
    for path in paths:
        folder = path.rpartition("/")[0]
        while folder and folder not in found:
            found.add(folder)
            folder = folder.rpartition("/")[0]
    return found


def below(tops: Collection[str]) -> Callable[[str], bool]:
    """Return a function that tells whether a path is in `tops`, or below a path in `tops`."""
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


def walk(root: Path, known: Mapping[str, FileState], excluded: Excluded, *, since: int | None = None) -> WalkResult:
    """Find the files of the folder that differ from `known` ({path: state}).

    `since`: an mtime in nanoseconds; files that are not older count as changed even if their stat is the same. Raises
    Unavailable if the vault is missing or disappears during the walk.
    """
    check_root(root)
    excluded.refresh()
    walker = _Walker(str(root), known, excluded, NS if since is None else since)
    # level by level, so that git is asked once per level about all new folders
    level = [""]
    while level:
        level = walker.without_ignored([inner for folder in level for inner in walker.examine_folder(folder)])
    walker.complete_result()
    check_root(root)
    return walker.result


class _Walker:
    """The state of one walk. `since`: see `walk`. `result`: the result so far."""

    def __init__(self, root: str, known: Mapping[str, FileState], excluded: Excluded, since: int) -> None:
        self.root = root
        self.known = known
        self.known_folders = folders_of(known)
        self.excluded = excluded
        self.since = since
        self.result = WalkResult()
        self.unknown: dict[str, FileStat] = {}
        """Files that are not known: git is to be asked whether it ignores them."""

    def examine_folder(self, folder: str) -> list[str]:
        """Examine one folder: put its notes into `result` and `unknown`, and return the paths of its subfolders.

        Returns no subfolders if the folder is not to be walked, such as another git repository. Raises Unavailable if
        the vault's root cannot be read.
        """
        # List the folder: its subfolders, the files that may be notes, and its ignore file.
        prefix = folder + "/" if folder else ""
        inner: list[str] = []
        notes: list[os.DirEntry[str]] = []
        ignore: os.stat_result | None = None
        try:
            with os.scandir(self.root + "/" + folder if folder else self.root) as entries:
                for entry in entries:
                    name = entry.name
                    if name.startswith("."):
                        if name == ".git" and folder:
                            self.result.skip(folder, "warning", "a git repository of its own", MEND_REPOSITORY)
                            return []
                        if name == ".gitignore":
                            ignore = entry.stat(follow_symlinks=False)
                    elif entry.is_dir(follow_symlinks=False):
                        inner.append(prefix + name)
                    elif is_note_name(name):
                        notes.append(entry)
                    elif entry.is_symlink():
                        self.result.skip(prefix + name, "info", "a link; links are not followed", MEND_LINK)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as exc:
            if not folder:
                hint = "look at the folder's permissions"
                raise Unavailable(f"the vault {self.root} cannot be read: {exc.strerror}", hint=hint) from exc
            self.result.skip(folder, "warning", f"the folder cannot be read: {exc.strerror}", MEND_UNREADABLE)
            return []

        # Git reads the ignore file when it is asked about the notes.
        if ignore is not None and stat.S_ISFIFO(ignore.st_mode):
            what = ".gitignore is a pipe there, for which git would wait for ever"
            self.result.skip(folder, "warning", what, "put a regular file there, or remove it")
            return []
        self.excluded.record_ignore_file(prefix + ".gitignore", ignore)

        for number, entry in enumerate(notes):
            if number % STRIDE == 0:
                priority.give()  # let a waiting request run first
            try:
                self.examine_file(prefix + entry.name, entry.stat(follow_symlinks=False))
            except FileNotFoundError:
                continue
            except OSError as exc:
                what = f"cannot be looked at: {exc.strerror}"
                self.result.skip(prefix + entry.name, "warning", what, MEND_UNREADABLE)
        return inner

    def without_ignored(self, folders: list[str]) -> list[str]:
        """Return the folders in `folders` that are to be walked: no templates, and none that git ignores.

        Folders with known notes count as not ignored, because git does not ignore tracked files.
        """
        named = []
        for folder in folders:
            if _utf8(folder) != folder:
                self.result.skip(_utf8(folder), "warning", "the folder's name is not UTF-8", MEND_NAME)
            elif not self.excluded.is_template(folder):
                named.append(folder)
        ignored = self.excluded.ignored_by_git([folder for folder in named if folder not in self.known_folders])
        return [folder for folder in named if folder not in ignored]

    def examine_file(self, path: str, found: os.stat_result) -> None:
        """Put the file at `path`, whose stat is `found`, where it belongs: into `result.skipped`; or into `unknown` if it is
        not known; or into `result.present`, and also into `result.changed` if its stat differs."""
        if not stat.S_ISREG(found.st_mode):
            kinds = {stat.S_IFLNK: "a link", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
            what = f"{kinds.get(stat.S_IFMT(found.st_mode), 'a device')}, no regular file"
            self.result.skip(path, "info", what, MEND_LINK if stat.S_ISLNK(found.st_mode) else NO_MEND)
            return
        row = self.known.get(path)
        if row is None:
            if _utf8(path) != path:
                self.result.skip(_utf8(path), "warning", "the name is not UTF-8", MEND_NAME)
            elif original := self.excluded.original_of_copy(path):
                mend = "take over what it has more, and delete it"
                self.result.skip(path, "warning", f"a conflicted copy of {original}", mend)
            elif not self.excluded.is_template(path):
                self.unknown[path] = FileStat.of(path, found)
            return
        path = row.path  # an equal string that is already in memory
        self.result.present.add(path)
        mtime = max(-NS, min(found.st_mtime_ns, NS))
        if row.mtime_ns != mtime or row.size != found.st_size or row.inode != found.st_ino or mtime >= self.since:
            self.result.changed[path] = FileStat.of(path, found)

    def complete_result(self) -> None:
        """Complete `result`: add the new files that git does not ignore, and skip the files that are too large.

        If ignore files changed, git is asked about the known files as well; those that it now ignores count as absent.
        """
        old = [*self.result.present] if self.excluded.changed else []
        ignored = self.excluded.ignored_by_git([*self.unknown, *old])
        self.excluded.changed = False
        for path, state in self.unknown.items():
            if path not in ignored:
                self.result.present.add(path)
                self.result.changed[path] = state
        for path in ignored.intersection(old):
            self.result.present.discard(path)
            self.result.changed.pop(path, None)
        for path in [path for path, state in self.result.changed.items() if state.size > MAX_NOTE_BYTES]:
            what = f"too large: {self.result.changed.pop(path).size:,} bytes, at most {MAX_NOTE_BYTES:,} are read"
            self.result.skip(path, "warning", what, "divide it")


def _utf8(path: str) -> str:
    """Return `path` with each byte that is not UTF-8 replaced. It equals `path` if there is none."""
    return path.encode("utf-8", "replace").decode()
