"""The judgements of a vault as one matrix of vectors, sorted by memory, to be compared with the vector of a prompt.

`LineFiles` reads month files of JSON lines below `.ormah/`, and reads a file again when it has changed.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import logging
import os
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from ormahd.model.judgement import Int8Vector, Judgement
from ormahd.model.lines import Identified, MonthFiles
from ormahd.process import own_files

T = TypeVar("T", bound=Identified)

_Stamp = tuple[int, int, int]


class LineFiles(Generic[T]):
    """Reads and keeps the parsed lines of all month files of one kind, such as judgements. Thread-safe.

    `read_file` takes a path relative to `root`, and returns the file's bytes or None.
    """

    def __init__(self, root: Path, files: MonthFiles[T], read_file: Callable[[str], bytes | None]) -> None:
        self._folder = root / files.folder
        self._format = files
        self._read = read_file
        self._lock = threading.Lock()
        self._stamps: dict[str, _Stamp] = {}  # path -> (mtime, size, inode) when it was read
        self._files: dict[str, dict[str, T]] = {}
        self._bad: dict[str, list[tuple[int, str]]] = {}
        self.version = 0
        """A counter that rises when the lines may have changed."""

    def refresh(self) -> bool:
        """Read the files that changed since the last call. Return whether any did."""
        with self._lock:
            stamps = dict(self._file_stamps())
            if stamps == self._stamps:
                return False
            for path in self._stamps.keys() - stamps.keys():
                self._files.pop(path, None)
                self._bad.pop(path, None)
            for path, stamp in stamps.items():
                if self._stamps.get(path) != stamp:
                    self._files[path], self._bad[path] = self._format.read(self._read(path) or b"")
            self._stamps = stamps
            self.version += 1
            return True

    def paths(self) -> list[str]:
        """Return the paths of the files, sorted: the newest month is last."""
        with self._lock:
            return sorted(self._stamps)

    def all(self) -> list[T]:
        """Return every line once. If two lines have the same id, the later one counts."""
        return list(self.by_id().values())

    def by_id(self) -> dict[str, T]:
        """Return {id: line} over all files. If two lines have the same id, the later one counts."""
        found: dict[str, T] = {}
        with self._lock:
            for lines in self._files.values():
                for line_id, line in lines.items():
                    found[line_id] = self._format.later(line, found.get(line_id))
        return found

    def bad(self) -> list[tuple[str, int, str]]:
        """Return the lines that could not be read: (path, line number, reason)."""
        with self._lock:
            return [(path, number, why) for path, lines in sorted(self._bad.items()) for number, why in lines]

    def _file_stamps(self) -> Iterator[tuple[str, _Stamp]]:
        """Yield (path relative to the root, (mtime, size, inode)) of each month file in the folder."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(self._folder) as entries:
            for entry in entries:
                path = f"{self._format.folder}/{entry.name}"
                if self._format.ours(path) and entry.is_file(follow_symlinks=False):
                    with contextlib.suppress(FileNotFoundError):
                        found = entry.stat(follow_symlinks=False)
                        yield path, (found.st_mtime_ns, found.st_size, found.st_ino)


Float = NDArray[np.float32]

log = logging.getLogger("ormah")

_LENGTH = 32
"""Number of hexadecimal digits of a keyed hash: 128 bits."""


