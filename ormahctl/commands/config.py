"""`ormahctl config`: the settings, as the daemon's program reads them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click

from ormahctl import house, render
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
    """Print the settings in force, those that you set first and where (show); all there are with their reasons (default);
    or look for faults in the file and the environment (check)."""
    if what != "show" or session.json:
        return house.ask("config", what, *(["--json"] if session.json else []))
    _show(json.loads(house.answer("config", "show", "--json")))
    return 0


def _show(found: Mapping[str, Any]) -> None:
    settings: Mapping[str, Mapping[str, Any]] = found["settings"]
    chosen = {key: one for key, one in settings.items() if one["origin"] != "default"}
    render.out(f"# {render.line(found['file'])}")
    if chosen:
        render.out(render.paint("# set by you", "bold"))
    for key, one in chosen.items():
        usual = "the default" if one["value"] == one["default"] else f"default {_value(one['default'])}"
        origin = "the file" if one["origin"] == found["file"] else render.line(one["origin"])
        render.out(
            f"{render.paint(key, 'bold')} = {_value(one['value'])}  {render.paint(f'# {origin}; {usual}', 'dim')}"
        )
    if chosen:
        render.out()
    render.out(render.paint("# as they are by default" if chosen else "# all as they are by default", "bold"))
    for key, one in settings.items():
        if key not in chosen:
            render.out(f"{key} = {_value(one['value'])}")


def _value(value: Any) -> str:
    """A value as JSON has it; a setting without one is unset."""
    return "unset" if value is None else render.line(json.dumps(value, ensure_ascii=False))
