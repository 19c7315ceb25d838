"""Release files: compute what a person's file would be without Ormah, and record that it is released.

A released file is a line in `.ormah/released.jsonl`, and is not adopted again until the person asks for it. This
list is part of the vault and its history, so that it survives a restart or a rebuilt index, and reaches other
machines.

The person's own version is computed from the history alone: every change that a commit of Ormah made to the file is
reversed in today's version, newest first. If the person made no edits in between, this gives exactly the original
bytes; otherwise the person's edits stay.
"""

from __future__ import annotations

import hashlib
import json
import threading
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from msgspec import Struct

from ormahd.git.oplog import LogEntry, LogView
from ormahd.model.change import Kind, Stat, sha256
from ormahd.model.lines import merge_lines
from ormahd.note.merge import merge_file, merge_texts
from ormahd.note.read import parse
from ormahd.note.values import claim
from ormahd.note.write import unadopted
from ormahd.vault.conversion import as_it_stands
from ormahd.vault.create import RELEASED
from ormahd.vault.history import made_by_person
from ormahd.vault.vault import Vault

T = TypeVar("T")


class CachedFile(Generic[T]):
    """Reads and parses one file of the vault, again only when its stat has changed. Safe for many threads."""

    def __init__(self, vault: Vault, path: str, understand: Callable[[bytes], T]) -> None:
        """`understand` parses the file's bytes, called by one thread at a time; a missing file is parsed as b""."""
        self._vault = vault
        self._path = path
        self._understand = understand
        self._lock = threading.Lock()
        self._stat: Stat | None = None
        self._said = understand(b"")

    def said(self) -> T:
        try:
            found = (self._vault.root / self._path).stat()
        except OSError:
            stat = None
        else:
            stat = (found.st_size, found.st_mtime_ns, found.st_ino)
        with self._lock:
            if stat != self._stat:
                self._said = self._understand(self._vault.read(self._path) or b"")
                self._stat = stat
            return self._said


PATH = RELEASED


class Released(Struct, frozen=True):
    """One released file: its path, and the sha256 of its content when it was released, which identifies it after a
    move. `node_id`: the id that it had as a memory."""

    path: str
    sha256: str
    node_id: str | None = None

    @property
    def id(self) -> str:
        """The id of the file's line in the list of released files. It is derived from the path, so that it is the
        same on every machine."""
        return hashlib.sha256(unicodedata.normalize("NFC", self.path).encode("utf-8", "surrogateescape")).hexdigest()[
            :16
        ]

    def line(self) -> bytes:
        row = {"id": self.id, "path": self.path, "sha256": self.sha256, "node": self.node_id}
        return json.dumps(row, ensure_ascii=False).encode("utf-8", "surrogateescape") + b"\n"


def read(data: bytes) -> dict[str, Released]:
    """Parse `data`, the content of the list of released files. Return `{path: released file}`; unreadable lines are
    ignored."""
    found = {}
    for line in data.splitlines():
        row = _row(line)
        path, digest = row.get("path"), row.get("sha256")
        if isinstance(path, str) and isinstance(digest, str):
            node = row.get("node")
            found[path] = Released(path, digest, node if isinstance(node, str) else None)
    return found


