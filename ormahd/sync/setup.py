"""Joins this vault to another vault that a remote holds, so that the two become one.

The result has the id, settings and self node of the remote's vault, because other machines know them already. Our
memories are added to its own, the two self nodes are merged into one, and both histories stay.
"""

from __future__ import annotations

from ormahd.errors import InvalidNote
from ormahd.model.node import short_id
from ormahd.note.edit import edit, retarget
from ormahd.note.read import parse
from ormahd.note.values import Note, NoteKind, NoteLink
from ormahd.sync.join import Plan, check_files, resolved, separate_paths
from ormahd.vault.create import CARD, SELF_TEXT, UNNAMED, Card
from ormahd.vault.three_way import Version, changed
from ormahd.vault.vault import Vault

_RULES = {".gitignore", ".gitattributes", ".ormah/.gitignore", ".ormah/.gitattributes"}
"""Files with one rule per line: the merged file has both vaults' lines."""


def plan_setup(vault: Vault, head: str, other: str, card: Card) -> Plan:
    """Plan the join of this vault to the vault in the commit `other`, whose card is `card`.

    Raises Conflict when the other side has a file that no vault can take.
    """
    check_files(vault, None, other)
    out = Plan(None, head, other)
    our_files = {key: after for key, (_, after) in changed(vault, None, head).items() if after is not None}
    their_files = {key: after for key, (_, after) in changed(vault, None, other).items() if after is not None}
    our_self, their_self = our_files.get(vault.self_id), their_files.get(card.self_id)

    # Merge file by file. Links to our self node are changed to lead to theirs.
    wanted: dict[str, Version | None] = {}
    for key in {**our_files, **their_files}:
        ours, theirs = our_files.get(key), their_files.get(key)
        if ours is not None and their_self is not None:
            stem = parse(their_self.data, their_self.path).stem
            ours = Version(ours.path, retarget(ours.data, ours.path, short_id(vault.self_id), stem))
        path = (theirs or ours or Version("", b"")).path
        if path == CARD:
            wanted[key] = theirs
        elif path in _RULES and ours is not None and theirs is not None:
            known = set(theirs.data.splitlines())
            added = b"".join(line + b"\n" for line in ours.data.splitlines() if line not in known)
            ends = b"" if not theirs.data or theirs.data.endswith(b"\n") else b"\n"
            wanted[key] = Version(path, theirs.data + ends + added)
        else:
            wanted[key] = resolved(out, key, None, ours, theirs)

    # Merge the self nodes into theirs, and remove ours.
    if our_self is not None and their_self is not None and vault.self_id != card.self_id:
        merged = _merged_self(wanted[card.self_id] or their_self, our_self)
        if merged is not None:
            wanted[card.self_id], wanted[vault.self_id] = merged, None
            out.reasons.append(f"{merged.path}: both vaults' notes on the person became one")
    separate_paths(vault, out, wanted)
    out.changes = {key: (our_files.get(key), wanted[key]) for key in wanted if our_files.get(key) != wanted[key]}
    return out


def _merged_self(theirs: Version, ours: Version) -> Version | None:
    """Return the other vault's self node (`theirs`) with the edges, tags and text of this vault's self node (`ours`)
    added. Return None when one of the two cannot be read or changed."""
    our_note, their_note = parse(ours.data, ours.path), parse(theirs.data, theirs.path)
    if {our_note.kind, their_note.kind} != {NoteKind.NOTE} or our_note.id is None or their_note.id is None:
        return None
    known = {link.key for link in their_note.links}
    selves = {short_id(our_note.id), short_id(their_note.id)}
    links = [
        NoteLink(link.edge, link.target, link.weight, link.created, link.reason)
        for link in our_note.links
        if not link.body and link.key not in known and link.key.rpartition(":")[2] not in selves
    ]
    updated = max((note.updated for note in (our_note, their_note) if note.updated is not None), default=None)
    changes = {"tags": list(dict.fromkeys([*their_note.tags, *our_note.tags])), "updated": updated}
    try:
        data = edit(theirs.data, theirs.path, set=changes, link=links, content=_merged_content(their_note, our_note))
    except InvalidNote:
        return None
    return Version(theirs.path, data)


def _merged_content(theirs: Note, ours: Note) -> str:
    """Return the merged text of the other vault's self node (`theirs`) and this vault's (`ours`), without the default
    text of a new vault. If the title of `ours` is nowhere in `theirs`, a sentence "Also known as …" is added."""
    content = theirs.content
    if ours.content not in content and not _is_default_text(ours.content):
        content = ours.content if _is_default_text(content) else f"{content}\n\n{ours.content}"
    if ours.title and ours.title.casefold() not in f"{theirs.title}\n{content}".casefold() and ours.title != UNNAMED:
        content = f"{content}\n\nAlso known as {ours.title.rstrip('.')}."
    return content


def _is_default_text(content: str) -> bool:
    """Whether a text is the one that a new vault's self node has."""
    return content.endswith(SELF_TEXT) and "\n" not in content
