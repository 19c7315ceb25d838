"""`ormahctl update`: change fields of a memory."""

from __future__ import annotations

import click
from msgspec import UNSET

from ormahctl.commands.notices import written
from ormahctl.complete import NodeId, SpaceName
from ormahctl.options import SHARE, TIER, TYPE, OneOf, text_or_stdin
from ormahctl.registry import Verb
from ormahctl.session import Session, pass_session
from ormahd.api import UpdateParams, WriteResult

CLEARABLE = ("title", "space", "tags", "valid_until")


@click.command(
    cls=Verb,
    short_help="Change fields of a memory.",
    example="ormahctl update 97acbe8e --tier core --tag languages\nformat-it < note.txt | ormahctl update 97acbe8e --content -",
)
@click.argument("node_id", metavar="ID", type=NodeId())
@click.option("--content", metavar="TEXT|-", help="The new text; '-' reads it from stdin.")
@click.option("--title", help="The new title.")
@click.option("--type", "type_", type=TYPE, metavar="TYPE", help="Another type.")
@click.option("--tier", type=TIER, help="Another tier.")
@click.option("--space", "space_", type=SpaceName(), metavar="NAME", help="Move it to this project.")
@click.option("--global", "global_", is_flag=True, help="It belongs to no project.")
@click.option("--tag", "tags", multiple=True, help="Add a tag; may be given several times.")
@click.option("--untag", "untags", multiple=True, help="Take a tag away.")
@click.option("--confidence", type=SHARE, help="How sure it is, 0 to 1.")
@click.option("--clear", "cleared", type=OneOf(CLEARABLE), multiple=True, metavar="FIELD",
              help=f"Take a field away: {', '.join(CLEARABLE)}.")  # fmt: skip
@pass_session
def update(
    session: Session,
    node_id: str,
    content: str | None,
    title: str | None,
    type_: str | None,
    tier: str | None,
    space_: str | None,
    global_: bool,
    tags: tuple[str, ...],
    untags: tuple[str, ...],
    confidence: float | None,
    cleared: tuple[str, ...],
) -> None:
    """Change what is named of the memory ID; everything else of its note stays, byte for byte."""
    given = {"title": title is not None, "space": space_ is not None or global_, "tags": bool(tags or untags)}
    if space_ is not None and global_:
        raise click.UsageError("--space and --global exclude each other", click.get_current_context())
    for field in cleared:
        if given.get(field):
            raise click.UsageError(f"--clear {field} and a new {field} exclude each other", click.get_current_context())
    params = UpdateParams(node_id=node_id, add_tags=list(tags), remove_tags=list(untags))
    if content is not None:
        params.content = text_or_stdin(content, "the text")
    if title is not None:
        params.title = title
    if type_ is not None:
        params.type = type_
    if tier is not None:
        params.tier = tier
    if space_ is not None:
        params.space = space_
    if global_ or "space" in cleared:
        params.space = None
    if confidence is not None:
        params.confidence = confidence
    if "title" in cleared:
        params.title = None
    if "tags" in cleared:
        params.tags = []
    if "valid_until" in cleared:
        params.valid_until = None
    named = (
        params.content,
        params.title,
        params.type,
        params.tier,
        params.space,
        params.confidence,
        params.tags,
        params.valid_until,
    )
    if all(value is UNSET for value in named) and not tags and not untags:
        raise click.UsageError("nothing to change was named", click.get_current_context())
    written(session, session.client.call("agent.update", params, WriteResult), "updated")
