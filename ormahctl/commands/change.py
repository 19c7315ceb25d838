"""`outdated`, `connect`: changes to one memory that need no more than its id."""

from __future__ import annotations

import click

from ormahctl.commands.notices import written
from ormahctl.complete import NodeId
from ormahctl.options import EDGE, SHARE
from ormahctl.registry import Verb
from ormahctl.session import Session, pass_session
from ormahd.api import ConnectParams, OutdatedParams, WriteResult


@click.command(
    cls=Verb,
    short_help="Say that a memory no longer holds.",
    example="ormahctl outdated 97acbe8e --reason 'moved to Postgres'\normahctl outdated 97acbe8e --by 1a2b3c4d\n"
    "ormahctl outdated 97acbe8e --revoke",
)
@click.argument("node_id", metavar="ID", type=NodeId())
@click.option("--reason", metavar="R", help="Why it no longer holds.")
@click.option("--by", metavar="ID", help="The memory that replaces it.")
@click.option("--revoke", is_flag=True, help="It holds again.")
@pass_session
def outdated(session: Session, node_id: str, reason: str | None, by: str | None, revoke: bool) -> None:
    """Say that the memory ID no longer holds. It stays in the vault and leaves the results of searches."""
    if revoke and reason is not None:
        raise click.UsageError("--reason and --revoke exclude each other", click.get_current_context())
    if revoke and by is not None:
        raise click.UsageError("--by and --revoke exclude each other", click.get_current_context())
    params = OutdatedParams(node_id=node_id, reason=reason, revoke=revoke, by=by)
    verb = "valid again" if revoke else "outdated"
    written(session, session.client.call("agent.outdated", params, WriteResult), verb)


@click.command(
    cls=Verb,
    short_help="Draw an edge between two memories.",
    example="ormahctl connect 97acbe8e supports 1a2b3c4d --reason 'the build needs it'",
)
@click.argument("source_id", metavar="A", type=NodeId())
@click.argument("edge", type=EDGE, metavar="EDGE")
@click.argument("target_id", metavar="B", type=NodeId())
@click.option("--weight", type=SHARE, default=0.5, show_default=True, help="How strong it is, 0 to 1.")
@click.option("--reason", help="Why they belong together.")
@click.option("--remove", is_flag=True, help="Take the edge away.")
@pass_session
def connect(
    session: Session, source_id: str, edge: str, target_id: str, weight: float, reason: str | None, remove: bool
) -> None:
    """Connect memory A to memory B.

    EDGE is one of supports, part_of, depends_on, defines, derived_from, evolved_from, related_to, contradicts.
    """
    params = ConnectParams(
        source_id=source_id, target_id=target_id, edge=edge, weight=weight, reason=reason, remove=remove
    )
    verb = "disconnected" if remove else "connected"
    written(session, session.client.call("agent.connect", params, WriteResult), verb)
