"""Show and list memories without a search: one in full, the newest, the whisper log, and beliefs that changed.

Showing one memory in full counts as a use; listing does not. Both also answer from the notes as they were at an earlier
commit or time. Changed and contradicting beliefs are read from `evolved_from` and `contradicts` edges.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final, TypeVar

from ormahd.actions.past import find_standing, readable
from ormahd.actions.views import day, headline, iso, node_view, replaced_today
from ormahd.api import (
    AsOf,
    Belief,
    Evolution,
    InsightsResult,
    ListedMemory,
    ListResult,
    NodeResult,
    Tension,
    WhisperedMemory,
    WhisperedPrompt,
    WhispersParams,
    WhispersResult,
)
from ormahd.errors import NotFound, OrmahError
from ormahd.index.rows import EdgeRow, Filter, NodeRow
from ormahd.index.snapshots import IndexSnapshot
from ormahd.model.change import Kind
from ormahd.model.node import EdgeType, Narrowing, Strength
from ormahd.model.strength import STRENGTH_FILE as STRENGTH
from ormahd.model.strength import read_strength
from ormahd.ormah import Ormah
from ormahd.state import whispers
from ormahd.state.whispers import SPOKEN
from ormahd.text.words import query_terms
from ormahd.watch.snapshot_files import CommitFiles

Progress = Callable[[int, int, str], None]


@contextmanager
def looking_back(
    ormah: Ormah, as_of: str, progress: Progress, *, query: str | None = None
) -> Iterator[tuple[IndexSnapshot, AsOf, datetime]]:
    """Context manager: yield the index of the earlier state that `as_of` names, a description of that state, and its
    time.

    `query`: the question that will be asked; notes that may match it are embedded first. `as_of`: see
    `vault.revisions`.

    Raises BadRequest, NotFound, Ambiguous: there is no such state. Unavailable: no room on the disk.
    """
    standing = find_standing(ormah.vault, ormah.history, as_of, ormah.ranking_clock())
    begun = time.perf_counter()

    def load() -> tuple[CommitFiles, Mapping[str, Strength]]:
        state = CommitFiles(ormah.vault, ormah.reconciler.excluded, standing.commit)
        return state, read_strength(state.file(STRENGTH) or b"")

    with ormah.pasts.at(standing.time, load, progress) as past:
        if query is not None:
            past.fill(query_terms(query), progress, stopped=ormah.pasts.stopped)
        seconds = round(time.perf_counter() - begun, 3)
        told = AsOf(
            standing.commit, standing.op, iso(standing.time) or "", iso(standing.moment.astimezone(UTC)) or "",
            past.count(), seconds,
        )  # fmt: skip
        yield past, told, standing.moment


def get(ormah: Ormah, node_id: str, *, session_id: str | None = None, touch: bool = True) -> NodeResult:
    """Return the node that `node_id` names (full id, or a unique prefix of at least 4 characters). `touch`: count
    this as a use.

    Raises:
        NotFound, Ambiguous, BadRequest: the id.
    """
    try:
        row = ormah.index.note(ormah.index.resolve(node_id))
    except NotFound as exc:
        raise _no_longer(ormah, node_id, exc) from exc
    if touch:
        now = ormah.ranking_clock()
        ormah.state.asked(now)
        ormah.state.touch([row.id], how="get", session_id=session_id, at=now)
    return node_view(ormah.index, row, older_than=replaced_today(ormah, [row.id]).get(row.id))


def _no_longer(ormah: Ormah, node_id: str, absent: NotFound) -> NotFound:
    """Return the error for an id that no memory has: when the memory that had it went, if one had it."""
    try:
        last = ormah.history.ops(node_id=ormah.history.find_node(node_id), limit=1)
    except OrmahError:
        return absent
    if not last or last[0].kind == Kind.PURGE:
        return absent
    when, back = (
        f"{last[0].time.astimezone():%Y-%m-%d}: {last[0].subject}",
        f"to bring it back: ormahctl undo {last[0].commit[:8]}",
    )
    return NotFound(f"{absent.message} since {when}", hint=back)


def get_as_of(ormah: Ormah, node_id: str, as_of: str, *, progress: Progress) -> NodeResult:
    """Return the node as it was at a time or commit, even if it was forgotten since. Does not count as a use.

    Raises:
        NotFound, Ambiguous, BadRequest: the id, or the time.
    """
    with looking_back(ormah, as_of, progress) as (past, told, _):
        try:
            row = past.note(past.resolve(node_id))
        except NotFound as exc:
            raise NotFound(
                f"no memory had the id {node_id.strip()!r} then ({readable(datetime.fromisoformat(told.now))}, commit {told.commit[:8]})",
                hint=f"`ormahctl history {node_id.strip()}` tells when it came",
            ) from exc
        return node_view(past, row, told)


T = TypeVar("T")

BEGINNING: Final = 400
"""Maximum number of characters of a memory's text, or of a prompt, in a list."""


def filter_for(narrowing: Narrowing) -> Filter:
    """Return the conditions of a search in the index that `narrowing` asks for."""
    return Filter(
        types=_tuple(narrowing.types), tiers=_tuple(narrowing.tiers), spaces=_tuple(narrowing.spaces),
        tags=_tuple(narrowing.tags), created_after=narrowing.created_after, created_before=narrowing.created_before,
    )  # fmt: skip


