"""`ormahctl list`: the newest memories."""

from __future__ import annotations

import click

from ormahctl import render
from ormahctl.commands.spaces import unknown_spaces
from ormahctl.complete import SpaceName
from ormahctl.options import TIER, TYPE
from ormahctl.registry import Verb
from ormahctl.session import Session, pass_session
from ormahctl.times import When
from ormahd.api import ListedMemory, ListParams, ListResult


@click.command(
    "list",
    cls=Verb,
    short_help="The newest memories.",
    example="ormahctl list\normahctl list --space ormah --tier core\normahctl list --type decision --after 'last week' -n 50",
)
@click.option(
    "-n", "--limit", type=click.IntRange(1, 10_000), metavar="N", default=20, show_default=True, help="At most so many."
)
@click.option("--space", "spaces", type=SpaceName(), multiple=True, metavar="NAME", help="Only this space; 'global': only those without.")  # fmt: skip
@click.option("--tier", "tiers", type=TIER, multiple=True, help="Only this tier; may be given several times.")
@click.option("--type", "types", type=TYPE, metavar="TYPE", multiple=True, help="Only this type; may be given several times.")  # fmt: skip
@click.option("--tag", "tags", multiple=True, help="Only with this tag.")
@click.option("--after", type=When(), help="Made since: 2026-11-21, 'last week', 7d, 12h.")
@click.option("--before", type=When(end=True), help="Made until; a day is included.")
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
    """List the newest memories, of every space and tier unless you say otherwise.

    To search for something: `ormahctl recall`.
    """
    params = ListParams(
        limit=limit, types=list(types) or None, tiers=list(tiers) or None, spaces=list(spaces) or None,
        tags=list(tags) or None, created_after=after, created_before=before,
    )  # fmt: skip
    found = session.client.call("agent.list", params, ListResult)
    if session.json:
        render.emit(found.memories)
        return
    for memory in found.memories:
        _print(memory)
    if not found.memories:
        render.note("no memory fits")
    elif found.total > len(found.memories):
        render.note(f"{found.total - len(found.memories):,} older ones are not shown (-n)")
    unknown_spaces(spaces, found.spaces)


def _print(memory: ListedMemory) -> None:
    """Date, id and title in one row, on a narrow terminal in two; what kind it is below."""
    when = render.moment(memory.created, day=True)
    head = f"{when}  {render.paint(memory.short_id, 'dim')}  "
    title = render.line(memory.title)
    facts = [memory.type, memory.tier, render.line(memory.space or "global")]
    if memory.tags:
        facts.append("#" + " #".join(map(render.line, memory.tags)))
    outdated = render.paint("  outdated", "yellow") if render.past(memory.valid_until) else ""
    render.row(head, title, tail=outdated)
    render.out("  " + render.paint(" · ".join(facts), "dim"), hang=0)
