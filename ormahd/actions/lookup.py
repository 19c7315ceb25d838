"""Show and list memories without a search: one in full, the newest, the whisper log, and beliefs that changed.

Showing one memory in full counts as a use; listing does not. Both also answer from the notes as they were at an earlier
commit or time. Changed and contradicting beliefs are read from `evolved_from` and `contradicts` edges.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final

from msgspec.structs import replace

from ormahd import api
from ormahd.actions.amend import PERSON, Progress, silent
from ormahd.actions.evidence import folder_of, mark_stale
from ormahd.actions.past import find_past_state, readable
from ormahd.actions.views import day, headline, iso, node_view, of_row, replaced_today
from ormahd.errors import NotFound, OrmahError
from ormahd.index.index import Index
from ormahd.index.rows import Filter, NodeRow
from ormahd.model.change import Kind
from ormahd.model.node import EdgeType, Narrowing, short_id
from ormahd.model.strength import STRENGTH_FILE as STRENGTH
from ormahd.model.strength import read_strength
from ormahd.note.read import parse
from ormahd.ormah import Ormah
from ormahd.state import whispers
from ormahd.state.whispers import SPOKEN
from ormahd.text.words import query_terms
from ormahd.watch.identity import CommitFiles


@contextmanager
def looking_back(
    ormah: Ormah, as_of: str, progress: Progress, *, query: str | None = None
) -> Iterator[tuple[Index, api.AsOf, datetime]]:
    """Context manager: yield (index of a past state of the vault, description of that state, the time that counts as
    now in it).

    `as_of`: a time or a revision, as `past.find_past_state` takes it. `query`: the question that will be asked; notes
    that may match it are embedded first.

    Raises:
        BadRequest, NotFound, Ambiguous: there is no such state.
        Unavailable: there is no room on the disk.
    """
    state = find_past_state(ormah.vault, ormah.history, as_of, ormah.ranking_clock())
    begun = time.perf_counter()

    tree = CommitFiles(ormah.vault, ormah.reconciler.excluded, state.commit)
    strength = read_strength(tree.file(STRENGTH) or b"")
    terms = None if query is None else query_terms(query)
    with ormah.pasts.at(state.time, tree.files, ormah.vault.blob, strength, progress, terms=terms) as past:
        seconds = round(time.perf_counter() - begun, 3)
        now, count = iso(state.moment), past.count()
        yield past, of_row(api.AsOf, state, now=now, notes=count, seconds=seconds), state.moment


def get(
    ormah: Ormah,
    params: api.NodeParams,
    progress: Progress = silent,
    *,
    cwd: str | None = None,
    space: str | None = None,
) -> api.NodeResult:
    """Return the node that `node_id` names (full id, or a unique prefix of at least 4 characters). With `touch` this
    counts as a use.

    With `as_of` it is the node as it was then, even if it was forgotten since. That does not count as a use. `cwd`,
    `space`: a folder of the caller's project, and the project's space.

    Raises:
        NotFound, Ambiguous, BadRequest: the id is unknown, not unique or invalid, or the time is invalid.
    """
    if params.as_of is not None:
        return _get_as_of(ormah, params.node_id, params.as_of, progress)
    try:
        row = ormah.index.note(ormah.index.resolve(params.node_id))
    except NotFound as exc:
        raise _absent_error(ormah, params.node_id, exc) from exc
    if params.touch:
        now = ormah.ranking_clock()
        ormah.state.asked(now)
        ormah.state.touch([row.id], how="get", session_id=params.session_id, at=now)
    if row.evidence and space != row.space:  # from elsewhere, as on the page
        folder = folder_of(ormah, row.space)
        cwd, space = None if folder is None else str(folder), row.space
    row = mark_stale(row, cwd, space)
    view = node_view(ormah.index, row, older_than=replaced_today(ormah, [row.id]).get(row.id))
    return replace(view, guard_waits=row.guard is not None and not is_by_a_person(ormah, row))


VERSIONS: Final = 50
"""Maximum number of versions by a person that are read, the newest first."""


def is_by_a_person(ormah: Ormah, row: NodeRow) -> bool:
    """Return whether a person committed the present values of a note's guard, of what it applies to, and of the text
    that explains it.

    If an agent or a job changed one of these, the guard does not apply until a person writes it again.
    """
    today = (row.guard, row.paths, row.commands, row.space, row.title, row.content)
    for op in ormah.history.ops(node_id=row.id, source=PERSON, limit=VERSIONS):
        changed = ormah.history.of_node(op.commit, row.id)
        after = None if changed is None else ormah.history.pair(changed)[1]
        if after is None:
            continue
        note = parse(after[1], after[0])
        if today == (note.guard, note.paths, note.commands, note.space, note.title, note.content):
            return True
    return False


def _absent_error(ormah: Ormah, node_id: str, absent: NotFound) -> NotFound:
    """Return the error for an id that no memory has. If a memory had that id once, the error says when it was removed.
    `absent`: the error otherwise."""
    try:
        last = ormah.history.ops(node_id=ormah.history.find_node(node_id), limit=1)
    except OrmahError:
        return absent
    if not last or last[0].kind == Kind.PURGE:
        return absent
    since, back = last[0].time.astimezone(), f"to bring it back: ormahctl undo {last[0].commit[:8]}"
    return NotFound(f"{absent.message} since {since:%Y-%m-%d}: {last[0].subject}", hint=back)


def _get_as_of(ormah: Ormah, node_id: str, as_of: str, progress: Progress) -> api.NodeResult:
    """Return a memory as it was at the time `as_of`.

    Raises:
        NotFound: no memory had that id then.
    """
    with looking_back(ormah, as_of, progress) as (past, state, _):
        try:
            row = past.note(past.resolve(node_id))
        except NotFound as exc:
            then, name = f"{readable(datetime.fromisoformat(state.now))}, commit {state.commit[:8]}", node_id.strip()
            hint = f"`ormahctl history {name}` tells when it came"
            raise NotFound(f"no memory had the id {name!r} then ({then})", hint=hint) from exc
        return node_view(past, row, state)


BEGINNING: Final = 400
"""Maximum number of characters of a memory's text, or of a prompt, in a list."""
TITLE: Final = 200
"""Maximum number of characters of a memory's title in a list."""


