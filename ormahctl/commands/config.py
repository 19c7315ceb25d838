"""`ormahctl config` and `model`: show, set and check the settings; show or choose the embedding model.

The daemon's own program does it, in a process of its own: so both read the settings alike, and a model that is tried is
not loaded into the daemon.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from ormahctl import offline, render, supervise
from ormahctl.options import OneOf
from ormahctl.registry import Verb
from ormahctl.session import Session, pass_session

NEGATIVE = re.compile(r"-\.?\d.*")
"""Matches a value such as `-5`. No option of the command begins like this, and none takes a value."""


class SettingVerb(Verb):
    """A command that reads a negative number as an argument, not as an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert `--` before the arguments if one of them is a negative number, so that click does not read that
        number as an option. Options are moved before the `--`."""
        if "--" not in args and any(NEGATIVE.fullmatch(word) for word in args):
            options = [word for word in args if word.startswith("-") and not NEGATIVE.fullmatch(word)]
            args = [*options, "--", *(word for word in args if word not in options)]
        return super().parse_args(ctx, args)


@click.command(
    cls=SettingVerb,
    short_help="Show, set or check the settings.",
    example="ormahctl config show\normahctl config show whisper.archive_gate\normahctl config set sessions.watch true\n"
    "ormahctl config default > config.toml",
)
@click.argument("what", type=OneOf(["show", "set", "default", "check"]), default="show")
@click.argument("key", required=False)
@click.argument("value", required=False)
@pass_session
def config(session: Session, what: str, key: str | None, value: str | None) -> int:
    """Print the settings.

    `show`: all settings and their origins, or those of KEY (`whisper.archive_gate`, or a group such as `whisper`).
    `set`: write KEY with VALUE into the configuration file. `default`: a commented file with all defaults. `check`:
    errors in the configuration file and the environment.
    """
    # set: the daemon's program writes the file, and the new value is shown
    if what == "set":
        if key is None or value is None:
            raise click.UsageError("config set needs a KEY and a VALUE")
        output = offline.answer("config", "set", "--", key, value).decode()
        if session.json:
            found = json.loads(offline.answer("config", "show", "--json"))
            render.emit({"file": found["file"], "settings": {key: found["settings"][key]}})
        else:
            render.out(output.rstrip("\n"))
            if supervise.version(session.socket_path) is not None:
                render.note("the daemon that runs takes it up after: ormahctl restart")
        return 0

    # show all, default, check: the output of the daemon's program is printed as it is
    if value is not None or (key is not None and what != "show"):
        raise click.UsageError(f"config {what} takes no {'VALUE' if value is not None else 'KEY'}")
    if key is None and (what != "show" or session.json):
        return offline.ask("config", what, *(["--json"] if session.json else []))

    # show with a key: one setting, or those of a group
    found = json.loads(offline.answer("config", "show", "--json", "--", *([] if key is None else [key])))
    if session.json:
        render.emit(found)
    elif key is not None and key in found["settings"]:
        setting = found["settings"][key]
        origin = "the default" if setting["origin"] == "default" else setting["origin"]
        usual = "" if setting["value"] == setting["default"] else f"; default {_value(setting['default'])}"
        _print_setting(key, setting, f"{render.line(origin)}{usual}")
    else:
        _print_settings(found)
    return 0


def _print_settings(found: Mapping[str, Any]) -> None:
    """Print all settings: first those that the configuration file or the environment sets, with their origin and
    default, then those that have their default. `found`: the output of `ormahd config show --json`."""
    settings: Mapping[str, Mapping[str, Any]] = found["settings"]
    chosen = {key: setting for key, setting in settings.items() if setting["origin"] != "default"}
    render.out(f"# {render.line(found['file'])}")
    if chosen:
        render.out(render.paint("# set by you", "bold"))
    for key, setting in chosen.items():
        usual = "the default" if setting["value"] == setting["default"] else f"default {_value(setting['default'])}"
        origin = "the file" if setting["origin"] == found["file"] else render.line(setting["origin"])
        _print_setting(key, setting, f"{origin}; {usual}")
    if chosen:
        render.out()
    render.out(render.paint("# as they are by default" if chosen else "# all as they are by default", "bold"))
    for key, setting in settings.items():
        if key not in chosen:
            render.out(f"{key} = {_value(setting['value'])}")


def _print_setting(key: str, setting: Mapping[str, Any], remark: str) -> None:
    """Print one setting with its value, and `remark` as a comment after it."""
    render.out(f"{render.paint(key, 'bold')} = {_value(setting['value'])}  {render.paint(f'# {remark}', 'dim')}")


def _value(value: Any) -> str:
    """Return a setting's value as JSON in one line; `unset` for None."""
    return "unset" if value is None else render.line(json.dumps(value, ensure_ascii=False))


@click.command(
    cls=Verb,
    short_help="Show or choose the embedding model.",
    example="ormahctl model\normahctl model use ~/models/multilingual-e5-small",
)
@click.argument("what", type=OneOf(["use"]), required=False)
@click.argument("name", required=False)
@pass_session
def model(session: Session, what: str | None, name: str | None) -> int:
    """Show the embedding model, or choose another one.

    `use NAME` loads the model NAME (a folder, or the name of a model whose files are on this machine) and sets it in the
    configuration file. The daemon embeds all notes again after a restart.
    """
    if (what is None) != (name is None):
        raise click.UsageError("model use needs a NAME")
    words = []
    if name is not None:
        folder = Path(name).expanduser()
        words = [str(folder.absolute()) if folder.is_dir() else name]  # the daemon's program may be in another folder
    found = json.loads(offline.answer("model", *words))
    if session.json:
        render.emit(found)
        return 0
    runtime = f"{found['runtime']} {found['version']}".strip()
    render.out(f"{render.line(found['name'])}: {render.line(runtime)}, {found['dimensions']} dimensions")
    if name is not None:
        render.out(f"It is set in {render.line(found['file'])}. To use it: ormahctl restart")
    return 0
