"""The person's index with a few entries of ours in it: spliced into its bytes, and all the rest copied as it is.

`git update-index` parses, hashes and writes every entry for the sake of a few: 7 ms of processor at 10,000 entries. Here a path
is found by binary search, and what lies between our entries is copied in one go. The format is that of gitformat-index(5).
Whatever is not plainly known is not judged here: the answer is None, and git has to do it.

Who puts the new bytes in place gives the file the time of the old one (`os.utime`). Git distrusts an entry that is not older
than the file of its index, and compares content: under a newer time it would take what it knew of such an entry for the truth,
and miss an edit of the same second. When git itself writes an index it looks into these files instead.
"""

from __future__ import annotations

import hashlib
import mmap
import struct
from bisect import bisect_left
from collections.abc import Callable, Mapping
from itertools import islice
from operator import lt

import numpy as np
from numpy.typing import NDArray

from ormahd.vault.git_objects import EXECUTABLE, FILE, GITLINK, LINK, Entry

HEADER, CHECKSUM = 12, 20
"""Bytes before the entries, and after all."""
MODE, OID, FLAGS, NAME = 24, 40, 60, 62
"""Where they begin in an entry. The name of an extended one begins two bytes later."""
SHORTEST = 64
"""Bytes of an entry at least."""
LONG = 0xFFF
"""The length that stands for itself and for all longer ones."""
EXTENDED = 0x40
"""In the first byte of the flags; the stage is in the next two bits, and the length begins in the last four."""
KNOWN_EXTENDED = 0x6000
"""What an extended entry may say: skip-worktree and intent-to-add."""
CACHES = frozenset({b"TREE", b"EOIE", b"IEOT"})
"""Extensions that only save git time. They would be wrong afterwards, so they are left out."""
MODES = frozenset({FILE, EXECUTABLE, LINK, GITLINK})
NOT_ASCII = bytes(range(0x80, 0x100))
"""What is left out of a name before it is compared with `.git`: HFS+ overlooks some characters."""

Index = bytes | mmap.mmap
"""Either, so that the 14 MB of a large vault's need not come from the heap."""
Parts = list[bytes | memoryview]
"""A new index, to be written one after the other; what is copied of the old one is not copied here."""
Offsets = NDArray[np.int64]
"""Where each entry begins, in their order, and last where they end."""
Edit = tuple[int, bool, bytes]
"""Before which entry (by number), whether in its place, and what is put there."""


class Splicer:
    """Knows where the entries begin in the index that it made last. One caller at a time."""

    def __init__(self) -> None:
        self._known: tuple[int, bytes] | None = None
        """Length and checksum of the index whose entries begin at `_offsets`."""
        self._offsets: Offsets = np.empty(0, np.int64)
        self._file: object = None

    def made(self, file: object) -> None:
        """What was spliced last is in its place, as the file that is told from others by `file`."""
        self._file = file

    def look(self, file: object) -> None:
        """Another file stands there now, where it is told by something else: it must be read, though its end is the same."""
        if file != self._file:
            self._known = None

    def splice(self, index: Index, wanted: Mapping[bytes, Entry | None]) -> Parts | None:
        """The index with exactly these paths set, as `git update-index --index-info` does it, or removed (None), in parts that are good as
        long as `index` is; none, where nothing changes. None where this is not ours to judge, and git itself must do it. An index with
        the length and the checksum of the one made last is taken for that, unread."""
        made: dict[bytes, bytes | None] = {}
        for path, entry in sorted(wanted.items()):
            if not _plain(path):
                return None
            made[path] = new = None if entry is None else _entry(path, entry)
            if entry is not None and new is None:
                return None
        known = (len(index), index[-CHECKSUM:])
        if self._known != known:
            offsets = _walk(index)
            if offsets is None:
                return None
            self._known, self._offsets = known, offsets
        edits = _edits(index, self._offsets, made)
        if not edits:
            return [] if edits is not None else None
        parts, self._offsets = _spliced(index, self._offsets, edits)
        checksum = hashlib.sha1(usedforsecurity=False)
        for part in parts:
            checksum.update(part)
        parts.append(checksum.digest())
        self._known = (sum(map(len, parts)), checksum.digest())
        return parts


