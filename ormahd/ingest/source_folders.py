"""Keeps the index up to date with the folders of the person that the configuration names (`[[sources]]`).

Their files are found in place: each section is a row of the index, of kind `source`. Nothing is ever written into such
a folder, and nothing of it is committed. A row's id is made of the file's path and the section's place. A file that was
moved within its folder keeps its ids if its content tells that it is the same.
"""

from __future__ import annotations

import hashlib
import stat
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

import pathspec
from msgspec import Struct

from ormahd.actions.amend import clean
from ormahd.api import SourceListed, SourcesResult
from ormahd.config import load
from ormahd.index.rows import SOURCE_PREFIX, SourceRow
from ormahd.ingest.bring_in import own_folders
from ormahd.ingest.documents.finding import is_hidden, walk_documents
from ormahd.ingest.documents.in_place import read_in_place
from ormahd.ingest.documents.reading import DOCUMENTS, Unreadable, read_bytes
from ormahd.ingest.sources import display_path
from ormahd.model.change import FileState
from ormahd.note.values import Note
from ormahd.ormah import Ormah
from ormahd.process import priority
from ormahd.settings.learning import SourceFolder
from ormahd.state.sources import SourceLog
from ormahd.watch.watcher import FolderWatch, is_rested

SOURCE: Final = "sources"
QUIET: Final = 1.0
"""Seconds between a change in a folder and the scan of the folder."""
BATCH: Final = 200
"""Number of rows that are written into the index at once."""
STOP_SECONDS: Final = 30.0
TEMPLATES: Final = "templates"
"""Name of folders that are left out, in any case."""
EMPTIED: Final = "all its files are gone, as if its disk were not there; what was read of them is still found"
OURS: Final = "it is, holds or lies in a folder of Ormah itself, and is not read"
SILENT: Final = frozenset({"it is empty", "it has no section with text"})
"""Reasons why a file has no section that a person need not know."""
MOVED: Final = "moved"

FileKey = tuple[int, int, int]
"""Size, time of modification and inode of a file."""


class _Source(Struct, frozen=True):
    """A folder of the person, whose files are found in place. `name`: the folder's name; if two sources have the same
    name, it begins with the name of the folder above. `include`, `exclude`: patterns of files, None if there are none.
    """

    folder: Path
    name: str
    space: str | None
    include: pathspec.GitIgnoreSpec | None
    exclude: pathspec.GitIgnoreSpec | None

    @property
    def label(self) -> str:
        """The `source` of its sections."""
        return f"{SOURCE_PREFIX}{self.name}"

    def holds(self, row: SourceRow) -> bool:
        """Return whether a row of the index is from a file in this folder."""
        return row.path.startswith(f"{self.folder}/")


