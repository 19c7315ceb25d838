"""Three-way merge of states of the vault, file by file: for undo and for sync.

Notes are matched by id, whatever their paths, and never by git's rename detection, which could apply a change to
another note that is merely similar. Files without an id are matched by path.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from ormahd.errors import Conflict
from ormahd.git.objects import REGULAR
from ormahd.model.change import sha256
from ormahd.model.lines import is_lines, merge_lines
from ormahd.note.merge import MergeConflict, merge_file
from ormahd.note.read import parse
from ormahd.note.values import claim
from ormahd.vault.transaction import Transaction
from ormahd.vault.vault import Vault


class Version(Struct, frozen=True):
    """A file in one state of the vault: its path, relative to the vault's root, and its bytes."""

    path: str
    data: bytes


class Joined(Struct, frozen=True):
    """The result of a merge of one file. `version`: what the file becomes (None: it is removed). When there are
    `conflicts`, `version` is our file unchanged."""

    version: Version | None
    conflicts: tuple[MergeConflict, ...] = ()
    reasons: tuple[str, ...] = ()
    """For each choice that a rule made between two changes, a sentence for the commit message."""


Pair = tuple[Version | None, Version | None]


def changed(vault: Vault, old: str | None, new: str | None) -> dict[str, Pair]:
    """Return `{key: (old version, new version)}` of the files that differ between two commits (None: the empty state).

    The key is the note's id; or `path:…` for a file without an id, or with the id of another file of the same commit. A
    file that gets an id without moving has one entry, under that id. Symlinks and submodules are left out, because
    Ormah does not write them.
    """
    before: dict[str, Version] = {}
    after: dict[str, Version] = {}
    for path, *entries in vault.differences(old, new):
        for state, entry in zip((before, after), entries, strict=True):
            if entry is not None and entry.mode in REGULAR:
                version = Version(path, vault.blob(entry.oid))
                key = key_of(version)
                state[f"path:{path}" if key in state else key] = version
    for state, other in ((before, after), (after, before)):
        for key, version in list(other.items()):
            nameless = f"path:{version.path}"
            if key not in state and key != nameless and nameless in state and nameless not in other:
                state[key] = state.pop(nameless)
    return {key: (before.get(key), after.get(key)) for key in {**before, **after}}


def key_of(version: Version) -> str:
    """Return the key by which versions of a file are matched: its id, else `path:` and its path."""
    note = parse(version.data, version.path) if version.path.lower().endswith(".md") else None
    node_id = None if note is None else claim(note.kind, note.id)
    return node_id or f"path:{version.path}"


def node_of(key: str) -> str | None:
    """Return the node id in a key of `changed`, or None."""
    return None if key.startswith("path:") else key


def join(base: Version | None, ours: Version | None, theirs: Version | None) -> Joined:
    """Merge the versions of one file: `base` before the change, `ours` here and `theirs` on the other side (None: no
    such file).

    If one side changed nothing, the other's version is taken byte for byte. A file removed on one side and changed on
    the other is a conflict. If both sides moved the file, it stays at our path.
    """
    if theirs in (base, ours):
        return Joined(ours)
    if ours == base:
        return Joined(theirs)
    if any(one is not None and is_lines(one.path) for one in (ours, theirs)):
        return _join_lines(base, ours, theirs)
    if ours is None or theirs is None:
        changed_side = ours or theirs
        assert changed_side is not None
        texts = [None if one is None else one.data.decode("utf-8", "replace") for one in (base, ours, theirs)]
        node = node_of(key_of(changed_side))
        return Joined(ours, (MergeConflict(changed_side.path, node, "note", *texts),))
    merged = merge_file(None if base is None else base.data, ours.data, theirs.data, ours.path)
    if merged.data is None:
        return Joined(ours, merged.conflicts, merged.reasons)
    path = theirs.path if base is not None and ours.path == base.path else ours.path
    return Joined(Version(path, merged.data), (), merged.reasons)


def _join_lines(base: Version | None, ours: Version | None, theirs: Version | None) -> Joined:
    """Merge JSON-lines files as sets of lines. A missing file counts as an empty set."""
    data = merge_lines(*(b"" if one is None else one.data for one in (base, ours, theirs)))
    if not data and (ours is None or theirs is None):
        return Joined(None)
    existing = ours or theirs
    assert existing is not None
    return Joined(Version(existing.path, data))


def write(tx: Transaction, changes: Mapping[str, Pair]) -> bool:
    """Add changes of files to a transaction. `changes`: `{key: (the file now, the file to write)}`. Return False if
    they change nothing.

    Paths may be exchanged, as when two notes swap names. Raises Conflict when two files would get one path.
    """
    now: dict[str, tuple[str | None, Version]] = {}
    wanted: dict[str, tuple[str | None, Version]] = {}
    for key, (current, planned) in changes.items():
        if current != planned:
            if current is not None:
                now[current.path] = (node_of(key), current)
            if planned is not None:
                if planned.path in wanted:
                    raise Conflict(f"two notes would stand at {planned.path}", hint="move one of them, and repeat")
                wanted[planned.path] = (node_of(key), planned)
    for path in {**now, **wanted}:
        expect = sha256(now[path][1].data) if path in now else None
        if path in wanted:
            node, version = wanted[path]
            tx.put(path, version.data, node_id=node, expect=expect)
        else:
            tx.remove(path, node_id=now[path][0], expect=expect)
    return bool(now or wanted)
