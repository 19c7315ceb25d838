"""`ormahctl config`: the settings, as the daemon's program reads them."""

from __future__ import annotations

import click

from ormahctl import house
from ormahctl.options import OneOf
from ormahctl.session import Session, pass_session
from ormahctl.verbs import Verb


@click.command(
    cls=Verb,
    short_help="Settings: show, default, check.",
    example="ormahctl config show\normahctl config default > config.toml",
)
@click.argument("what", type=OneOf(["show", "default", "check"]), default="show")
@pass_session
def config(session: Session, what: str) -> int:
    """Print the settings in force and where each comes from (show), all there are with their reasons (default),
    or look for faults in the file and the environment (check)."""
    return house.ask("config", what, *(["--json"] if session.json else []))