class SourceFolders:
    """Keeps the rows of the sources in the index up to date, in a thread of its own, and lists the sources."""

    def __init__(self, ormah: Ormah) -> None:
        self._ormah = ormah
        self._log = SourceLog(ormah.state)
        self._changing = threading.Lock()
        self._watch: FolderWatch | None = None
        self._sources = _sources_by_folder(ormah.sources)
        self._unwatchable: dict[str, str] = {}
        self._reasons: dict[Path, dict[str, str]] = {}
        """Folder -> path that cannot be read -> the reason, in words."""
        self._scanned: dict[Path, datetime] = {}
        self._empty: dict[Path, FileKey] = {}
        """Files that have no section, so that they are not read in each scan."""
        ormah.renewed = self.read_again

    def start(self) -> None:
        """Read the sources in the background, and watch them."""
        with self._changing:
            self._apply_settings()

    def stop(self, seconds: float) -> bool:
        """Stop the thread. Return False if it still runs after `seconds`."""
        return self._watch is None or self._watch.stop(seconds)

    def read_again(self) -> None:
        """Remove all rows of the sources from the index, and have all files read again, in the background."""
        self._empty = {}
        self._ormah.index.apply({}, [row.path for row in self._ormah.index.source_rows()], head=None)
        if self._watch is not None:
            self._watch.scan_all()

    def answer(self, *, reload: bool) -> SourcesResult:
        """Return the sources, and what is found in each. `reload`: first read the configuration file again, and apply
        its sources.

        Raises BadRequest if the configuration has an error.
        """
        if reload:
            found = load(self._ormah.config.file if self._ormah.config.file.exists() else None).settings.sources
            with self._changing:
                self._ormah.sources = found
                self._apply_settings()

        # `wrong`: path -> why it cannot be read: the folder itself, or files in it.
        rows = self._ormah.index.source_rows()
        listed = []
        for folder, source in self._sources.items():
            files = [row.file for row in rows if source.holds(row)]
            read, missing = self._scanned.get(folder), self._unwatchable.get(str(folder))
            wrong = ({str(folder): missing} if missing else {}) | self._reasons.get(folder, {})
            listed.append(
                SourceListed(
                    name=source.name,
                    path=str(folder),
                    space=source.space,
                    files=len(set(files)),
                    sections=len(files),
                    read=None if read is None else read.isoformat(),
                    troubles={display_path(Path(path)): why for path, why in wrong.items()},
                )
            )
        return SourcesResult(listed)

    def _apply_settings(self) -> None:
        """Remove the rows of folders that are no sources any more, and watch the folders that are."""
        self.stop(STOP_SECONDS)
        self._sources = _sources_by_folder(self._ormah.sources)
        self._unwatchable, self._scanned, self._empty = {}, {}, {}
        own = [place.resolve() for place in own_folders(self._ormah)]
        self._reasons = {}
        for folder in self._sources:
            if any(place == folder or place in folder.parents or folder in place.parents for place in own):
                self._reasons[folder] = {str(folder): OURS}
        watched = [source for folder, source in self._sources.items() if folder not in self._reasons]
        rows = self._ormah.index.source_rows()
        removals = [row.path for row in rows if not any(source.holds(row) for source in watched)]
        if removals:
            self._ormah.index.apply({}, removals, head=None)
        self._watch = FolderWatch("sources", [source.folder for source in watched], self, quiet=QUIET)
        self._record_troubles()
        if watched:
            self._watch.start()

    # ------------------------------------------------------------ the listener

    def wants(self, folder: Path, path: Path, is_folder: bool = False) -> bool:
        """Return whether a file of a source is read, by its path alone. Every folder is walked."""
        if is_folder:
            return True
        relative = path.relative_to(folder)
        source = self._sources[folder]
        return (
            path.name.lower().endswith(DOCUMENTS)
            and not any(is_hidden(part) for part in relative.parts)
            and not any(part.casefold() == TEMPLATES for part in relative.parts[:-1])
            and (source.include is None or source.include.match_file(relative.as_posix()))
            and not (source.exclude is not None and source.exclude.match_file(relative.as_posix()))
        )

    def troubled(self, wrong: dict[str, str]) -> None:
        """Called by `FolderWatch`: record which folders cannot be watched, and why."""
        self._unwatchable = wrong
        self._record_troubles()

    def scan(self, folder: Path) -> float | None:
        """Compare a folder with the index, and read the files that changed. Return after how many seconds to scan again
        if a file is still being written; else None."""
        source = self._sources[folder]

        # What the index has, and what the folder has.
        rows: dict[Path, list[SourceRow]] = {}
        for row in filter(source.holds, self._ormah.index.source_rows()):
            rows.setdefault(Path(row.file), []).append(row)
        present = self._present_files(folder)
        if rows and not present:
            self._reasons[folder] = {str(folder): EMPTIED}
            self._record_troubles()
            return None

        # Files to read: those whose state, space or source differs from what the index has.
        fresh = []
        for file, key in present.items():
            indexed = {((row.size, row.mtime_ns, row.inode), row.space, row.source) for row in rows.get(file, ())}
            if self._empty.get(file) != key and indexed != {(key, source.space, source.label)}:
                fresh.append(file)
        written = [file for file in fresh if not is_rested(present[file][1] / 1e9, QUIET)]
        fresh = [file for file in fresh if file not in written]
        # Deleted files are examined only when no file is being written: that file may be a moved one.
        deleted = [] if written else [file for file in rows if file not in present]
        wrong = self._reasons.get(folder, {})
        wrong = {path: why for path, why in wrong.items() if Path(path) in present and Path(path) not in fresh}
        moved = self._match_moved(deleted, [file for file in fresh if file not in rows], rows)

        # Read the files and update the index in batches. Moved files come first, so that their ids leave the old rows in
        # the same transaction.
        fresh.sort(key=lambda file: file not in moved)
        puts: dict[str, tuple[bytes, FileState]] = {}
        notes: dict[str, Note | None] = {}
        removals = [row.path for file in deleted for row in rows[file]]
        for file in fresh:
            if self._watch is not None and self._watch.stopping:
                return None
            priority.give()
            try:
                if display_path(file) != str(file):
                    raise Unreadable("its name is not UTF-8: rename it")
                digest, found = read_in_place(
                    file,
                    source=source.label,
                    space=source.space,
                    changed=datetime.fromtimestamp(present[file][1] / 1e9, UTC).replace(microsecond=0),
                    origin=self._origin(file),
                    index=self._ormah.index,
                    cleaned=lambda text: clean(self._ormah, text, []) or "",
                )
            except Unreadable as error:
                digest, found = "", {}
                if str(error) not in SILENT:
                    wrong[str(file)] = str(error)
            if not found:
                self._empty[file] = present[file]
            notes |= found
            puts |= {
                path: (note.content.encode("utf-8", "surrogatepass"), FileState(path, *present[file], digest))
                for path, note in found.items()
            }
            removals += [row.path for row in rows.get(file, ()) if row.path not in found]
            if len(puts) + len(removals) > BATCH:
                self._ormah.index.apply(puts, removals, head=None, notes=notes, embed=False)
                puts, notes, removals = {}, {}, []
        if puts or removals:
            self._ormah.index.apply(puts, removals, head=None, notes=notes, embed=False)

        # Record the result for `answer` and `doctor`.
        self._reasons[folder] = wrong
        if not written:
            self._scanned[folder] = self._ormah.moment()
        self._record_troubles()
        return QUIET if written else None

    # ------------------------------------------------------------ files

    def _present_files(self, folder: Path) -> dict[Path, FileKey]:
        """Return {file: its key} for the files of a source that are read. Symbolic links are not followed."""
        found: dict[Path, FileKey] = {}
        for file in filter(partial(self.wants, folder), walk_documents(folder, own_folders(self._ormah))):
            with suppress(OSError):  # it may be deleted meanwhile
                state = file.lstat()
                if stat.S_ISREG(state.st_mode):
                    found[file] = (state.st_size, state.st_mtime_ns, state.st_ino)
        return found

    def _origin(self, file: Path) -> str:
        """Return the path of which the ids of a file's sections are made: the file's own path, or, if the file was
        moved, the path where it was first found. A new file at a path from which another was moved gets ids of its
        own."""
        moved: Mapping[str, str] = self._log.value(SOURCE, MOVED) or {}
        if (known := moved.get(str(file))) is not None:
            return known
        origin = str(file)
        while origin in moved.values():
            origin += "\0"  # no path of a file has this character
        return origin

    def _match_moved(
        self, deleted: Sequence[Path], added: Iterable[Path], rows: Mapping[Path, Sequence[SourceRow]]
    ) -> set[Path]:
        """Record which added files are deleted files under a new path, and return them. A pair has the same content,
        which no other added or deleted file has."""
        if not deleted:
            return set()
        old: dict[str, list[Path]] = {}
        new: dict[str, list[Path]] = {}
        for file in deleted:
            old.setdefault(rows[file][0].digest, []).append(file)
        for file in priority.giving(added):
            try:
                new.setdefault(hashlib.sha256(read_bytes(file)).hexdigest(), []).append(file)
            except Unreadable:
                continue
        pairs = {new[digest][0]: old[digest][0] for digest in new if len(new[digest]) == len(old.get(digest, ())) == 1}
        if pairs:
            origins = {str(now): self._origin(before) for now, before in pairs.items()}
            moved: Mapping[str, str] = self._log.value(SOURCE, MOVED) or {}
            self._log.put(SOURCE, MOVED, {**moved, **origins})
        return set(pairs)

    def _record_troubles(self) -> None:
        """Record for `doctor` which folders cannot be read. Single files are listed only by `ormahctl sources`, because
        many folders have scans among their PDFs."""
        wrong = {str(folder): why for folder, reasons in self._reasons.items() if (why := reasons.get(str(folder)))}
        self._log.troubled(SOURCE, {**wrong, **self._unwatchable})


def _sources_by_folder(listed: Sequence[SourceFolder]) -> dict[Path, _Source]:
    """Return folder -> source, in the order of the configuration."""
    times = Counter(setting.folder.name for setting in listed)
    sources = {}
    for setting in listed:
        folder = setting.folder
        sources[folder] = _Source(
            folder=folder,
            name=folder.name if times[folder.name] == 1 else f"{folder.parent.name}/{folder.name}",
            space=setting.belongs_to,
            include=pathspec.GitIgnoreSpec.from_lines(setting.include) if setting.include else None,
            exclude=pathspec.GitIgnoreSpec.from_lines(setting.exclude) if setting.exclude else None,
        )
    return sources
