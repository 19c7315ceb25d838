"""`ormahctl spaces`, `list`, `insights` and `stats`: list what the vault holds, without a search.

Also warns when a command names a space that does not exist.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping

import click
import msgspec

from ormahctl import render
from ormahctl.options import TIER, TYPE, SpaceName, limit_option, near
from ormahctl.registry import Verb
from ormahctl.session import Session, pass_session
from ormahctl.times import When
from ormahd.api import (
    AssignSpaceParams,
    AssignSpaceResult,
    Belief,
    InsightsParams,
    InsightsResult,
    ListedMemory,
    ListedSpace,
    ListParams,
    ListResult,
    NoParams,
    SpacesResult,
    StatsResult,
    WhisperStats,
)

GLOBAL = "global"


@click.command(
    cls=Verb, short_help="List the spaces and their projects.", example="ormahctl spaces\normahctl spaces --here shop"
)
@click.option("--here", "name", metavar="NAME", help="Assign the current project to this space.")
@pass_session
def spaces(session: Session, name: str | None) -> None:
    """List the spaces with their memories and projects, and name the space of the current project.

    A project is identified by the address of its remote, otherwise by its first commit, otherwise by its folder. If two
    projects have one name, the space of the second gets a suffix. `--here` assigns the current project to another
    space, which may have other projects too. Memories stay in their space; `ormahctl update ID --space NAME` moves one.
    """
    if name is not None:
        given = session.client.call("agent.assign_space", AssignSpaceParams(space=name), AssignSpaceResult)
        if session.json:
            render.emit(given)
        else:
            render.out(f"the project here ({render.line(given.key)}) belongs to the space {render.line(given.space)}")
        return
    found = session.client.call("agent.spaces", NoParams(), SpacesResult)
    render.partial(found.degraded)
    if session.json:
        render.emit(found)
        return
    rows = [[render.line(one.space or GLOBAL), f"{one.memories:,}", render.line(_whose(one))] for one in found.spaces]
    if rows:
        render.table(["space", "memories", "project"], rows, right=[1])
        render.out()
    if found.here is None or found.project is None:
        render.out("here is no project: what is remembered here is global")
    else:
        render.out(f"here: {render.line(found.here)} ({render.line(found.project)})")


def _whose(one: ListedSpace) -> str:
    return ", ".join(one.projects) or "-"


def unknown_spaces(named: Iterable[str], there: Mapping[str, int]) -> None:
    """Print a note for each named space that has no memories, with the space that was probably meant."""
    for name in named:
        if name not in there and name.casefold() != GLOBAL:
            meant = near(name, [one for one in there if one != GLOBAL])
            asked = f"; did you mean {render.line(' or '.join(meant))}?" if meant else ""
            render.note(f"no memory is in a space '{name}'{asked}")


def new_space(session: Session, name: str) -> None:
    """Print a note if a memory is the first one of its space and another space has a similar name."""
    known = there(session)
    meant = near(name, [one for one in known if one not in (name, GLOBAL)])
    if known.get(name, 0) == 1 and meant:
        render.note(
            f"it is the first memory of the space '{name}'; if you meant {render.line(meant[0])}: "
            f"ormahctl update ID --space {render.line(meant[0])}"
        )


def there(session: Session) -> Mapping[str, int]:
    """Return {space: number of its memories} of all spaces."""
    return session.client.call("agent.list", ListParams(limit=1), ListResult).spaces


@click.command(
    "list",
    cls=Verb,
    short_help="List the newest memories.",
    example="ormahctl list\normahctl list --space ormah --tier core\normahctl list --type decision --after 'last week' -n 50",
)
@limit_option(10_000, default=20)
@click.option("--space", "spaces", type=SpaceName(), multiple=True, metavar="NAME", help="Only this space; 'global': memories without a space.")  # fmt: skip
@click.option("--tier", "tiers", type=TIER, multiple=True, help="Only this tier; may be given several times.")
@click.option("--type", "types", type=TYPE, metavar="TYPE", multiple=True, help="Only this type; may be given several times.")  # fmt: skip
@click.option("--tag", "tags", multiple=True, help="Only with this tag.")
@click.option("--after", type=When(), help="Created since: 2026-11-21, 'last week', 7d, 12h.")
@click.option("--before", type=When(end=True), help="Created before or on: a day is included.")
@pass_session
def list_(
    session: Session,
    limit: int,
    spaces: tuple[str, ...],
    tiers: tuple[str, ...],
    types: tuple[str, ...],
    tags: tuple[str, ...],
    after: str | None,
    before: str | None,
) -> None:
    """List the newest memories, of every space and tier unless options say otherwise.

    To search by content: `ormahctl recall`.
    """
    params = ListParams(
        limit=limit, types=list(types) or None, tiers=list(tiers) or None, spaces=list(spaces) or None,
        tags=list(tags) or None, created_after=after, created_before=before,
    )  # fmt: skip
    found = session.client.call("agent.list", params, ListResult)
    render.partial(found.degraded)
    if session.json:
        render.emit(found.memories)
        return
    for memory in found.memories:
        _print_memory(memory)
    if not found.memories:
        render.note("no memory fits")
    elif found.total > len(found.memories):
        render.note(
            f"{render.count(found.total - len(found.memories), 'older memory is', 'older memories are')} not shown (-n)"
        )
    unknown_spaces(spaces, found.spaces)


def _print_memory(memory: ListedMemory) -> None:
    """Print date, id and title in one row (two on a narrow terminal), and the memory's type, tier and space below."""
    when = render.moment(memory.created, day=True)
    head = f"{when}  {render.paint(memory.short_id, 'dim')}  "
    title = render.line(memory.title)
    facts = [memory.type, memory.tier, render.line(memory.space or "global")]
    if memory.tags:
        facts.append("#" + " #".join(map(render.line, memory.tags)))
    outdated = render.paint("  outdated", "yellow") if render.past(memory.valid_until) else ""
    render.row(head, title, tail=outdated)
    render.out("  " + render.paint(" · ".join(facts), "dim"), hang=0)


