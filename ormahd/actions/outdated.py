"""Take a memory out of the results: superseded by a newer one, marked as outdated, or forgotten.

A superseded memory gets an end of validity, and the newer one an `evolved_from` edge. It leaves recall and whispers,
but `show`, `history` and `--as-of` still find it. A mark as outdated can be revoked. To forget a memory removes its
note: git keeps it, so this can be undone, and links to it in other notes stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from ormahd.actions.amend import Caller, SeenNote, amending, clean, see, transaction, written
from ormahd.actions.tombstones import bury, of_notes
from ormahd.actions.views import headline, of_row, replaced_today, stem
from ormahd.api import ForgetParams, OutdatedParams, WriteResult
from ormahd.errors import BadRequest, Conflict
from ormahd.index.rows import NodeRow
from ormahd.model.change import Kind
from ormahd.model.node import EdgeType, NodeType, short_id
from ormahd.note.edit import edit
from ormahd.note.values import NoteLink
from ormahd.ormah import Ormah
from ormahd.text.standing import compare
from ormahd.text.statement import read_statement
from ormahd.vault.three_way import changed

WEIGHT = 0.9
"""Weight of the edge from a memory to the one it replaced."""
CLEARLY = timedelta(days=1)
"""A memory cannot be replaced by one that is older by more than this. Within a day the dates prove nothing (imports,
one session)."""
PARAPHRASE = 0.8
"""Minimum cosine of two texts that may say the same in other words."""
SAME = 0.7
"""Minimum probability that they do."""
NAME_LENGTH = 60
"""Maximum number of characters of a memory's title in a sentence."""


def superseded_by(
    ormah: Ormah, older_id: str, newer_id: str, caller: Caller, *, reason: str | None, alone: bool = False
) -> WriteResult:
    """Mark a memory as replaced by another one, in one commit. Repeating this changes nothing.

    `alone`: the newer memory becomes the only one that replaces the older one. If other memories were marked as
    replacing it, the `evolved_from` edges that these marks added are removed.

    Raises:
        NotFound, Ambiguous: an id. BadRequest: the two memories fail `check`. Conflict: the older one evolved from
        the newer one.
    """
    older, newer = (ormah.index.note(ormah.index.resolve(one)) for one in (older_id, newer_id))
    found: list[str] = []
    reason = clean(ormah, reason, found)
    check(ormah, newer, older)

    def attempt() -> WriteResult:
        """Mark the older memory as replaced by the newer one, and return the answer. Nothing is written if it is marked
        already."""
        puts = replacement(ormah, newer, older, reason)
        parted = _parted(ormah, older.id, ormah.moment(), but=newer.id) if alone else []
        puts += parted
        title = headline(older.title, older.content)
        if not puts:
            return written(ormah, f"Superseded already: {title} (id: {older.id})", older, redacted=found)
        subject = f"Superseded: {title}, by: {headline(newer.title, newer.content, NAME_LENGTH)}"
        with transaction(ormah, subject, kind=Kind.OUTDATED, caller=caller, body=reason or "") as tx:
            for seen, data in puts:
                tx.put(seen.path, data, node_id=seen.id, expect=seen.digest)
        text = f"Superseded: {title} (id: {older.id}), by {name(newer)}. It no longer shows up in recall."
        return written(ormah, text + _parted_sentences(parted), older, tx, redacted=found)

    return amending(ormah, attempt)


def replacement(ormah: Ormah, newer: NodeRow, older: NodeRow, reason: str | None) -> list[tuple[SeenNote, bytes]]:
    """Return (note, new bytes) for each note that changes when `newer` replaces `older`. At most both; a section of a
    source is never written.

    Raises:
        Conflict: as `check_circle`.
    """
    check_circle(ormah, newer.id, older)
    first, now = see(ormah, newer.id), ormah.moment()
    known = any(
        edge.edge is EdgeType.EVOLVED_FROM and edge.target == older.id for edge in ormah.index.edges(newer.id)[0]
    )
    link = [link_to(older, now, reason)]
    puts = [] if known else [(first, edit(first.data, first.path, link=link, set={"updated": now}))]
    if not older.from_source:
        second = see(ormah, older.id)
        puts.append((second, superseded(second, now, name(newer))))
    return [(seen, data) for seen, data in puts if data != seen.data]