def filter_for(narrowing: Narrowing) -> Filter:
    """Return the filter of the index for the conditions in `narrowing`."""
    fields: dict[str, Any] = {name: getattr(narrowing, name) for name in Narrowing.model_fields}
    lists: dict[str, Any] = {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}
    return Filter(**fields | lists)


def newest(ormah: Ormah, params: api.ListParams) -> api.ListResult:
    """Return the newest memories that match, newest first, without the first `skip`. Outdated and archived ones are
    included."""
    lacking, chosen = ormah.lacking(), filter_for(Narrowing.of(params))
    ids = ormah.index.newest(chosen, params.skip + params.limit)[params.skip :]
    memories = []
    for row in ormah.index.notes(ids).values():
        title, content = headline(row.title, row.content, TITLE), row.content[:BEGINNING]
        memories.append(of_row(api.ListedMemory, row, title=title, content=content, origin=row.source))
    total, spaces = ormah.index.count(chosen), ormah.index.by_space()
    return api.ListResult(memories=memories, total=total, spaces=spaces, degraded=lacking)


def whispered(ormah: Ormah, params: api.WhispersParams) -> api.WhispersResult:
    """Return the newest prompts with the memories whispered for them, newest first."""
    between = Narrowing.of({"created_after": params.since, "created_before": params.before})
    prompts = whispers.prompts(
        ormah.state,
        since=between.created_after,
        before=between.created_before,
        space=params.space,
        node_id=params.node_id and ormah.full_id(params.node_id),
        limit=params.limit,
    )
    by_event = whispers.shown_memories(ormah.state, [prompt.event for prompt in prompts])
    rows = ormah.index.notes(list({logged.node_id for memories in by_event.values() for logged in memories}))
    titles = {row.id: headline(row.title, row.content, TITLE) for row in rows.values()}
    found = []
    for prompt in prompts:
        memories = []
        for logged in by_event.get(prompt.event, ()):
            names = {"id": logged.node_id, "short_id": short_id(logged.node_id), "title": titles.get(logged.node_id)}
            memories.append(of_row(api.WhisperedMemory, logged, **names, relevance=round(logged.relevance, 4)))
        silence, took = None if prompt.outcome == SPOKEN else prompt.outcome, round(prompt.milliseconds, 1)
        text = prompt.prompt[:BEGINNING]
        found.append(
            of_row(api.WhisperedPrompt, prompt, prompt=text, silence=silence, milliseconds=took, memories=memories)
        )
    return api.WhispersResult(whispers=found)


