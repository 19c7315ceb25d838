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
from ormahd.sync.join import Plan, check_files, part, settle
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
    here = {key: after for key, (_, after) in changed(vault, None, head).items() if after is not None}
    there = {key: after for key, (_, after) in changed(vault, None, other).items() if after is not None}
    me, them = here.get(vault.self_id), there.get(card.self_id)
    wanted: dict[str, Version | None] = {}
    for key in {**here, **there}:
        ours, theirs = here.get(key), there.get(key)
        if ours is not None and them is not None:
            stem = parse(them.data, them.path).stem
            ours = Version(ours.path, retarget(ours.data, ours.path, short_id(vault.self_id), stem))
        path = (theirs or ours or Version("", b"")).path
        if path == CARD:
            wanted[key] = theirs
        elif path in _RULES and ours is not None and theirs is not None:
            wanted[key] = Version(path, _both(theirs.data, ours.data))
        else:
            wanted[key] = settle(out, key, None, ours, theirs)
    if me is not None and them is not None and vault.self_id != card.self_id:
        merged = _one_self(wanted[card.self_id] or them, me)
        if merged is not None:
            wanted[card.self_id], wanted[vault.self_id] = merged, None
            out.reasons.append(f"{merged.path}: both vaults' notes on the person became one")
    part(vault, out, wanted)
    out.changes = {key: (here.get(key), wanted[key]) for key in wanted if here.get(key) != wanted[key]}
    return out


def _both(theirs: bytes, ours: bytes) -> bytes:
    known = set(theirs.splitlines())
    added = [line for line in ours.splitlines() if line not in known]
    ends = b"" if not theirs or theirs.endswith(b"\n") else b"\n"
    return theirs + ends + b"".join(line + b"\n" for line in added)


def _one_self(theirs: Version, ours: Version) -> Version | None:
    """Return the other vault's self node (`theirs`) with the edges, tags and text of this vault's self node (`ours`)
    added; None when one of the two cannot be read or changed."""
    here, there = parse(ours.data, ours.path), parse(theirs.data, theirs.path)
    if here.kind is not NoteKind.NOTE or there.kind is not NoteKind.NOTE or here.id is None or there.id is None:
        return None
    known = {link.key for link in there.links}
    selves = {short_id(here.id), short_id(there.id)}
    links = [
        NoteLink(link.edge, link.target, link.weight, link.created, link.reason)
        for link in here.links
        if not link.body and link.key not in known and link.key.rpartition(":")[2] not in selves
    ]
    updated = max((note.updated for note in (here, there) if note.updated is not None), default=None)
    changes = {"tags": list(dict.fromkeys([*there.tags, *here.tags])), "updated": updated}
    try:
        data = edit(theirs.data, theirs.path, set=changes, link=links, content=_content(there, here))
    except InvalidNote:
        return None
    return Version(theirs.path, data)


def _content(there: Note, here: Note) -> str:
    """Return the merged text of the other vault's self node (`there`) and this vault's (`here`), without the default
    text of a new vault. If the title of `here` is nowhere in `there`, a sentence "Also known as …" is added."""
    content = there.content
    if here.content not in content and not _is_first(here.content):
        content = here.content if _is_first(content) else f"{content}\n\n{here.content}"
    if here.title and here.title.casefold() not in f"{there.title}\n{content}".casefold() and here.title != UNNAMED:
        content = f"{content}\n\nAlso known as {here.title.rstrip('.')}."
    return content


def _is_first(content: str) -> bool:
    return content.endswith(SELF_TEXT) and "\n" not in content