def _plain(path: bytes) -> bool:
    """Whether git takes such a path everywhere. What some file system may take for a `.git` is left to git to judge."""
    if len(path) >= LONG or b"\0" in path or b"\\" in path:
        return False
    if path.isascii() and not any(part in b"/" + path.lower() for part in (b"//", b"/.", b"/git~")):
        return path[-1:] not in {b"", b"/"}  # nearly all
    for name in path.split(b"/"):
        if name in {b"", b".", b".."} or name.lower().translate(None, NOT_ASCII).startswith((b".git", b"git~")):
            return False
    return True


def _entry(path: bytes, entry: Entry) -> bytes | None:
    """An entry as git makes it of a line of `--index-info`: at stage 0, with nothing known of the file."""
    try:
        oid = bytes.fromhex(entry.oid)
    except ValueError:
        return None
    if entry.mode not in MODES or len(oid) != CHECKSUM or len(entry.oid) != 2 * CHECKSUM or not any(oid):
        return None
    new = struct.pack(">24xI12x20sH", int(entry.mode, 8), oid, len(path)) + path
    return new + bytes(8 - len(new) % 8)


def _walk(index: Index) -> Offsets | None:
    """Where the entries are in an index that is whole, and has nothing in it that we do not know."""
    limit = len(index) - CHECKSUM
    if limit < HEADER or index[:4] != b"DIRC":
        return None
    version, count = struct.unpack_from(">II", index, 4)
    if version not in {2, 3} or count * SHORTEST > limit - HEADER:
        return None
    # Neither zeros (index.skipHash) nor SHA-256 stand this.
    if hashlib.sha1(memoryview(index)[:limit], usedforsecurity=False).digest() != index[limit:]:
        return None
    offsets: list[int] = []
    ends: list[int] = []
    keys: list[bytes] = []
    at, staged = HEADER, 0
    try:
        for _ in range(count):
            offsets.append(at)
            high = index[at + FLAGS]
            if high & 0x7F < 15:  # stage 0, not extended and not long: nearly all
                end = at + NAME + (high << 8 & 0xF00 | index[at + FLAGS + 1])
                keys.append(index[at + NAME : end])
            else:
                name = _name(index, at, limit)
                end, key = name.stop, index[name]
                if not _known(index, at, version):
                    return None
                if stage := high >> 4 & 3:
                    staged += 1
                    key += bytes((0, stage))  # comes after the name alone, and before all longer ones
                keys.append(key)
            ends.append(end)
            at += (end - at + 8) & ~7
    except IndexError:
        return None
    offsets.append(at)
    if at > limit or not _only_caches(index, at, limit):
        return None
    # No name is empty, none is out of order, and none has a zero in it.
    if keys and (keys[0][:1] in {b"", b"\0"} or not all(map(lt, keys, islice(keys, 1, None)))):
        return None
    if b"".join(keys).count(0) != staged:
        return None
    places = np.array(offsets, np.int64)
    return places if _regular(index, places, np.array(ends, np.int64)) else None


def _name(index: Index, at: int, limit: int) -> slice:
    """Where the name is of the entry at `at`; beyond `limit` if its end is not found."""
    high = index[at + FLAGS]
    start = at + NAME + (2 if high & EXTENDED else 0)
    length = high << 8 & 0xF00 | index[at + FLAGS + 1]
    if length == LONG:
        end = index.find(b"\0", start + LONG, limit)
        return slice(start, end if end >= 0 else limit + 1)
    return slice(start, start + length)


def _known(index: Index, at: int, version: int) -> bool:
    """Whether an entry is not extended, or says only what we know."""
    more = int.from_bytes(index[at + NAME : at + NAME + 2])
    return not index[at + FLAGS] & EXTENDED or (version == 3 and not more & ~KNOWN_EXTENDED)


