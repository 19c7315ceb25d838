"""Files of lines below `.ormah/`, read again where one of them is another than it was: judgements, decisions."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Generic, TypeVar

from ormahd.model.lines import MonthFiles

T = TypeVar("T")

_Stamp = tuple[int, int, int]


class LineFiles(Generic[T]):
    """Safe for many threads. `read_file` gives a file's bytes by its path, relative to `root`, or None."""

    def __init__(self, root: Path, files: MonthFiles[T], read_file: Callable[[str], bytes | None]) -> None:
        self._folder = root / files.folder
        self._kind = files
        self._read = read_file
        self._lock = threading.Lock()
        self._stamps: dict[str, _Stamp] = {}
        self._files: dict[str, dict[str, T]] = {}
        self._bad: dict[str, list[tuple[int, str]]] = {}
        self.version = 0
        """Another number means other lines."""

    def look(self) -> bool:
        """Read what changed since the last look, whoever changed it; False: nothing did. A folder of a year takes some
        30 microseconds to be found unchanged."""
        with self._lock:
            stamps = dict(self._listed())
            if stamps == self._stamps:
                return False
            for path in self._stamps.keys() - stamps.keys():
                self._files.pop(path, None)
                self._bad.pop(path, None)
            for path, stamp in stamps.items():
                if self._stamps.get(path) != stamp:
                    self._files[path], self._bad[path] = self._kind.read(self._read(path) or b"")
            self._stamps = stamps
            self.version += 1
            return True

    def paths(self) -> list[str]:
        """The files, by name: of months, the newest is the last."""
        with self._lock:
            return sorted(self._stamps)

    def all(self) -> list[T]:
        """Every line once; of two with one id the later one."""
        return list(self.by_id().values())

    def by_id(self) -> dict[str, T]:
        found: dict[str, T] = {}
        with self._lock:
            for lines in self._files.values():
                for name, one in lines.items():
                    found[name] = self._kind.later(one, found.get(name))
        return found

    def bad(self) -> list[tuple[str, int, str]]:
        """Lines that hold nothing: (path, number, why)."""
        with self._lock:
            return [(path, number, why) for path, lines in sorted(self._bad.items()) for number, why in lines]

    def _listed(self) -> Iterator[tuple[str, _Stamp]]:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(self._folder) as entries:
            for entry in entries:
                path = f"{self._kind.folder}/{entry.name}"
                if self._kind.ours(path) and entry.is_file(follow_symlinks=False):
                    with contextlib.suppress(FileNotFoundError):
                        met = entry.stat(follow_symlinks=False)
                        yield path, (met.st_mtime_ns, met.st_size, met.st_ino)