def check(ormah: Ormah, newer: NodeRow, older: NodeRow) -> None:
    """Raise BadRequest if `newer` cannot replace `older`: they are the same memory, one of them is the self node, or
    `newer` was last changed clearly before `older` was created."""
    if newer.id == older.id:
        raise BadRequest("a memory cannot replace itself", hint="name two different ids", data={"id": newer.id})
    refuse_self(ormah, newer.id, older.id)
    changed_at = max(newer.created, newer.updated)  # an old memory with a new text may replace a younger one
    if changed_at < older.created - CLEARLY:
        what = f"{name(newer)} is of {changed_at:%Y-%m-%d}, before {name(older)} of {older.created:%Y-%m-%d}"
        hint = f"exchange the two ids, or: ormahctl outdated {older.short_id} --reason …"
        raise BadRequest(f"{what}: it cannot have replaced it", hint=hint, data={"id": newer.id})


def refuse_self(ormah: Ormah, *node_ids: str) -> None:
    """Raise BadRequest if an id is the self node: it can be changed, but not replaced."""
    if ormah.vault.self_id in node_ids:
        what, hint = "the self node cannot be replaced, and replaces nothing", "change it: ormahctl update ID"
        raise BadRequest(what, hint=hint, data={"id": ormah.vault.self_id})


def restated(ormah: Ormah, known: NodeRow, time: datetime) -> list[NodeRow]:
    """Return the memories that a statement made at `time` replaces. The statement says the same as the memory `known`.

    These are `known` and the newer memory that had replaced it. Return [] if `known` was valid then: the statement says
    nothing new.
    """
    newer = None if known.created >= time else replaced_today(ormah, [known.id]).get(known.id)
    between = None if newer is None else ormah.index.note(newer)
    if between is not None and between.created < time:
        return [known, between]
    return [known] if known.created < time and known.expired(time) else []


def replaced_meanwhile(
    ormah: Ormah,
    near: Iterable[tuple[str, float]],
    written: tuple[str | None, str, NodeType],
    space: str | None,
    time: datetime,
) -> list[NodeRow]:
    """Return the memories that a text written at `time` replaces because it repeats an older memory in other words.
    They had replaced that older memory, which is true again.

    `near`: (id, cosine) of memories similar to the text. `written`: its (title, content, type).
    """
    cosines = {node_id: cosine for node_id, cosine in near if cosine >= PARAPHRASE}
    newer = read_statement(*written)
    found: dict[str, NodeRow] = {}
    for row in ormah.index.notes(list(cosines)).values():
        older = read_statement(row.title, row.content, row.type)
        if row.space == space and compare(older, newer, cosines[row.id]).same >= SAME:
            found |= {one.id: one for one in restated(ormah, row, time)[1:]}
    return list(found.values())


def check_circle(ormah: Ormah, newer_id: str, older: NodeRow) -> None:
    """Raise Conflict if `older` evolved, directly or indirectly, from the newer memory."""
    ancestors, ring = {older.id}, [older.id]
    while ring:
        edges = [edge for edge in ormah.index.edges_of(ring) if edge.edge is EdgeType.EVOLVED_FROM]
        ring = list({edge.target for edge in edges if edge.source in ancestors} - ancestors)
        ancestors.update(ring)
    if newer_id in ancestors:
        raise Conflict(
            f"{name(older)} evolved from {name(ormah.index.note(newer_id))}, so it cannot be the older one",
            data={"id": older.id},
        )


def link_to(older: NodeRow, now: datetime, reason: str | None) -> NoteLink:
    """Return the `evolved_from` edge to `older` for the note of the memory that replaces it."""
    target = f"source_{older.short_id}" if older.from_source else stem(older.path)
    return NoteLink(EdgeType.EVOLVED_FROM, target, WEIGHT, now, reason or None)