SNIPPET = 160


@click.command(
    cls=Verb,
    short_help="List beliefs that changed, and contradictions.",
    example="ormahctl insights\normahctl insights --space ormah -n 5",
)
@limit_option(1_000, default=50, what="each")
@click.option(
    "--space",
    type=SpaceName(),
    metavar="NAME",
    help="Only memories of this space; 'global': memories without a space.",
)
@pass_session
def insights(session: Session, limit: int, space: str | None) -> None:
    """Show which memories replaced which, and which contradict each other; newest first.

    A replaced memory is outdated: recall no longer finds it, but it stays in the vault (`ormahctl show ID`). Both kinds
    of edge can be undone: `ormahctl history --kind conflict`, `ormahctl undo OP`.
    """
    found = session.client.call("agent.insights", InsightsParams(limit=limit, space=space), InsightsResult)
    render.partial(found.degraded)
    if session.json:
        fields = msgspec.to_builtins(found)
        fields.pop("text")
        render.emit(fields)
        return
    if found.evolutions:
        render.out(render.paint("Beliefs that changed", "bold"))
        for evolution in found.evolutions:
            _print_beliefs(evolution.time, evolution.reason, ("now", evolution.newer), ("was", evolution.older))
    if found.tensions:
        if found.evolutions:
            render.out()
        render.out(render.paint("Contradictions", "bold"))
        for tension in found.tensions:
            _print_beliefs(
                tension.time, tension.reason, ("one", tension.a), ("two", tension.b), settled=tension.settled
            )
    if not (found.evolutions or found.tensions):
        render.note("no belief has changed, and none contradicts another")
        if space is not None:
            unknown_spaces([space], there(session))


def _print_beliefs(time: str, reason: str | None, *ends: tuple[str, Belief], settled: bool = False) -> None:
    facts = [
        render.moment(time, day=True),
        *([render.line(reason)] if reason else []),
        *(["settled"] if settled else []),
    ]
    render.out("  " + render.paint(" · ".join(facts), "dim"))
    room = render.columns() - 8 if render.terminal(sys.stdout) else 200
    for role, end in ends:
        made = f"{end.short_id} · {render.moment(end.created, day=True)} · {render.line(end.space or 'global')}"
        render.out(f"    {role}  {render.cut(render.line(end.title), room)}")
        render.out("         " + render.paint(made, "dim"))
        text = render.cut(render.line(end.content), min(SNIPPET, room))
        if text != render.line(end.title):
            render.out("         " + text)


@click.command(cls=Verb, short_help="Count memories, whispers and silences.", example="ormahctl stats")
@pass_session
def stats(session: Session) -> None:
    """Count memories by tier, type and space, their edges, and the whispers and silences of the last days."""
    found = session.client.call("admin.stats", NoParams(), StatsResult)
    render.partial(found.degraded)
    if session.json:
        render.emit(found)
        return
    render.out(
        f"{render.count(found.total_nodes, 'memory', 'memories')}, {render.count(found.total_edges, 'connection')}"
    )
    if found.plain_files:
        render.out(f"{render.count(found.plain_files, 'file')} beside them that are no memories (see: ormahctl doctor)")
    for heading, counts in (
        ("tier", found.by_tier),
        ("type", found.by_type),
        ("space", found.by_space),
        ("edge", found.by_edge),
    ):
        rows = [[name or "global", f"{number:,}"] for name, number in sorted(counts.items(), key=lambda item: -item[1])]
        if rows:
            render.out()
            render.table([heading, "count"], rows, right=[1])
    if found.sources:
        render.out()
        names = ("sessions", "turns", "memories", "failed")
        rows = [
            [
                source,
                *(f"{numbers.get(name, 0):,}" for name in names),
                f"{sum(number for what, number in numbers.items() if what.startswith('refused')):,}",
            ]
            for source, numbers in found.sources.items()
        ]
        render.table(["came in 30 days from", *names, "refused"], rows, right=[1, 2, 3, 4, 5])
    if found.whisper is not None:
        _whispers(found.whisper)


def _whispers(found: WhisperStats) -> None:
    if found.prompts:
        render.out()
        since = f" since {render.moment(found.since, day=True)}, median {found.median_ms:g} ms"
        render.out(f"{render.count(found.prompts, 'prompt')}{since}")
        rows = [["whispered", f"{found.spoken:,}", f"{found.spoken / found.prompts:.0%}"]]
        rows += [
            [f"silent: {why}", f"{number:,}", f"{number / found.prompts:.0%}"] for why, number in found.silent.items()
        ]
        render.table(["outcome", "count", "share"], rows, right=[1, 2])
    if found.useful or found.not_useful or found.asked:
        idle = f", {found.idle:,} of another embedding model" if found.idle else ""
        render.out()
        render.out(f"judged useful {found.useful:,}, not useful {found.not_useful:,}{idle}")
        render.out(f"asked about what was held back {found.asked:,}, answered {found.answered:,}")
