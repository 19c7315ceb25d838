"""Computes, from the history alone, what a person's files would be without Ormah: with all of the person's edits.

Every change that a commit of Ormah made to a file is reversed in today's version, newest first. Without edits by the
person in between, this gives exactly the original bytes; otherwise the person's edits stay.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from msgspec import Struct

from ormahd.git.oplog import Entry, View
from ormahd.model.change import Kind
from ormahd.note.merge import merge_file, merge_texts
from ormahd.note.note import parse, unadopted
from ormahd.note.values import claim
from ormahd.vault.conversion import as_it_stands
from ormahd.vault.origin import made_by_person
from ormahd.vault.vault import Vault

THEIRS = frozenset({Kind.EDIT, Kind.SYNC, Kind.INIT, Kind.PURGE})
"""Kinds of ops whose changes to a person's file count as the person's, or came with commits of their own."""


class Release(Struct):
    """The release of one file. `now`: today's bytes; `wanted`: those without Ormah's lines; `held`: what the history
    gets (None: no file, because git did not know it before the adoption). `kept`: sentences on changes of Ormah that
    could not be reversed."""

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
    """Return `{memory: [(before, after), …]}`: the changes that Ormah's commits made to its file, newest first."""
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


def theirs(view: View, entry: Entry) -> bool:
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
    """Return (`data` with the change from `old` to `new` reversed, whether that change gave the file its id)."""
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
    """Return `{path: bytes}` of the newest commit by hand that changed the path; without one, from before Ormah's first
    commit to it."""
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
