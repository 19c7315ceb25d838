"""Make the changes that record a conflict of two memories: one replaced the other, or they contradict each other.

The conflict detector, an approved proposal and two-phase maintenance make the same changes. Each is one commit, which
one undo reverts. Nothing is deleted: search no longer finds a replaced memory, but `show`, `history` and `--as-of` do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ormahd.actions.amend import clean, identities
from ormahd.actions.outdated import CLEARLY, NAME_LENGTH, WEIGHT, check_circle, name, replacement
from ormahd.actions.views import headline, stem
from ormahd.errors import BadRequest, Conflict
from ormahd.git.commit_message import one_line
from ormahd.index.rows import NodeRow
from ormahd.jobs.job import Edit, PlannedChange, note_edits
from ormahd.jobs.questions import REASON
from ormahd.model.change import Kind
from ormahd.model.node import EdgeType
from ormahd.note.values import NoteLink
from ormahd.ormah import Ormah
from ormahd.text.quoting import shortened


def approved_conflict(ormah: Ormah, payload: Mapping[str, Any]) -> PlannedChange:
    """Return the change of a proposal that a person approved.

    Raises:
        NotFound, BadRequest, Conflict: the change is no longer possible.
    """
    newer, older, kind, reason = (str(payload[name]) for name in ("source_id", "target_id", "kind", "reason"))
    return conflict_change(ormah, newer, older, kind, reason=reason, body=reason, by_person=True)


def conflict_change(
    ormah: Ormah, newer_id: str, older_id: str, kind: str, *, reason: str, body: str, by_person: bool = False
) -> PlannedChange:
    """Return the change of a verdict of the kind "evolution" or "tension". Ids are full ids.

    In an evolution the newer memory gets an `evolved_from` edge to the older one; the older one gets `valid_until` (now)
    and a reason. In a tension the memory that was created later gets a `contradicts` edge to the other; both stay valid.
    `reason` is stored with the edge, `body` in the commit. `by_person`: a person decided. Then `newer_id` may be the
    memory that was created first, and a memory about the user may be replaced by one that is not about the user.

    Raises:
        NotFound: an id is unknown.
        BadRequest: both ids are the same, one is the self node, or the change needs `by_person`.
        Conflict: the older memory evolved from the newer one; in a tension, one of them from the other.
    """
    newer, older = ormah.index.note(newer_id), ormah.index.note(older_id)
    me = ormah.vault.self_id
    if newer.id == older.id:
        hint = "name two different ids"
        raise BadRequest("a memory cannot be in conflict with itself", hint=hint, data={"id": newer.id})
    if me in (newer.id, older.id):
        hint = "change it: ormahctl update ID"
        raise BadRequest("the self node is in conflict with nothing", hint=hint, data={"id": me})

    # One line each without secrets; the reason stands in for an empty body
    reason = _clean_line(ormah, reason)
    body = "\n".join(_clean_line(ormah, line) for line in body.splitlines()).strip() or reason

    # The verdict must be possible
    evolution = kind == "evolution"
    if evolution:
        if not by_person and newer.created < older.created - CLEARLY:
            raise BadRequest(
                f"{name(newer)} is of {newer.created:%Y-%m-%d}, before {name(older)} of {older.created:%Y-%m-%d}: "
                "it cannot have replaced it",
                hint="exchange the two, or call it a tension",
                data={"id": newer.id},
            )
        of_user = identities(ormah).union(row.id for row in (newer, older) if row.about_self)
        if not by_person and older.id in of_user and newer.id not in of_user:
            raise BadRequest(
                f"{name(older)} is about the user, and {name(newer)} is not: a person has to say that it was replaced",
                hint=f"ormahctl outdated {older.short_id} --reason …",
                data={"id": older.id},
            )
        check_circle(ormah, newer.id, older)
    else:
        older, newer = sorted((newer, older), key=lambda row: (row.created, row.id))
        _contradict(ormah, newer, older)

    def edits() -> Sequence[Edit]:
        """Return the edits for the notes as they are at the commit. None are left if the edge exists by now."""
        if evolution:
            puts = replacement(ormah, newer, older, reason)
            return [Edit(seen.id, seen.path, data, seen.digest) for seen, data in puts]
        link = NoteLink(EdgeType.CONTRADICTS, stem(older.path), WEIGHT, ormah.moment(), reason or None)
        return [] if _contradict(ormah, newer, older) else note_edits(ormah, newer.id, link=[link])

    # The change
    new, old = names(newer, older)
    subject = f"Superseded: {old}, by: {new}" if evolution else f"Contradiction: {new} / {old}"
    return PlannedChange(Kind.CONFLICT, subject, body, edits, {newer.id: newer.digest, older.id: older.digest})


def _contradict(ormah: Ormah, newer: NodeRow, older: NodeRow) -> bool:
    """Return whether two memories have a `contradicts` edge already, in either direction.

    Raises:
        Conflict: they have an `evolved_from` edge.
    """
    between = {edge.edge for edge in ormah.index.edges_of([newer.id]) if older.id in (edge.source, edge.target)}
    if EdgeType.EVOLVED_FROM in between:
        raise Conflict(f"{name(newer)} and {name(older)} are one belief that changed: they have an evolved_from edge")
    return EdgeType.CONTRADICTS in between


def _clean_line(ormah: Ormah, text: str) -> str:
    """Return `text`, such as a judge's reason, without secrets, as one line of at most REASON characters."""
    return shortened(one_line(clean(ormah, text, []) or ""), REASON)


def names(one: NodeRow, other: NodeRow) -> tuple[str, str]:
    """Return a name for each of the two memories: its title, or the beginning of its text if both titles are equal."""
    both = [headline(row.title, row.content, NAME_LENGTH).rstrip(".") for row in (one, other)]
    if both[0] == both[1]:
        both = [headline(None, row.content, NAME_LENGTH).rstrip(".") for row in (one, other)]
    return both[0], both[1]
