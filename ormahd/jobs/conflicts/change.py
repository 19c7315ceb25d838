"""Make the changes that record a conflict of two memories: one replaced the other, or they contradict each other.

The conflict detector, an approved proposal and two-phase maintenance make the same changes. Each is one commit, which
one undo reverts. Nothing is deleted: search no longer finds a replaced memory, but `show`, `history` and `--as-of` do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ormahd.actions.amend import SeenNote, clean, see
from ormahd.actions.outdated import CLEARLY, NAME_LENGTH, WEIGHT, check_circle, name, superseded
from ormahd.actions.views import headline, stem
from ormahd.errors import BadRequest, Conflict
from ormahd.git.commit_message import one_line
from ormahd.index.rows import NodeRow
from ormahd.jobs.job import Edit, PlannedChange
from ormahd.jobs.questions import REASON
from ormahd.model.change import Kind
from ormahd.model.node import EdgeType
from ormahd.note.edit import edit
from ormahd.note.values import NoteLink
from ormahd.ormah import Ormah
from ormahd.text.quoting import shortened


def conflict_change(
    ormah: Ormah, newer_id: str, older_id: str, kind: str, *, reason: str, body: str, by_person: bool = False
) -> PlannedChange:
    """Return the change of a verdict of the kind "evolution" or "tension". See `evolution` and `tension`."""
    if kind == "evolution":
        return evolution(ormah, newer_id, older_id, reason=reason, body=body, by_person=by_person)
    return tension(ormah, newer_id, older_id, reason=reason, body=body)


def approved_conflict(ormah: Ormah, payload: Mapping[str, Any]) -> PlannedChange:
    """Return the change of an approved proposal. Raises NotFound, BadRequest or Conflict if it is no longer
    possible."""
    newer, older, kind, reason = (str(payload[name]) for name in ("source_id", "target_id", "kind", "reason"))
    return conflict_change(ormah, newer, older, kind, reason=reason, body=reason, by_person=True)


def evolution(
    ormah: Ormah, newer_id: str, older_id: str, *, reason: str, body: str, by_person: bool = False
) -> PlannedChange:
    """Return the change that marks the older memory as superseded by the newer one.

    The newer memory gets an `evolved_from` edge to the older one. The older one gets `valid_until` (now) and a
    reason. Ids are full ids. `reason` is stored with the edge, `body` in the commit. `by_person`: a person decided.
    Then `newer_id` may be the memory that was created first, and a memory about the user may be replaced by one that
    is not about the user.

    Raises:
        NotFound: an id is unknown.
        BadRequest: both ids are the same, one is the self node, or the change needs `by_person`.
        Conflict: the older memory evolved from the newer one.
    """
    newer, older = _two(ormah, newer_id, older_id)
    reason, body = _cleaned(ormah, reason, body)
    if not by_person and newer.created < older.created - CLEARLY:
        raise BadRequest(
            f"{name(newer)} is of {newer.created:%Y-%m-%d}, before {name(older)} of {older.created:%Y-%m-%d}: "
            "it cannot have replaced it",
            hint="exchange the two, or call it a tension",
            data={"id": newer.id},
        )
    if not by_person and is_identity(ormah, older) and not is_identity(ormah, newer):
        raise BadRequest(
            f"{name(older)} is about the user, and {name(newer)} is not: a person has to say that it was replaced",
            hint=f"ormahctl outdated {older.short_id} --reason …",
            data={"id": older.id},
        )
    check_circle(ormah, newer.id, older)

    def edits() -> Sequence[Edit]:
        check_circle(ormah, newer.id, older)
        return [
            *_linked(ormah, newer, older, EdgeType.EVOLVED_FROM, reason),
            *_edited(ormah, older, lambda seen: superseded(seen, ormah.moment(), name(newer))),
        ]

    new, old = names(newer, older)
    based_on = {newer.id: newer.digest, older.id: older.digest}
    return PlannedChange(Kind.CONFLICT, f"Superseded: {old}, by: {new}", body, edits, based_on)


def tension(ormah: Ormah, a_id: str, b_id: str, *, reason: str, body: str) -> PlannedChange:
    """Return the change that connects two memories by a `contradicts` edge, in the newer one's note. Both stay valid.

    Raises:
        NotFound: an id is unknown. BadRequest: both ids are the same, or one is the self node.
        Conflict: one of them evolved from the other.
    """
    older, newer = sorted(_two(ormah, a_id, b_id), key=lambda row: (row.created, row.id))
    reason, body = _cleaned(ormah, reason, body)
    _contradict(ormah, newer, older)

    def edits() -> Sequence[Edit]:
        if _contradict(ormah, newer, older):
            return []
        return _linked(ormah, newer, older, EdgeType.CONTRADICTS, reason)

    subject = f"Contradiction: {' / '.join(names(newer, older))}"
    based_on = {newer.id: newer.digest, older.id: older.digest}
    return PlannedChange(Kind.CONFLICT, subject, body, edits, based_on)


def _contradict(ormah: Ormah, newer: NodeRow, older: NodeRow) -> bool:
    """Return whether two memories have a `contradicts` edge already, in either direction. Raise Conflict if they have
    an `evolved_from` edge."""
    between = {edge.edge for edge in ormah.index.edges_of([newer.id]) if older.id in (edge.source, edge.target)}
    if EdgeType.EVOLVED_FROM in between:
        raise Conflict(f"{name(newer)} and {name(older)} are one belief that changed: they have an evolved_from edge")
    return EdgeType.CONTRADICTS in between


def _two(ormah: Ormah, one_id: str, other_id: str) -> tuple[NodeRow, NodeRow]:
    one, other = ormah.index.note(one_id), ormah.index.note(other_id)
    me = ormah.vault.self_id
    if one.id == other.id:
        hint = "name two different ids"
        raise BadRequest("a memory cannot be in conflict with itself", hint=hint, data={"id": one.id})
    if me in (one.id, other.id):
        hint = "change it: ormahctl update ID"
        raise BadRequest("the self node is in conflict with nothing", hint=hint, data={"id": me})
    return one, other


def is_identity(ormah: Ormah, row: NodeRow) -> bool:
    """Whether the memory describes the user: it has the tag `about_self`, or a `defines` edge from the self node."""
    return row.about_self or any(
        edge.edge is EdgeType.DEFINES and edge.source == ormah.vault.self_id for edge in ormah.index.edges(row.id)[1]
    )


def _edited(ormah: Ormah, row: NodeRow, change: Callable[[SeenNote], bytes]) -> list[Edit]:
    """Return the edit of one note, with `updated` set; an empty list if `change` leaves the note as it is."""
    seen = see(ormah, row.id)
    data = change(seen)
    if data == seen.data:
        return []
    data = edit(data, seen.path, set={"updated": ormah.moment()})
    return [Edit(seen.id, seen.path, data, seen.digest)]


def _linked(ormah: Ormah, source: NodeRow, target: NodeRow, edge: EdgeType, reason: str) -> list[Edit]:
    """Return the edit that adds an edge to the source's note; an empty list if this edge exists already."""
    if any(known.edge is edge and known.target == target.id for known in ormah.index.edges(source.id)[0]):
        return []
    link = NoteLink(edge, stem(target.path), WEIGHT, ormah.moment(), reason or None)
    return _edited(ormah, source, lambda seen: edit(seen.data, seen.path, link=[link]))


def _cleaned(ormah: Ormah, reason: str, body: str) -> tuple[str, str]:
    """Return a reason and the body of a commit, line by line without secrets; the reason stands in for an empty body."""
    reason = clean_line(ormah, reason)
    return reason, "\n".join(clean_line(ormah, line) for line in body.splitlines()).strip() or reason


def clean_line(ormah: Ormah, text: str) -> str:
    """Return `text`, such as a judge's reason, as one line of at most REASON characters, without secrets."""
    return shortened(one_line(clean(ormah, text, []) or ""), REASON)


def names(one: NodeRow, other: NodeRow) -> tuple[str, str]:
    """Return a name for each of the two memories: its title, or the beginning of its text if both titles are equal."""
    both = [headline(row.title, row.content, NAME_LENGTH).rstrip(".") for row in (one, other)]
    if both[0] == both[1]:
        both = [headline(None, row.content, NAME_LENGTH).rstrip(".") for row in (one, other)]
    return both[0], both[1]
