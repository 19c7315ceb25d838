"""A pure model of a vault: memories as plain values, and the rules of DESIGN section 5 told once more, plainly.

It shares no code with the product: it reads notes with a YAML parser and nothing else. Versions are compared by bytes (their
digest) and place, merged field by field. What the model says of a merge is what the note must say; its bytes are then taken
from the note.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import PurePosixPath
from typing import Any

import yaml

HEIGHT = {"archival": 0, "working": 1, "core": 2}
EDGES = ("supports", "part_of", "depends_on", "defines", "derived_from", "evolved_from", "related_to", "contradicts")
LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
PLACES = ("First", "Second", "Third", "Fourth")
SLOTS = len(PLACES)
"""Lines of each memory, with blank ones between them, so that every line is a field of its own."""


class Conflicts(Exception):
    """The undo is refused, the join has to choose."""


@dataclass(frozen=True)
class Edge:
    weight: float
    created: datetime | None
    reason: str | None = None


@dataclass(frozen=True)
class Value:
    """One memory as it stands at one place. `digest` "": not known yet."""

    path: str
    digest: str
    title: str | None
    type: str | None
    tier: str | None
    space: str | None
    updated: datetime | None
    tags: frozenset[str]
    slots: tuple[str, ...]
    edges: Mapping[str, Edge]
    """By edge type and name of the target: `supports:1a2b3c4d`."""
    valid_until: datetime | None = None
    outdated_reason: str | None = None

    @property
    def said(self) -> Mapping[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "digest"} | {"edges": dict(self.edges)}

    def same(self, other: Value | None) -> bool:
        return other is not None and (self.path, self.digest) == (other.path, other.digest)


State = Mapping[str, Value]
Change = Mapping[str, tuple[Value | None, Value | None]]
"""Id -> (before, after)."""


# Reading


def content(slots: tuple[str, ...]) -> str:
    return "\n\n".join(slots)


def digest(data: bytes) -> str:
    """The name that git gives a file's bytes."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def head_and_body(data: bytes) -> tuple[dict[str, Any], str]:
    """The frontmatter, every value as it is written, and the text."""
    text = data.decode()
    assert text.startswith("---\n"), text[:200]
    head, body = text[4:].split("\n---\n", 1)
    return yaml.load(head, LOADER), body


@cache
def read(data: bytes, path: str) -> tuple[str | None, Value]:
    """A note's id and value."""
    head, body = head_and_body(data)
    more = head.get("edges", {})
    edges = {}
    for kind in EDGES:
        given = head.get(kind, [])
        for link in [given] if isinstance(given, str) else given:
            key = f"{kind}:{name_in_edges(link.strip('[]').split('|')[0])}"
            about = more.get(key, {})
            edges[key] = Edge(float(about.get("weight", 0.5)), _time(about.get("created")), about.get("reason"))
    tags = head.get("tags", [])
    return head.get("id"), Value(
        path, digest(data), head.get("title"), head.get("type"), head.get("tier"), _text(head.get("space")),
        _time(head.get("updated")), frozenset([tags] if isinstance(tags, str) else tags),
        tuple(line for line in body.split("\n") if line), edges, _time(head.get("valid_until")), head.get("outdated_reason"),
    )  # fmt: skip


def name_in_edges(stem: str) -> str:
    """What an edge is called by: the short id that its target's file name ends in, else that name."""
    found = re.search(r"(?:^|_)([0-9a-f]{8})$", stem)
    return found[1] if found else stem


def _text(given: str | None) -> str | None:
    return None if given in {None, "", "null", "~"} else given


def _time(given: str | None) -> datetime | None:
    return None if given is None else datetime.fromisoformat(given).astimezone(UTC)


def observed(notes: Mapping[str, bytes], leave: str) -> dict[str, Value]:
    """The memories among these files, without the self node (`leave`)."""
    found: dict[str, Value] = {}
    for node, value in every(notes):
        if node != leave:
            assert node is not None, f"{value.path} is not adopted"
            assert node not in found, f"{value.path} and {found[node].path} have one id"
            found[node] = value
    return found


