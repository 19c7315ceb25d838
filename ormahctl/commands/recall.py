"""`ormahctl recall`: search the memories, also as of an earlier time; without a query, list the newest.

`--explain` prints every number of every result, what the query was understood to ask, and what was dropped where.
Building an earlier state takes time, so `--as-of` shows its progress and says which state answered.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any, Final

import click
import msgspec

from ormahctl import render
from ormahctl.commands.sessions import list_sessions, print_exchange
from ormahctl.commands.spaces import space_counts, warn_of_unknown_spaces
from ormahctl.commands.work import NOTHING, print_about_file
from ormahctl.options import DAYS, TIER, TYPE, limit_option, text_or_stdin
from ormahctl.registry import Verb
from ormahctl.session import Session, pass_session, space
from ormahctl.times import TimeOrRevision, When
from ormahd import api

PAST_SECONDS: Final = 900.0
"""Seconds to wait for an earlier state. Building one of a very large vault takes minutes, with progress."""


def print_as_of(as_of: api.AsOf, degraded: Sequence[str] = ()) -> None:
    """Print on stderr which earlier state of the vault was asked, how long it took to build, and which parts were
    unavailable."""
    took = f"brought back in {render.lasting(as_of.seconds)}"
    notes = render.count(as_of.notes, "memory", "memories")
    render.note(f"as of {render.moment(as_of.now)}: commit {as_of.commit[:8]}, {notes}, {took}")
    if "vectors" in degraded:
        render.note("texts of then without vectors (too many at once, or no model yet) were found by their words only")


DROPPED = 20
"""Number of candidates of a list that are printed; `--json` has all."""


def print_explanation(found: api.RecallResult) -> None:
    """Print the trace of each result, then the trace of the whole search, with the daemon's names for the numbers."""
    for number, hit in enumerate(found.results, 1):
        if isinstance(hit.trace, dict):
            render.out()
            render.out(render.paint(f"{number}. {hit.short_id}", "bold"))
            render.facts(hit.trace)
    if isinstance(found.trace, dict):
        render.out()
        render.facts(
            {name: value[:DROPPED] if isinstance(value, list) else value for name, value in found.trace.items()}
        )


MAX_RESULTS = 100
"""Largest number of results of a search; a list may have more."""
WARM_SECONDS = 10
"""Seconds to wait for the model of a daemon that has just begun."""
EXCERPT = 1_600
"""Characters of a text in JSON, as many as a result's excerpt has; `--full` gives all."""
SNIPPET = 220
"""Width of a result's text in columns: two or three lines on a terminal."""
NARROWING: Final = ("--type", "--tier", "--space", "--tag")
"""Options that may be repeated: only memories that have one of the values are found."""


@click.command(
    cls=Verb,
    excludes=[
        ("--sessions", *NARROWING, "--as-of", "--explain"),
        ("--files", "--sessions", *NARROWING, "--as-of", "--explain", "--after", "--before"),
    ],
    short_help="Search the memories, or list the newest.",
    example="ormahctl recall which language do I prefer\normahctl recall deploy --type procedure --after 30d -n 3\n"
    "ormahctl recall --space shop\normahctl recall which database --as-of 2026-11-01\n"
    "ormahctl recall --sessions what did we say about rounding\normahctl recall --files cart/total.py",
)
@click.argument("query", nargs=-1)
@limit_option(10_000, default=10)
@click.option("--type", "types", type=TYPE, metavar="TYPE", multiple=True, help="Only this type; may be repeated.")
@click.option("--tier", "tiers", type=TIER, multiple=True, help="Only this tier; may be repeated.")
@click.option("--space", "spaces", multiple=True, metavar="NAME", help="Only this space; 'global': without a space.")
@click.option("--tag", "tags", multiple=True, help="Only with this tag.")
@click.option("--after", type=When(), help=f"Created since: {DAYS}.")
@click.option("--before", type=When(end=True), help="Created before or on: a day is included.")
@click.option(
    "--as-of",
    type=TimeOrRevision(),
    metavar="WHEN|REV",
    help="Search the vault as it was at: a day (its end), 7d, the id of a change, a branch or tag.",
)
@click.option("--sessions", is_flag=True, help="Search what was said in archived sessions, not the memories.")
@click.option("--files", metavar="PATH", help="What was said and decided about a file, in place of QUERY.")
@click.option("--full", is_flag=True, help="All of each text, however long it is; also in --json.")
@click.option("--explain", is_flag=True, help="Show every number of each result's score.")
@pass_session
def recall(
    session: Session,
    /,
    query: tuple[str, ...],
    limit: int,
    after: str | None,
    before: str | None,
    as_of: str | None,
    sessions: bool,
    files: str | None,
    full: bool,
    explain: bool,
    **narrowing: tuple[str, ...],
) -> int:
    """Search the memories for QUERY, by words and by meaning; best first. The id of a memory shows that memory.

    Without QUERY: the newest memories; with --sessions, the newest sessions. Memories of the current project (or of
    ORMAH_SPACE) are preferred. Exit status 1 if nothing is found.
    """
    # with --files: about one file
    if files is not None:
        if query:
            raise click.UsageError("--files goes without a QUERY")
        print_about_file(session, files, min(limit, MAX_RESULTS))
        return 0

    # without a query: a list
    filters: dict[str, Any] = {name: list(values) or None for name, values in narrowing.items()}
    filters |= {"created_after": after, "created_before": before}
    if not query:
        if explain or as_of:
            raise click.UsageError("--explain and --as-of go with a QUERY")
        if sessions:
            list_sessions(session, limit)
            return 0
        _print_newest(session, api.ListParams(limit=limit, **filters))
        return 0

    # search, and once more when a daemon that has just begun has its model
    text = text_or_stdin(" ".join(query), "the query")
    params = api.RecallParams(
        query=text,
        limit=min(limit, MAX_RESULTS),
        space=space(),
        explain=explain,
        as_of=as_of,
        sessions=sessions,
        **filters,
    )
    if as_of is None:
        found = session.client.call("agent.recall", params, api.RecallResult)
        phase = ""
        if "vectors" in found.degraded and not sessions:
            phase = session.client.call("admin.health", api.NoParams(), api.HealthResult).phase
        if phase in {"starting", "reconciling", "warming"}:
            render.note(f"the model is being loaded: this waits up to {WARM_SECONDS} s for it")
            end = time.monotonic() + WARM_SECONDS
            while "vectors" in found.degraded and time.monotonic() < end:
                time.sleep(0.2)
                found = session.client.call("agent.recall", params, api.RecallResult)
    else:
        found = session.follow("looking back", "agent.recall", params, api.RecallResult, timeout=PAST_SECONDS)
    if sessions:
        return _print_exchanges(session, found, text)

    # print; in JSON, long texts are cut like the excerpts that a person sees
    if session.json:
        for hit in found.results:
            if not full and hit.source != "id" and len(hit.content) > EXCERPT:
                hit.content = f"{hit.content[:EXCERPT]}…"
        return _emit_json(found, bool(found.results))
    for number, hit in enumerate(found.results, 1):
        _print_hit(number, hit, full or hit.source == "id")
    if not found.results:
        render.note(f"nothing found for: {render.cut(render.line(text), 80)}")
        if narrowing["spaces"]:
            warn_of_unknown_spaces(narrowing["spaces"], space_counts(session))
    if found.weak:
        render.note("weak matches: nothing in memory is close to this")
    if explain:
        print_explanation(found)
    if isinstance(found.as_of, api.AsOf):
        print_as_of(found.as_of, found.degraded)
    else:
        render.warn_of_missing_parts(found.degraded)
    return 0 if found.results else NOTHING


