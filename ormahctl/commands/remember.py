"""`ormahctl remember`: store one memory."""

from __future__ import annotations

import click

from ormahctl import render
from ormahctl.commands.notices import close_to, told
from ormahctl.commands.spaces import new_space
from ormahctl.complete import SpaceName
from ormahctl.options import SHARE, TIER, TYPE, TYPES, LinkType, text_or_stdin
from ormahctl.registry import Verb
from ormahctl.session import Session, pass_session, space
from ormahd.api import Link, RememberParams, RememberResult


@click.command(
    cls=Verb,
    short_help="Store a memory.",
    example="ormahctl remember 'Prefers TypeScript over JavaScript' --type preference --about-self\n"
    "ormahctl remember - --title 'How we deploy' --type procedure < deploy.md",
)
@click.argument("text")
@click.option(
    "--type",
    "type_",
    type=TYPE,
    metavar="TYPE",
    default="fact",
    show_default=True,
    help=f"What kind of memory it is: {', '.join(TYPES)}.",
)
@click.option("--tier", type=TIER, default="working", show_default=True, help="How close at hand it is kept.")
@click.option(
    "--space",
    "space_",
    type=SpaceName(),
    metavar="NAME",
    help="The project it belongs to. Else: ORMAH_SPACE, or detected here.",
)
@click.option("--global", "global_", is_flag=True, help="It belongs to no project.")
@click.option("--title", help="A line that names it.")
@click.option("--tag", "tags", multiple=True, help="A word to find it by; may be given several times.")
@click.option("--about-self", is_flag=True, help="It is about you.")
@click.option("--confidence", type=SHARE, default=1.0, show_default=True, help="How sure it is, 0 to 1.")
@click.option("--link", "links", type=LinkType(), multiple=True, help="A connection, such as supports:1a2b3c4d.")
@click.option("--replaces", metavar="ID", multiple=True,
              help="A memory that this one replaces: it is marked superseded. May be given several times.")  # fmt: skip
@pass_session
def remember(
    session: Session,
    text: str,
    type_: str,
    tier: str,
    space_: str | None,
    global_: bool,
    title: str | None,
    tags: tuple[str, ...],
    about_self: bool,
    confidence: float,
    links: tuple[Link, ...],
    replaces: tuple[str, ...],
) -> None:
    """Store TEXT as a memory; with '-' the text is read from stdin.

    A text that is known already is not stored twice. What looks like a password or a key is taken out first. Memories
    that are close in meaning are named, because the new one may replace one of them.
    """
    params = RememberParams(
        content=text_or_stdin(text, "the memory"),
        type=type_,
        tier=tier,
        space=space(space_, global_),
        title=title,
        tags=list(tags),
        about_self=about_self,
        confidence=confidence,
        connections=list(links),
        replaces=list(replaces),
    )
    done = session.client.call("agent.remember", params, RememberResult)
    if session.json:
        fields = {
            "id": done.node_id,
            "short_id": done.short_id,
            "path": done.path,
            "commit": done.commit,
            "op": done.op,
        }
        more = {"space": done.space, "links": done.links, "redacted": done.redacted, "demoted": done.demoted}
        render.emit(
            fields
            | more
            | {"existing": done.existing, "stored": done.stored, "degraded": done.degraded}
            | {"near": done.near, "replaced": done.replaced}
        )
        return
    word = "known already" if done.existing else "remembered"
    render.out(f"{word} {render.paint(done.short_id, 'bold')}  {render.line(done.path or '')}".rstrip())
    for node_id in done.replaced:
        render.out(f"  replaces {node_id[:8]}")
    for edge in done.links:
        if edge.id in done.replaced:
            continue
        title_ = render.cut(render.line(edge.title or ""), 60)
        render.out(f"  {edge.edge} {edge.short_id} ({edge.weight:.2f})  {title_}".rstrip())
    if done.commit:
        render.out(f"  commit {done.commit[:8]}")
    close_to(done.near, done.short_id)
    told(done.redacted, done.demoted, stored=done.stored, degraded=done.degraded)
    if space_ is not None:
        new_space(session, space_)