def superseded(older: SeenNote, now: datetime, by: str) -> bytes:
    """Return the bytes of the older note, marked as superseded by the memory named `by`.

    If the note was marked as outdated before, it keeps the time of that mark. It also keeps the mark's reason, unless
    this names another memory as superseding it: then the reason names `by` instead.
    """
    wish: dict[str, Any] = {"valid_until": now, "outdated_reason": f"superseded by {by}", "updated": now}
    if older.note.valid_until is not None and older.note.valid_until <= now:
        mark = _MARK.fullmatch(older.note.outdated_reason or "")
        if mark is None or by.endswith(mark["id"]):
            return older.data
        del wish["valid_until"]
    return edit(older.data, older.path, set=wish)


_MARK = re.compile(r"superseded by .*(?P<id>\([0-9a-f]{8}\))", re.DOTALL)
"""Matches the reason that `superseded` writes."""


def name(row: NodeRow) -> str:
    """Return a short name of a memory for a sentence, with its short id."""
    return called(row.title, row.content, row.id)


def called(title: str | None, content: str, node_id: str) -> str:
    """Return a short name of a memory for a sentence, with its short id. As `name`, for a memory that is not in the
    index yet."""
    return f"{headline(title, content, NAME_LENGTH).rstrip('.')} ({short_id(node_id)})"


def outdated(ormah: Ormah, params: OutdatedParams, caller: Caller) -> WriteResult:
    """Mark a memory as outdated: set `valid_until` to now, with a reason.

    `by`: id of the memory that replaces it, which gets an `evolved_from` edge. `revoke`: remove the mark, and the edges
    that it added.

    Raises:
        NotFound, Ambiguous: an id is unknown or not unique.
        BadRequest: `revoke` came with a reason or `by`, or it is the self node.
    """
    # Replaced by another memory
    if params.by is not None:
        if params.revoke:
            raise BadRequest("--by and --revoke exclude each other", hint="leave one of them out")
        return superseded_by(ormah, params.node_id, params.by, caller, reason=params.reason, alone=True)

    # Valid again, or outdated without a successor
    if params.revoke and params.reason:
        raise BadRequest("a reason and --revoke exclude each other", hint="leave one of them out")
    node_id = ormah.index.resolve(params.node_id)
    if node_id == ormah.vault.self_id and not params.revoke:
        raise BadRequest("the self node cannot be outdated", hint="change it: ormahctl update ID")
    if params.revoke:
        return amending(ormah, lambda: _valid_again(ormah, node_id, caller))
    found: list[str] = []
    reason = clean(ormah, params.reason, found)

    def attempt() -> WriteResult:
        """Mark the memory as outdated from now on, and return the answer. Nothing is written if it is marked already."""
        seen = see(ormah, node_id)
        title = headline(seen.note.title, seen.note.content)
        now = ormah.moment()
        before = seen.note.valid_until
        if before is not None and before <= now and reason in (None, seen.note.outdated_reason):
            # repeated: the time of the first mark stays
            return written(ormah, f"Outdated already: {title} (id: {node_id})", seen, redacted=found)
        wish = {"valid_until": now, "updated": now} | ({"outdated_reason": reason} if reason else {})
        edited = edit(seen.data, seen.path, set=wish, clear=[] if reason else ["outdated_reason"])
        with transaction(ormah, f"Outdated: {title}", kind=Kind.OUTDATED, caller=caller, body=reason or "") as tx:
            tx.put(seen.path, edited, node_id=node_id, expect=seen.digest)
        text = f"Outdated: {title} (id: {node_id}). It no longer shows up in recall."
        return written(ormah, text, seen, tx, redacted=found)

    return amending(ormah, attempt)


def _valid_again(ormah: Ormah, node_id: str, caller: Caller) -> WriteResult:
    """Remove a memory's mark as outdated or superseded, and the edges that the mark added to other notes, in one
    commit."""
    seen, now = see(ormah, node_id), ormah.moment()
    title = headline(seen.note.title, seen.note.content)
    edited = edit(seen.data, seen.path, clear=["valid_until", "outdated_reason"])
    parted = _parted(ormah, node_id, now)
    puts = [(seen, edit(edited, seen.path, set={"updated": now}))] if edited != seen.data else []
    puts += parted
    if not puts:
        return written(ormah, f"Was not outdated: {title} (id: {node_id})", seen)
    with transaction(ormah, f"Valid again: {title}", kind=Kind.OUTDATED, caller=caller) as tx:
        for one, data in puts:
            tx.put(one.path, data, node_id=one.id, expect=one.digest)
    return written(ormah, f"Valid again: {title} (id: {node_id}).{_parted_sentences(parted)}", seen, tx)


