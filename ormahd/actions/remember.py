"""Store a memory: redact secrets, detect duplicates, link, make room in core, and commit once.

The reply names similar memories that exist, and suggests what to do if the new one replaces one of them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from msgspec import UNSET, UnsetType
from msgspec.structs import asdict

from ormahd.actions.amend import (
    Caller,
    amending,
    check_acts,
    check_guard,
    check_space,
    define,
    make_room_in_core,
    new_note,
    outcome,
    refuse_source,
    see,
    transaction,
    without_secrets,
)
from ormahd.actions.evidence import recorded
from ormahd.actions.outdated import (
    called,
    link_to,
    refuse_self,
    replaced_meanwhile,
    restated,
    superseded,
    superseded_by,
)
from ormahd.actions.projects import place_of, settle
from ormahd.actions.views import day, edge_view, headline, of_row, stem
from ormahd.api import Near, RememberParams, RememberResult
from ormahd.errors import Unavailable
from ormahd.index.rows import NodeRow
from ormahd.model.change import Kind
from ormahd.model.node import ABOUT_SELF, CreateNodeRequest, EdgeType, LinkRequest, NodeType, Tier, short_id
from ormahd.note.values import NoteLink
from ormahd.ormah import Ormah
from ormahd.text.standing import Relation, compare
from ormahd.text.statement import read_statement

CLOSE = 0.55
"""Minimum cosine of a memory that is listed without further evidence: pairs below it mostly have different topics."""
FAR = 0.2
"""Minimum cosine of a memory that is listed because the texts show that the new one replaces it."""
MAX_NEAR = 3
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
    """Return memories similar to the one just written, at most a few, for the answer. Outdated ones and those of other
    spaces are left out.

    Those that the new memory seems to replace come first, then the most similar. `near`: (id, cosine), best first.
    `written`: (title, content, type). `but`: ids to leave out. While the index is being rebuilt the result is empty.
    """
    cosines = {node_id: cosine for node_id, cosine in near if cosine >= FAR and node_id not in but}
    now, statement, views = ormah.moment(), read_statement(*written), list[Near]()
    try:
        rows = ormah.index.notes(list(cosines))
    except Unavailable:
        rows = {}
    for node_id, row in rows.items():
        if node_id == ormah.vault.self_id or row.expired(now) or (space and row.space not in (space, None)):
            continue
        cosine = cosines[node_id]
        found = compare(read_statement(row.title, row.content, row.type), statement, cosine)
        if cosine >= CLOSE or found.verdict is Relation.REPLACED:
            content, similarity = headline(None, row.content, BEGINNING), round(cosine, 3)
            views.append(of_row(Near, row, content=content, similarity=similarity, standing=found.verdict.value))
    return sorted(views, key=lambda one: one.standing != Relation.REPLACED)[:MAX_NEAR]


def advice(near: Sequence[Near], newer: str) -> list[str]:
    """Return lines for an agent: the similar memories, and what to do if the memory `newer` (short id) replaces one."""
    if not near:
        return []
    first = near[0]
    lines = ["Close to what is known already:"]
    lines += [f"- {one.content} ({one.short_id}, {day(one.created)})" for one in near]
    if first.standing == Relation.REPLACED:
        return [*lines, f"It seems to replace {first.short_id}. If so: ormahctl outdated {first.short_id} --by {newer}"]
    return [*lines, f"If the new memory replaces one of them: ormahctl outdated {first.short_id} --by {newer}"]


def demotions(rows: Sequence[NodeRow]) -> list[str]:
    """Return lines for an agent: the memories that left core to make room in it."""
    return [
        f"Moved to working to make room in core: {headline(row.title, row.content)} ({row.short_id})" for row in rows
    ]


NEIGHBOURS: Final = 6
"""Number of nearest neighbours that a memory may be linked to without a judge."""
CROSS_SPACE_PENALTY = 0.1
"""Subtracted from the cosine of two memories of different spaces."""


def remember(ormah: Ormah, params: RememberParams, caller: Caller) -> RememberResult:
    """Store one memory, in the space of the caller's project unless another one is named. See `store_memory`.

    Raises:
        BadRequest: a value is invalid.
    """
    about_self = params.about_self or ABOUT_SELF in params.tags
    wanted = None if about_self and params.space is UNSET else params.space
    # A space of null means "global on purpose"; a caller that works in no project leaves the space out
    space = settle(ormah, caller) if isinstance(wanted, UnsetType) else check_space(wanted)
    links = [*map(asdict, params.connections), *({"target": target} for target in params.links)]
    evidence = recorded(place_of(ormah, caller), params.evidence)
    more = {
        "global": space is None and wanted is not UNSET,
        "source": params.source or caller.source,
        "evidence": evidence,
    }
    request = CreateNodeRequest.of(params, space=space, connections=links, **more)
    check_acts(caller, request.type, rejected=request.rejected, guard=request.guard)
    return store_memory(ormah, request, caller, replaces=params.replaces)


def store_memory(
    ormah: Ormah, request: CreateNodeRequest, caller: Caller, *, replaces: Sequence[str] = ()
) -> RememberResult:
    """Store one memory. The memories that `replaces` names are marked as superseded in the same commit. One of them
    that is a section of a source is not written: the `evolved_from` edge of the new memory suffices.

    If a valid memory with the same space, type, title and content exists, nothing is stored, and that one is returned
    (`existing`). If it is outdated, or a newer memory replaced it, the new memory replaces both.

    Raises:
        BadRequest, NotFound, Ambiguous: a link's target or a memory to replace is invalid, unknown, or not unique.
        VaultBusy: the write could not even be queued.
    """
    # What to store, without secrets
    older = [ormah.index.note(node_id) for node_id in dict.fromkeys(map(ormah.index.resolve, replaces))]
    refuse_self(ormah, *(row.id for row in older))
    found: list[str] = []
    request = request.model_copy(update=without_secrets(ormah, request, found))
    title, content, about_self = request.title, request.content, ABOUT_SELF in request.tags
    statement = (title, content, request.type)
    name = headline(title, content)

    def attempt(
        near: list[tuple[str, float]], restates: Sequence[NodeRow], replacing: Sequence[NodeRow]
    ) -> RememberResult:
        """Store the memory. `near`: its nearest memories, as (id, cosine). `restates`: the memory with the same text,
        which ends, and the one that had replaced it. `replacing`: further memories that the new one replaces."""
        # The note
        now, node_id = ormah.moment(), ormah.index.new_id()
        links = _links(ormah, request.connections, near, request.space, [*older, *restates, *replacing])
        fields = {"source": request.source, "guard": request.guard, "updated": now}
        path, data = new_note(request, node_id, now, [link for link, _ in links], **fields)
        check_guard(data, path)
        ends = [see(ormah, row.id) for row in (*older, *restates[:1]) if not row.from_source]
        body = "\n".join(f"{link.edge}: {row.title or row.short_id} ({link.weight:g})" for link, row in links)

        # Commit it, with all that follows from it
        demoted: list[NodeRow] = []
        with transaction(ormah, f"Remember: {name}", kind=Kind.REMEMBER, caller=caller, body=body) as tx:
            tx.put(path, data, node_id=node_id, expect=None)
            for seen in ends:
                ended = superseded(seen, ormah.moment(), called(title, content, node_id))
                if ended != seen.data:
                    tx.put(seen.path, ended, node_id=seen.id, expect=seen.digest)
            if about_self:
                define(ormah, tx, [path])
            if request.tier is Tier.CORE:
                demoted = make_room_in_core(ormah, tx, keep={node_id}, leaving=[seen.id for seen in ends])

        # The answer
        known = [row.id for row in (*older, *restates)]
        close = nearby(ormah, near, statement, request.space, but=known)
        edges = [edge_view(row, link) for link, row in links]
        lines = [f"Remembered: {name} (id: {node_id})"]
        lines += [f"Replaced: {headline(row.title, row.content)} ({row.short_id})" for row in older]
        lines += [f"Linked: {edge.edge} {edge.title} ({edge.short_id}, {edge.weight:.0%})" for edge in edges]
        lines += [*demotions(demoted), *advice(close, short_id(node_id))]
        if found:
            lines.append("Secrets were taken out before anything was written: " + ", ".join(sorted(set(found))))
        done = outcome(tx)
        return RememberResult(
            text="\n".join(lines),
            node_id=node_id,
            short_id=short_id(node_id),
            path=path,
            commit=done.commit,
            op=done.op,
            space=request.space,
            links=edges,
            redacted=found,
            demoted=[row.id for row in demoted],
            degraded=ormah.degraded(),
            near=close,
            replaced=[row.id for row in older],
        )

    # concurrent callers with the same memory store it once; callers with different memories do not wait for each other
    with ormah.turns.take("\0".join(("equal", str(request.space), request.type, str(title), content))):
        # If the memory is stored already and valid, only what it replaces is left to do
        known = ormah.index.find_equal(request.space, request.type, title, content)
        row = None if known is None else ormah.index.note(known)
        time = request.created or ormah.moment()
        again = [] if row is None else restated(ormah, row, time)
        if row is not None and not again:
            # Each memory that it replaces is marked in a commit of its own
            done = [superseded_by(ormah, one.id, row.id, caller, reason=None) for one in older if one.id != row.id]
            last = next((change for change in reversed(done) if change.changed), None)
            text = f"Already remembered: {headline(row.title, row.content)} (id: {row.id})"
            return RememberResult(
                text="\n".join([text, *(change.text for change in done)]),
                node_id=row.id,
                short_id=row.short_id,
                path=row.path,
                commit=None if last is None else last.commit,
                op=None if last is None else last.op,
                space=row.space,
                redacted=found,
                existing=True,
                degraded=ormah.degraded(),
                replaced=[change.node_id for change in done],
            )
        # outside the writers' lock, because it embeds the text
        near = ormah.index.neighbours(title, content, NEIGHBOURS + 1)
        later = replaced_meanwhile(ormah, near, statement, request.space, time) if not again else []
        if older or again or about_self or request.tier is Tier.CORE:
            return amending(ormah, lambda: attempt(near, again, later))
        return attempt(near, again, later)


def _links(
    ormah: Ormah, asked: list[LinkRequest], near: list[tuple[str, float]], space: str | None, older: Sequence[NodeRow]
) -> list[tuple[NoteLink, NodeRow]]:
    """Return (link, its target) for each edge of a new note: to the memories that it replaces, then those requested,
    then `related_to` its nearest neighbours."""
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
    rows = ormah.index.notes([node_id for node_id, _ in near])
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
