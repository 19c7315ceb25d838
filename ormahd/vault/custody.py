"""Reads and reverses ops that adopted a person's files or released them: for these ops the folder and the history
differ.

Such an op may have two commits. An adoption: first the files as the person wrote them, then with Ormah's lines. Its
undo in reverse: first without Ormah's lines, then as the history had them before the adoption, which usually means not
at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

from ormahd.git.message import FILES, LEFT, TAKEN
from ormahd.model.change import Kind
from ormahd.note.merge import MergeConflict, merge_texts
from ormahd.note.note import unadopted
from ormahd.vault.conversion import as_it_stands
from ormahd.vault.history import Op
from ormahd.vault.three_way import Joined, Pair, Version, changed, join, key_of, node_of
from ormahd.vault.vault import Vault

TAKEN_IN: Final = (FILES, TAKEN)
"""The trailer of an undo that adopted files again."""
LEFT_OUT: Final = (FILES, LEFT)
"""The trailer of an op that released files."""


class Did(Struct):
    """The effects of an op. `pairs`: `{key: (before, after)}`, for a person's file as it was in the folder."""

    pairs: dict[str, Pair]
    held: dict[str, bytes | None] = field(default_factory=dict)
    """`{key: bytes}` of the files that the op adopted, as the history had them before; None: the history did not have
    the file."""
    left: set[str] = field(default_factory=set)
    """Keys of the files that the op released."""


def read(vault: Vault, op: Op) -> Did:
    """Return the effects of an op, read from the history alone."""
    between = vault.git.resolve(f"{op.commit}^1")
    before = between
    middle: Mapping[str, str] = {}
    if between is not None and between in vault.oplog.view().firsts:
        before = vault.git.resolve(f"{between}^1")
        middle = vault.tree(between)
    did = Did(changed(vault, before, op.commit))
    for key, pair in list(did.pairs.items()):
        place = pair[1] or pair[0]
        if place is None or not place.path.lower().endswith(".md"):
            continue
        if op.files == LEFT:
            _left(vault, did, key, pair, middle)
        elif op.kind in {Kind.ADOPT, Kind.EDIT} or op.files == TAKEN:
            _taken(vault, did, op, key, pair, middle)
    return did


def _left(vault: Vault, did: Did, key: str, pair: Pair, middle: Mapping[str, str]) -> None:
    was = pair[0]
    if was is not None:
        left = Version(was.path, vault.blob(middle[was.path], was.path)) if was.path in middle else was
        did.pairs[key] = (was, left)
        did.left.add(key)


def _taken(vault: Vault, did: Did, op: Op, key: str, pair: Pair, middle: Mapping[str, str]) -> None:
    was, now = pair
    if now is None or (was is not None and (op.kind == Kind.EDIT or was.path != now.path)):
        return
    if now.path in middle:
        theirs = vault.blob(middle[now.path], now.path)
    elif was is not None:
        theirs = was.data
    elif op.kind == Kind.ADOPT:  # an adoption with one commit, from before they had two
        theirs = unadopted(now.data, now.path)
    else:
        theirs = now.data
    did.pairs[key] = (Version(now.path, theirs), now)
    did.held[key] = None if was is None else was.data


def join_left(adopted: Version, ours: Version, theirs: Version) -> Joined:
    """Return what an adopted file becomes when it is released: today's text without the lines by which `adopted`
    differs from `theirs`.

    The texts are merged by lines, not as notes: a merge of notes does not distinguish a file with an id from one
    without.
    """
    data = merge_texts(adopted.data, ours.data, theirs.data)
    node = node_of(key_of(adopted))
    if data is None or (
        node is not None and node_of(key_of(theirs)) != node and key_of(Version(ours.path, data)) == node
    ):
        data = unadopted(ours.data, ours.path)
        if data == ours.data:
            texts = [one.data.decode("utf-8", "replace") for one in (adopted, ours, theirs)]
            return Joined(ours, (MergeConflict(ours.path, node, "text", *texts),))
    return Joined(Version(ours.path, as_it_stands(unadopted(ours.data, ours.path), data)))


def join_taken(left: Version, ours: Version, theirs: Version) -> Joined:
    """Return what a released file becomes when it is adopted again: today's text with the lines of the adoption."""
    data = merge_texts(left.data, ours.data, theirs.data)
    if data is not None and key_of(Version(ours.path, data)) == key_of(theirs):
        return Joined(Version(ours.path, data))
    return join(left, ours, theirs)