def every(notes: Mapping[str, bytes]) -> Iterator[tuple[str | None, Value]]:
    for path, data in notes.items():
        yield read(data, path)


# Writing, as a person does it in an editor


def with_slot(data: bytes, old: str, new: str) -> bytes:
    assert data.count(old.encode()) == 1, (old, data)
    return data.replace(old.encode(), new.encode())


def with_line(data: bytes, key: str, value: str) -> bytes:
    """A note whose frontmatter has this one line in the place of the one that it had, else as its last."""
    head, body = data.decode()[4:].split("\n---\n", 1)
    lines, out, done = head.split("\n"), [], False
    for line in lines:
        if line.startswith((" ", "- ")) and done and out[-1].startswith(f"{key}: "):
            continue  # the rest of a list in block style
        mine = line.split(":")[0] == key
        out.append(f"{key}: {value}" if mine else line)
        done = done or mine
    return "\n".join(["---", *out, *([] if done else [f"{key}: {value}"]), "---", body]).encode()


def new_note(node: str, title: str, slots: tuple[str, ...], moment: str) -> bytes:
    """A note as another tool writes it, complete."""
    head = f"id: {node}\ntype: fact\ntier: working\nspace: random\ntitle: {title}\ncreated: {moment}\nupdated: {moment}"
    return f"---\n{head}\n---\n{content(slots)}\n".encode()


def fresh_place(path: str, number: int) -> str:
    """Somewhere else in the vault, under the same name or another."""
    name = PurePosixPath(path).name
    return f"moved-{number}/{name}" if number % 2 else f"shelf/renamed {number}_{name[-11:]}"


# Taking back, bringing together


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
    return _placed(out)


def brought_together(base: State, ours: State, theirs: State) -> State:
    """What a sync or a merge makes of two states. Raises Conflicts."""
    out = {}
    for node in {**base, **ours, **theirs}:
        result = join(base.get(node), ours.get(node), theirs.get(node))
        if result is not None:
            out[node] = result
    return _placed(out)


def _placed(state: dict[str, Value]) -> State:
    places = [one.path for one in state.values()]
    if len(places) != len(set(places)):
        raise Conflicts("two at one place")
    return state


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
    def field(name: str, rule: Any = None) -> Any:
        return _pick(ABSENT if base is None else getattr(base, name), getattr(ours, name), getattr(theirs, name), rule)

    def earlier(one: datetime | None, other: datetime | None) -> datetime:
        if one is None or other is None:
            raise Conflicts("an end that one removed and one changed")
        return min(one, other)

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
        old = None if base is None else base.edges.get(key)
        edge = _pick(old, ours.edges.get(key), theirs.edges.get(key), rule=_edge(old))
        if edge is not None:
            edges[key] = edge
    return Value(
        ours.path, "", field("title"), field("type"), field("tier", lambda a, b: max(a, b, key=HEIGHT.__getitem__)),
        field("space"), field("updated", max), tags, slots, edges, field("valid_until", earlier), field("outdated_reason"),
    )  # fmt: skip


def _edge(base: Edge | None) -> Any:
    def rule(ours: Edge | None, theirs: Edge | None) -> Edge:
        if ours is None or theirs is None:
            raise Conflicts("an edge that one removed and one changed")
        old: Any = base or Edge(ABSENT, ABSENT, ABSENT)  # type: ignore[arg-type]
        return Edge(
            _pick(old.weight, ours.weight, theirs.weight, rule=max),
            _pick(old.created, ours.created, theirs.created, rule=min),
            _pick(old.reason, ours.reason, theirs.reason),
        )

    return rule


def _pick(base: Any, ours: Any, theirs: Any, rule: Any = None) -> Any:
    if ours == theirs or theirs == base:
        return ours
    if ours == base:
        return theirs
    if rule is None:
        raise Conflicts("both changed it")
    return rule(ours, theirs)
