"""`ormahctl show`: one memory and what it is connected to."""

from __future__ import annotations

import click

from ormahctl import render
from ormahctl.commands.as_of import ask, told
from ormahctl.commands.notices import fields
from ormahctl.complete import NodeId
from ormahctl.registry import Verb
from ormahctl.session import Session, pass_session
from ormahctl.times import Then
from ormahd.api import AsOf, Edge, NodeParams, NodeResult


@click.command(
    cls=Verb,
    short_help="Print a memory and its connections.",
    example="ormahctl show 97acbe8e\normahctl show 97acbe8e --as-of yesterday",
)
@click.argument("node_id", metavar="ID", type=NodeId())
@click.option(
    "--as-of", type=Then(), metavar="WHEN|REV", help="As it was then: a day (its end), 7d; an op, commit, branch, tag."
)
@pass_session
def show(session: Session, node_id: str, as_of: str | None) -> None:
    """Print the memory ID (any unique beginning of 4 or more characters, or the path of its note) and its connections."""
    params = NodeParams(node_id=node_id, as_of=as_of)
    if as_of is None:
        node = session.client.call("agent.get", params, NodeResult)
    else:
        node = ask(session, "agent.get", params, NodeResult)
    if session.json:
        render.emit(fields(node))
        return
    if isinstance(node.as_of, AsOf):
        told(node.as_of)
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
        found, used = render.count(node.access_count, "time"), render.count(node.use_count, "time")
        render.out(f"found {found}, last on {render.moment(node.last_accessed)}; used {used}")
    if node.tags:
        render.out("tags: " + ", ".join(map(render.line, node.tags)))
    render.out(render.paint(render.line(node.path), "dim"))
    if node.valid_until:
        why = f": {render.line(node.outdated_reason)}" if node.outdated_reason else ""
        render.out(render.paint(f"outdated since {render.moment(node.valid_until)}{why}", "yellow"))
    elif node.older_than:
        render.out(render.paint(f"older than {node.older_than[:8]}, which seems to replace it", "yellow"))
    render.out()
    render.out(render.safe(node.content), hang=0)
    connections = node.connections
    if connections.out or connections.incoming:
        render.out()
    for edge in connections.out:
        render.out(_edge("→", edge))
    for edge in connections.incoming:
        render.out(_edge("←", edge))


def _edge(arrow: str, edge: Edge) -> str:
    reason = f"  ({render.line(edge.reason)})" if edge.reason else ""
    title = render.cut(render.line(edge.title or "?"), 70)
    return f"{arrow} {edge.edge} {edge.short_id}  {title}  {edge.weight:.2f}{reason}"
