"""Change fields of a memory. Only the lines concerned are rewritten; `clear` removes a field."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from ormahd.actions.amend import (
    PERSON,
    Caller,
    SeenNote,
    amending,
    check_acts,
    check_guard,
    check_space,
    clean,
    define,
    make_room_in_core,
    refuse_source,
    see,
    transaction,
    written,
)
from ormahd.actions.evidence import recorded
from ormahd.actions.projects import place_of
from ormahd.actions.remember import NEIGHBOURS, advice, demotions, nearby
from ormahd.actions.views import headline, stem
from ormahd.api import UpdateParams, WriteResult
from ormahd.errors import BadRequest, Conflict
from ormahd.index.rows import NodeRow
from ormahd.model.change import Kind
from ormahd.model.node import (
    ABOUT_SELF,
    ChangeNodeRequest,
    CreateNodeRequest,
    EdgeType,
    LinkRequest,
    NoteStanding,
    Tier,
    short_id,
)
from ormahd.note.edit import edit
from ormahd.note.values import NoteLink
from ormahd.ormah import Ormah

CLEARABLE = ("title", "space", "tags", "valid_until", "rejected", "paths", "commands", "guard", "evidence")
"""Fields that null clears."""
SET = (*CLEARABLE, "content", "type", "tier", "tags", "confidence")
"""Fields that an update can set."""


def update(ormah: Ormah, params: UpdateParams, caller: Caller) -> WriteResult:
    """Change the node that `node_id` names (full id or unique prefix).

    Raises:
        NotFound, Ambiguous, BadRequest: the id is unknown, not unique or invalid, or a change is invalid.
        Conflict: `expect` is not the note's digest.
        InvalidNote: the note cannot be read, so it is left unchanged.
    """
    if params.evidence:
        params = replace(params, evidence=recorded(place_of(ormah, caller), params.evidence))

    # What the request asks for, checked
    fields, cleared = _checked(params)
    add_tags, remove_tags = (
        CreateNodeRequest.of({"content": "-", "tags": tags}).tags for tags in (params.add_tags, params.remove_tags)
    )
    asked = [LinkRequest.of(one) for one in params.add_connections]
    node_id = ormah.index.resolve(params.node_id)

    # Redact secrets
    found: list[str] = []
    fields |= {name: clean(ormah, fields[name], found) for name in ("title", "content", "rejected") if name in fields}
    add_tags = [clean(ormah, tag, found) or "" for tag in add_tags]
    for name in {"tags", "paths", "commands"} & fields.keys():
        fields[name] = [clean(ormah, one, found) or "" for one in fields[name]]
    if "content" in fields and not fields["content"].strip():
        raise BadRequest("an empty memory cannot be stored", hint="to remove it: ormahctl forget ID")
    asked = [one.model_copy(update={"reason": clean(ormah, one.reason, found)}) for one in asked]

    # A rejection is stored as two fields, `standing` and `because`
    if "rejected" in fields:
        fields |= {"standing": NoteStanding.REJECTED, "because": fields.pop("rejected")}
    cleared = [name for one in cleared for name in (("standing", "because") if one == "rejected" else (one,))]

    # Find similar memories before any lock is held, because this embeds the content
    content = fields.pop("content", None)
    near: list[tuple[str, float]] = []
    if content is not None:
        title = fields.get("title", None if "title" in cleared else ormah.index.note(node_id).title)
        near = ormah.index.neighbours(title, content, NEIGHBOURS + 1)

    def attempt() -> WriteResult:
        """Read the note, make the changes and commit them. Return the answer."""
        seen = see(ormah, node_id)

        # The note as it is, and what may be done to it
        if params.expect is not None and params.expect != seen.digest:
            raise Conflict(f"{seen.path} changed since it was read", hint="read it again", data={"digest": seen.digest})
        wish = dict(fields)
        because = wish.get("because", seen.note.because if seen.note.standing and "because" not in cleared else None)
        check_acts(caller, wish.get("type", seen.note.type), rejected=because, guard=wish.get("guard"))
        if "tags" in wish or add_tags or remove_tags:
            base = [tag for tag in wish.get("tags", seen.note.tags) if tag not in remove_tags]
            wish["tags"] = list(dict.fromkeys([*base, *add_tags]))

        # The edited note
        now = ormah.moment()
        links = [_link(ormah, seen, one) for one in asked]
        clear = [name for name in cleared if name not in wish]
        if "space" in clear:
            wish["everywhere"] = True  # recorded as intended, so that no job assigns a space again
        edited = edit(seen.data, seen.path, set=wish, clear=clear, link=links, content=content)
        name = headline(wish.get("title", seen.note.title), content or seen.note.content)
        if edited == seen.data and "guard" not in wish:  # written again, a guard counts again
            return written(ormah, f"Nothing to change: {name} (id: {node_id})", seen, redacted=found)

        # A guard written again needs a commit by the person that changes something: `updated`, by a second at least
        again = edited == seen.data and seen.note.updated
        edited = edit(edited, seen.path, set={"updated": max(now, again + timedelta(seconds=1)) if again else now})
        check_guard(edited, seen.path)
        changed = {*(wish.keys() - {"everywhere"}), *clear, *(link.edge.value for link in links)}
        changed |= set() if content is None else {"content"}
        named = ", ".join(sorted(changed))

        # Memories whose relation is known are not reported as similar
        kin, known = {node_id}, (EdgeType.EVOLVED_FROM, EdgeType.CONTRADICTS, EdgeType.DERIVED_FROM)
        for edge in (edge for edges in ormah.index.edges(node_id) for edge in edges) if near else ():
            kin |= {edge.source, edge.target} if edge.edge in known else set()

        # Commit it, with the edge from the self node and the memories that must leave core
        demoted: list[NodeRow] = []
        with transaction(ormah, f"Update: {name}", kind=Kind.UPDATE, caller=caller, body=f"Changed: {named}") as tx:
            tx.put(seen.path, edited, node_id=node_id, expect=seen.digest)
            about_self = ABOUT_SELF in wish.get("tags", seen.note.tags)
            if about_self != (ABOUT_SELF in seen.note.tags) and node_id != ormah.vault.self_id:
                define(ormah, tx, [seen.path], defined=about_self)
            if wish.get("tier") is Tier.CORE and seen.note.tier is not Tier.CORE:
                demoted = make_room_in_core(ormah, tx, keep={node_id})

        # The answer
        space = wish.get("space", None if "space" in clear else seen.note.space)
        statement = (wish.get("title", seen.note.title), content or "", wish.get("type", seen.note.type))
        others = nearby(ormah, near, statement, space, but=kin)
        lines = [f"Updated: {name} (id: {node_id}): {named}"]
        if seen.note.guard and caller.source != PERSON and changed & {"title", "space", "paths", "commands", "content"}:
            command = f"ormahctl update {short_id(node_id)} --guard {seen.note.guard}"
            lines.append(f"Its guard waits until the person confirms it: {command}")
        lines += [*demotions(demoted), *advice(others, short_id(node_id))]
        ids = [row.id for row in demoted]
        return written(ormah, "\n".join(lines), seen, tx, redacted=found, demoted=ids, near=others)

    return amending(ormah, attempt)


def _checked(params: UpdateParams) -> tuple[dict[str, Any], list[str]]:
    """Return the fields to set, {name: value of the memory}, and the names of those to clear.

    Raises BadRequest for values that a memory cannot have.
    """
    fields = {name: value for name in SET if (value := getattr(params, name)) is not UNSET}
    if isinstance(fields.get("space"), str):
        fields["space"] = check_space(fields["space"])
    cleared = [name for name in CLEARABLE if name in fields and fields[name] is None]
    fields = {name: value for name, value in fields.items() if name not in cleared}
    checked = ChangeNodeRequest.of(fields)
    return {name: getattr(checked, name) for name in fields}, cleared


def _link(ormah: Ormah, seen: SeenNote, asked: LinkRequest) -> NoteLink:
    """Return the link to write into the note `seen`, with the present time.

    Raises:
        BadRequest: the target is the note itself, or is found in place.
    """
    target = ormah.index.note(ormah.index.resolve(asked.target))
    refuse_source(target)
    if target.id == seen.id:
        raise BadRequest("a memory cannot be connected to itself", hint="name two different ids")
    return NoteLink(asked.edge, stem(target.path), asked.weight, ormah.moment(), asked.reason)
