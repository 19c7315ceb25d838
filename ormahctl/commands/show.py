"""`ormahctl show`: print one memory with its connections, or an archived session."""

from __future__ import annotations

import click

from ormahctl import render
from ormahctl.commands.recall import PAST_SECONDS, print_as_of
from ormahctl.commands.sessions import print_session
from ormahctl.commands.write import fields
from ormahctl.registry import Verb
from ormahctl.session import Session, pass_session
from ormahctl.times import TimeOrRevision
from ormahd.api import AsOf, Edge, NodeParams, NodeResult, SessionsParams, SessionsResult
from ormahd.rpc.wire import BadRequest, NotFound


@click.command(
    cls=Verb,
    short_help="Print a memory and its connections, or a session.",
    example="ormahctl show 97acbe8e\normahctl show 97acbe8e --as-of yesterday",
)
@click.argument("node_id", metavar="ID")
@click.option(
    "--as-of",
    type=TimeOrRevision(),
    metavar="WHEN|REV",
    help="Show it as it was at: a day (its end), 7d, the id of a change, a branch or tag.",
)
@pass_session
def show(session: Session, node_id: str, as_of: str | None) -> None:
    """Print the memory ID, the path of its note and its connections; or the archived session ID."""
    # a memory, or if there is none of this id, a session
    params = NodeParams(node_id=node_id, as_of=as_of)
    if as_of is not None:
        node = session.follow("looking back", "agent.get", params, NodeResult, timeout=PAST_SECONDS)
    else:
        try:
            node = session.client.call("agent.get", params, NodeResult)
        except (NotFound, BadRequest) as exc:
            try:
                found = session.client.call("agent.sessions", SessionsParams(session_id=node_id), SessionsResult)
            except NotFound:
                raise exc from None
            if session.json:
                render.emit(found)
            else:
                print_session(found)
            return
    if session.json:
        render.emit(fields(node))
        return
    if isinstance(node.as_of, AsOf):
        print_as_of(node.as_of)

    # what it is, and since when
    if node.title:
        render.out(render.paint(render.line(node.title), "bold"), hang=0)
    render.out(" · ".join([node.type, node.tier, render.line(node.space or "global"), node.id]))
    facts = [
        f"by {render.line(node.source)}",
        f"created {render.moment(node.created)}",
        f"updated {render.moment(node.updated)}",
        f"confidence {node.confidence:g}",
        f"importance {node.importance:.2f}",
    ]
    render.out(" · ".join(facts), hang=0)
    if node.access_count:
        accessed, used = render.count(node.access_count, "time"), render.count(node.use_count, "time")
        render.out(f"found {accessed}, last on {render.moment(node.last_accessed)}; used {used}")

    # where it is, and where it is from
    if node.tags:
        render.out("tags: " + ", ".join(map(render.line, node.tags)))
    render.out(render.paint(render.line(node.path), "dim"))
    if node.said_in:
        origin = f"said in a session: ormahctl show {render.line(node.said_in.rpartition('#')[0])}"
        render.out(render.paint(origin, "dim"), hang=0)

    # whether it still holds
    if node.valid_until:
        why = f": {render.line(node.outdated_reason)}" if node.outdated_reason else ""
        render.out(render.paint(f"outdated since {render.moment(node.valid_until)}{why}", "yellow"))
    elif node.older_than:
        render.out(render.paint(f"older than {node.older_than[:8]}, which seems to replace it", "yellow"))
    if node.stale:
        render.out(render.paint(render.line(node.stale), "yellow"))
    if node.rejected:
        render.out(render.paint(render.line(node.rejected), "yellow"))

    # what it applies to
    for name, values in (("paths", node.paths), ("commands", node.commands), ("evidence", node.evidence)):
        if values:
            render.out(f"{name}: {', '.join(map(render.line, values))}")
    if node.guard:
        waits = f" (waits, because another than you wrote this: ormahctl update {node.short_id} --guard {node.guard})"
        render.out(f"guard: {node.guard}{waits if node.guard_waits else ''}", hang=0)
    render.out()

    # text and connections
    render.out(render.safe(node.content), hang=0)
    connections = node.connections
    if connections.out or connections.incoming:
        render.out()
    for edge in connections.out:
        render.out(_edge_line("→", edge))
    for edge in connections.incoming:
        render.out(_edge_line("←", edge))


def _edge_line(arrow: str, edge: Edge) -> str:
    """Return one connection of a memory as a line. `arrow`: its direction."""
    reason = f"  ({render.line(edge.reason)})" if edge.reason else ""
    title = render.cut(render.line(edge.title or "?"), 70)
    return f"{arrow} {edge.edge} {edge.short_id}  {title}  {edge.weight:.2f}{reason}"
