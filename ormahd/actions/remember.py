"""Store a memory: redact secrets, detect duplicates, link, make room in core, and commit once.

The reply names similar memories that exist, and suggests what to do if the new one replaces one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

from msgspec import Struct, structs

from ormahd.actions.amend import (
    Caller,
    amending,
    clean,
    commit,
    define,
    make_room_in_core,
    refuse_source,
    see,
)
from ormahd.actions.outdated import (
    called,
    link_to,
    refuse_self,
    replaced_meanwhile,
    restated,
    superseded,
    superseded_by,
)
from ormahd.actions.views import day, edge_view, headline, iso, stem
from ormahd.api import Edge, Near, RememberResult
from ormahd.errors import Unavailable
from ormahd.index.rows import NodeRow
from ormahd.model.change import Kind
from ormahd.model.node import ABOUT_SELF, CreateNodeRequest, EdgeType, LinkRequest, NodeType, Tier, short_id
from ormahd.note.values import NoteLink
from ormahd.note.write import compose
from ormahd.ormah import Ormah
from ormahd.text.standing import Compared, Relation, compare
from ormahd.text.statement import Statement, read
from ormahd.vault.transaction import Transaction

CLOSE = 0.55
"""Minimum cosine of a memory that is listed without further evidence: pairs below it mostly have different topics."""
FAR = 0.2
"""Minimum cosine of a memory that is listed because the texts show that the new one replaces it."""
MOST = 3
"""Maximum number of memories listed."""
BEGINNING = 160
"""Maximum number of characters shown of a memory."""


def nearby(
    ormah: Ormah,
    near: Sequence[tuple[str, float]],
    written: tuple[str | None, str, NodeType],
    space: str | None,
    *,
    but: Collection[str] = (),
) -> list[Near]:
    """Return memories that are close to the one just `written` (title, content, type): those that are not outdated,
    and are of this space or global.

    Those that the new memory seems to replace come first, then the nearest. `near`: (id, cosine), best first. `but`:
    ids to leave out.
    """
    chosen = [(node_id, cosine) for node_id, cosine in near if cosine >= FAR and node_id not in but]
    rows = ormah.index.notes([node_id for node_id, _ in chosen], connections=False)
    now = ormah.moment()
    statement: Statement | None = None
    views: list[Near] = []
    for node_id, cosine in chosen:
        row = rows.get(node_id)
        if row is None or node_id == ormah.vault.self_id or row.expired(now):
            continue
        if space is not None and row.space not in (space, None):
            continue
        statement = statement or read(*written)
        found = compare(read(row.title, row.content, row.type), statement, cosine)
        if cosine >= CLOSE or found.verdict is Relation.REPLACED:
            views.append(_view(row, cosine, found))
    return sorted(views, key=lambda one: one.standing != Relation.REPLACED)[:MOST]


def at_best(look: Callable[[], list[Near]]) -> list[Near]:
    """Return the result of `look`, or [] while the index is being rebuilt: the change itself is stored already."""
    try:
        return look()
    except Unavailable:
        return []


def told(near: Sequence[Near], newer: str) -> list[str]:
    """Return lines for an agent: the similar memories, and what to do if the memory `newer` (short id) replaces one."""
    if not near:
        return []
    first = near[0]
    lines = ["Close to what is known already:"]
    lines += [f"- {one.content} ({one.short_id}, {day(one.created)})" for one in near]
    if first.standing == Relation.REPLACED:
        return [*lines, f"It seems to replace {first.short_id}. If so: ormahctl outdated {first.short_id} --by {newer}"]
    return [*lines, f"If the new memory replaces one of them: ormahctl outdated {first.short_id} --by {newer}"]


def _view(row: NodeRow, cosine: float, found: Compared) -> Near:
    return Near(
        row.id, row.short_id, row.title, row.type.value, row.space, headline(None, row.content, BEGINNING),
        iso(row.created) or "", round(cosine, 3), found.verdict.value,
    )  # fmt: skip


NEIGHBOURS: Final = 6
"""Number of nearest neighbours that a memory may be linked to without a judge."""
CROSS_SPACE_PENALTY = 0.1
"""Subtracted from the cosine of two memories of different spaces."""


class _Draft(Struct, frozen=True):
    """A memory that is ready to be stored: its note as bytes, and its edges."""

    node_id: str
    path: str
    data: bytes
    links: list[tuple[NoteLink, NodeRow]]
    near: list[tuple[str, float]]
    """Its nearest memories, as (id, cosine)."""


def remember(
    ormah: Ormah, request: CreateNodeRequest, caller: Caller, *, replaces: Sequence[str] = ()
) -> RememberResult:
    """Store one memory. The memories that `replaces` names are superseded in the same commit. Of a section of a source,
    nothing is written: the edge of the new memory to it has it shown behind.

    If a memory with the same space, type, title and content exists and still holds, it is returned (`existing`);
    nothing is stored. If it is outdated, or a newer memory replaced it, the new one replaces both.

    Raises:
        BadRequest, NotFound, Ambiguous: a link's target, or a memory to replace. VaultBusy: the write could not even be
        queued.
    """
    older = [ormah.index.note(one) for one in dict.fromkeys(ormah.index.resolve(one) for one in replaces)]
    refuse_self(ormah, *(row.id for row in older))
    found: list[str] = []
    content = clean(ormah, request.content, found) or ""
    title = clean(ormah, request.title, found)
    tags = [clean(ormah, tag, found) or "" for tag in request.tags]
    if request.about_self and ABOUT_SELF not in tags:
        tags = [ABOUT_SELF, *tags]
    about_self = ABOUT_SELF in tags
    links = [one.model_copy(update={"reason": clean(ormah, one.reason, found)}) for one in request.connections]
    written = (title, content, request.type)

    def draft(near: list[tuple[str, float]], restates: Sequence[NodeRow]) -> _Draft:
        now = ormah.moment()
        created = request.created or now
        node_id = ormah.new_id()
        made = _links(ormah, links, near, request.space, [*older, *restates])
        data = compose(
            id=node_id, type=request.type, tier=request.tier, space=request.space, title=title, tags=tags,
            source=request.source, confidence=request.confidence, created=created, updated=now,
            content=content, links=[link for link, _ in made], everywhere=request.everywhere,
        )  # fmt: skip
        path = ormah.place(
            node_id, type=request.type, space=request.space, title=title, content=content, created=created
        )
        return _Draft(node_id, path, data, made, near)

    def store(drawn: _Draft, restates: Sequence[NodeRow]) -> RememberResult:
        node_id, path, made = drawn.node_id, drawn.path, drawn.links
        name = headline(title, content)
        body = "\n".join(f"{link.edge}: {row.title or row.short_id} ({link.weight:g})" for link, row in made)
        demoted: list[NodeRow] = []
        ends = [see(ormah, row.id) for row in (*older, *restates[:1]) if not row.from_source]

        def fill(tx: Transaction) -> None:
            tx.put(path, drawn.data, node_id=node_id, expect=None)
            for seen in ends:
                data = superseded(seen, ormah.moment(), called(title, content, node_id))
                if data != seen.data:
                    tx.put(seen.path, data, node_id=seen.id, expect=seen.digest)
            if about_self:
                define(ormah, tx, path, defined=True)
            if request.tier is Tier.CORE:
                demoted.extend(make_room_in_core(ormah, tx, keep={node_id}, leaving=[seen.id for seen in ends]))

        done = commit(ormah, f"Remember: {name}", kind=Kind.REMEMBER, caller=caller, body=body, fill=fill)
        views = [edge_view(row, link) for link, row in made]
        but = [row.id for row in (*older, *restates)]
        close = at_best(lambda: nearby(ormah, drawn.near, written, request.space, but=but))
        return RememberResult(
            _prose(node_id, name, views, demoted, found, older, close), node_id, short_id(node_id), path,
            done.commit, done.op, request.space, views, found, [row.id for row in demoted],
            degraded=ormah.degraded(), near=close, replaced=[row.id for row in older],
        )  # fmt: skip

    # concurrent callers with the same memory store it once; callers with different memories do not wait for each other
    with ormah.turns.take("\0".join(("equal", str(request.space), request.type, str(title), content))):
        known = ormah.index.equal(request.space, request.type, title, content)
        again: list[NodeRow] = []
        time = request.created or ormah.moment()
        if known is not None:
            row = ormah.index.note(known)
            again = restated(ormah, row, time)
            if not again:
                done = RememberResult(
                    f"Already remembered: {headline(row.title, row.content)} (id: {known})", known, short_id(known),
                    row.path, space=row.space, redacted=found, existing=True, degraded=ormah.degraded(),
                )  # fmt: skip
                return _known_replaces(ormah, done, older, caller)
        near = ormah.neighbours(title, content, NEIGHBOURS + 1)  # outside the writers' lock: slow, and changes nothing
        later = replaced_meanwhile(ormah, near, written, request.space, time) if not again else []
        if older or again or about_self or request.tier is Tier.CORE:
            return amending(ormah, lambda: store(draft(near, [*again, *later]), again))
        return store(draft(near, [*again, *later]), again)


def _known_replaces(ormah: Ormah, known: RememberResult, older: Sequence[NodeRow], caller: Caller) -> RememberResult:
    """Mark each of the memories `older` as superseded by the existing memory `known`, in a commit of its own. Return
    `known` completed with what was done."""
    written = [
        superseded_by(ormah, row.id, known.node_id, caller, reason=None) for row in older if row.id != known.node_id
    ]
    if not written:
        return known
    last = next((one for one in reversed(written) if one.changed), written[-1])
    return structs.replace(
        known, text="\n".join([known.text, *(one.text for one in written)]), commit=last.commit, op=last.op,
        replaced=[one.node_id for one in written],
    )  # fmt: skip


def _links(
    ormah: Ormah, asked: list[LinkRequest], near: list[tuple[str, float]], space: str | None, older: Sequence[NodeRow]
) -> list[tuple[NoteLink, NodeRow]]:
    """Return the edges of a new note: to the memories it replaces, those requested, then `related_to` its nearest
    neighbours."""
    linking = ormah.settings.linking
    now = ormah.moment()
    made: dict[tuple[str, EdgeType], tuple[NoteLink, NodeRow]] = {
        (row.id, EdgeType.EVOLVED_FROM): (link_to(row, now, None), row) for row in older
    }
    for wish in asked:
        target = ormah.index.note(ormah.index.resolve(wish.target))
        refuse_source(target)
        made[target.id, wish.edge] = (NoteLink(wish.edge, stem(target.path), wish.weight, now, wish.reason), target)
    taken = {node_id for node_id, _ in made}
    # a memory in `near` may have been forgotten meanwhile: it has no row
    rows = ormah.index.notes([node_id for node_id, _ in near], connections=False)
    chosen = 0
    for node_id, cosine in near:
        row = rows.get(node_id)
        if row is None or node_id in taken or node_id == ormah.vault.self_id or row.expired(now):
            continue
        similarity = cosine - (CROSS_SPACE_PENALTY if row.space != space else 0.0)
        if linking.near(similarity) and chosen < NEIGHBOURS:
            weight = round(min(1.0, similarity), 2)
            made[node_id, EdgeType.RELATED_TO] = (NoteLink(EdgeType.RELATED_TO, stem(row.path), weight, now), row)
            chosen += 1
    return list(made.values())


def _prose(
    node_id: str,
    name: str,
    links: list[Edge],
    demoted: list[NodeRow],
    found: list[str],
    older: Sequence[NodeRow],
    near: Sequence[Near],
) -> str:
    lines = [f"Remembered: {name} (id: {node_id})"]
    lines += [f"Replaced: {headline(row.title, row.content)} ({row.short_id})" for row in older]
    lines += [f"Linked: {edge.edge} {edge.title} ({edge.short_id}, {edge.weight:.0%})" for edge in links]
    lines += [
        f"Moved to working to make room in core: {headline(row.title, row.content)} ({row.short_id})" for row in demoted
    ]
    lines += told(near, short_id(node_id))
    if found:
        lines.append("Secrets were taken out before anything was written: " + ", ".join(sorted(set(found))))
    return "\n".join(lines)
