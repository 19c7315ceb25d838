"""`ormahctl stats`: how many memories of what kind."""

from __future__ import annotations

import click

from ormahctl import render
from ormahctl.session import Session, pass_session
from ormahctl.verbs import Verb
from ormahd.rpc.schema import NoParams, StatsResult


@click.command(cls=Verb, short_help="Count memories by type, tier and space.", example="ormahctl stats")
@pass_session
def stats(session: Session) -> None:
    """Count the memories by tier, type and space, and their connections."""
    found = session.client.call("admin.stats", NoParams(), StatsResult)
    if session.json:
        render.emit(found)
        return
    render.out(
        f"{render.count(found.total_nodes, 'memory', 'memories')}, {render.count(found.total_edges, 'connection')}"
    )
    if found.plain_files:
        render.out(
            f"{render.count(found.plain_files, 'file')} beside them findable as plain text (see: ormahctl doctor)"
        )
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
