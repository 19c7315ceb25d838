"""Change fields of a memory. Only the lines concerned are rewritten; `clear` removes a field."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from msgspec import Struct, field

from ormahd.actions.amend import (
    Caller,
    SeenNote,
    amending,
    clean,
    commit,
    define,
    make_room_in_core,
    refuse_source,
    see,
)
from ormahd.actions.remember import NEIGHBOURS, at_best, nearby, told
from ormahd.actions.views import headline, stem
from ormahd.api import WriteResult
from ormahd.errors import BadRequest, Conflict
from ormahd.index.rows import NodeRow
from ormahd.model.change import Kind
from ormahd.model.node import ABOUT_SELF, EdgeType, LinkRequest, Tier, short_id
from ormahd.note.edit import edit
from ormahd.note.values import NoteLink
from ormahd.ormah import Ormah
from ormahd.vault.transaction import Transaction

CLEARABLE = ("title", "space", "tags", "valid_until", "outdated_reason")


class Update(Struct, frozen=True):
    """The changes to a node. `set`: name of a field -> checked value; `clear`: names of fields to remove; `expect`:
    digest that the note must have."""

    set: Mapping[str, Any] = field(default_factory=dict)
    clear: Collection[str] = ()
    add_tags: tuple[str, ...] = ()
    remove_tags: tuple[str, ...] = ()
    connections: tuple[LinkRequest, ...] = ()
    expect: str | None = None


def update(ormah: Ormah, node_id: str, change: Update, caller: Caller) -> WriteResult:
    """Change the node that `node_id` names (full id or unique prefix).

    Raises:
        NotFound, Ambiguous, BadRequest: the id, or an invalid change. Conflict: `expect` is not the note's digest.
        InvalidNote: the note cannot be read, so it is left unchanged.
    """
    for name in change.clear:
        if name not in CLEARABLE:
            raise BadRequest(f"'{name}' cannot be cleared", hint="these can: " + ", ".join(CLEARABLE))
    node_id = ormah.index.resolve(node_id)
    found: list[str] = []
    fields = dict(change.set)
    for name in ("title", "content", "outdated_reason"):
        if isinstance(fields.get(name), str):
            fields[name] = clean(ormah, fields[name], found)
    add_tags = [clean(ormah, tag, found) or "" for tag in change.add_tags]
    if "tags" in fields:
        fields["tags"] = [clean(ormah, tag, found) or "" for tag in fields["tags"]]
    if "content" in fields and not fields["content"].strip():
        raise BadRequest("an empty memory cannot be stored", hint="to remove it: ormahctl forget ID")
    connections = [one.model_copy(update={"reason": clean(ormah, one.reason, found)}) for one in change.connections]
    content = fields.pop("content", None)
    near: list[tuple[str, float]] = []
    if content is not None:  # outside of the writers' lock, because it embeds the text
        title = fields.get("title", None if "title" in change.clear else ormah.index.note(node_id).title)
        near = ormah.neighbours(title, content, NEIGHBOURS + 1)

    def attempt() -> WriteResult:
        seen = see(ormah, node_id)
        if change.expect is not None and change.expect != seen.digest:
            raise Conflict(f"{seen.path} changed since it was read", hint="read it again", data={"digest": seen.digest})
        wish = dict(fields)
        tags = _tags(seen, wish.pop("tags", None), add_tags, change)
        if tags is not None:
            wish["tags"] = tags
        now = ormah.moment()
        links = [_link(ormah, seen, asked) for asked in connections]
        clear = [name for name in change.clear if name not in wish]
        if "space" in clear:
            wish["everywhere"] = True  # recorded as intended, so that no job assigns a space again
        edited = edit(seen.data, seen.path, set=wish, clear=clear, link=links, content=content)
        name = headline(wish.get("title", seen.note.title), content or seen.note.content)
        if edited == seen.data:
            return WriteResult(f"Nothing to change: {name} (id: {node_id})", node_id, short_id(node_id), seen.path, changed=False,
                           redacted=found, degraded=ormah.degraded())  # fmt: skip
        edited = edit(edited, seen.path, set={"updated": now})
        named = sorted(
            {
                *(wish.keys() - {"everywhere"}),
                *clear,
                *(["content"] if content is not None else []),
                *(link.edge.value for link in links),
            }
        )
        demoted: list[NodeRow] = []

        def fill(tx: Transaction) -> None:
            tx.put(seen.path, edited, node_id=node_id, expect=seen.digest)
            if (
                tags is not None
                and (ABOUT_SELF in tags) != (ABOUT_SELF in seen.note.tags)
                and node_id != ormah.vault.self_id
            ):
                define(ormah, tx, seen.path, defined=ABOUT_SELF in tags)
            if wish.get("tier") is Tier.CORE and seen.note.tier is not Tier.CORE:
                demoted.extend(make_room_in_core(ormah, tx, keep={node_id}))

        done = commit(
            ormah, f"Update: {name}", kind=Kind.UPDATE, caller=caller, body="Changed: " + ", ".join(named), fill=fill
        )
        lines = [f"Updated: {name} (id: {node_id}): {', '.join(named)}"]
        lines += [
            f"Moved to working to make room in core: {headline(row.title, row.content)} ({row.short_id})"
            for row in demoted
        ]
        space = wish.get("space", None if "space" in clear else seen.note.space)
        written = (wish.get("title", seen.note.title), content or "", wish.get("type", seen.note.type))
        others = at_best(lambda: nearby(ormah, near, written, space, but=_kin(ormah, node_id))) if near else []
        lines += told(others, short_id(node_id))
        return WriteResult(
            "\n".join(lines), node_id, short_id(node_id), seen.path, done.commit, done.op, True, found,
            [row.id for row in demoted], ormah.degraded(), others,
        )  # fmt: skip

    return amending(ormah, attempt)


def _kin(ormah: Ormah, node_id: str) -> set[str]:
    """Return the ids of the memory itself and of those connected to it by evolution, derivation or contradiction.

    These are not reported as similar, because the relation is known.
    """
    out, into = ormah.index.edges(node_id)
    known = (EdgeType.EVOLVED_FROM, EdgeType.CONTRADICTS, EdgeType.DERIVED_FROM)
    return {node_id} | {end for edge in [*out, *into] if edge.edge in known for end in (edge.source, edge.target)}


def _tags(seen: SeenNote, given: list[str] | None, add: list[str], change: Update) -> list[str] | None:
    if given is None and not add and not change.remove_tags:
        return None
    base = list(seen.note.tags) if given is None else given
    kept = [tag for tag in base if tag not in change.remove_tags]
    return list(dict.fromkeys([*kept, *add]))


def _link(ormah: Ormah, seen: SeenNote, asked: LinkRequest) -> NoteLink:
    target = ormah.index.note(ormah.index.resolve(asked.target))
    refuse_source(target)
    if target.id == seen.id:
        raise BadRequest("a memory cannot be connected to itself", hint="name two different ids")
    return NoteLink(asked.edge, stem(target.path), asked.weight, ormah.moment(), asked.reason)
