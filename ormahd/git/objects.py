"""Write git objects (blobs, trees, commits), loose or as one pack, and fsync them.

`git commit` is not used because it refreshes the whole index, runs filters over the content, and by default fsyncs
nothing. A blob here has exactly the bytes that are given. Only the trees on a changed path are read and rewritten. Many
objects at once become one pack (gitformat-pack(5)) without deltas. The pack and its index are written here because
starting `git index-pack` takes longer.
"""

from __future__ import annotations

import hashlib
import io
import os
import secrets
import threading
import zlib
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from ormahd.errors import Conflict
from ormahd.git.process import importing
from ormahd.git.repository import Git
from ormahd.process.disk import Flusher, sync, sync_directory, write_all, write_and_sync

CODES = {"commit": 1, "tree": 2, "blob": 3}
STORED = {"commit": 1024, "tree": 4096}
"""{kind of object: largest size in bytes at which it is stored uncompressed}. Most commits and small trees are."""


def write_pack(git: Git, fresh: Mapping[str, tuple[str, bytes]], flusher: Flusher) -> None:
    """Write the objects `fresh` ({oid: (kind, bytes)}) as one pack with its index, and fsync them."""
    folder = git.git_dir / "objects" / "pack"
    with importing:
        from gitdb.pack import IndexWriter  # slow to import, and needed only for packs

    index = IndexWriter()

    # The pack's bytes, and the index entry of each object: its id, checksum and offset.
    body, *parts = _pack_parts(fresh)
    at = len(body)
    for oid, part in zip(fresh, parts, strict=True):
        index.append(bytes.fromhex(oid), zlib.crc32(part), at)
        at += len(part)
    body += b"".join(parts)
    sha = hashlib.sha1(body, usedforsecurity=False)
    listed = io.BytesIO()
    index.write(sha.digest(), listed.write)

    # Write both files under temporary names, then rename them.
    folder.mkdir(exist_ok=True)
    mark = secrets.token_hex(8)
    files = {
        folder / f"tmp_pack_{mark}": (body + sha.digest(), folder / f"pack-{sha.hexdigest()}.pack"),
        folder / f"tmp_idx_{mark}": (listed.getvalue(), folder / f"pack-{sha.hexdigest()}.idx"),
    }
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        flusher.each(lambda path: write_and_sync(os.open(path, flags, 0o444), files[path][0]), list(files))
        for path, (_, name) in files.items():  # the index last: git finds a pack by its index
            os.rename(path, name)
    finally:
        for path in files:
            path.unlink(missing_ok=True)
    sync_directory(folder)


def _pack_parts(fresh: Mapping[str, tuple[str, bytes]]) -> list[bytes]:
    """Return the bytes of a pack in parts: its header, then one part per object. The checksum at the end is missing."""
    parts = [b"PACK" + (2).to_bytes(4, "big") + len(fresh).to_bytes(4, "big")]
    for kind, data in fresh.values():
        # The object's kind and size: 4 bits of the size in the first byte, 7 in each further one, the lowest first.
        size = len(data)
        first = (CODES[kind] << 4) | (size & 15)
        size >>= 4
        header = bytearray()
        while size:
            header.append(first | 0x80)
            first = size & 0x7F
            size >>= 7
        header.append(first)
        parts.append(bytes(header) + zlib_data(kind, data))
    return parts


def zlib_data(kind: str, data: bytes) -> bytes:
    """Return the bytes of an object of `kind` in zlib format (RFC 1950).

    Small commits and trees (`STORED`) are not compressed, as with git's `core.compression=0`: compressing them would
    take time and save little. A later repack stores them as deltas.
    """
    size = len(data)
    if size > STORED.get(kind, 0):
        return zlib.compress(data, 1)
    # Two bytes of header, one stored block with its length and the length's complement, a checksum.
    lengths = size.to_bytes(2, "little") + (size ^ 0xFFFF).to_bytes(2, "little")
    return b"\x78\x01\x01" + lengths + data + zlib.adler32(data).to_bytes(4, "big")


PACK_FROM = 20
"""The number of objects from which one pack is faster to write than loose files."""
MAX_CACHED_LINES = 40_000
"""The largest number of lines of parsed trees in the cache (7 MB): enough for all trees of a vault of 20,000 notes. A
larger cache would leave the heap fragmented, and parsing a tree again is fast."""