def _row(line: bytes) -> Mapping[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return row if isinstance(row, dict) else {}


def with_files(data: bytes, files: Iterable[Released]) -> bytes:
    """Return `data`, the content of the list of released files, with these files added."""
    new = {one.id: one for one in files}
    kept = b"".join(line + b"\n" for line in data.splitlines() if line.strip() and _row(line).get("id") not in new)
    return merge_lines(b"", kept, b"".join(one.line() for one in new.values())) if new else data


def without_files(data: bytes, paths: Collection[str]) -> bytes:
    """Return `data`, the content of the list of released files, without the files at these paths."""
    return b"".join(line + b"\n" for line in data.splitlines() if line.strip() and _row(line).get("path") not in paths)


class ReleasedFiles:
    """Tells which files of one vault are released, by the list `.ormah/released.jsonl`, which is read again when it
    changes. Safe for many threads."""

    def __init__(self, vault: Vault) -> None:
        self._lock = threading.Lock()
        self._paths: set[str] = set()
        self._changed: set[str] = set()
        self._list = CachedFile(vault, PATH, self._understand)

    def _understand(self, data: bytes) -> tuple[Mapping[str, Released], set[str]]:
        """Return (`{path: released file}`, the sha256 of each one's released content). Also record which paths were
        added or removed."""
        files = read(data)
        with self._lock:
            self._changed |= self._paths ^ files.keys()
            self._paths = set(files)
        return files, {one.sha256 for one in files.values()}

    def files(self) -> Mapping[str, Released]:
        """Return `{path: released file}` of all files in the list."""
        return self._list.said()[0]

    def holds(self, path: str, data: bytes) -> bool:
        """Whether a file was released: its path is listed, or it has the content of a listed file (it was moved)."""
        files, digests = self._list.said()
        return bool(files) and (path in files or sha256(data) in digests)

    def take_changed(self) -> set[str]:
        """Return the paths that were added to the list or removed from it since the last call; at the first call,
        all listed paths. The caller must decide anew whether the files at these paths are adopted."""
        self.files()
        with self._lock:
            changed, self._changed = self._changed, set()
            return changed


THEIRS = frozenset({Kind.EDIT, Kind.SYNC, Kind.INIT, Kind.PURGE})
"""Kinds of ops whose changes to a person's file are not reversed: they count as the person's own, or came with
commits that are examined themselves (a sync)."""


class Release(Struct):
    """The planned release of one file.

    `now`: today's bytes. `wanted`: the same without Ormah's lines. `held`: the bytes that the file gets in the
    history; None: the history gets no such file, because git did not know it before its adoption. `kept`: sentences
    on changes of Ormah that could not be reversed.
    """

    path: str
    node_id: str | None
    now: bytes
    wanted: bytes
    held: bytes | None
    kept: list[str]


def plan(vault: Vault, chosen: Collection[str] | None) -> list[Release]:
    """Return a release for each of the person's files at or below the `chosen` paths (None: for all) that would change."""
    tree = vault.tree() if vault.head() is not None else {}
    paths = [path for path in tree if path[-3:].lower() == ".md" and _within(path, chosen)]
    notes = {path: parse(vault.blob(tree[path], path), path) for path in paths}
    ids = {path: claim(note.kind, note.id) for path, note in notes.items()}
    made = made_by_person(vault, ids.items())
    wanted = {node: path for path, node in ids.items() if node is not None and path in made}
    changes = _ours(vault, set(wanted))
    held = _by_hand(vault, made)
    out = []
    for path in sorted(made):
        node = ids[path]
        now = vault.read(path)
        if now is None:
            continue
        data, kept = now, list[str]()
        adopted = False
        for old, new in changes.get(node or "", ()):
            data, adopts = _without(path, node, data, old, new, kept)
            adopted = adopted or adopts
        before = held.get(path)
        if before is not None and claim((note := parse(before, path)).kind, note.id) == node and adopted:
            before = data  # the person committed the file with our lines in it
        if data != now or before != vault.blob(tree[path], path):
            out.append(Release(path, node, now, data, before, kept))
    return out


def _within(path: str, chosen: Collection[str] | None) -> bool:
    return chosen is None or any(path == one or path.startswith(one.rstrip("/") + "/") for one in chosen)


def _ours(vault: Vault, wanted: set[str]) -> dict[str, list[tuple[bytes | None, bytes]]]:
    """Return `{node id: [(before, after), …]}` for the ids in `wanted`: the changes that Ormah's commits made to the
    note's file, newest first."""
    view = vault.oplog.view()
    entries = {entry.commit: entry for entry in view.entries if entry.op is not None and not theirs(view, entry)}
    order = [line for line in vault.git.run("rev-list", "--topo-order", "HEAD").decode().split() if line in entries]
    found: dict[str, list[tuple[bytes | None, bytes]]] = {}
    versions = vault.versions
    for commit, changes in versions.differences(order):
        entry = entries[commit]
        for change in changes:
            if change.new is None or change.path is None:
                continue
            node = versions.node_of(change.new, change.path)
            if entry.files is not None:  # the first of the two commits has the file without our lines
                node = node or (versions.node_of(change.old, change.path) if change.old else None)
            if node not in wanted:
                continue
            if entry.kind == Kind.ADOPT and change.old and versions.node_of(change.old, change.path) == node:
                continue  # an editor saved without our lines, and they were put back: the edit is the person's
            old = None if change.old is None else vault.blob(change.old, change.path)
            found.setdefault(node or "", []).append((old, vault.blob(change.new, change.path)))
    return found


def theirs(view: LogView, entry: LogEntry) -> bool:
    """Whether an op's changes to a person's file count as the person's own. An undo counts like the op that it undoes."""
    if entry.kind != Kind.UNDO:
        return entry.kind in THEIRS
    if entry.files is not None:
        return False
    aims = {*entry.undoes, *(part.op for part in entry.parts)}
    return any(theirs(view, one) for one in view.entries if one.name in aims or one.commit in aims)


def _without(
    path: str, node: str | None, data: bytes, old: bytes | None, new: bytes, kept: list[str]
) -> tuple[bytes, bool]:
    """Return (`data` with the change from `old` to `new` reversed, whether that change gave the file its id). If it
    cannot be reversed, `data` is returned unchanged, and a sentence is added to `kept`."""
    before = unadopted(new, path) if old is None else old
    note = parse(before, path)
    adopts = node is not None and claim(note.kind, note.id) != node
    out = before if data == new else merge_texts(new, data, before)
    if out is not None and adopts and claim((found := parse(out, path)).kind, found.id) == node:
        out = None
    if out is None:
        out = unadopted(data, path) if adopts else merge_file(new, data, before, path).data
        if out is None or (adopts and out == data):
            kept.append("a change of Ormah's stays, because you edited the same lines")
            return data, False
    return (as_it_stands(unadopted(data, path), out) if adopts else out), adopts


def _by_hand(vault: Vault, paths: Collection[str]) -> Mapping[str, bytes]:
    """Return `{path: bytes}`: each file as the newest commit made by hand left it or, if no such commit changed it,
    as it was before Ormah's first commit to it. Files without such a version are left out."""
    view = vault.oplog.view()
    own = {entry.commit for entry in view.entries if entry.op is None and not entry.undoes}
    order = vault.git.run("rev-list", "--topo-order", "HEAD").decode().split()
    found: dict[str, str | None] = {}
    first: dict[str, str | None] = {}
    for commit, change in _changes(vault, order, paths):
        path = change[0]
        if commit in own:
            found.setdefault(path, change[2])
        else:
            first[path] = change[1]  # commits come newest first, so the oldest one wins
    blobs = {path: found[path] if path in found else first.get(path) for path in paths}
    return {path: vault.blob(oid, path) for path, oid in blobs.items() if oid is not None}


def _changes(
    vault: Vault, commits: list[str], paths: Collection[str]
) -> Iterator[tuple[str, tuple[str, str | None, str | None]]]:
    for commit, changes in vault.versions.differences(commits):
        for change in changes:
            if change.place in paths:
                yield commit, (change.place, change.old, change.new)