def _only_caches(index: Index, at: int, limit: int) -> bool:
    while at < limit:
        if index[at : at + 4] not in CACHES:
            return False
        at += 8 + int.from_bytes(index[at + 4 : at + 8])
    return at == limit


def _regular(index: Index, offsets: Offsets, ends: Offsets) -> bool:
    """Whether all modes are such as we know (a folder of a sparse index is none), and only zeros follow each name."""
    modes = np.frombuffer(index, ">u4", count=len(index) // 4)[(offsets[:-1] + MODE) // 4]
    if not np.isin(modes, [int(mode, 8) for mode in MODES]).all():
        return False
    data = np.frombuffer(index, np.uint8)
    return not any(data[(ends + k)[ends + k < offsets[1:]]].any() for k in range(8))


def _edits(index: Index, offsets: Offsets, made: Mapping[bytes, bytes | None]) -> list[Edit] | None:
    """What has to be done, in the order of the entries. None where git would have more to do than that."""
    entries = range(len(offsets) - 1)

    def name(number: int) -> bytes:
        return index[_name(index, offsets.item(number), len(index))]

    def is_at(number: int, path: bytes) -> bool:
        return number < len(entries) and name(number) == path

    edits: list[Edit] = []
    clear: set[bytes] = set()
    number = 0
    for path, new in made.items():
        number = bisect_left(entries, path, lo=number, key=name)
        found = is_at(number, path)
        at = offsets.item(number)
        if found and (index[at + FLAGS] & 0x30 or is_at(number + 1, path)):
            return None  # a conflict of a merge, or what is left of one
        if new is None:
            if found:
                edits.append((number, True, b""))
            continue
        if _below(path, entries, name, number + found):
            return None
        cut = path.rfind(b"/")
        while cut > 0 and path[:cut] not in clear:
            folder = path[:cut]
            if made.get(folder) is not None or is_at(bisect_left(entries, folder, hi=number, key=name), folder):
                return None
            clear.add(folder)
            cut = path.rfind(b"/", 0, cut)
        if not found or not _same(index, at, new):
            edits.append((number, found, new))
    return edits


def _below(path: bytes, entries: range, name: Callable[[int], bytes], number: int) -> bool:
    """Whether there is an entry in a folder `path`; the first one after `path` is `number`."""
    folder = path + b"/"
    if number < len(entries) and name(number) < folder:  # `a.b` comes between `a` and `a/b`
        number = bisect_left(entries, folder, lo=number, key=name)
    return number < len(entries) and name(number).startswith(folder)


def _same(index: Index, at: int, new: bytes) -> bool:
    """Whether git reads of the entry at `at` what it would of a new one. It may know the file besides, but says nothing of its own
    about it: what is marked as unchanged, or as not added yet, is replaced as git does it."""
    return not index[at + FLAGS] & 0xF0 and all(
        index[at + start : at + end] == new[start:end] for start, end in ((MODE, MODE + 4), (OID, FLAGS))
    )


def _spliced(index: Index, offsets: Offsets, edits: list[Edit]) -> tuple[Parts, Offsets]:
    """The new index without its checksum, and where its entries begin."""
    view = memoryview(index)
    count = len(offsets) - 1 + sum(bool(new) - replaced for _, replaced, new in edits)
    parts: Parts = [index[:8] + struct.pack(">I", count)]
    places: list[Offsets] = []
    done, moved = 0, 0
    for number, replaced, new in edits:
        at, after = offsets.item(number), offsets.item(number + replaced)
        parts += view[offsets.item(done) : at], new
        places.append(offsets[done:number] + moved)
        if new:
            places.append(np.array([at + moved], np.int64))
        moved += len(new) - (after - at)
        done = number + replaced
    parts.append(view[offsets.item(done) : offsets.item(-1)])
    places.append(offsets[done:] + moved)
    return parts, np.concatenate(places)