def _print_newest(session: Session, params: api.ListParams) -> None:
    """Print the newest memories that the filters in `params` let through."""
    found = session.client.call("agent.list", params, api.ListResult)
    render.warn_of_unread_vault(found.degraded)
    if session.json:
        fields = msgspec.to_builtins(found)
        render.emit({"results": fields.pop("memories")} | fields)
        return
    for memory in found.memories:
        _print_listed(memory)
    if not found.memories:
        render.note("no memory fits")
    elif found.total > len(found.memories):
        older = render.count(found.total - len(found.memories), "older memory is", "older memories are")
        render.note(f"{older} not shown (-n)")
    warn_of_unknown_spaces(params.spaces or (), found.spaces)


def _print_listed(memory: api.ListedMemory) -> None:
    """Print date, id and title in one row (two on a narrow terminal), and the memory's type, tier and space below."""
    head = f"{render.moment(memory.created, day=True)}  {render.paint(memory.short_id, 'dim')}  "
    outdated = render.paint("  outdated", "yellow") if render.is_past(memory.valid_until) else ""
    render.row(head, render.line(memory.title), tail=outdated)
    facts = [memory.type, memory.tier, render.line(memory.space or "global")]
    facts += [f"#{render.line(tag)}" for tag in memory.tags]
    facts += [render.line(memory.rejected)] if memory.rejected else []
    render.out("  " + render.paint(" · ".join(facts), "dim"), hang=0)


def _emit_json(found: api.RecallResult, has_results: bool) -> int:
    """Print a search's result as JSON, without the text that it has for agents. Return the exit status: 0 if
    `has_results`, else `NOTHING`."""
    fields = msgspec.to_builtins(found)
    fields.pop("text")
    render.emit(fields)
    return 0 if has_results else NOTHING


def _print_exchanges(session: Session, found: api.RecallResult, text: str) -> int:
    """Print the exchanges of archived sessions that were found for the query `text`. Return the exit status."""
    exchanges = found.exchanges if isinstance(found.exchanges, list) else []
    if session.json:
        return _emit_json(found, bool(exchanges))
    for number, exchange in enumerate(exchanges, 1):
        print_exchange(number, exchange)
    if not exchanges:
        render.note(f"nothing in the archived sessions for: {render.cut(render.line(text), 80)}")
    render.warn_of_missing_parts(found.degraded)
    return 0 if exchanges else NOTHING


def _print_hit(number: int, hit: api.RecallHit, full: bool) -> None:
    """Print one result: its number and title, its type, tier, space, id and score, and below these its text. `full`:
    print the whole text, not only a snippet of it."""
    content = hit.content if full else hit.excerpt or hit.content[:EXCERPT]  # nothing but data has no excerpt
    title, _, rest = (hit.title, "", content) if hit.title else content.strip().partition("\n")
    room = render.columns() - len(f"{number}. ") if render.is_terminal(sys.stdout) else 200
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
    facts += [render.line(remark) for remark in (hit.rejected, hit.stale) if remark]
    render.out("   " + render.paint(" · ".join(facts), "dim"), hang=0)
    if full:
        for text in rest.strip().splitlines():
            render.out(f"   {render.line(text)}".rstrip())
        return
    snippet = render.cut(render.line(rest), SNIPPET)
    if snippet and snippet != render.line(title):
        render.out("   " + snippet, hang=0)
