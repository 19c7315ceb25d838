"""Make the change for two conflicting memories: one replaced the other (evolution), or they contradict each other (tension).

Used by the conflict detector, by approved proposals and by two-phase maintenance. Each change is one commit, which one undo
reverts. Nothing is deleted: a replaced memory is no longer found by search, but by `show`, `history` and `--as-of`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ormahd.actions.amend import clean, see
from ormahd.actions.superseding import CLEARLY, NAME, WEIGHT, check_circle, name, superseded
from ormahd.actions.views import headline, stem
from ormahd.errors import BadRequest, Conflict
from ormahd.git.message import one_line
from ormahd.jobs.job import Change, Edit
from ormahd.model.change import Kind
from ormahd.model.node import EdgeType
from ormahd.note import note as codec
from ormahd.note.note import NoteLink
from ormahd.text.quoting import shortened

if TYPE_CHECKING:
    from ormahd.actions.amend import SeenNote
    from ormahd.index.rows import NodeRow
    from ormahd.ormah import Ormah

REASON = 500
"""Maximum number of characters of a reason, and of one line of a commit body."""


def evolution(ormah: Ormah, newer_id: str, older_id: str, *, reason: str, body: str, by_person: bool = False) -> Change:
    """Return the change that marks the older memory as superseded by the newer one.

    The newer memory gets an `evolved_from` edge to the older one, which gets `valid_until` (now) and a reason. Ids are full
    ids. `reason` is kept on the edge, `body` goes into the commit. `by_person`: a person decided, which permits a change that
    contradicts the dates, or that replaces a memory about the user by one that is not.

    Raises:
        NotFound: an id is unknown.
        BadRequest: both ids are the same, one is the self node, or the change needs `by_person`.
        Conflict: the older memory evolved from the newer one.
    """
    newer, older = _two(ormah, newer_id, older_id)
    reason, body = clean_line(ormah, reason), _clean_lines(ormah, body)
    if not by_person:
        _dated(newer, older)
        _about_self(ormah, newer, older)
    check_circle(ormah, newer.id, older)

    def edits() -> Sequence[Edit]:
        check_circle(ormah, newer.id, older)
        return [
            *_linked(ormah, newer, older, EdgeType.EVOLVED_FROM, reason),
            *_edited(ormah, older, lambda seen: superseded(seen, ormah.moment(), name(newer))),
        ]

    new, old = names(newer, older)
    subject = f"Superseded: {old}, by: {new}"
    return Change(Kind.CONFLICT, subject, body or reason, edits, _based_on(newer, older))


def tension(ormah: Ormah, a_id: str, b_id: str, *, reason: str, body: str) -> Change:
    """Return the change that connects two memories by a `contradicts` edge, in the newer one's note. Both stay valid.

    Raises:
        NotFound: an id is unknown. BadRequest: both ids are the same, or one is the self node.
        Conflict: one of them evolved from the other.
    """
    one, two = _two(ormah, a_id, b_id)
    reason, body = clean_line(ormah, reason), _clean_lines(ormah, body)
    source, target = (two, one) if (two.created, two.id) > (one.created, one.id) else (one, two)

    def check() -> bool:
        """Whether the edge exists already, in either direction. Raises Conflict if there is an `evolved_from` edge."""
        between = _between(ormah, source, target)
        if EdgeType.EVOLVED_FROM in between:
            raise Conflict(
                f"{name(source)} and {name(target)} are one belief that changed: they have an evolved_from edge"
            )
        return EdgeType.CONTRADICTS in between

    check()

    def edits() -> Sequence[Edit]:
        return [] if check() else _linked(ormah, source, target, EdgeType.CONTRADICTS, reason)

    subject = f"Contradiction: {' / '.join(names(source, target))}"
    return Change(Kind.CONFLICT, subject, body or reason, edits, _based_on(source, target))


def _two(ormah: Ormah, one_id: str, other_id: str) -> tuple[NodeRow, NodeRow]:
    one, other = ormah.index.note(one_id), ormah.index.note(other_id)
    if one.id == other.id:
        raise BadRequest(
            "a memory cannot be in conflict with itself", hint="name two different ids", data={"id": one.id}
        )
    if ormah.vault.self_id in (one.id, other.id):
        raise BadRequest("the self node is in conflict with nothing", hint="change it: ormahctl update ID",
                         data={"id": ormah.vault.self_id})  # fmt: skip
    return one, other


def _dated(newer: NodeRow, older: NodeRow) -> None:
    if newer.created < older.created - CLEARLY:
        raise BadRequest(
            f"{name(newer)} is of {newer.created:%Y-%m-%d}, before {name(older)} of {older.created:%Y-%m-%d}: "
            "it cannot have replaced it",
            hint="exchange the two, or call it a tension", data={"id": newer.id},
        )  # fmt: skip


def _about_self(ormah: Ormah, newer: NodeRow, older: NodeRow) -> None:
    if is_identity(ormah, older) and not is_identity(ormah, newer):
        raise BadRequest(
            f"{name(older)} is about the user, and {name(newer)} is not: a person has to say that it was replaced",
            hint=f"ormahctl outdated {older.short_id} --reason …", data={"id": older.id},
        )  # fmt: skip


def is_identity(ormah: Ormah, row: NodeRow) -> bool:
    """Whether the memory describes the user: it has the tag, or a `defines` edge from the self node (seeds/data-model)."""
    return row.about_self or any(
        edge.edge is EdgeType.DEFINES and edge.source == ormah.vault.self_id for edge in ormah.index.edges(row.id)[1]
    )


def _between(ormah: Ormah, one: NodeRow, other: NodeRow) -> set[EdgeType]:
    out, into = ormah.index.edges(one.id)
    return {edge.edge for edge in [*out, *into] if other.id in (edge.source, edge.target)}


def _edited(ormah: Ormah, row: NodeRow, change: Callable[[SeenNote], bytes]) -> list[Edit]:
    """Return the edit of one note, with `updated` set; an empty list if `change` leaves the note as it is."""
    seen = see(ormah, row.id)
    data = change(seen)
    if data == seen.data:
        return []
    data = codec.edit(data, seen.path, set={"updated": ormah.moment()})
    return [Edit(seen.id, seen.path, data, seen.digest)]


def _linked(ormah: Ormah, source: NodeRow, target: NodeRow, edge: EdgeType, reason: str) -> list[Edit]:
    """Return the edit that adds an edge to the source's note; an empty list if this edge exists already."""
    if any(known.edge is edge and known.target == target.id for known in ormah.index.edges(source.id)[0]):
        return []
    link = NoteLink(edge, stem(target.path), WEIGHT, ormah.moment(), reason or None)
    return _edited(ormah, source, lambda seen: codec.edit(seen.data, seen.path, link=[link]))


def clean_line(ormah: Ormah, text: str) -> str:
    """Return `text`, such as a judge's reason, as one line of at most REASON characters, without secrets."""
    line = one_line(clean(ormah, text, []) or "")
    return shortened(line, REASON)


def _clean_lines(ormah: Ormah, text: str) -> str:
    return "\n".join(clean_line(ormah, line) for line in text.splitlines()).strip()


def names(one: NodeRow, other: NodeRow) -> tuple[str, str]:
    """Return names for the two memories: their titles, or if these are equal the beginnings of their texts."""
    both = _name(one), _name(other)
    if both[0] == both[1]:
        both = headline(None, one.content, NAME).rstrip("."), headline(None, other.content, NAME).rstrip(".")
    return both


def _name(row: NodeRow) -> str:
    return headline(row.title, row.content, NAME).rstrip(".")


def _based_on(*rows: NodeRow) -> dict[str, str]:
    return {row.id: row.digest for row in rows}
