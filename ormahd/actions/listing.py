"""List the newest memories, and recent whispers. No search is made, and nothing counts as used."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final, TypeVar

from ormahd.actions.views import headline, iso
from ormahd.api import ListedMemory, ListResult, WhisperedMemory, WhisperedPrompt, WhispersResult
from ormahd.index.rows import Filter
from ormahd.state import whispers
from ormahd.state.whispers import SPOKEN

if TYPE_CHECKING:
    from ormahd.model.node import Narrowing
    from ormahd.ormah import Ormah

T = TypeVar("T")

BEGINNING: Final = 400
"""Characters of a memory's text, or of a prompt, in a list."""


def newest(ormah: Ormah, narrowing: Narrowing, limit: int) -> ListResult:
    """Return the newest memories that match, newest first; including outdated and archived ones."""
    chosen = Filter(
        types=_tuple(narrowing.types), tiers=_tuple(narrowing.tiers), spaces=_tuple(narrowing.spaces),
        tags=_tuple(narrowing.tags), created_after=narrowing.created_after, created_before=narrowing.created_before,
    )  # fmt: skip
    rows = ormah.index.notes(ormah.index.newest(chosen, limit), connections=False).values()
    memories = [
        ListedMemory(
            row.id, row.short_id, headline(row.title, row.content, 200), row.type.value, row.tier.value, row.space,
            list(row.tags), row.content[:BEGINNING], iso(row.created) or "", iso(row.updated) or "", iso(row.valid_until),
            row.source, row.path,
        )
        for row in rows
    ]  # fmt: skip
    return ListResult(memories, ormah.index.count(chosen), ormah.index.stats().by_space)


def whispered(ormah: Ormah, *, since: datetime | None, before: datetime | None, space: str | None, limit: int) -> WhispersResult:  # fmt: skip
    """Return recent prompts with the memories whispered for them, newest first.

    `space`: only prompts from there ("global": from outside of any space).
    """
    prompts = whispers.prompts(ormah.state, since=since, before=before, space=space, limit=limit)
    shown = whispers.shown(ormah.state, [one.event for one in prompts])
    rows = ormah.index.notes(list({one.node_id for some in shown.values() for one in some}), connections=False)

    def memory(one: whispers.LoggedMemory) -> WhisperedMemory:
        row = rows.get(one.node_id)
        title = None if row is None else headline(row.title, row.content, 200)
        return WhisperedMemory(one.node_id, one.node_id[:8], title, one.shown, round(one.relevance, 4))

    return WhispersResult([
        WhisperedPrompt(
            one.event, iso(one.time) or "", one.agent, one.session_id, one.space, one.prompt[:BEGINNING],
            None if one.outcome == SPOKEN else one.outcome, round(one.milliseconds, 1),
            [memory(said) for said in shown.get(one.event, ())],
        )
        for one in prompts
    ])  # fmt: skip


def _tuple(values: list[T] | None) -> tuple[T, ...] | None:
    return None if values is None else tuple(values)
