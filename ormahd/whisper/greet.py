"""What a session is told when it begins: who the user is, then the core memories, briefly (issue 4; REFERENCE part G).

A whisper answers a prompt; this stands before any prompt, in every session, so it is short and has a budget of its own.
What the session's context holds already is not said again: after a resumption the harness replays it, after a compaction
it is gone (`Sessions.compacted`), and so the same question, what of it is missing, answers all ways to begin.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, Protocol

from msgspec import Struct, field

from ormahd.core.node import Tier
from ormahd.index.rows import GLOBAL, Edge, Filter, NodeRow
from ormahd.settings.whisper import WhisperSettings
from ormahd.vault.create import SELF_TEXT
from ormahd.whisper.gather import neighbours
from ormahd.whisper.render import REMEMBERS, enclose, line, quoted
from ormahd.whisper.steps import Shown, context_key

CONTENT: Final = 240
"""Characters of one memory's content: the beginning, by which it is known whether to recall it."""
MOST: Final = 20
"""Memories at most, however short."""


class Readable(Protocol):
    """What a greeting asks of the index."""

    def edges_of(self, ids: Sequence[str] | None = None) -> list[Edge]: ...
    def ids(self, chosen: Filter) -> list[str]: ...
    def notes(self, ids: Sequence[str], *, connections: bool = True) -> dict[str, NodeRow]: ...


class Greeting(Struct, frozen=True):
    """The text, "" where nothing is to be said, and how it shows which memory (`context_key`)."""

    text: str = ""
    shown: Mapping[str, Shown] = field(default_factory=dict)


def greet(
    index: Readable,
    *,
    space: str | None,
    self_id: str,
    known: Collection[str],
    now: datetime,
    settings: WhisperSettings,
) -> Greeting:
    """What a session that works in `space` ought to know from its beginning, without what it knows (`known`: context keys)."""
    room = settings.greeting_characters - len(enclose([], heading=REMEMBERS))
    lines: list[str] = []
    shown: dict[str, Shown] = {}
    for row in _due(index, space, self_id, now):
        if context_key(row) in known:
            continue
        entry, how = _entry(row, room)
        if entry is None or len(shown) == MOST:
            break
        lines += entry
        shown[context_key(row)] = how
        room -= sum(len(one) + 1 for one in entry)
    if not shown or (len(lines) == 1 and next(iter(shown)).startswith(self_id)):  # a name alone is no reason to speak
        return Greeting()
    return Greeting(enclose(lines, heading=REMEMBERS), shown)


def _due(index: Readable, space: str | None, self_id: str, now: datetime) -> Iterator[NodeRow]:
    """The user's own node, what is linked to it by `defines`, then core memories: of this space, then global ones."""
    linked = neighbours(index.edges_of([self_id]), self_id)
    core = index.ids(Filter(tiers=(Tier.CORE,), spaces=(GLOBAL, *([space] if space else [])), alive_at=now))
    rows = index.notes([self_id, *linked, *core], connections=False)
    me = rows.pop(self_id, None)
    if me is not None:
        yield me
    here = [row for row in rows.values() if row.space in (None, space) and not row.expired(now)]
    here = [row for row in here if row.tier is not Tier.ARCHIVAL]
    yield from sorted((row for row in here if row.id in linked), key=_first)
    rest = sorted((row for row in here if row.id not in linked), key=_first)
    yield from sorted(rest, key=lambda row: row.space is None)


def _first(row: NodeRow) -> tuple[bool, float, float, str]:
    """Core before working, important before others, young before old."""
    return (row.tier is not Tier.CORE, -row.strength.importance, -row.created.timestamp(), row.id)


def _entry(row: NodeRow, room: int) -> tuple[list[str] | None, Shown]:
    """A memory's lines within `room` characters; None where not even its title has room."""
    head = line(row)
    if len(head) + 1 > room:
        return None, "title"
    said = " ".join(row.content.split())
    if row.title is not None and said in {" ".join(row.title.split()), f"{row.title}{SELF_TEXT}"}:
        return [head], "full"
    body = quoted(row.content, CONTENT)
    if not body:
        return [head], "full"
    if len(head) + len(body) + 2 > room:
        return [head], "title"
    return [head, body], "full" if len(row.content) <= CONTENT else "title"