def newest(ormah: Ormah, narrowing: Narrowing, limit: int, skip: int = 0) -> ListResult:
    """Return the newest memories that match but the first `skip`, newest first; including outdated and archived ones."""
    lacking, chosen = ormah.lacking(), filter_for(narrowing)
    rows = ormah.index.notes(ormah.index.newest(chosen, skip + limit)[skip:], connections=False).values()
    memories = [
        ListedMemory(
            row.id, row.short_id, headline(row.title, row.content, 200), row.type.value, row.tier.value, row.space,
            list(row.tags), row.content[:BEGINNING], iso(row.created) or "", iso(row.updated) or "", iso(row.valid_until),
            row.source, row.path,
        )
        for row in rows
    ]  # fmt: skip
    return ListResult(memories, ormah.index.count(chosen), ormah.index.by_space(), lacking)


def whispered(ormah: Ormah, params: WhispersParams, between: Narrowing) -> WhispersResult:
    """Return prompts with the memories whispered for them, newest first. `between`: when the prompts came."""
    prompts = whispers.prompts(
        ormah.state, since=between.created_after, before=between.created_before, space=params.space,
        node_id=params.node_id and ormah.anyone(params.node_id), limit=params.limit,
    )  # fmt: skip
    shown = whispers.shown(ormah.state, [one.event for one in prompts])
    rows = ormah.index.notes(list({one.node_id for some in shown.values() for one in some}), connections=False)

    titles = {row.id: headline(row.title, row.content, 200) for row in rows.values()}
    return WhispersResult([
        WhisperedPrompt(
            one.event, iso(one.time) or "", one.agent, one.session_id, one.space, one.prompt[:BEGINNING],
            None if one.outcome == SPOKEN else one.outcome, round(one.milliseconds, 1),
            [WhisperedMemory(it.node_id, it.node_id[:8], titles.get(it.node_id), it.shown, round(it.relevance, 4)) for it in shown.get(one.event, ())],
        )
        for one in prompts
    ])  # fmt: skip


def _tuple(values: list[T] | None) -> tuple[T, ...] | None:
    return None if values is None else tuple(values)


def insights(ormah: Ormah, *, limit: int, space: str | None = None) -> InsightsResult:
    """Return changed beliefs and contradictions: of each the newest `limit`, newest first. `space`: only those with a
    memory of that space ("global": a memory without one)."""
    wanted = {EdgeType.EVOLVED_FROM, EdgeType.CONTRADICTS}
    lacking = ormah.lacking()
    edges = [edge for edge in ormah.index.edges_of() if edge.edge in wanted]
    rows = ormah.index.notes([end for edge in edges for end in (edge.source, edge.target)], connections=False)
    edges = [
        edge for edge in edges
        if {edge.source, edge.target} <= rows.keys()
        and (space is None or space in {rows[end].space or "global" for end in (edge.source, edge.target)})
    ]  # fmt: skip
    edges.sort(key=lambda edge: (_time(edge, rows), edge.source, edge.target), reverse=True)
    now = ormah.ranking_clock()
    evolutions = [
        Evolution(_belief(rows[edge.source]), _belief(rows[edge.target]), iso(_time(edge, rows)) or "", edge.reason, edge.weight)
        for edge in edges if edge.edge is EdgeType.EVOLVED_FROM
    ]  # fmt: skip
    tensions: dict[frozenset[str], Tension] = {}
    for edge in edges:
        if edge.edge is EdgeType.CONTRADICTS:  # edges in both directions are one contradiction
            one, two = rows[edge.source], rows[edge.target]
            tensions.setdefault(frozenset((one.id, two.id)), Tension(
                _belief(one), _belief(two), iso(_time(edge, rows)) or "", edge.reason, edge.weight,
                one.expired(now) or two.expired(now),
            ))  # fmt: skip
    found = evolutions[:limit], list(tensions.values())[:limit]
    text = _prose(*found) + ("\n\nThe index still lacks memories of the vault: there may be more." if lacking else "")
    return InsightsResult(text, *found, lacking)


def _time(edge: EdgeRow, rows: dict[str, NodeRow]) -> datetime:
    return edge.created or rows[edge.source].created


def _belief(row: NodeRow) -> Belief:
    return Belief(
        row.id, row.short_id, row.type.value, row.space, headline(row.title, row.content), row.content,
        iso(row.created) or "", iso(row.valid_until), row.outdated_reason,
    )  # fmt: skip


def _prose(evolutions: list[Evolution], tensions: list[Tension]) -> str:
    lines = []
    if evolutions:
        lines.append("Beliefs that changed:")
        lines += [
            f"- {day(one.time)}: {one.newer.title} (id: {one.newer.id}) replaced {one.older.title} (id: {one.older.id})"
            f"{_why(one.reason)}"
            for one in evolutions
        ]
    if tensions:
        lines += ["", "Contradictions:"] if lines else ["Contradictions:"]
        lines += [
            f"- {day(one.time)}: {one.a.title} (id: {one.a.id}) against {one.b.title} (id: {one.b.id})"
            f"{' [settled]' if one.settled else ''}{_why(one.reason)}"
            for one in tensions
        ]
    return "\n".join(lines) or "No belief has changed, and none contradicts another."


def _why(reason: str | None) -> str:
    return f": {' '.join(reason.split())}" if reason else ""
