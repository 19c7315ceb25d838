"""Show a memory that a newer one replaced only marked as older, and behind the newer one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from ormahd.index.rows import Filter
from ormahd.search.renew import BEHIND, Holds, Reworded, never, replaced
from ormahd.whisper.gather import Pool, Readable
from ormahd.whisper.types import Candidate

KEPT = ("session: ", "feedback: ")
"""Beginnings of `dropped` reasons with which a newer memory is not brought back."""


def renew(
    index: Readable,
    chosen: Sequence[Candidate],
    preferences: Sequence[Candidate],
    pool: Pool,
    *,
    now: datetime,
    holds: Holds,
    reworded: Reworded = never,
) -> tuple[list[Candidate], list[Candidate], frozenset[str]]:
    """Return the chosen memories and the standing preferences, with each newer memory before the one it replaced, and
    the older one marked; and the ids of all replaced memories that were considered.

    If the newer memory must not be shown, the older one is dropped too.
    """
    everyone = [*pool.candidates, *pool.preferences]
    by_id = {one.id: one for one in reversed(everyone)}
    if not chosen and not preferences:
        return [], [], frozenset()
    near = [one.id for one in sorted(everyone, key=lambda one: -one.order)[:10]]
    ids = list(dict.fromkeys([*(one.id for one in (*chosen, *preferences)), *near]))
    marks = replaced(index, ids, index.candidates(list(by_id)), Filter(alive_at=now), holds, reworded)
    there = {one.id for one in (*chosen, *preferences)}
    found = _in_order(index, chosen, marks, by_id, there, pool)
    standing = _in_order(
        index, [one for one in preferences if one.id not in {two.id for two in found}], marks, by_id, there, pool
    )
    return found, standing, frozenset(marks)


def _in_order(
    index: Readable,
    some: Sequence[Candidate],
    marks: Mapping[str, str],
    by_id: Mapping[str, Candidate],
    there: set[str],
    pool: Pool,
) -> list[Candidate]:
    found: dict[str, Candidate] = {}
    listed = {one.id: one for one in some}
    for one in some:
        newer_id = marks.get(one.id)
        if newer_id is None or newer_id in found:
            one.older_than = newer_id
            found.setdefault(one.id, one)
            continue
        newer = listed.get(newer_id) or by_id.get(newer_id) or _read(index, newer_id, one, pool)
        if newer is None or (newer.dropped is not None and newer.dropped.startswith(KEPT)):
            one.dropped = f"older: replaced by {newer_id}, which is not said again"
            there.discard(one.id)
            continue
        newer.dropped = None
        newer.relevance = newer.numbers["renewed"] = max(one.relevance, newer.relevance)
        newer.order = max(one.order, newer.order)
        one.order = min(one.order, newer.order * BEHIND)
        one.older_than = newer_id
        there.add(newer_id)
        found[newer_id] = newer
        found[one.id] = one
    return list(found.values())


def _read(index: Readable, node_id: str, older: Candidate, pool: Pool) -> Candidate | None:
    """Return a newer memory that an edge names but the search did not find, as a candidate; None if it is gone."""
    row = index.notes([node_id], connections=False).get(node_id)
    if row is None:
        return None
    found = Candidate(row, older.score, "activated", older.relevance, older.order)
    pool.candidates.append(found)
    return found
