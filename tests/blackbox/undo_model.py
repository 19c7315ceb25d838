"""A pure model of a vault whose changes are taken back: values, and the rules of DESIGN section 5 told once more, plainly.

Versions are compared by bytes (their digest) and place, merged field by field. What the model says of a merge is what the
note must say; its bytes are then taken from the note.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from ormahd.core.node import Tier
from ormahd.core.note import Note, NoteKind, parse

HEIGHT = {Tier.ARCHIVAL: 0, Tier.WORKING: 1, Tier.CORE: 2}
SLOTS = 4
"""Lines of each memory, with blank ones between them, so that every line is a field of its own."""


class Conflicts(Exception):
    """The undo is refused."""


@dataclass(frozen=True)
class Value:
    """One memory as it stands at one place. `digest` "": not known yet."""

    path: str
    digest: str
    title: str | None
    tier: Tier
    updated: Any
    tags: frozenset[str]
    slots: tuple[str, ...]
    edges: Mapping[str, tuple[float, Any]]

    @property
    def said(self) -> tuple[Any, ...]:
        return self.path, self.title, self.tier, self.updated, self.tags, self.slots, dict(self.edges)

    def same(self, other: Value | None) -> bool:
        return other is not None and (self.path, self.digest) == (other.path, other.digest)


State = dict[str, Value]
Change = dict[str, tuple[Value | None, Value | None]]
"""Id -> (before, after)."""


def content(slots: tuple[str, ...]) -> str:
    return "\n\n".join(slots)


def value(note: Note) -> Value:
    assert note.kind is NoteKind.NOTE, note
    edges = {link.key: (link.weight, link.created) for link in note.links if not link.body}
    slots = tuple(line for line in note.content.split("\n") if line)
    return Value(note.path, note.digest, note.title, note.tier, note.updated, frozenset(note.tags), slots, edges)


def observed(notes: Mapping[str, bytes], leave: str) -> State:
    """The memories on disk, without the self node (`leave`)."""
    found: State = {}
    for path, data in notes.items():
        note = parse(data, path)
        assert note.id is not None
        if note.id != leave:
            assert note.id not in found, f"{path} and {found[note.id].path} have one id"
            found[note.id] = value(note)
    return found


def difference(before: State, after: State) -> Change:
    return {
        node: (before.get(node), after.get(node)) for node in {**before, **after} if before.get(node) != after.get(node)
    }


def taken_back(state: State, change: Change) -> State:
    """What an undo makes of the state. Raises Conflicts."""
    out = dict(state)
    for node, (before, after) in change.items():
        result = join(after, state.get(node), before)
        if result is None:
            out.pop(node, None)
        else:
            out[node] = result
    places = [one.path for one in out.values()]
    if len(places) != len(set(places)):
        raise Conflicts("two at one place")
    return out


def join(base: Value | None, ours: Value | None, theirs: Value | None) -> Value | None:
    if _equal(theirs, base) or _equal(theirs, ours):
        return ours
    if _equal(ours, base):
        return theirs
    if ours is None or theirs is None:
        raise Conflicts("removed on one side")
    if base is not None and theirs.digest == base.digest:
        data = ours  # only moved there
    elif base is not None and ours.digest == base.digest:
        data = theirs
    elif theirs.digest == ours.digest:
        data = ours
    else:
        data = _merged(base, ours, theirs)
    return replace(data, path=theirs.path if base is not None and ours.path == base.path else ours.path)


def _equal(one: Value | None, other: Value | None) -> bool:
    return other is None if one is None else one.same(other)


class _Absent:
    pass


ABSENT = _Absent()


def _merged(base: Value | None, ours: Value, theirs: Value) -> Value:
    def was(name: str) -> Any:
        return ABSENT if base is None else getattr(base, name)

    title = _pick(was("title"), ours.title, theirs.title)
    tier = _pick(was("tier"), ours.tier, theirs.tier, rule=lambda a, b: max(a, b, key=HEIGHT.__getitem__))
    updated = _pick(was("updated"), ours.updated, theirs.updated, rule=max)
    old_tags = frozenset() if base is None else base.tags
    tags = frozenset(
        tag for tag in ours.tags | theirs.tags
        if (tag in ours.tags and tag in theirs.tags) or tag not in old_tags
    )  # fmt: skip
    if base is None and ours.slots != theirs.slots:
        raise Conflicts("two texts")
    slots = tuple(
        _pick(None if base is None else base.slots[at], ours.slots[at], theirs.slots[at]) for at in range(SLOTS)
    )
    edges = {}
    for key in {**ours.edges, **theirs.edges}:
        edge = _pick(None if base is None else base.edges.get(key), ours.edges.get(key), theirs.edges.get(key),
                     rule=_edge(None if base is None else base.edges.get(key)))  # fmt: skip
        if edge is not None:
            edges[key] = edge
    return Value(ours.path, "", title, tier, updated, tags, slots, edges)


def _edge(base: Any) -> Any:
    def rule(ours: Any, theirs: Any) -> Any:
        if ours is None or theirs is None:
            raise Conflicts("an edge that one removed and one changed")
        old = base or (ABSENT, ABSENT)
        return _pick(old[0], ours[0], theirs[0], rule=max), _pick(old[1], ours[1], theirs[1], rule=min)

    return rule


def _pick(base: Any, ours: Any, theirs: Any, rule: Any = None) -> Any:
    if ours == theirs or theirs == base:
        return ours
    if ours == base:
        return theirs
    if rule is None:
        raise Conflicts("both changed it")
    return rule(ours, theirs)


def fresh_place(path: str, number: int) -> str:
    """Somewhere else in the vault, under the same name or another."""
    name = PurePosixPath(path).name
    return f"moved-{number}/{name}" if number % 2 else f"shelf/renamed {number}_{name[-11:]}"