def insights(ormah: Ormah, params: api.InsightsParams) -> api.InsightsResult:
    """Return the newest changed beliefs and the newest contradictions, at most `limit` of each, newest first. `space`:
    only those with a memory of that space ("global": a memory without a space)."""
    lacking = ormah.lacking()
    edges = [edge for edge in ormah.index.edges_of() if edge.edge in (EdgeType.EVOLVED_FROM, EdgeType.CONTRADICTS)]
    rows = ormah.index.notes([end for edge in edges for end in (edge.source, edge.target)])
    edges = [edge for edge in edges if {edge.source, edge.target} <= rows.keys()]
    if params.space is not None:
        space = None if params.space == "global" else params.space
        edges = [edge for edge in edges if space in (rows[edge.source].space, rows[edge.target].space)]
    times = {edge: edge.created or rows[edge.source].created for edge in edges}
    edges.sort(key=lambda edge: (times[edge], edge.source, edge.target), reverse=True)

    now = ormah.ranking_clock()
    evolutions: list[api.Evolution] = []
    tensions: dict[frozenset[str], api.Tension] = {}
    for edge in edges:
        source, target, time = rows[edge.source], rows[edge.target], iso(times[edge])
        if edge.edge is EdgeType.EVOLVED_FROM:
            evolutions.append(of_row(api.Evolution, edge, newer=_belief(source), older=_belief(target), time=time))
        elif (ends := frozenset((source.id, target.id))) not in tensions:  # both directions are one contradiction
            settled = source.expired(now) or target.expired(now)
            tensions[ends] = of_row(api.Tension, edge, a=_belief(source), b=_belief(target), time=time, settled=settled)
    newest = evolutions[: params.limit], list(tensions.values())[: params.limit]
    text = _prose(*newest) + ("\n\nThe index still lacks memories of the vault: there may be more." if lacking else "")
    return api.InsightsResult(text=text, evolutions=newest[0], tensions=newest[1], degraded=lacking)


def _belief(row: NodeRow) -> api.Belief:
    """Return a memory as one side of a changed or contradicted belief."""
    return of_row(api.Belief, row, title=headline(row.title, row.content))


def _prose(evolutions: list[api.Evolution], tensions: list[api.Tension]) -> str:
    """Return the answer as text for people: first the beliefs that changed, then the contradictions."""
    lines = []
    if evolutions:
        lines.append("Beliefs that changed:")
        lines += [
            f"- {day(evolution.time)}: {evolution.newer.title} (id: {evolution.newer.id}) replaced {evolution.older.title} (id: {evolution.older.id})"
            f"{_reason_clause(evolution.reason)}"
            for evolution in evolutions
        ]
    if tensions:
        lines += ["", "Contradictions:"] if lines else ["Contradictions:"]
        lines += [
            f"- {day(tension.time)}: {tension.a.title} (id: {tension.a.id}) against {tension.b.title} (id: {tension.b.id})"
            f"{' [settled]' if tension.settled else ''}{_reason_clause(tension.reason)}"
            for tension in tensions
        ]
    return "\n".join(lines) or "No belief has changed, and none contradicts another."


def _reason_clause(reason: str | None) -> str:
    """Return the reason on one line, as the end of a sentence. Empty if there is none."""
    return f": {' '.join(reason.split())}" if reason else ""
