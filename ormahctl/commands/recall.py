"""`ormahctl recall`: search the memories."""

from __future__ import annotations

import sys

import click
import msgspec

from ormahctl import render
from ormahctl.commands.as_of import ask, told
from ormahctl.commands.explain import explain as explain_
from ormahctl.commands.spaces import there, unknown_spaces
from ormahctl.complete import SpaceName
from ormahctl.options import TIER, TYPE, text_or_stdin
from ormahctl.registry import Verb
from ormahctl.session import Session, pass_session, space
from ormahctl.times import Then, When
from ormahd.api import AsOf, RecallHit, RecallParams, RecallResult

NOTHING = 1
"""The exit status of a search that finds nothing, as grep has it."""
SNIPPET = 220
"""Columns of a result's text: two or three lines, enough to tell whether it is the one."""


@click.command(
    cls=Verb,
    short_help="Search the memories.",
    example="ormahctl recall which language do I prefer\normahctl recall deploy --type procedure --after 30d -n 3\n"
    "ormahctl recall which database --as-of 2026-11-01",
)
@click.argument("query", nargs=-1, required=True)
@click.option(
    "-n", "--limit", type=click.IntRange(1, 100), metavar="N", default=10, show_default=True, help="At most so many."
)
@click.option(
    "--type", "types", type=TYPE, metavar="TYPE", multiple=True, help="Only this type; may be given several times."
)
@click.option("--tier", "tiers", type=TIER, multiple=True, help="Only this tier; may be given several times.")
@click.option(
    "--space",
    "spaces",
    type=SpaceName(),
    multiple=True,
    metavar="NAME",
    help="Only this space; 'global': only those without.",
)
@click.option("--tag", "tags", multiple=True, help="Only with this tag.")
@click.option("--after", type=When(), help="Made since: 2026-11-21, 'last week', 7d, 12h.")
@click.option("--before", type=When(end=True), help="Made until; a day is included.")
@click.option(
    "--as-of",
    type=Then(),
    metavar="WHEN|REV",
    help="What was known then: a day (its end), 7d; an op, commit, branch, tag.",
)
@click.option("--explain", is_flag=True, help="Show each number behind each result.")
@pass_session
def recall(
    session: Session,
    query: tuple[str, ...],
    limit: int,
    types: tuple[str, ...],
    tiers: tuple[str, ...],
    spaces: tuple[str, ...],
    tags: tuple[str, ...],
    after: str | None,
    before: str | None,
    as_of: str | None,
    explain: bool,
) -> int:
    """Search the memories for QUERY, by words and by meaning; best first. The id of a memory, or its beginning, shows that one.

    Memories of the project you are in (or of ORMAH_SPACE) are favoured; --space keeps only those of one. With --as-of the
    notes answer as they were then; that state is brought back first, which takes a moment, and kept for a while.

    Exit status 1 when nothing is found.
    """
    text = text_or_stdin(" ".join(query), "the query")
    params = RecallParams(
        query=text,
        limit=limit,
        types=list(types) or None,
        tiers=list(tiers) or None,
        spaces=list(spaces) or None,
        tags=list(tags) or None,
        created_after=after,
        created_before=before,
        space=space(),
        explain=explain,
        as_of=as_of,
    )
    if as_of is None:
        found = session.client.call("agent.recall", params, RecallResult)
    else:
        found = ask(session, "agent.recall", params, RecallResult)
    if session.json:
        fields = msgspec.to_builtins(found)
        fields.pop("text")
        render.emit(fields)
        return 0 if found.results else NOTHING
    for number, hit in enumerate(found.results, 1):
        _print(number, hit)
    if not found.results:
        render.note(f"nothing found for: {render.cut(render.line(text), 80)}")
        if spaces:
            unknown_spaces(spaces, there(session))
    if explain:
        explain_(found)
    if isinstance(found.as_of, AsOf):
        told(found.as_of, found.degraded)
    else:
        render.degraded(found.degraded)
    return 0 if found.results else NOTHING


def _print(number: int, hit: RecallHit) -> None:
    said = hit.excerpt or hit.content[: SNIPPET * 8]  # nothing but data has no excerpt; an older daemon makes none
    content = hit.content if hit.source == "id" else said
    title, _, rest = (hit.title, "", content) if hit.title else content.strip().partition("\n")
    room = render.columns() - len(f"{number}. ") if render.terminal(sys.stdout) else 200
    render.out(f"{number}. {render.paint(render.cut(render.line(title), room), 'bold')}")
    facts = [hit.type, hit.tier, render.line(hit.space or "global"), hit.short_id, render.moment(hit.created, day=True)]
    if hit.source != "id":
        facts.append(f"{hit.score:.2f}")
    if hit.source != "search":
        facts.append(render.line(hit.source))
    if hit.also:
        facts.append(f"and {len(hit.also)} that say the same")
    if hit.older_than:
        facts.append(f"older than {hit.older_than[:8]}")
    render.out("   " + render.paint(" · ".join(facts), "dim"), hang=0)
    if hit.source == "id":  # it was asked for by its name: all of it
        for text in rest.strip().splitlines():
            render.out(f"   {render.line(text)}".rstrip())
        return
    snippet = render.cut(render.line(rest), SNIPPET)
    if snippet and snippet != render.line(title):
        render.out("   " + snippet, hang=0)