OID_BYTES = 20
FILE, EXECUTABLE, LINK, TREE, GITLINK = b"100644", b"100755", b"120000", b"40000", b"160000"
REGULAR = frozenset({FILE, EXECUTABLE})


class TreeEntry(Struct, frozen=True):
    """One line of a tree: the mode as git writes it, and the object's id in hex."""

    mode: bytes
    oid: str


class Tree:
    """A git tree: one line per name, in git's order.

    Keys and lines are lists of bytes objects, because Python's garbage collector does not visit bytes.
    """

    __slots__ = ("keys", "lines")

    def __init__(self, keys: list[bytes], lines: list[bytes]) -> None:
        """`keys`: for each line the key by which git sorts it: the name, with a slash for a folder. `lines`: mode, name
        and id, in git's format. Both are sorted by key."""
        self.keys = keys
        self.lines = lines

    @classmethod
    def parse(cls, data: bytes) -> Tree:
        """Return the tree whose object has the content `data`."""
        keys, lines = [], []
        at = 0
        while at < len(data):
            space = data.index(b" ", at)
            end = data.index(b"\0", space)
            name = data[space + 1 : end]
            keys.append(name + b"/" if data[at:space] == TREE else name)
            lines.append(data[at : end + 1 + OID_BYTES])
            at = end + 1 + OID_BYTES
        return cls(keys, lines)

    def __len__(self) -> int:
        return len(self.keys)

    def get(self, name: bytes) -> TreeEntry | None:
        """Return the entry of a name; None if the tree does not have it."""
        for key in (name, name + b"/"):
            at = bisect_left(self.keys, key)
            if at < len(self.keys) and self.keys[at] == key:
                line = self.lines[at]
                return TreeEntry(line[: line.index(b" ")], line[-OID_BYTES:].hex())
        return None

    def copy(self) -> Tree:
        """Return a tree with the same entries, which can be changed alone."""
        return Tree(self.keys.copy(), self.lines.copy())

    def put(self, name: bytes, entry: TreeEntry | None) -> None:
        """Set the entry of a name; None removes it. To be called only on a `copy` that is not yet in the cache of
        `Objects`."""
        for key in (name, name + b"/"):
            at = bisect_left(self.keys, key)
            if at < len(self.keys) and self.keys[at] == key:
                del self.keys[at], self.lines[at]
        if entry is not None:
            key = name + b"/" if entry.mode == TREE else name
            at = bisect_left(self.keys, key)
            self.keys.insert(at, key)
            self.lines.insert(at, b"%b %b\0%b" % (entry.mode, name, bytes.fromhex(entry.oid)))

    def data(self) -> bytes:
        """Return the content of the tree's object."""
        return b"".join(self.lines)