def _parted(ormah: Ormah, older_id: str, now: datetime, *, but: str | None = None) -> list[tuple[SeenNote, bytes]]:
    """Return (note, new bytes) of each memory that a mark names as replacing the memory `older_id`. The new bytes lack
    the `evolved_from` edge that the mark added.

    `but`: id of a memory that keeps its edge.
    """
    entering = ormah.index.edges(older_id)[1]
    replacing = dict.fromkeys(edge.source for edge in entering if edge.edge is EdgeType.EVOLVED_FROM)
    return [
        (newer, edit(newer.data, newer.path, unlink=marked, set={"updated": now}))
        for newer in (see(ormah, one) for one in replacing if one != but)
        if (marked := _marking_edges(ormah, newer, older_id))
    ]


def _parted_sentences(parted: list[tuple[SeenNote, bytes]]) -> str:
    """Return a sentence for each memory in `parted`: that it no longer replaces the outdated one."""
    names = [called(newer.note.title, newer.note.content, newer.id) for newer, _ in parted]
    return "".join(f" {name} no longer replaces it." for name in names)


def _marking_edges(ormah: Ormah, newer: SeenNote, older_id: str) -> list[tuple[EdgeType, str]]:
    """Return [(type, target)] of the `evolved_from` edge from `newer` to the older memory, if a mark as superseded
    added it. Return [] otherwise."""
    edges = (link for link in newer.note.links if link.edge is EdgeType.EVOLVED_FROM and not link.body)
    link = next((edge for edge in edges if ormah.index.resolve_link(edge.target) == older_id), None)
    if link is None or link.weight != WEIGHT or link.created is None:
        return []
    # The first op on the newer memory from then on added it. Times are whole seconds, so several ops may be the first
    since = ormah.history.ops(node_id=newer.id, since=link.created.isoformat(), limit=None)
    first = min((op.time for op in since), default=link.created)
    marks = {Kind.OUTDATED, Kind.CONFLICT}
    ours = any(
        op.kind in marks or (op.kind == Kind.REMEMBER and older_id in op.nodes) for op in since if op.time == first
    )
    return [(link.edge, link.target)] if ours else []


def forget(ormah: Ormah, params: ForgetParams, caller: Caller) -> WriteResult:
    """Remove the note of the node that `node_id` (full id or unique prefix) names.

    Links to it remain in other notes, and work again if this is undone.

    Raises:
        NotFound, Ambiguous, BadRequest: the id is unknown, not unique or invalid, or it is that of the self node.
    """
    if caller.done:
        op = ormah.history.find(caller.done[0])
        before, _ = changed(ormah.vault, ormah.vault.git.resolve(f"{op.commit}^1"), op.commit)[op.nodes[0]]
        node_id, path = op.nodes[0], before.path if before else ""
        text = f"Forgotten: {op.subject.removeprefix('Forget: ')} (id: {node_id}). Git keeps it: change {op.op}"
        fields: dict[str, Any] = {"node_id": node_id, "short_id": short_id(node_id), "degraded": ormah.degraded()}
        return of_row(WriteResult, op, text=text, path=path, **fields)
    node_id = ormah.index.resolve(params.node_id)
    if node_id == ormah.vault.self_id:
        raise BadRequest("the self node stands for you and cannot be forgotten", hint="change it: ormahctl update ID")

    def attempt() -> WriteResult:
        """Remove the note and write its tombstone in one commit. Return the answer."""
        seen = see(ormah, node_id)
        title = headline(seen.note.title, seen.note.content)
        with transaction(ormah, f"Forget: {title}", kind=Kind.FORGET, caller=caller) as tx:
            tx.remove(seen.path, node_id=node_id, expect=seen.digest)
            bury(ormah, tx, of_notes(ormah, [seen.note]))
        return written(ormah, f"Forgotten: {title} (id: {node_id}). Git keeps it: change {tx.op}", seen, tx)

    return amending(ormah, attempt)