class Judgements(Struct, frozen=True, dict=True):
    """Judgements whose vectors are of one model, as arrays: row i of each array is judgement `rows[i]`. Sorted by
    memory. Immutable.

    `matrix`: float32[n, dimensions], the prompts' vectors, of length 1. `signals`: float32[n]. `implicit`: bool[n].
    `times`: float64[n], seconds since 1970. `spans`: memory's id -> its rows. `idle`: judgements with vectors of
    another model, which cannot be compared.
    """

    rows: tuple[Judgement, ...] = ()
    matrix: Float = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    signals: Float = field(default_factory=lambda: np.zeros(0, np.float32))
    implicit: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    times: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0, np.float64))
    spans: Mapping[str, slice] = field(default_factory=dict)
    idle: tuple[Judgement, ...] = ()

    def __len__(self) -> int:
        """Return the number of judgements that can be compared."""
        return len(self.rows)

    @classmethod
    def of(
        cls, judgements: Iterable[Judgement], model: str | None, *, anew: Mapping[str, Int8Vector] | None = None
    ) -> Judgements:
        """Return the judgements as a matrix. Those whose vectors cannot be compared with vectors of `model` become
        `idle`.

        A judgement can be compared if its vector was made with that model, or if its prompt was embedded again. `anew`:
        id of a judgement's line -> the new vector of its prompt.
        """
        rows: list[tuple[Judgement, bytes]] = []
        idle: list[Judgement] = []
        for row in sorted(judgements, key=lambda row: (row.node_id, row.id)):
            small = row.vector if row.model == model else (anew or {}).get(row.id)
            if small is None:
                idle.append(row)
            else:
                rows.append((row, small.steps))
        # all vectors of one model have the same length; a line with another length is not that model's
        lengths = Counter(len(steps) for _, steps in rows)
        usual = lengths.most_common(1)[0][0] if lengths else 0
        if len(lengths) > 1:
            idle += [row for row, steps in rows if len(steps) != usual]
            rows = [(row, steps) for row, steps in rows if len(steps) == usual]
        if not rows:
            return cls(idle=tuple(idle))
        spans: dict[str, slice] = {}
        compared = tuple(row for row, _ in rows)
        for place, row in enumerate(compared):
            spans[row.node_id] = slice(spans[row.node_id].start if row.node_id in spans else place, place + 1)

        # Scale each row to length 1; a row of zeros stays zero.
        steps = np.frombuffer(b"".join(steps for _, steps in rows), np.byte).reshape(len(rows), usual)
        matrix = steps.astype(np.float32)
        lengths = np.sqrt(np.einsum("ij,ij->i", matrix, matrix))
        return cls(
            rows=compared,
            matrix=np.asarray(matrix / np.maximum(lengths, 1e-12)[:, None], np.float32),
            signals=np.array([row.signal for row in compared], np.float32),
            implicit=np.array([row.source == "implicit" for row in compared], np.bool_),
            times=np.array([row.confirmed_at.timestamp() for row in compared], np.float64),
            spans=spans,
            idle=tuple(idle),
        )

    @cached_property
    def explicit(self) -> Mapping[str, Sequence[Judgement]]:
        """{hash of a prompt: the explicit judgements for it}, idle ones included."""
        found: dict[str, list[Judgement]] = {}
        for row in (*self.rows, *self.idle):
            if row.source == "explicit":
                found.setdefault(row.prompt_hash, []).append(row)
        return found

    @cached_property
    def counts(self) -> tuple[int, int]:
        """(number of judgements for a memory, number of those against one), idle ones included."""
        signals = [row.signal for row in (*self.rows, *self.idle)]
        return signals.count(1), signals.count(-1)


class KeyedHashes:
    """Makes keyed hashes of texts that must not be readable in the vault.

    The key belongs to this machine and is stored in the state directory. With a key in the vault, anyone with a copy of
    the vault could test prompts against the hashes. So two machines hash one prompt differently. If the key is lost, a
    new one is made; older prompts are then recognised by their vectors only.
    """

    def __init__(self, directory: Path) -> None:
        self._file = directory / "feedback.key"
        self._lock = threading.Lock()
        self._key: bytes | None = None

    def hash(self, text: str) -> str:
        """Return the keyed hash of a text: 32 hexadecimal digits."""
        with self._lock:
            if self._key is None:
                self._key = self._read() or self._make_key()
        return hmac.new(self._key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:_LENGTH]

    def prompt(self, text: str) -> str:
        """Return the hash of a prompt in the form in which the whisper log stores it. Equal texts have equal hashes."""
        return self.hash(f"prompt\n{text}")

    def _read(self) -> bytes | None:
        """Return the stored key; None if it is missing or incomplete (after a crash, or on a full disk)."""
        try:
            key = own_files.read(self._file)
        except OSError:
            return None
        return key if len(key) >= _LENGTH else None

    def _make_key(self) -> bytes:
        """Return a new key, which is stored. If it cannot be written, it is used until this process ends."""
        key = secrets.token_bytes(_LENGTH)
        new = self._file.with_name(f"{self._file.name}.new")
        try:
            own_files.remove(new)
            fd = os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "wb") as opened:
                opened.write(key)
            new.replace(self._file)
        except OSError as exc:
            log.warning("the key of what is hashed is not kept: %s", exc)
        return self._read() or key