class Objects:
    """Reads git trees, builds new git objects in RAM, and writes several new objects to disk together."""

    def __init__(self, git: Git, flusher: Flusher) -> None:
        """`flusher` writes files in parallel."""
        self._git = git
        self._flusher = flusher
        self._trees: OrderedDict[str, Tree] = OrderedDict()
        self._lines = 0
        self._root: tuple[str | None, str] = (None, "")
        """(commit, id of its tree) of the last call of `root_tree` or `add_commit`."""
        self._replaced: list[str] = []
        """Ids of the trees that were edited since the last `drop_replaced`."""
        self._lock = threading.Lock()
        self.directory: Path = git.git_dir / "objects"

    def oid(self, kind: str, data: bytes) -> str:
        """Return the id that git gives an object of this kind with these bytes."""
        return self._git.oid(kind, data)

    # Reading

    def tree(self, oid: str, fresh: Mapping[str, tuple[str, bytes]] | None = None) -> Tree:
        """Return the parsed tree `oid`. `fresh`: {oid: (kind, bytes)} of objects that are not written yet."""
        with self._lock:
            if oid in self._trees:
                self._trees.move_to_end(oid)
                return self._trees[oid]
        data = fresh[oid][1] if fresh and oid in fresh else self._git.read(oid, "tree")
        return self._cache(oid, Tree.parse(data))

    def _cache(self, oid: str, tree: Tree) -> Tree:
        """Put a tree into the cache, and drop the trees used longest ago if it has too many lines. Return the cached
        tree, which another thread may have put there first."""
        with self._lock:
            cached = self._trees.setdefault(oid, tree)
            self._lines += len(tree) if cached is tree else 0
            while self._lines > MAX_CACHED_LINES and len(self._trees) > 1:
                self._lines -= len(self._trees.popitem(last=False)[1])
        return cached

    def drop_replaced(self) -> None:
        """Remove the old versions of edited trees from the cache. Called once the branch has moved to the new
        versions."""
        replaced, self._replaced = self._replaced, []
        with self._lock:
            for oid in replaced:
                tree = self._trees.pop(oid, None)
                self._lines -= len(tree) if tree is not None else 0

    def root_tree(self, commit: str | None, fresh: Mapping[str, tuple[str, bytes]] | None = None) -> str | None:
        """Return the id of the tree of `commit`; None if `commit` is None. `fresh`: objects that are not written
        yet."""
        if commit is None:
            return None
        known, tree = self._root
        if known != commit:
            data = fresh[commit][1] if fresh and commit in fresh else self._git.read(commit, "commit")
            tree = data[5 : data.index(b"\n")].decode()
            self._root = commit, tree
        return tree

    def find_entry(
        self, root: str | None, path: bytes, fresh: Mapping[str, tuple[str, bytes]] | None = None
    ) -> TreeEntry | None:
        """Return the entry of a path (relative to the repository's top) below the tree `root`; None if there is
        none."""
        oid = root
        *folders, name = path.split(b"/")
        for folder in folders:
            entry = None if oid is None else self.tree(oid, fresh).get(folder)
            if entry is None or entry.mode != TREE:
                return None
            oid = entry.oid
        return None if oid is None else self.tree(oid, fresh).get(name)

    def check_passable(self, root: str | None, path: bytes) -> None:
        """Raise Conflict if the tree `root` has a submodule or a symbolic link at `path`, or where `path` needs a
        folder."""
        *folders, _ = names = path.split(b"/")
        oid = root
        for depth, name in enumerate(names):
            entry = None if oid is None else self.tree(oid).get(name)
            if entry is not None and entry.mode in {GITLINK, LINK}:
                what = "submodule" if entry.mode == GITLINK else "link"
                raise Conflict(
                    f"{os.fsdecode(b'/'.join(names[: depth + 1]))} is a {what} in the repository",
                    hint="choose another folder, or remove it from the repository",
                )
            oid = entry.oid if entry is not None and entry.mode == TREE and depth < len(folders) else None

    def file_entry(
        self, root: str | None, path: bytes, fresh: Mapping[str, tuple[str, bytes]] | None = None
    ) -> TreeEntry | None:
        """Return the entry of the regular file at `path` below the tree `root`; None if there is none."""
        entry = self.find_entry(root, path, fresh)
        return None if entry is None or entry.mode in {LINK, TREE, GITLINK} else entry

    def differences(
        self, old: str | None, new: str | None, folder: bytes = b""
    ) -> Iterator[tuple[bytes, TreeEntry | None, TreeEntry | None]]:
        """Yield (path, entry before, entry after) of the files that differ between two trees and the trees below them;
        an entry is None where there is no file. `old`, `new`: ids of the trees; None: an empty tree. `folder`: their
        path, with a slash at its end."""
        before, after = (Tree([], []) if oid is None else self.tree(oid) for oid in (old, new))
        lines = set(before.lines).symmetric_difference(after.lines)
        for name in sorted({line[line.index(b" ") + 1 : line.index(b"\0")] for line in lines}):
            was, now = before.get(name), after.get(name)
            (old_tree, old_file), (new_tree, new_file) = (
                (one.oid, None) if one is not None and one.mode == TREE else (None, one) for one in (was, now)
            )
            if old_file or new_file:
                yield folder + name, old_file, new_file
            if old_tree or new_tree:
                yield from self.differences(old_tree, new_tree, folder + name + b"/")

    def reopen(self) -> None:
        """Forget all cached trees, because the history was replaced."""
        self._root = (None, "")
        with self._lock:
            self._trees.clear()
            self._lines = 0

    # Building: `fresh` collects {oid: (kind, data)}

    def edit(
        self, root: str | None, changes: Mapping[bytes, TreeEntry | None], fresh: dict[str, tuple[str, bytes]]
    ) -> str:
        """Return the id of the tree `root` (None: an empty tree) with `changes` ({path: new entry; None: removed}).

        New trees are added to `fresh`; trees that have no changed path are reused.
        """
        parted = {tuple(path.split(b"/")): entry for path, entry in changes.items()}
        return self._edit(root, parted, fresh) or self._add("tree", b"", fresh)

    def _edit(
        self,
        root: str | None,
        changes: Mapping[tuple[bytes, ...], TreeEntry | None],
        fresh: dict[str, tuple[str, bytes]],
    ) -> str | None:
        """Do what `edit` does, for paths that are split at their slashes and relative to this tree. Return None if the
        tree would be empty."""
        made = self.tree(root, fresh).copy() if root is not None else Tree([], [])
        below: dict[bytes, dict[tuple[bytes, ...], TreeEntry | None]] = {}
        for (name, *rest), entry in changes.items():
            if rest:
                below.setdefault(name, {})[tuple(rest)] = entry
                continue
            old = made.get(name)
            if entry is not None or (old is not None and old.mode != TREE):
                made.put(name, entry)
        for name, inner in below.items():
            old = made.get(name)
            if (old is None or old.mode != TREE) and all(entry is None for entry in inner.values()):
                continue
            oid = self._edit(old.oid if old is not None and old.mode == TREE else None, inner, fresh)
            made.put(name, None if oid is None else TreeEntry(TREE, oid))
        if not len(made):
            return None
        oid = self._add("tree", made.data(), fresh)
        self._cache(oid, made)
        if root is not None and root != oid:
            self._replaced.append(root)
        return oid

    def add_blob(self, data: bytes, fresh: dict[str, tuple[str, bytes]]) -> str:
        """Add a blob to `fresh` and return its id."""
        return self._add("blob", data, fresh)

    def add_commit(
        self,
        tree: str,
        parents: Sequence[str],
        author: str,
        committer: str,
        message: str,
        fresh: dict[str, tuple[str, bytes]],
    ) -> str:
        """Add a commit object to `fresh` and return its id. `author` and `committer`: `Name <mail> seconds +0000`."""
        lines = [
            f"tree {tree}",
            *(f"parent {parent}" for parent in parents),
            f"author {author}",
            f"committer {committer}",
        ]
        text = "\n".join(lines) + "\n\n" + message
        commit = self._add("commit", text.encode("utf-8", "replace"), fresh)
        self._root = commit, tree  # probably the next commit that is asked about
        return commit

    def _add(self, kind: str, data: bytes, fresh: dict[str, tuple[str, bytes]]) -> str:
        """Add an object to `fresh` and return its id."""
        oid = self.oid(kind, data)
        fresh[oid] = (kind, data)
        return oid

    # Writing

    def write(self, fresh: Mapping[str, tuple[str, bytes]]) -> None:
        """Write the objects `fresh` and fsync them: as loose files, or as one pack if there are many."""
        if len(fresh) >= PACK_FROM:
            write_pack(self._git, fresh, self._flusher)
            return
        self._flusher.each(lambda item: self._write_loose(item[0], *item[1]), list(fresh.items()))
        self._flusher.each(sync_directory, [*{self.directory / oid[:2] for oid in fresh}, self.directory])

    def _write_loose(self, oid: str, kind: str, data: bytes) -> None:
        """Write one object as a loose file and fsync it. If the file exists, it is only fsynced."""
        path = self.directory / oid[:2] / oid[2:]
        try:
            # The object exists, perhaps from the person's own `git add`, which does not fsync.
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            temporary = self.directory / f"tmp_obj_{secrets.token_hex(8)}"  # git's prefix: `git gc` deletes leftovers
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444)
            try:
                write_all(fd, zlib_data(kind, f"{kind} {len(data)}\0".encode() + data))
                sync(fd)
                _rename_into(temporary, path)
            finally:
                os.close(fd)
            return
        try:
            sync(fd)
        finally:
            os.close(fd)


def _rename_into(temporary: Path, path: Path) -> None:
    """Rename a file to `path`, creating the folder. Retried, because a concurrent `git gc` deletes empty folders."""
    for attempt in range(20):
        path.parent.mkdir(exist_ok=True)
        try:
            os.rename(temporary, path)
        except FileNotFoundError:
            if attempt == 19:
                raise
        else:
            return
